"""What the sections of a report are made from, and what they share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lafr_mjx.errors import InputError
from lafr_mjx.report.claim_figures import THRESHOLD_M
from lafr_mjx.view.page import Picture

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from lafr_mjx.report.flown_runs import Collected, FlownRun
    from lafr_mjx.types import Rollout

TASK_WORDS = {"figure8": "figure-8"}


@dataclass
class Material:
    """What the sections are made from, and what they found missing."""

    runs: Collected
    bounds: Sequence[Mapping[str, Any]]
    drawings: Path  # folder for pictures
    notes: list[str] = field(default_factory=list)

    def rollout(self, run: FlownRun, number: int) -> Rollout | None:
        """A recorded flight; if it is missing or broken, a note says so."""
        try:
            rollout = run.rollout(number)
        except InputError as error:
            self.notes.append(f"Not drawn: {error}")
            return None
        if rollout is None:
            where = run.folder or run.spec.name
            self.notes.append(f"Not drawn: {where} has no recorded flight {number}")
        return rollout

    def picture(self, name: str, alt: str, caption: str, runs: Sequence[FlownRun]) -> Picture:
        """A picture that was drawn into the folder."""
        png = (self.drawings / f"{name}.png").read_bytes()
        return Picture(name, png, alt, caption, made_by(runs))

    def place(self, name: str) -> Path:
        """Where to draw a picture."""
        return self.drawings / f"{name}.png"


def made_by(runs: Sequence[FlownRun]) -> str:
    """The command of the first run, and what varies over the others."""
    first = runs[0].spec
    varied = []
    for key in ("task", "scenario", "method", "ats", "horizon", "seed", "plant", "iterations"):
        values = sorted({getattr(run.spec, key) for run in runs}, key=str)
        if len(values) > 1:
            varied.append(f"{key} {', '.join(map(str, values))}")
    return first.command + (f"    [{'; '.join(varied)}]" if varied else "")


def threshold(run: FlownRun) -> float:
    """E_th of a run's task."""
    return float(run.config.get("task", {}).get("error_threshold_m", THRESHOLD_M))


def records(runs: Sequence[FlownRun]) -> list[list[dict[str, Any]]]:
    """What the figures are drawn from."""
    return [run.records for run in runs]
