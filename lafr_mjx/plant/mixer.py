"""Mixer of the flight controller: wanted thrust and torques to rotor thrusts, with priorities.

Where the rotors cannot give everything, roll and pitch come first (they keep the vehicle
upright), then collective thrust, then yaw. What had to give way is reported.
"""

from __future__ import annotations

from functools import partial, reduce
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from flax import struct

from lafr_mjx.plant.vec3 import Scalar, Vec3, materialise

if TYPE_CHECKING:
    from lafr_mjx.plant.rotors import Four

_largest, _least = partial(reduce, jnp.maximum), partial(reduce, jnp.minimum)


@struct.dataclass
class Mixer:
    """Inverse of the nominal allocation, one column per wanted quantity."""

    collective: Four  # share of the collective thrust
    roll: Four  # N per N m
    pitch: Four
    yaw: Four
    thrust_min: Scalar  # N, per rotor
    thrust_max: Scalar  # N, per rotor


@struct.dataclass
class Saturation:
    """How much of each demand was granted: 1 is all of it."""

    roll_pitch: Scalar  # share of the roll and pitch torque
    thrust: Scalar  # granted minus wanted collective thrust [N]; not 0 where it gave way
    yaw: Scalar  # share of the yaw torque

    @staticmethod
    def none() -> Saturation:
        """Nothing gave way."""
        return Saturation(jnp.float32(1.0), jnp.float32(0.0), jnp.float32(1.0))

    def worst(self, other: Saturation) -> Saturation:
        """The stronger limitation of two moments."""
        stronger = jnp.abs(other.thrust) > jnp.abs(self.thrust)
        return Saturation(
            jnp.minimum(self.roll_pitch, other.roll_pitch),
            jnp.where(stronger, other.thrust, self.thrust),
            jnp.minimum(self.yaw, other.yaw),
        )


def build_mixer(
    positions: np.ndarray,
    centre: np.ndarray,
    torque_per_thrust: np.ndarray,
    thrust_min: float,
    thrust_max: float,
) -> Mixer:
    """Invert the allocation of a vehicle (host side, NumPy).

    Args:
        positions: [4, 3] rotor positions in the body frame.
        centre: [3] centre of mass; torques are about it.
        torque_per_thrust: [4] signed reaction torque per newton.
        thrust_min: least thrust of a rotor [N].
        thrust_max: largest thrust of a rotor [N].
    """
    arms = positions - centre
    allocation = np.stack([np.ones(4), arms[:, 1], -arms[:, 0], torque_per_thrust])
    inverse = np.linalg.inv(allocation)
    columns = [tuple(float(x) for x in inverse[:, k]) for k in range(4)]
    return Mixer(*columns, thrust_min=thrust_min, thrust_max=thrust_max)


def mix(mixer: Mixer, thrust: Scalar, torque: Vec3, unit: Scalar = 1.0) -> tuple[Four, Saturation]:
    """Rotor thrusts [N] for a collective thrust [N] and torques [N m].

    Exact for vehicles whose rotors share the weight equally; for others the bound on roll and
    pitch is a little cautious. `unit` is a run-time 1.0 that keeps XLA from copying formulas
    (see `materialise`).
    """
    low, high = mixer.thrust_min, mixer.thrust_max
    share = mixer.collective
    tilt = [r * torque.x + p * torque.y for r, p in zip(mixer.roll, mixer.pitch, strict=True)]
    tilt = materialise(tilt, unit)

    # 1. Roll and pitch: the spread over the rotors must fit between the limits.
    relative = [t / s for t, s in zip(tilt, share, strict=True)]
    spread = _largest(relative) - _least(relative)
    room = high / _largest(share) - low / _least(share)
    tilt_share = jnp.minimum(1.0, room / jnp.maximum(spread, 1e-9))
    tilt = materialise([t * tilt_share for t in tilt], unit)

    # 2. Collective thrust: moved until no rotor leaves its limits.
    floor = _largest([(low - t) / s for t, s in zip(tilt, share, strict=True)])
    ceiling = _least([(high - t) / s for t, s in zip(tilt, share, strict=True)])
    granted = materialise(jnp.clip(thrust, floor, ceiling), unit)
    base = [s * granted + t for s, t in zip(share, tilt, strict=True)]

    # 3. Yaw: what is left.
    yaw = [y * torque.z for y in mixer.yaw]
    yaw_share = jnp.float32(1.0)
    for b, y in zip(base, yaw, strict=True):
        room_left = jnp.where(y > 0.0, high - b, b - low)
        wanted = jnp.abs(y)
        # No demand is always granted, even by a rotor at its limit.
        granted_share = jnp.where(wanted > 1e-9, room_left / jnp.maximum(wanted, 1e-9), 1.0)
        yaw_share = jnp.minimum(yaw_share, granted_share)
    yaw_share = materialise(jnp.maximum(yaw_share, 0.0), unit)
    thrusts = tuple(b + yaw_share * y for b, y in zip(base, yaw, strict=True))
    return thrusts, Saturation(tilt_share, granted - thrust, yaw_share)
