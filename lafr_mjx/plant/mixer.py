"""Mixer of the flight controller: wanted thrust and angular accelerations to rotor speeds.

As the firmwares of racing quadrotors do it, it mixes motor commands, which are speeds here: what
a command turns is right in hover, less with slow rotors and more with fast ones. Steering comes
first. Where the rotors cannot give all of it, all axes give way alike; then the collective moves
until no rotor leaves its limits. Near zero thrust steering is weaker ("airmode off").
"""

from __future__ import annotations

from functools import partial, reduce
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from flax import struct

from lafr_mjx.plant.vec3 import Scalar, Vec3, materialise
from lafr_mjx.types import GRAVITY

if TYPE_CHECKING:
    from lafr_mjx.plant.rotors import Four
    from lafr_mjx.plant.vehicle import Vehicle

_largest, _least = partial(reduce, jnp.maximum), partial(reduce, jnp.minimum)
_FULL_AUTHORITY = 0.5  # of the speed range: with faster rotors steering has its full strength


@struct.dataclass
class Mixer:
    """What the flight controller believes of its rotors; columns by wanted quantity."""

    collective: Four  # rad/s per √N
    roll: Four  # rad/s per rad/s², in hover
    pitch: Four
    yaw: Four
    speed_min: Scalar  # rad/s
    speed_max: Scalar  # rad/s
    idle_authority: Scalar  # strength of the steering without thrust


@struct.dataclass
class Saturation:
    """What had to give way."""

    room: Scalar  # share of the rotors' range that steering leaves free; below 0 it gives way
    collective: Scalar  # rad/s by which the collective moved into the rotors' range

    @property
    def steering(self) -> Scalar:
        """Share of what the three axes want that was granted: 1 is all of it."""
        return 1.0 / jnp.maximum(1.0 - self.room, 1.0)

    @staticmethod
    def none() -> Saturation:
        """Nothing gave way."""
        return Saturation(jnp.float32(1.0), jnp.float32(0.0))

    def worst(self, other: Saturation) -> Saturation:
        """The stronger limitation of two moments."""
        stronger = jnp.abs(other.collective) > jnp.abs(self.collective)
        return Saturation(
            jnp.minimum(self.room, other.room),
            jnp.where(stronger, other.collective, self.collective),
        )


def build_mixer(vehicle: Vehicle, idle_authority: float) -> Mixer:
    """Invert the allocation of a vehicle, linear about its hover (host side, NumPy)."""
    rotors = vehicle.rotors
    arms = vehicle.rotor_positions - vehicle.centre_of_mass
    reaction = rotors.spin * rotors.torque_per_thrust
    inverse = np.linalg.inv(np.stack([np.ones(4), arms[:, 1], -arms[:, 0], reaction]))
    # An allocation that asks a rotor to pull has no hover; a little thrust stands in for it.
    share = np.maximum(inverse[:, 0], 0.01)
    collective = np.sqrt(share / rotors.thrust_coefficient)
    hover = collective * np.sqrt(vehicle.mass * GRAVITY)
    slope = 2.0 * rotors.thrust_coefficient * hover  # N per rad/s
    turns = inverse[:, 1:] * np.diag(vehicle.inertia) / slope[:, None]
    columns = [tuple(float(x) for x in column) for column in (collective, *turns.T)]
    return Mixer(
        *columns,
        speed_min=rotors.speed_min,
        speed_max=float(np.sqrt(rotors.thrust_reachable / rotors.thrust_coefficient)),
        idle_authority=idle_authority,
    )


def mix(
    mixer: Mixer, thrust: Scalar, turn: Vec3, unit: Scalar = 1.0
) -> tuple[Four, Scalar, Saturation]:
    """Rotor speeds [rad/s] for a collective thrust [N] and angular accelerations [rad/s²].

    Also says where in the speed range the collective lies: 0 is idle, 1 the top. `unit` is a
    run-time 1.0 that keeps XLA from copying formulas (see `materialise`).
    """
    low, high = mixer.speed_min, mixer.speed_max
    span, c = high - low, mixer.collective
    root = materialise(jnp.sqrt(jnp.maximum(thrust, 0.0)), unit)
    mean = 0.25 * (c[0] + c[1] + c[2] + c[3])
    throttle = jnp.clip((mean * root - low) / span, 0.0, 1.0)

    columns = zip(mixer.roll, mixer.pitch, mixer.yaw, strict=True)
    steer = materialise([r * turn.x + p * turn.y + y * turn.z for r, p, y in columns], unit)
    room = materialise(1.0 - (_largest(steer) - _least(steer)) / span, unit)
    full = jnp.minimum(throttle * (1.0 / _FULL_AUTHORITY), 1.0)
    authority = mixer.idle_authority + (1.0 - mixer.idle_authority) * full
    strength = materialise(authority / jnp.maximum(1.0 - room, 1.0), unit)
    wanted = materialise([k * root + strength * s for k, s in zip(c, steer, strict=True)], unit)
    # With rotors of unequal loads both ends may be left; the top then wins.
    moved = jnp.minimum(jnp.maximum(0.0, low - _least(wanted)), high - _largest(wanted))
    return tuple(w + moved for w in wanted), throttle, Saturation(room, moved)
