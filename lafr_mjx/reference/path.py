"""A path in space: piecewise polynomials of degree 7 in (x, y, z, yaw) over the phase.

The phase s is in seconds: the time along the path at time scale α = 1. Evaluation serves NumPy
and JAX. How a path comes about (waypoints, samples, harmonics) is in `splines.py`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from lafr_mjx.arrays import namespace

if TYPE_CHECKING:
    from lafr_mjx.arrays import Array

DEGREE = 7
ORDERS = 5
"""Derivatives of order 0 (position) to 4 (snap) are evaluated."""


class Path(NamedTuple):
    """Polynomials in the local variable u in [-1, 1] of each of S segments.

    The centred, normalised variable keeps float32 evaluation accurate. Whether the path is
    periodic is a leaf, so that closed and rest-to-rest paths share one compiled program.
    Paths of a batch are evaluated under `vmap`.
    """

    coefficients: Array  # [S, 4, 8] of u⁰ .. u⁷ for x, y, z [m], yaw [rad]
    breaks: Array  # [S + 1] s, phase at the segments' ends, from 0 to one lap
    periodic: Array  # [] 1 if the path closes on itself, 0 if it goes from rest to rest


def lap_s(path: Path) -> Array:
    """Duration of the path at time scale 1 [s]."""
    return path.breaks[-1]


def peak_acceleration(path: Path) -> Array:
    """Largest acceleration along the path at time scale 1 [m/s²]; it grows with 1/α²."""
    xp = namespace(*path)
    second = derivatives(path, lap_s(path) * xp.linspace(0.0, 1.0, 1000))[:, 2, :3]
    return xp.sqrt(xp.max(xp.sum(second**2, axis=-1)))


def derivatives(path: Path, phase: Array | float) -> Array:
    """Derivatives of (x, y, z, yaw) with respect to the phase.

    A closed path repeats. A rest-to-rest path stays at its ends, with derivatives that are
    exactly zero there.

    Args:
        path: one path.
        phase: [...] s.

    Returns:
        [..., 5, 4]: orders 0 to 4.
    """
    xp = namespace(*path, phase)
    coefficients, breaks = xp.asarray(path.coefficients), xp.asarray(path.breaks)
    phase = xp.asarray(phase)
    closed = xp.asarray(path.periodic) > 0.5
    lap = breaks[-1]
    on_path = xp.where(closed, phase - lap * xp.floor(phase / lap), xp.clip(phase, 0.0, lap))

    # Counting the breaks passed is cheaper than a search for the few segments of a path.
    segment = xp.sum(on_path[..., None] >= breaks[1:-1], axis=-1)
    start = xp.take(breaks, segment, mode="clip")
    per_second = 2.0 / (xp.take(breaks, segment + 1, mode="clip") - start)
    local = ((on_path - start) * per_second - 1.0)[..., None]
    terms = xp.take(coefficients, segment, axis=0, mode="clip")

    # Horner's scheme for the polynomial and its Taylor coefficients at once.
    taylor = [terms[..., DEGREE]]
    for power in range(DEGREE - 1, -1, -1):
        higher = [
            taylor[i] * local + taylor[i - 1] if i < len(taylor) else taylor[i - 1]
            for i in range(1, min(len(taylor) + 1, ORDERS))
        ]
        taylor = [taylor[0] * local + terms[..., power], *higher]

    moving = closed | ((phase > 0.0) & (phase < lap))
    scale = xp.where(moving, per_second, xp.zeros_like(per_second))[..., None]
    scaled = [taylor[0]]
    factor = scale
    for order in range(1, ORDERS):
        scaled.append(taylor[order] * (math.factorial(order) * factor))
        factor = factor * scale
    return xp.stack(scaled, axis=-2)
