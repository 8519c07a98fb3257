"""Frames and units of MAVLink, and ours.

MAVLink: world north, east, down; body forward, right, down. Ours: world x north, y west, z up; body
x forward, y left, z up. Both pairs differ by half a turn about the first axis.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lafr_mjx.types import GRAVITY

if TYPE_CHECKING:
    from collections.abc import Sequence

Three = tuple[float, float, float]
Four = tuple[float, float, float, float]


def flipped(vector: Sequence[float]) -> Three:
    """A vector of the one world (body) in the other: there and back are the same."""
    x, y, z = vector
    return x, -y, -z


def flipped_attitude(quaternion: Sequence[float]) -> Four:
    """Quaternion wxyz, body to world, of the one pair of frames in the other."""
    w, x, y, z = quaternion
    return w, x, -y, -z


def quaternion_of(roll: float, pitch: float, yaw: float) -> Four:
    """Quaternion wxyz of the angles of ATTITUDE: about z, then y, then x [rad]."""
    (cr, sr), (cp, sp), (cy, sy) = (
        (math.cos(0.5 * angle), math.sin(0.5 * angle)) for angle in (roll, pitch, yaw)
    )
    return (
        cr * cp * cy + sr * sp * sy,
        sr * cp * cy - cr * sp * sy,
        cr * sp * cy + sr * cp * sy,
        cr * cp * sy - sr * sp * cy,
    )


def thrust_share(thrust: float, hover_thrust: float) -> float:
    """A collective thrust [m/s²] as the share of the full one, from that of hover."""
    return min(max(thrust / GRAVITY * hover_thrust, 0.0), 1.0)
