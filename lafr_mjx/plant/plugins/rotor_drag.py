"""Drag: linear at each rotor, scaled with its speed; quadratic on the body."""

from __future__ import annotations

from flax import struct

from lafr_mjx.plant.plugins.plugin import Flow, ForcePlugin, Memory, Setting, World
from lafr_mjx.plant.rigid_body import Wrench
from lafr_mjx.plant.vec3 import Scalar, Vec3


@struct.dataclass
class RotorDrag(ForcePlugin):
    """Force -k Ω v at each rotor, v relative to the air there, with its moment."""

    shipped_as, listed = "rotor_drag", 10
    scenario_keys = (Setting("drag_scale", at_most=20.0, factor=True),)  # of rotors and body

    coefficient: Vec3 = struct.field(default_factory=Vec3.zero)  # N/(m/s)/(rad/s), body axes

    def configured(self, world: World) -> RotorDrag:
        """The profile's, whose figures are per unit of the nominal mass at hover speed."""
        vehicle, scale = world.vehicle, world.settings.drag_scale
        return RotorDrag(
            Vec3(*(scale * vehicle.mass * vehicle.drag.rotor / (4.0 * vehicle.hover_speed)))
        )

    def wrench(self, memory: Memory, flow: Flow) -> Wrench:
        """Sum over the rotors."""
        del memory
        total = Wrench.zero()
        for point, velocity, speed in zip(
            flow.rotor_position, flow.rotor_air_velocity, flow.rotor_speed, strict=True
        ):
            force = velocity.scaled(self.coefficient) * (-speed)
            total = total + Wrench.at(point, force)
        return total


@struct.dataclass
class BodyDrag(ForcePlugin):
    """Force -k |v| v at the body's origin."""

    shipped_as = "body_drag"

    coefficient: Scalar = 0.0  # N/(m/s)²

    def configured(self, world: World) -> BodyDrag:
        """The profile's, per unit of the nominal mass."""
        return BodyDrag(world.settings.drag_scale * world.vehicle.mass * world.vehicle.drag.body)

    def wrench(self, memory: Memory, flow: Flow) -> Wrench:
        """Quadratic drag, the same in all directions."""
        del memory
        velocity = flow.air_velocity
        factor = -self.coefficient * velocity.norm()
        return Wrench(velocity * factor, Vec3.zero())
