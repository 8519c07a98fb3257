"""Jobs by a few processes of this computer."""

from __future__ import annotations

import multiprocessing
import os
import signal
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import TYPE_CHECKING, Any

from lafr_mjx.runner.job import Outcome

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from lafr_mjx.runner.job import Flown, Job


class Processes:
    """So many new processes; more than one have one thread each."""

    def __init__(self, count: int) -> None:
        self.count = count

    def outcomes(self, jobs: Sequence[Job], flown: Flown) -> Generator[Outcome]:
        """Outcomes as jobs end."""
        context = multiprocessing.get_context("spawn")
        others = set(multiprocessing.active_children())
        pool = ProcessPoolExecutor(self.count, context, _prepare, (self.count,))
        ended = False
        try:
            waiting = {pool.submit(_run, job): job for job in jobs}
            for done in as_completed(waiting):
                job = waiting[done]
                flown(job.flights)
                try:
                    outcome = Outcome(job, done.result())
                except Exception as error:
                    outcome = Outcome(job, error=error)
                yield outcome
            ended = True
        finally:
            if not ended:
                # A run may be killed at any moment; to wait for its end would take a minute.
                for worker in set(multiprocessing.active_children()) - others:
                    worker.terminate()
            pool.shutdown(wait=True, cancel_futures=True)


def _run(job: Job) -> Any:
    return job.function(*job.arguments, job.shared, lambda flights: None)


def _prepare(processes: int) -> None:
    """Before JAX is imported: processes that share the cores do not also split their work.

    Control-C reaches all processes of a terminal; the first one answers for all.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if processes > 1:
        flags = os.environ.get("XLA_FLAGS", "")
        os.environ["XLA_FLAGS"] = f"{flags} --xla_cpu_multi_thread_eigen=false".strip()
