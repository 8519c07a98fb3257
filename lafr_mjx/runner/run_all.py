"""Run jobs, store what comes back one by one, and tell at the end what failed."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from lafr_mjx.errors import InputError, RunError
from lafr_mjx.output import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lafr_mjx.runner.display import Display
    from lafr_mjx.runner.job import Backend, Job, Outcome

    Store = Callable[[Any], Mapping[str, Sequence[Mapping[str, Any]]]]

_NAMED = 3  # failed jobs with one reason that are named


def run_all(
    stages: Sequence[tuple[Backend, Sequence[Job]]], display: Display, store: Store
) -> None:
    """Run all jobs of each stage; one that fails does not stop the others.

    Args:
        stages: jobs and where they run, one stage after the other.
        display: hears of flights and of finished runs.
        store: puts the result of a job on the disk; returns its runs with their flights.

    Raises:
        RunError: at the end, if some jobs failed; the others are stored.
    """
    failed: list[Outcome] = []
    for backend, jobs in stages:
        # Interrupted, it is closed now and not when it is collected: that ends what still runs.
        with closing(backend.outcomes(jobs, display.flown)) as outcomes:
            for outcome in outcomes:
                if outcome.error is not None:
                    failed.append(outcome)
                    continue
                for name, flights in store(outcome.result).items():
                    display.stored(name, flights)
    if failed:
        raise RunError(_told(failed))


def _told(failed: Sequence[Outcome]) -> str:
    """Reasons, each with the jobs that it ended."""
    reasons: dict[str, list[Job]] = {}
    for outcome in failed:
        reasons.setdefault(_reason(outcome.error), []).append(outcome.job)
    lines = []
    for reason, jobs in reasons.items():
        more = f" and {len(jobs) - _NAMED} more" if len(jobs) > _NAMED else ""
        lines.append(f"{', '.join(job.name for job in jobs[:_NAMED])}{more}: {reason}")
    count = counted(sum(outcome.job.runs for outcome in failed), "run")
    head = f"{count} not flown; what is finished is stored, and the same command goes on:"
    return "\n".join([head, *lines])


def _reason(error: Exception | None) -> str:
    """Errors for users as they are; of others the kind, and the line that says what happened."""
    text = str(error).strip()
    if isinstance(error, InputError | RunError):
        return text
    last = text.split("\n")[-1]
    return f"{type(error).__name__}: {last}" if last else type(error).__name__
