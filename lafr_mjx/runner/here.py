"""Jobs in this process, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lafr_mjx.runner.job import Outcome

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from lafr_mjx.runner.job import Flown, Job


class Here:
    """In this process; each flight is told when it is made."""

    def outcomes(self, jobs: Sequence[Job], flown: Flown) -> Generator[Outcome]:
        """Outcomes in the order of the jobs."""
        for job in jobs:
            try:
                outcome = Outcome(job, job.function(*job.arguments, job.shared, flown))
            except Exception as error:
                outcome = Outcome(job, error=error)
            yield outcome
