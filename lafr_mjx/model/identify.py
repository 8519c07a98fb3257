"""What a log says about the vehicle: delay, mass offset and drag, each with an interval.

The flight controller turns the commanded thrust into rotor speeds with the nominal mass; the
motors follow with a lag T, the radio and computers add a delay τ. With F(t) the commanded
thrust behind the motors' lag, the velocity obeys

    v̇ = F(t - τ) R e₃ / μ - g e₃ - R D R^T v √(F/g) / μ - ... + w,

μ the true over the nominal mass, D the rotor drag at hover speed (it grows with the rotors'
speed), w what a steady wind adds. Integrated over segments of a second with a free start, this
is linear in 1/μ, D/μ and w for each τ, and the noise of the velocity stays white: nothing is
differentiated. τ is searched, the rest solved. Intervals are from the spread between segments
(sandwich estimator with clustered errors; Liang and Zeger, 1986), so neither the noise's level
nor its colour within a segment need be known. They also hold what the data cannot tell: the
stamps of attitude and velocity may differ by a millisecond, and the motors' lag is the
profile's, give or take 5 %.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.signal import lfilter
from scipy.stats import t as student

from lafr_mjx.types import GRAVITY, SAMPLE_DT

if TYPE_CHECKING:
    from collections.abc import Callable

SEGMENT_S = 1.0
_FINE = 1e-3  # s, clock of the motors' lag
_DELAYS = (-0.03, 0.12)  # s, where τ is searched
_LEAST_SEGMENTS = 8
_STAMPS = 1e-3  # s, standard deviation of the attitude's stamps against the velocity's
_LAG_SHARE = 0.05  # standard deviation of the motors' lag over the lag


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval."""

    value: float
    low: float
    high: float

    def scaled(self, factor: float, offset: float = 0.0) -> Estimate:
        """The number times a factor, plus an offset."""
        ends = sorted((factor * self.low + offset, factor * self.high + offset))
        return Estimate(factor * self.value + offset, *ends)


@dataclass(frozen=True)
class Vehicle:
    """What the nominal model knows of the vehicle."""

    mass: float  # kg
    motor_lag: float  # s; 0 if the thrust was measured
    rotor_drag: np.ndarray  # [3] 1/s, body axes, per unit of the nominal mass
    body_drag: float  # 1/m


class Flight(NamedTuple):
    """Samples every 10 ms, and the thrust with its own stamps."""

    time: np.ndarray  # [N] s
    velocity: np.ndarray  # [N, 3]
    rotation: np.ndarray  # [N, 3, 3]
    usable: np.ndarray  # [N]
    thrust_time: np.ndarray  # [M] s
    thrust: np.ndarray  # [M] m/s²
    held: bool  # the thrust holds until the next one


@dataclass(frozen=True)
class Identified:
    """Estimates; None where the log does not say."""

    delay_s: Estimate | None  # τ, without the motors' lag
    mass_scale: Estimate  # μ
    mass_offset_kg: Estimate
    drag_scale: Estimate  # factor on the profile's drag
    drag_per_s: tuple[Estimate, ...]  # linear drag on each body axis, at hover speed
    wind_mps: tuple[Estimate, ...]  # steady wind along x and y, by its drag
    segments: int


def identify(flights: list[Flight], vehicle: Vehicle, *, search_delay: bool) -> Identified | None:
    """Estimates from the usable parts of some flights; None if they are too short."""
    cases = [_Case(flight, vehicle) for flight in flights]
    if sum(len(case.segments) for case in cases) < _LEAST_SEGMENTS:
        return None
    shape = _regression(cases, vehicle, _profile_drag, search_delay)
    axes = _regression(cases, vehicle, _axis_drag, search_delay, shape.delay)
    inverse, drag = 0, 1
    mass = _ratio(shape, None, inverse)
    # Drag figures are forces per nominal mass: D = (D/μ) / (1/μ).
    return Identified(
        delay_s=shape.interval(shape.delay_index) if search_delay else None,
        mass_scale=mass,
        mass_offset_kg=mass.scaled(vehicle.mass, -vehicle.mass),
        drag_scale=_ratio(shape, drag, inverse),
        drag_per_s=tuple(_ratio(axes, 1 + i, inverse) for i in range(3)),
        wind_mps=tuple(_ratio(axes, 4 + i, 1 + i) for i in range(2)),
        segments=shape.segments,
    )


