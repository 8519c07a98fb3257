"""Steady wind."""

from __future__ import annotations

from flax import struct

from lafr_mjx.plant.plugins.plugin import AirPlugin, Memory
from lafr_mjx.plant.vec3 import Vec3


@struct.dataclass
class SteadyWind(AirPlugin):
    """The same velocity everywhere; it acts through drag, not as a bare force."""

    wind: Vec3 = struct.field(default_factory=Vec3.zero)  # m/s, world

    def velocity(self, memory: Memory, point: Vec3) -> Vec3:
        """The wind itself."""
        del memory, point
        return self.wind
