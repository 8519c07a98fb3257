"""The task's own path, as in the paper: only the time scale changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from lafr_mjx.learner.references import Known
    from lafr_mjx.reference.path import Path


class Fixed(NamedTuple):
    """Nothing to set."""

    def start(self, task: Path) -> Path:
        """The task's path."""
        return task

    def plan(self, known: Known) -> Path:
        """The same again."""
        return known.flown
