"""Rotors: first-order motor lag, thrust, reaction torque, angular momentum."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from flax import struct

from lafr_mjx.plant.rigid_body import Wrench
from lafr_mjx.plant.vec3 import Scalar, Vec3

Four = tuple[Any, ...]
"""One value per rotor: front right, back left, back right, front left (thrust1 to thrust4)."""


@struct.dataclass
class Rotors:
    """The true rotors of a vehicle, each with its own constants."""

    position: tuple[Vec3, ...]  # m, body frame
    thrust_coefficient: Four  # N/(rad/s)²
    torque_per_thrust: Four  # m, signed: reaction torque about body z per newton
    inertia: Four  # kg m², signed likewise: reaction torque per angular acceleration of the rotor
    time_constant: Scalar  # s
    speed_min: Scalar  # rad/s
    speed_max: Scalar  # rad/s, at full voltage

    def turn(self, speeds: Four, targets: Four, ceiling: Scalar, dt: float) -> Four:
        """Speeds after `dt` on the way to their targets; `ceiling` scales the top speed."""
        # Exact for a constant target. Without lag (0 s) the target is reached at once.
        progress = 1.0 - jnp.exp(-dt / jnp.maximum(self.time_constant, 1e-6))
        top = self.speed_max * ceiling

        def one(speed: Scalar, target: Scalar) -> Scalar:
            reachable = jnp.clip(target, self.speed_min, top)
            return speed + progress * (reachable - speed)

        return tuple(one(*pair) for pair in zip(speeds, targets, strict=True))

    def thrusts(self, speeds: Four) -> Four:
        """Thrust of each rotor [N]."""
        pairs = zip(self.thrust_coefficient, speeds, strict=True)
        return tuple(k * speed * speed for k, speed in pairs)

    def wrench(self, thrusts: Four) -> Wrench:
        """Sum of the rotors' forces along body z and of their torques."""
        total = Wrench.zero()
        for point, thrust, ratio in zip(
            self.position, thrusts, self.torque_per_thrust, strict=True
        ):
            lift = Vec3(0.0, 0.0, thrust)
            total = total + Wrench(lift, point.cross(lift) + Vec3(0.0, 0.0, ratio * thrust))
        return total

    def momentum_torque(self, before: Four, speeds: Four, rates: Vec3, dt: float) -> Vec3:
        """Torque on the body [N m] from rotors that are spun up and turned with the body.

        With h the angular momentum that the rotors took from the body: ḣ + ω × h, along z and
        across. The rotors' inertia at rest is part of the body's.
        """
        growth = sum(
            j * (new - old) for j, old, new in zip(self.inertia, before, speeds, strict=True)
        )
        h = sum(j * old for j, old in zip(self.inertia, before, strict=True))
        return Vec3(rates.y * h, -(rates.x * h), growth * (1.0 / dt))

    def hover_speeds(self, mass: Scalar, gravity: float) -> Four:
        """Speeds at which equal thrusts carry the weight, within the speed limits."""

        def one(coefficient: Scalar) -> Scalar:
            speed = jnp.sqrt(0.25 * mass * gravity / coefficient)
            return jnp.clip(speed, self.speed_min, self.speed_max)

        return tuple(one(k) for k in self.thrust_coefficient)