class _Case:
    """One flight, prepared: segments, and the thrust behind the motors' lag."""

    def __init__(self, flight: Flight, vehicle: Vehicle) -> None:
        self.flight = flight
        self.vehicle = vehicle
        self.segments = _segments(flight.usable)
        origin = min(flight.thrust_time[0], flight.time[0] + _DELAYS[0]) - 0.3
        end = max(flight.thrust_time[-1], flight.time[-1])
        self.fine = np.arange(origin, end + 0.2, _FINE)
        if flight.held:
            index = np.searchsorted(flight.thrust_time, self.fine, side="right") - 1
            thrust = flight.thrust[np.clip(index, 0, len(flight.thrust) - 1)]
        else:
            thrust = np.interp(self.fine, flight.thrust_time, flight.thrust)
        if vehicle.motor_lag > 0.0:
            # The motors lag in speed; thrust goes with its square.
            speed = np.sqrt(np.maximum(thrust, 0.0))
            keep = np.exp(-_FINE / vehicle.motor_lag)
            speed = lfilter([1.0 - keep], [1.0, -keep], speed, zi=[keep * speed[0]])[0]
            thrust = speed**2
        self.thrust = thrust

    def lift(self, delay: float) -> np.ndarray:
        """F(t - τ) at the samples [N]."""
        return np.interp(self.flight.time - delay, self.fine, self.thrust)


def _segments(usable: np.ndarray) -> list[slice]:
    """Whole segments inside the usable stretches."""
    size = round(SEGMENT_S / SAMPLE_DT)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], usable.astype(int), [0]])))
    return [
        slice(first, first + size + 1)
        for start, stop in edges.reshape(-1, 2)
        for first in range(start, stop - size, size)
    ]


def _axis_drag(
    lift: np.ndarray, velocity: np.ndarray, rotation: np.ndarray, _: Vehicle
) -> np.ndarray:
    """Linear drag along each body axis for a coefficient of one [N, 3 axes, 3]."""
    body = (np.swapaxes(rotation, -1, -2) @ velocity[..., None])[..., 0]
    speed = np.sqrt(np.maximum(lift, 0.0) / GRAVITY)
    along = np.swapaxes(rotation, -1, -2) * body[..., None]  # [N, axis, world]
    return -speed[:, None, None] * along


def _profile_drag(
    lift: np.ndarray, velocity: np.ndarray, rotation: np.ndarray, vehicle: Vehicle
) -> np.ndarray:
    """The profile's rotor and body drag, for a factor of one [N, 1, 3]."""
    axes = _axis_drag(lift, velocity, rotation, vehicle)
    rotors = np.einsum("a,naw->nw", vehicle.rotor_drag, axes)
    size = np.linalg.norm(velocity, axis=-1, keepdims=True)
    return (rotors - vehicle.body_drag * size * velocity)[:, None, :]


@dataclass(frozen=True)
class _Solution:
    values: np.ndarray  # linear parameters, then τ
    covariance: np.ndarray
    delay: float
    delay_index: int
    segments: int

    def interval(self, index: int) -> Estimate:
        return _estimate(self.values[index], self.covariance[index, index], self.freedom)

    @property
    def freedom(self) -> int:
        return max(self.segments - len(self.values), 1)


def _estimate(value: float, variance: float, freedom: int) -> Estimate:
    half = float(student.ppf(0.975, freedom)) * float(np.sqrt(max(variance, 0.0)))
    return Estimate(float(value), float(value) - half, float(value) + half)


def _ratio(solution: _Solution, above: int | None, below: int) -> Estimate:
    """Parameter `above` (or one) over parameter `below`, errors to first order."""
    bottom = solution.values[below]
    top = 1.0 if above is None else solution.values[above]
    gradient = np.zeros(len(solution.values))
    gradient[below] = -top / bottom**2
    if above is not None:
        gradient[above] += 1.0 / bottom
    variance = float(gradient @ solution.covariance @ gradient)
    return _estimate(top / bottom, variance, solution.freedom)


def _columns(case: _Case, drag: Callable, delay: float) -> np.ndarray:
    """Accelerations for each parameter [N, parameters, 3]: 1/μ, drag, wind x, wind y."""
    flight = case.flight
    lift = case.lift(delay)
    thrust = (lift[:, None] * flight.rotation[..., 2])[:, None, :]
    air = drag(lift, flight.velocity, flight.rotation, case.vehicle)
    wind = np.broadcast_to(np.eye(3)[:2], (len(lift), 2, 3))
    return np.concatenate([thrust, air, wind], axis=1)


