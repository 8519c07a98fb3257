"""What a learner's process is told at its start, as a file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from lafr_mjx.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class LearnerSetup:
    """One adaptation."""

    task: str
    profile: str  # of the drone on the wire
    method: str = "ours"
    iterations: int = 12
    seed: int = 0
    effort: tuple[int, ...] = ()  # fields of `improve.Sizes`; empty for the usual ones
    break_at: int = -1  # iteration whose result is made NaN, to see that it is caught

    def sizes(self) -> Any:
        """Effort of one iteration."""
        from lafr_mjx.learner.improve import Sizes

        return Sizes(*self.effort)

    def write(self, file: Path) -> None:
        """Write it."""
        file.write_text(json.dumps(asdict(self), indent=2), encoding="utf-8")

    @staticmethod
    def read(file: Path) -> LearnerSetup:
        """Read it back."""
        try:
            given = json.loads(file.read_text(encoding="utf-8"))
            return LearnerSetup(**{**given, "effort": tuple(given["effort"])})
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise InputError(f"{file}: is not the setup of a learner: {error}") from error
