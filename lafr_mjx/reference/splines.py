"""Make paths from waypoints, samples or harmonics (on the host, in float64).

All are splines of degree 7 with six continuous derivatives. Such a spline, with velocity,
acceleration and jerk zero at the ends of an open path, is the one of least integrated squared
snap among all curves through its knots.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from lafr_mjx.errors import InputError
from lafr_mjx.reference.path import DEGREE, Path

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_CONTINUOUS = 6
"""Derivatives that are continuous at the knots."""

MAX_SEGMENTS = 256
_MAX_DURATION_RATIO = 100.0
"""Beyond this ratio of segments the sixth derivative's continuity is lost in rounding."""


def from_waypoints(
    points: ArrayLike,
    duration_s: float,
    *,
    periodic: bool,
    yaw: ArrayLike | None = None,
    times: ArrayLike | None = None,
) -> Path:
    """Minimum-snap path through waypoints.

    Args:
        points: [N, 3] m; the first one is not repeated at the end of a closed path.
        duration_s: of one lap, or from rest to rest, at time scale 1.
        periodic: whether the path returns to the first waypoint.
        yaw: [N] rad at the waypoints, each turn the shorter way round; default 0.
        times: phase at each knot, from 0: [N] for an open path, [N + 1] for a closed one (the
            last is the return to the start). Scaled to `duration_s`. Default: in proportion to
            the distance between waypoints.
    """
    points = _points(points, 2)
    _check_duration(duration_s)
    heading = np.zeros(len(points)) if yaw is None else np.asarray(yaw, dtype=float)
    if heading.shape != (len(points),) or not np.isfinite(heading).all():
        raise InputError(f"yaw must be {len(points)} finite numbers, one for each waypoint")
    if periodic:
        points, heading = np.vstack([points, points[:1]]), np.append(heading, heading[0])
    chords = np.linalg.norm(np.diff(points, axis=0), axis=1)
    if times is None:
        if chords.min() < 1e-6 * chords.max() or chords.max() == 0.0:
            i = int(chords.argmin())
            raise InputError(f"waypoints {i} and {(i + 1) % (len(points) - periodic)} coincide")
        knots = np.append(0.0, np.cumsum(chords))
    else:
        knots = np.asarray(times, dtype=float)
        if knots.shape != (len(points),) or not np.isfinite(knots).all():
            raise InputError(f"times must be {len(points)} finite numbers, one for each knot")
        if knots[0] != 0.0 or np.any(np.diff(knots) <= 0.0):
            raise InputError("times must begin with 0 and increase")
    durations = np.diff(knots)
    if durations.max() > _MAX_DURATION_RATIO * durations.min():
        raise InputError(
            f"the times between waypoints differ by a factor of "
            f"{durations.max() / durations.min():.3g}; allowed is {_MAX_DURATION_RATIO:g}"
        )
    values = np.column_stack([points, np.unwrap(heading)])
    return _spline_path(values, knots * (duration_s / knots[-1]), periodic)


def from_harmonics(
    centre: ArrayLike,
    sine: ArrayLike,
    cosine: ArrayLike,
    duration_s: float,
    *,
    segments: int | None = None,
) -> Path:
    """Closed path x(s) = centre + Σₖ sineₖ sin(k s) + cosineₖ cos(k s), yaw 0.

    Args:
        centre: [3] m.
        sine: [K, 3] m, for k = 1 .. K.
        cosine: [K, 3] m.
        duration_s: of one lap (s from 0 to 2π) at time scale 1.
        segments: of the spline; by default 8 for each period of the highest harmonic and at
            least 16, which keeps the third derivative within 0.1 % of the curve's.
    """
    _check_duration(duration_s)
    centre, sine, cosine = (np.asarray(x, dtype=float) for x in (centre, sine, cosine))
    good = centre.shape == (3,) and sine.ndim == 2 and sine.shape[1] == 3
    if not good or sine.shape != cosine.shape or len(sine) == 0:
        raise InputError("harmonics need a centre [3] and as many sine as cosine rows [K, 3]")
    if not all(np.isfinite(x).all() for x in (centre, sine, cosine)):
        raise InputError("harmonics must be finite")
    if not (sine.any() or cosine.any()):
        raise InputError("at least one harmonic must differ from zero")
    count = _segment_count(max(16, 8 * len(sine)) if segments is None else segments)
    if count < 4 * len(sine):
        raise InputError(f"{count} segments are too few for {len(sine)} harmonics")
    angles = np.outer(np.linspace(0.0, 2.0 * np.pi, count + 1), np.arange(1, len(sine) + 1))
    points = centre + np.sin(angles) @ sine + np.cos(angles) @ cosine
    values = np.column_stack([points, np.zeros(count + 1)])
    return _spline_path(values, np.linspace(0.0, duration_s, count + 1), True)


