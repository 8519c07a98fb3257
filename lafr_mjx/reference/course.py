"""A first, timid path through gates: along their normals, smooth, and above the floor.

Between two gates lies a cubic Bézier curve. How far it goes on along a gate's normal follows from
the angle to the next gate, as on a circle: 1/(3 cos²(φ/2)) of the chord. A slow pace with bounded
acceleration is found along these curves, the jumps of curvature at the gates are rounded off, and a
spline of degree 7 is fitted to the motion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lafr_mjx.reference import splines

if TYPE_CHECKING:
    from lafr_mjx.reference.path import Path

FLOOR_M = 0.45
"""No control point, and so no curve, is lower; the fit may be, by some centimetres."""

_SPEED_MPS = 2.0
_HASTE = 3.0  # by which a long course may be flown faster
_ACROSS = 3.0  # m/s², acceleration where the path bends
_ALONG = 1.5  # m/s², of speeding up and slowing down
_LONGEST_S = 13.2  # of a lap: with its ramp it is a flight that a learner takes
_RUN_UP_M = 1.5  # from rest to the first gate, and from the last one to rest
_LARGEST_ANGLE = 2.2  # rad; beyond, curves out of a gate would grow without bound
_POINTS = 200  # of each curve
_SEGMENTS = 4  # of the spline for each curve, at least
_SEGMENT_S = 0.45  # how long they are at most
_ROUNDING_S = 0.12  # over which the jumps of curvature at the gates are spread
_SAMPLES = 24  # of the motion for each segment of the spline


def through_gates(centres: np.ndarray, normals: np.ndarray, *, periodic: bool) -> Path:
    """A path through the centres [G, 3] along the unit normals [G, 3], in their order.

    A closed one begins midway between the last gate and the first; another goes from rest before
    the first to rest behind the last.
    """
    if not periodic:
        ends = centres[[0, -1]] + _RUN_UP_M * np.array([[-1.0], [1.0]]) * normals[[0, -1]]
        ends[:, 2] = np.maximum(ends[:, 2], FLOOR_M)
        centres = np.vstack([ends[:1], centres, ends[1:]])
        normals = normals[[0, *range(len(normals)), -1]]
    points, stretches = _curves(centres, normals, periodic)
    moments = _paced(points, periodic)
    segments = max(_SEGMENTS * stretches, round(moments[-1] / _SEGMENT_S))
    # At rest the slightest waviness of the fit shows in the direction.
    segments = min(segments if periodic else 2 * segments, splines.MAX_SEGMENTS)
    # A closed curve's samples stop short of its end, which is its start.
    even = np.linspace(0.0, moments[-1], _SAMPLES * segments, endpoint=not periodic)
    index = np.interp(even, moments, np.arange(len(points)))
    if not periodic:  # the way grows with t⁴ out of rest
        left = len(points) - 1 - index
        index = np.where(index < 1.0, index**4, np.where(left < 1.0, index + left - left**4, index))
    samples = np.column_stack([np.interp(index, np.arange(len(points)), x) for x in points.T])
    from scipy.ndimage import gaussian_filter1d  # only courses need it

    width = _ROUNDING_S * len(samples) / moments[-1]
    samples = gaussian_filter1d(samples, width, axis=0, mode="wrap" if periodic else "nearest")
    return splines.from_samples(
        samples, moments[-1], periodic=periodic, segments=segments, tolerance_m=np.inf
    )


def _curves(centres: np.ndarray, normals: np.ndarray, periodic: bool) -> tuple[np.ndarray, int]:
    """Points [N, 3] along all curves at equal distances, and the number of curves."""
    after = np.roll(np.arange(len(centres)), -1) if periodic else np.arange(1, len(centres))
    before = np.arange(len(after))
    chords = centres[after] - centres[before]
    out = centres[before] + _reach(centres[before], normals[before], chords)
    into = centres[after] + _reach(centres[after], -normals[after], -chords)
    u = np.linspace(0.0, 1.0, _POINTS, endpoint=False)[:, None]
    weights = np.stack([(1 - u) ** 3, 3 * u * (1 - u) ** 2, 3 * u**2 * (1 - u), u**3], axis=-1)
    corners = np.stack([centres[before], out, into, centres[after]], axis=1)  # [C, 4, 3]
    points = np.concatenate([weights[:, 0] @ four for four in corners])
    points = np.vstack([points, centres[after[-1]]])
    if periodic:
        half = _POINTS // 2  # of the last curve
        points = np.vstack([points[-half - 1 : -1], points[:-half]])
    way = _lengths(points)
    even = np.linspace(0.0, way[-1], len(points))
    return np.column_stack([np.interp(even, way, axis) for axis in points.T]), len(after)


def _reach(start: np.ndarray, direction: np.ndarray, chord: np.ndarray) -> np.ndarray:
    """From the gates [C, 3] to their curves' next control points, not below the floor."""
    length = np.linalg.norm(chord, axis=1)
    cosine = np.sum(direction * chord, axis=1) / length
    angle = np.minimum(np.arccos(np.clip(cosine, -1.0, 1.0)), _LARGEST_ANGLE)
    reach = length / (3.0 * np.cos(0.5 * angle) ** 2)
    sinking = np.maximum(-direction[:, 2], 1e-9)
    reach = np.minimum(reach, np.maximum(start[:, 2] - FLOOR_M, 0.05) / sinking)
    return reach[:, None] * direction


def _lengths(points: np.ndarray) -> np.ndarray:
    return np.append(0.0, np.cumsum(np.linalg.norm(np.diff(points, axis=0), axis=1)))


def _paced(points: np.ndarray, periodic: bool) -> np.ndarray:
    """When each point is passed: slowly, or as slowly as a learner takes it if there is such."""
    for haste in np.linspace(1.0, _HASTE, 41):
        moments = _moments(points, periodic, haste)
        if moments[-1] <= _LONGEST_S:
            return moments
    return _moments(points, periodic, 1.0)


def _moments(points: np.ndarray, periodic: bool, haste: float) -> np.ndarray:
    """When each point is passed at the timid speed, or slower where the path bends.

    In haste the speed grows, and with it by half as much the acceleration.
    """
    speed, more = haste * _SPEED_MPS, 0.5 * (1.0 + haste)
    step = _lengths(points)[-1] / (len(points) - 1)
    padded = np.vstack([points[-2], points, points[1]]) if periodic else points
    bend = np.linalg.norm(np.diff(padded, 2, axis=0), axis=1) / step**2
    bend = bend if periodic else np.pad(bend, 1)
    squared = np.minimum(speed**2, more * _ACROSS / np.maximum(bend, 1e-9))
    gain = 2.0 * more * _ALONG * step
    if not periodic:  # the way grows with t⁴ out of rest, as the spline's does
        from_end = np.minimum(np.arange(len(points)), np.arange(len(points))[::-1])
        squared = np.minimum(squared, 2.0 * more * _ALONG * (step * from_end) ** 1.5)
    # Not faster than by speeding up from any point before or slowing down to any behind.
    for _ in range(2 if periodic else 1):
        for order in (range(len(points)), range(len(points) - 1, -1, -1)):
            most = squared[order[-1]] if periodic else np.inf
            for i in order:
                most = squared[i] = min(squared[i], most + gain)
    pace = np.sqrt(squared)
    spent = 2.0 * step / (pace[1:] + pace[:-1])
    if not periodic:
        spent[[0, -1]] *= 2.0  # by the same law
    return np.append(0.0, np.cumsum(spent))
