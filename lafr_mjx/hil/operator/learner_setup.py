"""What a learner's process is told at its start, as a file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lafr_mjx.errors import InputError
from lafr_mjx.run_spec import RunSpec

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class LearnerSetup:
    """One adaptation."""

    profile: str  # of the drone on the wire
    spec: RunSpec
    effort: tuple[int, ...] = ()  # fields of `improve.Sizes`; empty for the usual ones
    break_at: int = -1  # iteration whose result is made NaN, to see that it is caught

    def sizes(self) -> Any:
        """Effort of one iteration."""
        from lafr_mjx.learner.improve import Sizes

        return Sizes(*self.effort) if self.effort else Sizes(horizon=self.spec.horizon)

    def write(self, file: Path) -> None:
        """Write it."""
        told = {
            "profile": self.profile,
            "run": self.spec.table(),
            "effort": self.effort,
            "break_at": self.break_at,
        }
        file.write_text(json.dumps(told, indent=2), encoding="utf-8")

    @staticmethod
    def read(file: Path) -> LearnerSetup:
        """Read it back, checked."""
        try:
            given = json.loads(file.read_text(encoding="utf-8"))
            effort, spec = tuple(given.pop("effort")), RunSpec.of_table(given.pop("run"))
            return LearnerSetup(spec=spec, effort=effort, **given)
        except (OSError, ValueError, TypeError, KeyError, AttributeError, InputError) as error:
            raise InputError(f"{file}: is not the setup of a learner: {error}") from error