def from_samples(
    points: ArrayLike,
    duration_s: float,
    *,
    periodic: bool,
    segments: int = 32,
    tolerance_m: float = 0.01,
) -> Path:
    """Smooth path (least squares) near positions that were sampled at equal time steps, yaw 0.

    Args:
        points: [M, 3] m, at least two for each segment. The first point of a closed curve may
            be repeated at the end or not. An open curve must start and end at rest.
        duration_s: of one lap, or from the first to the last sample, at time scale 1.
        periodic: whether the curve is closed.
        segments: of the spline.
        tolerance_m: largest distance allowed between a sample and the path at its phase.
    """
    points = _points(points, 3)
    _check_duration(duration_s)
    count = _segment_count(segments)
    if periodic and np.allclose(points[0], points[-1], rtol=0.0, atol=1e-9):
        points = points[:-1]
    if len(points) < 2 * count:
        raise InputError(
            f"{len(points)} samples are too few for {count} segments; give at least {2 * count}"
        )
    knots = np.linspace(0.0, duration_s, count + 1)
    cardinals = cardinal_splines(count, periodic=periodic)
    position = np.linspace(0.0, count, len(points), endpoint=not periodic)
    segment = np.minimum(position.astype(int), count - 1)
    powers = (2.0 * (position - segment) - 1.0)[:, None] ** np.arange(DEGREE + 1)
    design = np.einsum("mk,mnk->mn", powers, cardinals[segment])
    at_knots = np.linalg.lstsq(design, points, rcond=None)[0]
    distance = np.linalg.norm(design @ at_knots - points, axis=1)
    worst = int(distance.argmax())
    if distance[worst] > tolerance_m:
        ends = "" if periodic else ", or let the samples start and end at rest"
        raise InputError(
            f"{count} segments stay {distance[worst]:.3g} m away from sample {worst}; allowed are "
            f"{tolerance_m:g} m: use more segments, smoother samples{ends}"
        )
    coefficients = np.zeros((count, 4, DEGREE + 1))
    coefficients[:, :3] = np.einsum("snk,nd->sdk", cardinals, at_knots)
    return Path(coefficients, knots, np.array(float(periodic)))


def cardinal_splines(count: int, *, periodic: bool) -> np.ndarray:
    """Coefficients [count, knots, 8] of the splines that are 1 at one knot and 0 at all others.

    Knots at equal distances; every spline through values at them is a sum of these. A closed one
    has `count` knots, an open one `count` + 1.
    """
    values = np.eye(count + (not periodic))
    if periodic:
        values = np.vstack([values, values[:1]])
    return _spline(values, np.ones(count), periodic)


def with_segments(path: Path, count: int) -> Path:
    """The same curve cut into `count` segments, so that paths can share a compiled program.

    The longest segment is halved (exactly) until there are enough.
    """
    pieces, breaks = list(np.asarray(path.coefficients)), list(np.asarray(path.breaks))
    if len(pieces) > count:
        raise ValueError(f"a path of {len(pieces)} segments cannot have {count}")
    left, right = _half_matrix(-1.0), _half_matrix(1.0)
    while len(pieces) < count:
        i = int(np.argmax(np.diff(breaks)))
        pieces[i : i + 1] = [pieces[i] @ left, pieces[i] @ right]
        breaks.insert(i + 1, 0.5 * (breaks[i] + breaks[i + 1]))
    return Path(np.array(pieces), np.array(breaks), path.periodic)


