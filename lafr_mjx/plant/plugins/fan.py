"""A fan's jet: a round turbulent jet in space."""

from __future__ import annotations

import math

import jax.numpy as jnp
from flax import struct

from lafr_mjx.plant.plugins.plugin import AirPlugin, Memory, Setting, World
from lafr_mjx.plant.vec3 import Scalar, Vec3


@struct.dataclass
class FanJet(AirPlugin):
    """Gaussian jet that widens linearly and keeps its momentum.

    At a distance x in front of the outlet its radius is b = r + x tan(half angle), its
    speed on the axis U r / b (momentum flux U² b² is constant), and off the axis it falls as
    exp(-(ρ/b)²).
    """

    shipped_as, listed = "fan", 70
    scenario_keys = (Setting("fan_scale", at_most=5.0),)  # times the speed of the task's fans

    position: Vec3 = struct.field(default_factory=Vec3.zero)  # m, centre of the outlet
    direction: Vec3 = struct.field(default_factory=lambda: Vec3(1.0, 0.0, 0.0))  # unit vector
    speed: Scalar = 0.0  # m/s, on the axis at the outlet
    radius: Scalar = 0.25  # m, of the outlet
    spread: Scalar = math.tan(math.radians(12.0))  # tangent of the half angle

    def instances(self, world: World) -> list[FanJet]:
        """One for each fan of the task; without any, one that does not blow."""
        return [
            FanJet(
                position=Vec3(*fan.position),
                direction=Vec3(*fan.direction),
                speed=world.settings.fan_scale * fan.speed,
                radius=fan.outlet_radius,
                spread=math.tan(fan.half_angle),
            )
            for fan in world.fans
        ] or [self]

    def velocity(self, memory: Memory, point: Vec3) -> Vec3:
        """Velocity of the jet at a point; nothing behind the outlet."""
        del memory
        offset = point - self.position
        ahead = offset.dot(self.direction)
        off_axis_squared = jnp.maximum(offset.dot(offset) - ahead * ahead, 0.0)
        width = self.radius + self.spread * jnp.maximum(ahead, 0.0)
        strength = self.speed * self.radius / width * jnp.exp(-off_axis_squared / (width * width))
        return self.direction * (jnp.where(ahead > 0.0, strength, 0.0))
