"""References at a few moments by plain numbers, for the control process.

The same formulas as `clock.shifted`, `path.derivatives` and `flatness.flat_state`, which serve
batches and JAX. On four moments NumPy spends nearly all its time between the operations; a test
compares the two.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lafr_mjx.reference import clock as clocks
from lafr_mjx.reference.flatness import reference_at
from lafr_mjx.types import GRAVITY, Reference

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lafr_mjx.reference.clock import Clock
    from lafr_mjx.reference.path import Path


class PlainPath(NamedTuple):
    """A path as Python numbers; made once, before its flight."""

    coefficients: list[list[list[float]]]  # [S][4][8]
    breaks: list[float]  # [S + 1]
    inner: list[float]  # breaks without the ends
    periodic: bool
    arrays: Path  # as it was


def plain_path(path: Path) -> PlainPath:
    """Prepare a path of NumPy arrays."""
    breaks = np.asarray(path.breaks, float).tolist()
    coefficients = np.asarray(path.coefficients, float).tolist()
    return PlainPath(coefficients, breaks, breaks[1:-1], float(path.periodic) > 0.5, path)


def references_at(path: PlainPath, clock: Clock, offsets_s: Iterable[float]) -> Reference:
    """References at the clock's time plus each of the offsets; fields [P, ...].

    Args:
        path: one path.
        clock: in Python floats, see `clock.plain`.
        offsets_s: P of them.
    """
    offsets = list(offsets_s)
    try:
        table = np.array([_at(path, clock, offset) for offset in offsets])
    except (ArithmeticError, ValueError):
        # Python raises where arrays give infinity or NaN, and who flies knows how to treat those.
        return reference_at(path.arrays, clock, np.array(offsets))
    return Reference(
        position=table[:, 0:3],
        velocity=table[:, 3:6],
        acceleration=table[:, 6:9],
        jerk=table[:, 9:12],
        rotation=table[:, 12:21].reshape((-1, 3, 3)),
        rates=table[:, 21:24],
        thrust=table[:, 24],
    )


def _at(path: PlainPath, clock: Clock, offset: float) -> tuple[float, ...]:
    phase, rate, acceleration, jerk = map(float, clocks.shifted(clock, float(offset)))
    return _flat(*_moved(path, phase, rate, acceleration, jerk))


_Axis = tuple[float, float, float, float]  # value and derivatives, to the third


def _moved(
    path: PlainPath, phase: float, rate: float, acceleration: float, jerk: float
) -> list[_Axis]:
    """x, y, z and yaw with their derivatives in time: the chain rule of `reference_state`."""
    lap = path.breaks[-1]
    if path.periodic:
        on_path = phase - lap * ((phase / lap) // 1.0)
        moving = True
    else:
        on_path = min(max(phase, 0.0), lap)
        moving = 0.0 < phase < lap
    segment = bisect_right(path.inner, on_path)
    start = path.breaks[segment]
    per_second = 2.0 / (path.breaks[segment + 1] - start)
    u = (on_path - start) * per_second - 1.0
    scale = per_second if moving else 0.0
    first, second, third = scale, 2.0 * (scale * scale), 6.0 * (scale * scale * scale)
    rate2, rate3 = rate * rate, rate**3
    found = []
    for c0, c1, c2, c3, c4, c5, c6, c7 in path.coefficients[segment]:
        # Horner's scheme for the polynomial and its Taylor coefficients at once.
        a, b = c7 * u + c6, c7
        a, b, c = a * u + c5, b * u + a, b
        a, b, c, d = a * u + c4, b * u + a, c * u + b, c
        a, b, c, d = a * u + c3, b * u + a, c * u + b, d * u + c
        a, b, c, d = a * u + c2, b * u + a, c * u + b, d * u + c
        a, b, c, d = a * u + c1, b * u + a, c * u + b, d * u + c
        a, b, c, d = a * u + c0, b * u + a, c * u + b, d * u + c
        p1, p2, p3 = b * first, c * second, d * third
        found.append(
            (
                a,
                p1 * rate,
                p2 * rate2 + p1 * acceleration,
                p3 * rate3 + 3.0 * p2 * rate * acceleration + p1 * jerk,
            )
        )
    return found


def _flat(x: _Axis, y: _Axis, z: _Axis, yaw: _Axis) -> tuple[float, ...]:
    """Position, velocity, acceleration, jerk, rotation by rows, rates, thrust: `flat_state`."""
    jx, jy, jz = x[3], y[3], z[3]
    lx, ly, lz = x[2], y[2], z[2] + GRAVITY
    thrust = math.sqrt(lx * lx + ly * ly + lz * lz)
    z1, z2, z3 = lx / thrust, ly / thrust, lz / thrust
    cosine, sine = math.cos(yaw[0]), math.sin(yaw[0])
    # y_C = (-sine, cosine, 0) × z_B
    s1, s2, s3 = cosine * z3, sine * z3, -sine * z2 - cosine * z1
    side = math.sqrt(s1 * s1 + s2 * s2 + s3 * s3)
    x1, x2, x3 = s1 / side, s2 / side, s3 / side
    y1, y2, y3 = z2 * x3 - z3 * x2, z3 * x1 - z1 * x3, z1 * x2 - z2 * x1
    roll_rate = -(y1 * jx + y2 * jy + y3 * jz) / thrust
    pitch_rate = (x1 * jx + x2 * jy + x3 * jz) / thrust
    ahead = cosine * x1 + sine * x2
    left = cosine * z2 - sine * z1
    turn = (yaw[1] * ahead + pitch_rate * left) / side
    return (
        x[0], y[0], z[0], x[1], y[1], z[1], lx, ly, z[2], jx, jy, jz,
        x1, y1, z1, x2, y2, z2, x3, y3, z3, roll_rate, pitch_rate, turn, thrust,
    )  # fmt: skip