def _half_matrix(side: float) -> np.ndarray:
    """Coefficients of u ↦ p((u + side) / 2) from those of p, as a matrix on the right."""
    matrix = np.zeros((DEGREE + 1, DEGREE + 1))
    for k in range(DEGREE + 1):
        for j in range(k + 1):
            matrix[k, j] = math.comb(k, j) * side ** (k - j) / 2.0**k
    return matrix


def _spline_path(values: np.ndarray, knots: np.ndarray, periodic: bool) -> Path:
    _segment_count(len(knots) - 1)
    coefficients = _spline(values, np.diff(knots), periodic)
    return Path(coefficients, knots, np.array(float(periodic)))


def _spline(values: np.ndarray, durations: np.ndarray, periodic: bool) -> np.ndarray:
    """Interpolating spline with six continuous derivatives.

    Args:
        values: [S + 1, D] at the knots. The last row of a periodic spline may differ from the
            first (a yaw that turns full circles); its derivatives agree.
        durations: [S] of the segments; only their ratios matter.
        periodic: closed, or else first to third derivative zero at both ends.

    Returns:
        [S, D, 8] coefficients in u.
    """
    segments, width = len(durations), DEGREE + 1
    rate = durations.mean() / durations  # d/ds = rate · d/du, up to a common factor
    at_start, at_end = _derivative_rows(-1.0), _derivative_rows(1.0)
    matrix = np.zeros((segments * width, segments * width))
    right_side = np.zeros((segments * width, values.shape[1]))
    row = 0

    def add(segment: int, entries: np.ndarray) -> None:
        matrix[row, segment * width : (segment + 1) * width] += entries

    for i in range(segments):
        for entries, value in ((at_start[0], values[i]), (at_end[0], values[i + 1])):
            add(i, entries)
            right_side[row] = value
            row += 1
    for i in range(segments if periodic else segments - 1):
        following = (i + 1) % segments
        for order in range(1, _CONTINUOUS + 1):
            add(i, rate[i] ** order * at_end[order])
            add(following, -(rate[following] ** order) * at_start[order])
            row += 1
    if not periodic:
        for order in range(1, 4):
            for segment, rows in ((0, at_start), (segments - 1, at_end)):
                add(segment, rows[order])
                row += 1

    size = np.abs(matrix).max(axis=1, keepdims=True)
    solution = np.linalg.solve(matrix / size, right_side / size)
    return solution.reshape(segments, width, -1).transpose(0, 2, 1)


def _derivative_rows(u: float) -> np.ndarray:
    """[7, 8]: row m gives the m-th derivative at u from the coefficients."""
    rows = np.zeros((_CONTINUOUS + 1, DEGREE + 1))
    for order in range(_CONTINUOUS + 1):
        for power in range(order, DEGREE + 1):
            rows[order, power] = math.perm(power, order) * u ** (power - order)
    return rows


def _points(given: ArrayLike, fewest: int) -> np.ndarray:
    points = np.asarray(given, dtype=float)
    if points.ndim != 2 or points.shape[1] != 3 or len(points) < fewest:
        raise InputError(f"points must be at least {fewest} rows of 3 numbers")
    if not np.isfinite(points).all():
        raise InputError("points must be finite")
    return points


def _check_duration(duration_s: float) -> None:
    if not (math.isfinite(duration_s) and duration_s > 0.0):
        raise InputError(f"the duration is {duration_s} s; it must be > 0")


def _segment_count(segments: int) -> int:
    if not 1 <= segments <= MAX_SEGMENTS:
        raise InputError(f"{segments} segments; allowed are 1 to {MAX_SEGMENTS}")
    return segments
