"""The phase clock: how the phase of the path runs with time, ds/dt = ramp(t) / α.

A flight starts at rest: the phase rate is ramped up smoothly. The time scale α may change in
flight: the tempo 1/α then follows its target through a critically damped second-order filter,
so that the phase rate and its derivative never jump. The tempo stays a weighted mean of past
targets, so it can neither overshoot all of them nor turn negative.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from lafr_mjx.arrays import namespace
from lafr_mjx.plain_numbers import namespace_or_plain

if TYPE_CHECKING:
    from lafr_mjx.arrays import Array

RAMP_S = 1.5
"""Default time in which a flight along a closed path comes up to speed [s]."""

SMOOTHING_S = 0.4
"""Default time constant of a change of the time scale [s]."""

MIN_FLIGHT_S = 8.0
"""Shortest flight [s]: a fast vehicle flies more than one lap."""

# Boole's rule on [0, 1]: nodes at quarters, exact up to degree 5.
_BOOLE = (7.0 / 90.0, 32.0 / 90.0, 12.0 / 90.0, 32.0 / 90.0, 7.0 / 90.0)


class Clock(NamedTuple):
    """State of the phase clock; all fields have the same (batch) shape.

    They may also be Python floats, all of them: see `plain`.
    """

    phase: Array  # s, of the path
    elapsed: Array  # s, since the start of the flight
    tempo: Array  # 1/α in force
    tempo_rate: Array  # 1/s, its derivative
    time_scale: Array  # α that the tempo is going to
    ramp_s: Array  # s, duration of the ramp; 0 starts at full rate (rest-to-rest paths)
    smoothing_s: Array  # s, time constant of the tempo


def start(
    time_scale: Array | float,
    ramp_s: Array | float = RAMP_S,
    smoothing_s: Array | float = SMOOTHING_S,
    phase: Array | float = 0.0,
) -> Clock:
    """Clock at the start of a flight; the arguments broadcast against each other."""
    xp = namespace(time_scale, ramp_s, smoothing_s, phase)
    given = (xp.asarray(x, dtype=float) for x in (phase, time_scale, ramp_s, smoothing_s))
    phases, scales, ramps, smoothings = xp.broadcast_arrays(*given)
    zero = xp.zeros_like(phases)
    return Clock(phases, zero, 1.0 / scales, zero, scales, ramps, smoothings)


def flight_s(time_scale: Array | float, lap_s: Array | float, ramp_s: Array | float) -> Array:
    """Duration of a flight [s]: the ramp and one lap, `MIN_FLIGHT_S` at least."""
    xp = namespace_or_plain(time_scale, lap_s, ramp_s)
    return xp.maximum(MIN_FLIGHT_S, ramp_s + time_scale * lap_s)


def plain(clock: Clock) -> Clock:
    """The same single clock in Python floats: many times faster to advance without JAX."""
    fields: list[Any] = [float(field) for field in clock]
    return Clock(*fields)


def with_time_scale(clock: Clock, time_scale: Array | float) -> Clock:
    """The clock with a new target of the time scale, approached from now on."""
    xp = namespace_or_plain(*clock, time_scale)
    return clock._replace(time_scale=xp.asarray(time_scale) + xp.zeros_like(clock.phase))


def advance(clock: Clock, dt: Array | float) -> Clock:
    """The clock `dt` seconds later (or earlier, but never before the start)."""
    xp = namespace_or_plain(*clock, dt)
    dt = xp.maximum(xp.asarray(dt), -clock.elapsed)
    elapsed = clock.elapsed + dt
    # T² x'' + 2 T x' + x = 1/α has the solution x = 1/α + (offset + slope t) exp(-t/T).
    target = 1.0 / clock.time_scale
    offset = clock.tempo - target
    slope = clock.tempo_rate + offset / clock.smoothing_s
    quarter_decay = xp.exp(-0.25 * dt / clock.smoothing_s)
    decay = xp.ones_like(quarter_decay)
    # ∫ ramp · tempo: closed form for the target's part, quadrature for the decaying rest.
    rest = xp.zeros_like(quarter_decay)
    for i, weight in enumerate(_BOOLE):
        decay = decay * quarter_decay if i else decay
        moment = 0.25 * i * dt
        ramp, _, _ = _ramp(clock.elapsed + moment, clock.ramp_s)
        rest = rest + weight * ramp * (offset + slope * moment) * decay
    steady = _ramp_integral(elapsed, clock.ramp_s) - _ramp_integral(clock.elapsed, clock.ramp_s)
    return clock._replace(
        phase=clock.phase + target * steady + dt * rest,
        elapsed=elapsed,
        tempo=target + (offset + slope * dt) * decay,
        tempo_rate=(clock.tempo_rate - slope * dt / clock.smoothing_s) * decay,
    )


def rates(clock: Clock) -> tuple[Array, Array, Array]:
    """First to third derivative of the phase with respect to time, by the product rule."""
    ramp, ramp1, ramp2 = _ramp(clock.elapsed, clock.ramp_s)
    tempo, tempo1 = clock.tempo, clock.tempo_rate
    offset = tempo - 1.0 / clock.time_scale
    tempo2 = -(2.0 * tempo1 + offset / clock.smoothing_s) / clock.smoothing_s
    rate = ramp * tempo
    acceleration = ramp1 * tempo + ramp * tempo1
    jerk = ramp2 * tempo + 2.0 * ramp1 * tempo1 + ramp * tempo2
    return rate, acceleration, jerk


def shifted(clock: Clock, offset_s: Array | float) -> tuple[Array, Array, Array, Array]:
    """Phase and its three derivatives `offset_s` from now, never before the start.

    Into the past, the present target of the time scale is taken to have held all along: 30 ms
    back over a change of the tempo by 1 this errs by less than 0.03 ms of phase.
    """
    # The frequent case of no offset is known before any array is touched.
    at_once = isinstance(offset_s, float) and offset_s == 0.0
    moved = clock if at_once else advance(clock, offset_s)
    return (moved.phase, *rates(moved))


def _ramp(elapsed: Array, ramp_s: Array) -> tuple[Array, Array, Array]:
    """Quintic smoothstep from 0 to 1 and its first two derivatives with respect to time."""
    xp = namespace_or_plain(elapsed, ramp_s)
    # Past its end, and everywhere if it has no duration, the ramp is 1.
    during = elapsed < ramp_s
    safe = xp.where(ramp_s > 0.0, ramp_s, xp.ones_like(ramp_s))
    x = xp.where(during, elapsed / safe, xp.ones_like(elapsed))
    value = x * x * x * (10.0 + x * (6.0 * x - 15.0))
    first = 30.0 * x * x * (1.0 - x) * (1.0 - x) / safe
    second = 60.0 * x * (1.0 - x) * (1.0 - 2.0 * x) / (safe * safe)
    return value, first, second


def _ramp_integral(elapsed: Array, ramp_s: Array) -> Array:
    """∫ ramp from the start to `elapsed`."""
    xp = namespace_or_plain(elapsed, ramp_s)
    safe = xp.where(ramp_s > 0.0, ramp_s, xp.ones_like(ramp_s))
    x = xp.where(elapsed < ramp_s, elapsed / safe, xp.ones_like(elapsed))
    during = ramp_s * x * x * x * x * (2.5 + x * (x - 3.0))
    return during + xp.maximum(elapsed - ramp_s, 0.0)
