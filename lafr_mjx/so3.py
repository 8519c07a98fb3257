"""Rotations: exponential and logarithm of SO(3), hat and vee, quaternions (w, x, y, z).

Every function takes NumPy or JAX arrays with any leading batch axes, and has finite values
and gradients at the identity; `log` also near half a turn.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from lafr_mjx.arrays import namespace

if TYPE_CHECKING:
    from lafr_mjx.arrays import Array

# Below this squared angle the series is exact to float32 and its gradient is safe.
_SMALL = 1e-4


def hat(vector: Array) -> Array:
    """Skew-symmetric matrix â of a vector a, with â b = a × b."""
    xp = namespace(vector)
    x, y, z = vector[..., 0], vector[..., 1], vector[..., 2]
    zero = xp.zeros_like(x)
    rows = [zero, -z, y, z, zero, -x, -y, x, zero]
    return xp.stack(rows, axis=-1).reshape((*vector.shape[:-1], 3, 3))


def vee(matrix: Array) -> Array:
    """Vector of a skew-symmetric matrix (its antisymmetric part is taken)."""
    xp = namespace(matrix)
    return 0.5 * xp.stack(
        [
            matrix[..., 2, 1] - matrix[..., 1, 2],
            matrix[..., 0, 2] - matrix[..., 2, 0],
            matrix[..., 1, 0] - matrix[..., 0, 1],
        ],
        axis=-1,
    )


def exp(vector: Array) -> Array:
    """Rotation matrix of a rotation vector, Rodrigues' formula."""
    return quaternion_to_matrix(exp_quaternion(vector))


def exp_quaternion(vector: Array) -> Array:
    """Unit quaternion of a rotation vector."""
    xp = namespace(vector)
    squared = xp.sum(vector * vector, axis=-1, keepdims=True)
    small = squared < _SMALL
    # The inner `where` keeps the square root's gradient finite on the branch not taken.
    angle = xp.sqrt(xp.where(small, xp.ones_like(squared), squared))
    scale = xp.where(small, 0.5 - squared / 48.0, xp.sin(0.5 * angle) / angle)
    real = xp.where(small, 1.0 - squared / 8.0 + squared**2 / 384.0, xp.cos(0.5 * angle))
    return xp.concatenate([real, scale * vector], axis=-1)


def right_jacobian(vector: Array) -> Array:
    """J [..., 3, 3] of the exponential map: exp(a + δ) = exp(a) exp(J δ), to first order in δ."""
    xp = namespace(vector)
    squared = xp.sum(vector * vector, axis=-1)[..., None, None]
    small = squared < 0.01
    safe = xp.where(small, xp.ones_like(squared), squared)
    angle = xp.sqrt(safe)
    first = xp.where(small, 0.5 - squared / 24.0 + squared**2 / 720.0, (1.0 - xp.cos(angle)) / safe)
    second = xp.where(
        small, 1.0 / 6.0 - squared / 120.0 + squared**2 / 5040.0,
        (1.0 - xp.sin(angle) / angle) / safe,
    )  # fmt: skip
    cross = hat(vector)
    return xp.eye(3) - first * cross + second * product(cross, cross)


def log(rotation: Array) -> Array:
    """Rotation vector of a rotation matrix, with an angle in [0, π]."""
    if isinstance(rotation, np.ndarray) and rotation.ndim == 2:
        return _log_of_one(rotation)  # the control loop's case
    return log_quaternion(matrix_to_quaternion(rotation))


def _log_of_one(rotation: np.ndarray) -> np.ndarray:
    """The same by plain numbers, many times faster on a single matrix."""
    (a, b, c), (d, e, f), (g, h, i) = rotation.tolist()
    w, x, y, z = max(
        (1.0 + a + e + i, h - f, c - g, d - b),
        (h - f, 1.0 + a - e - i, b + d, c + g),
        (c - g, b + d, 1.0 - a + e - i, f + h),
        (d - b, c + g, f + h, 1.0 - a - e + i),
        key=lambda entries: max(map(abs, entries)),
    )
    real, length = abs(w), math.hypot(x, y, z)
    half_turn = math.atan2(length, real)
    # Where the angle is tiny, so is the error of taking its half for its sine.
    scale = 2.0 * half_turn / length if length > 0.0 else 2.0 / real
    scale = -scale if w < 0.0 else scale
    return np.array([scale * x, scale * y, scale * z])


def log_quaternion(quaternion: Array) -> Array:
    """Rotation vector of a unit quaternion, with an angle in [0, π]."""
    xp = namespace(quaternion)
    real, imaginary = quaternion[..., :1], quaternion[..., 1:]
    sign = xp.where(real < 0.0, -xp.ones_like(real), xp.ones_like(real))
    real, imaginary = sign * real, sign * imaginary
    squared = xp.sum(imaginary * imaginary, axis=-1, keepdims=True)
    small = squared < 0.25 * _SMALL
    norm = xp.sqrt(xp.where(small, xp.ones_like(squared), squared))
    # angle / sin(angle / 2); the series is 2 / w (1 - s² / (3 w²)) of atan.
    safe_real = xp.where(small, real, xp.ones_like(real))
    series = 2.0 / safe_real * (1.0 - squared / (3.0 * safe_real**2))
    scale = xp.where(small, series, 2.0 * xp.arctan2(norm, real) / norm)
    return scale * imaginary


