"""Many adaptation runs, each in its own folder, by a few processes. Resumable."""

from __future__ import annotations

import multiprocessing
import os
import signal
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from typing import TYPE_CHECKING, Any

from lafr_mjx.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from lafr_mjx.run_spec import RunSpec


class _Silent:
    """A report for runs that nobody watches one by one."""

    def ready(self, text: str) -> None:
        """Nothing is printed."""

    def before(self, iteration: int) -> None:
        """Nothing is printed."""

    def stage(self, name: str) -> None:
        """Nothing is printed."""

    def after(self, record: dict[str, Any]) -> None:
        """Nothing is printed."""


def finished(spec: RunSpec, folder: Path) -> bool:
    """Whether the run is complete on disk.

    Raises:
        InputError: the folder holds a run of the same name that was asked for differently.
    """
    from lafr_mjx.runs.run_folder import RunFolder

    path = folder / spec.name
    if not (path / "config.toml").is_file():
        return False
    run = RunFolder.open(path)
    given = run.config.get("run", {})
    for key, wanted in spec.table().items():
        there = given.get(key, wanted)
        if there != wanted and not (key == "iterations" and there > wanted):
            raise InputError(
                f"{path}: was flown with {key} {there}, not {wanted}; give another folder by --out"
            )
    return len(run.iterations()) >= int(spec.iterations)


def fly(spec: RunSpec, folder: Path) -> RunSpec:
    """Begin a run, or go on with it."""
    from lafr_mjx.adaptation.job import AdaptationJob
    from lafr_mjx.runs.run_folder import RunFolder

    path = folder / spec.name
    if (path / "config.toml").is_file():
        with RunFolder.open(path, resume=True) as run:
            AdaptationJob.from_config(run.config).work(run, _Silent())
        return spec
    job = AdaptationJob.build(spec)
    with RunFolder.create(path, job.config()) as run:
        job.work(run, _Silent())
    return spec


def fly_all(
    specs: Sequence[RunSpec],
    folder: Path,
    processes: int,
    told: Callable[[RunSpec, Exception | None], None],
) -> None:
    """Fly what is not finished; `told` hears of each run that ends, and of one that failed."""
    left = [spec for spec in specs if not finished(spec, folder)]
    if not left:
        return
    context = multiprocessing.get_context("spawn")
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(processes, context, _prepare, (processes,))
    try:
        flown: dict[Future, RunSpec] = {pool.submit(fly, spec, folder): spec for spec in left}
        for done in as_completed(flown):
            error = done.exception()
            told(flown[done], error if isinstance(error, Exception) else None)
    except KeyboardInterrupt:
        # A run may be killed at any moment; to wait for its end would take a minute.
        for worker in set(multiprocessing.active_children()) - others:
            worker.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _prepare(processes: int) -> None:
    """Before JAX is imported: processes that share the cores do not also split their work.

    Control-C reaches all processes of a terminal; the first one answers for all.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if processes > 1:
        flags = os.environ.get("XLA_FLAGS", "")
        os.environ["XLA_FLAGS"] = f"{flags} --xla_cpu_multi_thread_eigen=false".strip()
