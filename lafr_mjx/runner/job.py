"""What a runner runs, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple, Protocol

Flown = Callable[[int], None]
"""Hears of so many flights that were made."""


class Job(NamedTuple):
    """Some work that can be sent to another process."""

    name: str
    flights: int
    function: Callable[..., Any]
    """Of a module, so that others find it. Called with the arguments, `shared` and a `Flown`."""
    arguments: tuple[Any, ...]
    shared: Any = None
    """Large, and the same object for several jobs: it is sent once."""
    runs: int = 1  # that fly together


class Outcome(NamedTuple):
    """What came of a job: a result, or the error that ended it."""

    job: Job
    result: Any = None
    error: Exception | None = None


class Backend(Protocol):
    """Where jobs run."""

    def outcomes(self, jobs: Sequence[Job], flown: Flown) -> Generator[Outcome]:
        """Outcomes as they come, each job once. Closed early, it ends what still runs."""
        ...