def quaternion_to_matrix(quaternion: Array) -> Array:
    """Rotation matrix of a unit quaternion (w, x, y, z)."""
    if (
        isinstance(quaternion, np.ndarray)
        and quaternion.shape == (4,)
        and quaternion.dtype == np.float64
    ):
        # The control loop's case: plain numbers are many times faster, and give the same bits.
        entries = _matrix_entries(*quaternion.tolist())
        return np.array(entries).reshape((3, 3))
    xp = namespace(quaternion)
    entries = _matrix_entries(*(quaternion[..., i] for i in range(4)))
    return xp.stack(entries, axis=-1).reshape((*quaternion.shape[:-1], 3, 3))


def _matrix_entries(w: Any, x: Any, y: Any, z: Any) -> list[Any]:
    """Row by row, of numbers or arrays."""
    return [
        1.0 - 2.0 * (y * y + z * z),
        2.0 * (x * y - w * z),
        2.0 * (x * z + w * y),
        2.0 * (x * y + w * z),
        1.0 - 2.0 * (x * x + z * z),
        2.0 * (y * z - w * x),
        2.0 * (x * z - w * y),
        2.0 * (y * z + w * x),
        1.0 - 2.0 * (x * x + y * y),
    ]


def matrix_to_quaternion(rotation: Array) -> Array:
    """Unit quaternion (w ≥ 0) of a rotation matrix.

    Of the four textbook formulas the one with the largest pivot is taken, so that no division
    is by a small number anywhere on SO(3).
    """
    xp = namespace(rotation)
    m = [[rotation[..., i, j] for j in range(3)] for i in range(3)]
    pivots = [
        1.0 + m[0][0] + m[1][1] + m[2][2],
        1.0 + m[0][0] - m[1][1] - m[2][2],
        1.0 - m[0][0] + m[1][1] - m[2][2],
        1.0 - m[0][0] - m[1][1] + m[2][2],
    ]
    candidates = [
        [pivots[0], m[2][1] - m[1][2], m[0][2] - m[2][0], m[1][0] - m[0][1]],
        [m[2][1] - m[1][2], pivots[1], m[0][1] + m[1][0], m[0][2] + m[2][0]],
        [m[0][2] - m[2][0], m[0][1] + m[1][0], pivots[2], m[1][2] + m[2][1]],
        [m[1][0] - m[0][1], m[0][2] + m[2][0], m[1][2] + m[2][1], pivots[3]],
    ]
    # Prefer the first formula wherever it is safe: it is smooth around the identity.
    best, largest = candidates[0], pivots[0]
    for candidate, pivot in zip(candidates[1:], pivots[1:], strict=True):
        better = (pivot > largest) & (largest < 0.4)
        best = [xp.where(better, new, old) for new, old in zip(candidate, best, strict=True)]
        largest = xp.where(better, pivot, largest)
    # The other formulas leave the sign of the whole quaternion open.
    sign = xp.where(best[0] < 0.0, -xp.ones_like(largest), xp.ones_like(largest))
    return normalise(xp.stack([sign * entry for entry in best], axis=-1))


def multiply(left: Array, right: Array) -> Array:
    """Hamilton product of two quaternions."""
    xp = namespace(left, right)
    a, b, c, d = (left[..., i] for i in range(4))
    e, f, g, h = (right[..., i] for i in range(4))
    return xp.stack(
        [
            a * e - b * f - c * g - d * h,
            a * f + b * e + c * h - d * g,
            a * g - b * h + c * e + d * f,
            a * h + b * g - c * f + d * e,
        ],
        axis=-1,
    )


def cross(left: Array, right: Array) -> Array:
    """Cross product; the libraries' own is slow on single vectors."""
    xp = namespace(left, right)
    a0, a1, a2 = (left[..., i] for i in range(3))
    b0, b1, b2 = (right[..., i] for i in range(3))
    return xp.stack([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0], axis=-1)


def normalise(vector: Array) -> Array:
    """Vector scaled to unit length; the zero vector would give NaN and must not be passed."""
    xp = namespace(vector)
    return vector / xp.sqrt(xp.sum(vector * vector, axis=-1, keepdims=True))


def straightened(matrix: Array) -> Array:
    """[..., 3, 3] nearly a rotation, made more nearly one: a Newton step of its polar factor.

    Rounding errors of a long product of rotations then do not add up.
    """
    xp = namespace(matrix)
    square = product(xp.swapaxes(matrix, -1, -2), matrix)
    return 1.5 * matrix - 0.5 * product(matrix, square)


def product(left: Array, right: Array) -> Array:
    """Matrix product of [..., 3, 3]; XLA would call a library for each pair of a batch."""
    xp = namespace(left, right)
    if xp is np:
        return left @ right
    return xp.sum(left[..., :, :, None] * right[..., None, :, :], axis=-2)