def _integrated(case: _Case, columns: np.ndarray) -> list[np.ndarray]:
    """Velocities that accelerations give in each segment, without their mean [3 n, ...]."""
    found = []
    for part in case.segments:
        rows = columns[part]
        steps = 0.5 * (rows[1:] + rows[:-1]) * SAMPLE_DT
        velocity = np.concatenate([np.zeros_like(rows[:1]), np.cumsum(steps, axis=0)])
        velocity = velocity - velocity.mean(axis=0)
        found.append(np.moveaxis(velocity, 1, -1).reshape(-1, rows.shape[1]))
    return found


def _measured(case: _Case) -> list[np.ndarray]:
    """Measured velocities with gravity's share added back, without their mean [3 n]."""
    found = []
    for part in case.segments:
        velocity = np.array(case.flight.velocity[part], float)
        velocity[:, 2] += GRAVITY * (case.flight.time[part] - case.flight.time[part][0])
        found.append((velocity - velocity.mean(axis=0)).reshape(-1))
    return found


def _regression(
    cases: list[_Case],
    vehicle: Vehicle,
    drag: Callable,
    search_delay: bool,
    known_delay: float | None = None,
) -> _Solution:
    target = [y for case in cases for y in _measured(case)]

    def design(delay: float) -> list[np.ndarray]:
        return [x for case in cases for x in _integrated(case, _columns(case, drag, delay))]

    def solved(delay: float) -> tuple[float, np.ndarray, list[np.ndarray]]:
        blocks = design(delay)
        values = _least_squares(blocks, target)
        cost = sum(
            float(np.sum((y - x @ values) ** 2)) for x, y in zip(blocks, target, strict=True)
        )
        return cost, values, blocks

    delay = 0.0
    if search_delay:
        delay = known_delay if known_delay is not None else _lowest(lambda d: solved(d)[0])
    _, values, blocks = solved(delay)
    if search_delay:
        # τ as one more parameter: the change of the prediction with it.
        later, earlier = design(delay + 1e-3), design(delay - 1e-3)
        slopes = [(a - b) @ values / 2e-3 for a, b in zip(later, earlier, strict=True)]
        wide = [np.column_stack([x, s]) for x, s in zip(blocks, slopes, strict=True)]
        everything = np.append(values, delay)
    else:
        wide, everything = blocks, values
    left = [y - x @ values for x, y in zip(blocks, target, strict=True)]
    covariance = _sandwich(wide, left) + _from_stamps(cases, wide, values[0], delay)
    if search_delay:
        covariance[-1, -1] += (_LAG_SHARE * vehicle.motor_lag) ** 2
    return _Solution(everything, covariance, delay, len(values), len(target))


def _gram(blocks: list[np.ndarray]) -> np.ndarray:
    gram = np.asarray(sum(x.T @ x for x in blocks))
    # An axis that never moves is held near zero, which does not matter to the others.
    return gram + 1e-6 * np.diag(np.diag(gram)) + 1e-9 * np.eye(len(gram))


def _least_squares(blocks: list[np.ndarray], target: list[np.ndarray]) -> np.ndarray:
    moment = sum(x.T @ y for x, y in zip(blocks, target, strict=True))
    return np.linalg.solve(_gram(blocks), moment)


def _sandwich(blocks: list[np.ndarray], left: list[np.ndarray]) -> np.ndarray:
    """Covariance of the parameters from the spread between segments."""
    scores = np.stack([x.T @ r for x, r in zip(blocks, left, strict=True)])
    count, parameters = scores.shape
    inverse = np.linalg.inv(_gram(blocks))
    correction = count / max(count - parameters, 1)
    return correction * inverse @ (scores.T @ scores) @ inverse


def _from_stamps(
    cases: list[_Case], blocks: list[np.ndarray], inverse_mass: float, delay: float
) -> np.ndarray:
    """Covariance that comes from attitudes a little earlier or later than their stamps."""
    moved = []
    for case in cases:
        axis = case.flight.rotation[..., 2]
        change = np.gradient(axis, SAMPLE_DT, axis=0) * case.lift(delay)[:, None] * inverse_mass
        moved += [x[:, 0] for x in _integrated(case, change[:, None, :])]
    effect = _least_squares(blocks, moved)
    return _STAMPS**2 * np.outer(effect, effect)


def _lowest(cost: Callable[[float], float]) -> float:
    """Minimum over the delay: a coarse search, then ever finer ones."""
    low, high = _DELAYS
    for _ in range(4):
        grid = np.linspace(low, high, 11)
        best = int(np.argmin([cost(float(d)) for d in grid]))
        width = grid[1] - grid[0]
        low, high = grid[best] - width, grid[best] + width
    return float(grid[best])
