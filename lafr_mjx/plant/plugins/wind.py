"""Steady wind."""

from __future__ import annotations

import numpy as np
from flax import struct

from lafr_mjx.plant.plugins.plugin import AirPlugin, Memory, Setting
from lafr_mjx.plant.vec3 import Vec3


def _any_heading(rng: np.random.Generator, low: float, high: float) -> tuple[float, float, float]:
    speed, heading = rng.uniform(low, high), rng.uniform(0.0, 2.0 * np.pi)
    return float(speed * np.cos(heading)), float(speed * np.sin(heading)), 0.0


@struct.dataclass
class SteadyWind(AirPlugin):
    """The same velocity everywhere; it acts through drag, not as a bare force."""

    shipped_as, listed = "wind", 50
    scenario_keys = (
        Setting("wind_mps", (0.0, 0.0, 0.0), -30.0, at_most=30.0, parameter="wind"),
        Setting("wind_speed_mps", at_most=30.0, draws="wind_mps", draw=_any_heading),
    )

    wind: Vec3 = struct.field(default_factory=Vec3.zero)  # m/s, world

    def velocity(self, memory: Memory, point: Vec3) -> Vec3:
        """The wind itself."""
        del memory, point
        return self.wind
