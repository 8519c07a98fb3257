"""An optimal motion as dense samples: what the check integrates and the figures come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

if TYPE_CHECKING:
    from lafr_mjx.time_optimal.solver import Optimum


class Motion(NamedTuple):
    """N intervals with M (odd) samples each, at equal steps of a variable x.

    Inputs may jump between intervals, so both ends of each interval are sampled. x is the time
    or anything that grows with it; `slowness` is dt/dx.
    """

    width: np.ndarray  # [N] of each interval in x
    slowness: np.ndarray  # [N, M] s per unit of x
    command: np.ndarray  # [N, M, 4] thrust [m/s²] and body rates [rad/s]
    rotors: np.ndarray | None  # [N, M, 4] N, rotor thrusts; None for the CTBR vehicle
    position: np.ndarray  # [N, M, 3] m, where the vehicle is claimed to be
    velocity: np.ndarray  # [N, M, 3] m/s
    angles: np.ndarray  # [N, M, 3] rad: roll, pitch, yaw; R = Rz(yaw) Ry(pitch) Rx(roll)
    phase: np.ndarray  # [N, M] s, of the path; where it lies beside it

    @property
    def time(self) -> np.ndarray:
        """[N, M] s since the start, by Simpson's rule."""
        from scipy.integrate import cumulative_simpson

        step = self.width / (self.slowness.shape[1] - 1)
        inside = step[:, None] * cumulative_simpson(self.slowness, dx=1.0, axis=1, initial=0.0)
        return inside + np.concatenate([[0.0], np.cumsum(inside[:-1, -1])])[:, None]

    @property
    def duration(self) -> float:
        """Time from start to end [s]."""
        return float(self.time[-1, -1])


def rotation_of(angles: np.ndarray) -> np.ndarray:
    """[..., 3] roll, pitch and yaw to [..., 3, 3] matrices, body to world."""
    turns = Rotation.from_euler("xyz", angles.reshape(-1, 3))
    return turns.as_matrix().reshape(*angles.shape, 3)


class Solution(NamedTuple):
    """The optimal motion along a path or beside it."""

    seconds: float
    optimum: Optimum
    motion: Motion


def angles_of(rotation: np.ndarray, yaw: np.ndarray) -> np.ndarray:
    """Roll, pitch and yaw [..., 3] of a matrix whose yaw is known, upright or not."""
    x, y, z = np.moveaxis(rotation[..., 2], -1, 0)
    ahead, left = np.cos(yaw) * x + np.sin(yaw) * y, np.cos(yaw) * y - np.sin(yaw) * x
    roll = -np.arcsin(np.clip(left, -1.0, 1.0))
    return np.stack([roll, np.arctan2(ahead, z), yaw], axis=-1)
