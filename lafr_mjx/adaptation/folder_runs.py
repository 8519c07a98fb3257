"""Many adaptation runs, each in a folder of its own, by a few processes. Resumable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lafr_mjx.errors import InputError
from lafr_mjx.output import counted
from lafr_mjx.runner.job import Job
from lafr_mjx.runs.run_folder import RunFolder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rich.console import Console

    from lafr_mjx.run_spec import RunSpec
    from lafr_mjx.runner.job import Flown


def finished(spec: RunSpec, folder: Path) -> bool:
    """Whether the run is complete on disk.

    Raises:
        InputError: the folder holds a run of the same name that was asked for differently.
    """
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


def announce(specs: Sequence[RunSpec], folder: Path, console: Console) -> list[RunSpec]:
    """Say how many runs there are, and how many are finished; returns these."""
    done = [spec for spec in specs if finished(spec, folder)]
    console.print(
        f"{counted(len(specs), 'run')} in {folder}, {len(done)} of them finished already; a run "
        f"takes half a minute to a minute on a core. Interrupted, the same command goes on.",
        soft_wrap=True,
    )
    return done


def fly_folders(
    specs: Sequence[RunSpec],
    folder: Path,
    processes: int,
    console: Console,
    *,
    first_alone: bool = False,
) -> None:
    """Fly what is not finished. Interrupted, the next call goes on; finished runs are kept.

    Args:
        specs: all runs, the most important first.
        folder: of the run folders.
        processes: runs at once.
        console: where to show the progress.
        first_alone: fly the first run with all cores, so that its times mean something.

    Raises:
        RunError: some runs failed; the others were flown.
    """
    from lafr_mjx.runner.display import Display
    from lafr_mjx.runner.processes import Processes
    from lafr_mjx.runner.run_all import run_all

    left = [spec for spec in specs if not finished(spec, folder)]
    if not left:
        return
    jobs = [Job(spec.name, int(spec.iterations), fly, (spec, folder)) for spec in left]
    alone = 1 if first_alone and left[0] == specs[0] else 0
    stages = [(Processes(1), jobs[:alone]), (Processes(processes), jobs[alone:])]
    flights = sum(job.flights for job in jobs)

    def stored(spec: RunSpec) -> Mapping[str, Any]:
        return {spec.name: RunFolder.open(folder / spec.name).iterations()}

    with Display(console, len(specs), len(specs) - len(left), flights) as display:
        run_all([stage for stage in stages if stage[1]], display, stored)


def fly(spec: RunSpec, folder: Path, shared: None, flown: Flown) -> RunSpec:
    """Begin a run, or go on with it."""
    from lafr_mjx.adaptation.adaptation_job import AdaptationJob
    from lafr_mjx.adaptation.adaptation_report import Report

    class Counting(Report):
        def after(self, record: dict[str, Any]) -> None:
            flown(1)

    path = folder / spec.name
    if (path / "config.toml").is_file():
        with RunFolder.open(path, resume=True) as run:
            AdaptationJob.from_config(run.config).work(run, Counting())
    else:
        job = AdaptationJob.build(spec)
        with RunFolder.create(path, job.config()) as run:
            job.work(run, Counting())
    return spec
