"""A log on a uniform 100 Hz clock, with gaps marked: what is fitted and tested."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lafr_mjx import so3
from lafr_mjx.logs.smoothing import stretches
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
        return [(a * SAMPLE_DT, b * SAMPLE_DT) for a, b in stretches(~self.usable).tolist()]


def turn_rates(rotation: np.ndarray) -> np.ndarray:
    """Body rates [N - 1, 3] between attitudes [N, 3, 3] of neighbouring samples."""
    return np.asarray(so3.log(np.swapaxes(rotation[:-1], -1, -2) @ rotation[1:])) / SAMPLE_DT
