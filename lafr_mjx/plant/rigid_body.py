"""The rigid body's motion and mass, in the form that the plant's inner loop works on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp
from flax import struct

from lafr_mjx import so3
from lafr_mjx.plant.vec3 import Quat, Scalar, Vec3
from lafr_mjx.types import State

if TYPE_CHECKING:
    import jax


@struct.dataclass
class Motion:
    """Motion of the body frame (its origin is where the MJCF puts it, not the centre of mass)."""

    position: Vec3  # m, world
    velocity: Vec3  # m/s, world
    attitude: Quat  # body to world
    rates: Vec3  # rad/s, body

    def state(self) -> State:
        """As arrays, for everybody outside the plant."""
        return State(
            position=self.position.array(),
            velocity=self.velocity.array(),
            rotation=so3.quaternion_to_matrix(self.attitude.array()),
            rates=self.rates.array(),
        )

    def array(self) -> jax.Array:
        """As one array [..., 13]."""
        parts = (self.position, self.velocity, self.attitude, self.rates)
        return jnp.concatenate([part.array() for part in parts], axis=-1)

    @staticmethod
    def of(array: jax.Array) -> Motion:
        """From an array [..., 13]."""
        return Motion(
            position=Vec3.of(array[..., 0:3]),
            velocity=Vec3.of(array[..., 3:6]),
            attitude=Quat.of(array[..., 6:10]),
            rates=Vec3.of(array[..., 10:13]),
        )


@struct.dataclass
class Inertial:
    """Mass properties; the same numbers as MuJoCo's body_mass, _ipos, _inertia, _iquat.

    Principal moments with their axes rather than a full matrix: MJX wants them so, and the
    decomposition needs LAPACK, which must stay out of the step.
    """

    mass: Scalar  # kg
    centre: Vec3  # m, centre of mass in the body frame
    moments: Vec3  # kg m², principal moments about the centre of mass
    axes: Quat  # principal axes to body axes


@struct.dataclass
class Wrench:
    """Force at the body frame's origin and torque about it, both in body axes."""

    force: Vec3  # N
    torque: Vec3  # N m

    def __add__(self, other: Wrench) -> Wrench:
        return Wrench(self.force + other.force, self.torque + other.torque)

    @staticmethod
    def at(point: Vec3, force: Vec3) -> Wrench:
        """The wrench of a force that acts at a point of the body."""
        return Wrench(force, point.cross(force))

    @staticmethod
    def zero() -> Wrench:
        """No force."""
        return Wrench(Vec3.zero(), Vec3.zero())
