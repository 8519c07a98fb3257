"""A log on a uniform 100 Hz clock, with gaps marked: what is fitted and tested."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lafr_mjx.types import SAMPLE_DT

if TYPE_CHECKING:
    from lafr_mjx.logs.raw_log import RawLog


@dataclass(frozen=True)
class FlightLog:
    """Samples [N] every 10 ms. World frame z up, body frame x forward, y left, z up."""

    raw: RawLog
    time: np.ndarray  # [N] s since the log's first usable sample
    usable: np.ndarray  # [N] bool, False in gaps
    position: np.ndarray | None  # [N, 3] m
    velocity: np.ndarray | None  # [N, 3] m/s
    rotation: np.ndarray | None  # [N, 3, 3] body to world
    rates: np.ndarray | None  # [N, 3] rad/s, measured
    command: np.ndarray  # [N, 4] thrust and rates, mean over the 10 ms from the sample on
    commanded: bool  # True: the rates are commands; False: they were measured
    start: float  # s, the log's own stamp of sample 0
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Short name for tables."""
        return self.raw.name

    @property
    def seconds(self) -> float:
        """Usable time."""
        return float(self.usable.sum()) * SAMPLE_DT

    @property
    def has_state(self) -> bool:
        """Whether position and attitude are there: without them only rates can be compared."""
        return self.position is not None and self.rotation is not None

    def gaps(self) -> list[tuple[float, float]]:
        """Stretches that are not usable, in seconds from the start."""
        edges = np.flatnonzero(np.diff(np.concatenate([[1], self.usable, [1]])))
        pairs = edges.reshape(-1, 2)
        return [(float(a) * SAMPLE_DT, float(b) * SAMPLE_DT) for a, b in pairs]
