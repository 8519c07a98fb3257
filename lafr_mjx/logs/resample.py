"""From signals with their own stamps to one uniform clock, with gaps marked.

States are interpolated by cubics. A command holds until the next one; what the model gets is
its mean over each interval, so that a change inside an interval counts for its share. Measured
inputs (gyroscope, rotor speeds) are taken as straight lines between their samples.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.interpolate import CubicSpline

from lafr_mjx import so3
from lafr_mjx.errors import InputError
from lafr_mjx.logs.flight_log import FlightLog
from lafr_mjx.logs.raw_log import MIN_SAMPLES, RawLog, Signal, checked
from lafr_mjx.logs.smoothing import continuous, differentiate
from lafr_mjx.types import SAMPLE_DT

if TYPE_CHECKING:
    from collections.abc import Mapping

_GAP_SHARE, _GAP_S = 2.5, 0.035  # of the median interval; at least so long
_HELD_GAP_S = 0.11  # s; flight controllers drop a command that is older
_STATE = ("position", "velocity", "quaternion", "rates")


def uniform(log: RawLog, rates_shift: float = 0.0) -> FlightLog:
    """The log on a 100 Hz clock; the rates are read so many seconds later than their stamps.

    Raises:
        InputError: a signal cannot be used, or they do not overlap.
    """
    notes = list(log.notes)
    signals: dict[str, Signal] = {}
    for where, signal in log.signals().items():
        signals[where], said = checked(log, where, signal)
        notes += said
    commanded = "rate_command" in signals
    _require(log, signals)
    clock = _clock(log, signals)
    usable = np.ones(len(clock), bool)
    for low, high in log.bad:
        usable &= ~((clock >= low) & (clock <= high))
    for where, signal in signals.items():
        usable &= ~_in_gap(signal, clock)
        notes += _gap_notes(where, signal, clock)

    def at(where: str) -> np.ndarray | None:
        return _interpolated(signals[where], clock) if where in signals else None

    position, velocity, quaternion = at("position"), at("velocity"), at("quaternion")
    if velocity is None and position is not None:
        velocity = differentiate(position, SAMPLE_DT, usable)
        lost = usable & ~np.isfinite(velocity).all(axis=-1)
        usable = usable & ~lost
        notes.append("velocity: missing, estimated from the positions (zero-phase, local cubic)")
    rotation = None
    if quaternion is not None:
        rotation = np.asarray(so3.quaternion_to_matrix(so3.normalise(quaternion)))
    rates_in = signals["rate_command" if commanded else "rates"]
    rates = interval_means(rates_in, clock + rates_shift)
    thrust = np.full((len(clock), 1), np.nan)
    if "thrust" in signals:
        thrust = interval_means(signals["thrust"], clock)
    if usable.sum() < MIN_SAMPLES:
        raise InputError(
            f"{log.path}: only {usable.sum() * SAMPLE_DT:.2f} s are usable after gaps were taken "
            f"out; at least {MIN_SAMPLES * SAMPLE_DT:g} s are needed"
        )
    return FlightLog(
        raw=replace(log, **signals),
        time=SAMPLE_DT * np.arange(len(clock)),
        usable=usable,
        position=position,
        velocity=velocity,
        rotation=rotation,
        rates=at("rates"),
        command=np.concatenate([thrust, rates], axis=1),
        commanded=commanded,
        start=float(clock[0]),
        notes=tuple(notes),
    )


def _require(log: RawLog, signals: Mapping[str, Signal]) -> None:
    if "rates" not in signals and "rate_command" not in signals:
        raise InputError(f"{log.path}: has neither commanded nor measured body rates")
    complete = all(name in signals for name in ("position", "quaternion", "thrust"))
    only_rates = "rates" in signals and "rate_command" in signals
    if not complete and not only_rates:
        missing = [n for n in ("position", "quaternion", "thrust") if n not in signals]
        raise InputError(
            f"{log.path}: {', '.join(missing)} missing; a fit needs position, attitude, thrust "
            "and body rates, or at least commanded and measured body rates"
        )


def _clock(log: RawLog, signals: Mapping[str, Signal]) -> np.ndarray:
    start = max(signal.time[0] for signal in signals.values())
    stop = min(signal.time[-1] for signal in signals.values())
    if stop - start < MIN_SAMPLES * SAMPLE_DT:
        spans = "; ".join(
            f"{name} ('{s.name}') {s.time[0]:.3f} to {s.time[-1]:.3f} s"
            for name, s in signals.items()
        )
        raise InputError(
            f"{log.path}: the signals overlap for {max(stop - start, 0.0):.2f} s only; at least "
            f"{MIN_SAMPLES * SAMPLE_DT:g} s are needed ({spans})"
        )
    # The clock ticks with the samples of the state, so that those are taken as they are.
    leader = next(signals[name] for name in _STATE if name in signals)
    first = float(leader.time[np.searchsorted(leader.time, start - 1e-9)])
    count = int(np.floor((stop - first) / SAMPLE_DT + 0.05)) + 1
    return first + SAMPLE_DT * np.arange(count)


def _threshold(signal: Signal) -> float:
    median = float(np.median(np.diff(signal.time)))
    return max(_GAP_SHARE * median, _HELD_GAP_S if signal.held else _GAP_S)


def _in_gap(signal: Signal, clock: np.ndarray) -> np.ndarray:
    """[N] whether a sample of the clock lies strictly inside a gap of the signal."""
    following = np.clip(np.searchsorted(signal.time, clock - 1e-6), 1, len(signal.time) - 1)
    width = signal.time[following] - signal.time[following - 1]
    inside = (clock > signal.time[following - 1] + 1e-6) & (clock < signal.time[following] - 1e-6)
    if signal.held:  # the command is good for a while after it came
        inside &= clock > signal.time[following - 1] + _HELD_GAP_S
    return inside & (width > _threshold(signal))


def _gap_notes(where: str, signal: Signal, clock: np.ndarray) -> list[str]:
    width = np.diff(signal.time)
    wide = np.flatnonzero(width > _threshold(signal))
    wide = wide[(signal.time[wide] < clock[-1]) & (signal.time[wide + 1] > clock[0])]
    if len(wide) == 0:
        return []
    longest = wide[np.argmax(width[wide])]
    return [
        f"{where}: {len(wide)} gaps, {width[wide].sum():.2f} s together, the longest "
        f"{width[longest]:.2f} s at {signal.time[longest] - clock[0]:.2f} s"
    ]


def _interpolated(signal: Signal, clock: np.ndarray) -> np.ndarray:
    values = signal.values
    if signal.values.shape[1] == 4:  # of the two signs of a quaternion the nearer one
        values = continuous(values)
    inside = np.clip(clock, signal.time[0], signal.time[-1])
    # Time from the start: splines of large stamps lose digits.
    return CubicSpline(signal.time - signal.time[0], values)(inside - signal.time[0])


def interval_means(signal: Signal, start: np.ndarray) -> np.ndarray:
    """Means [N, n] of the signal over 10 ms from each start on."""
    origin = signal.time[0]
    time = signal.time - origin
    step = np.diff(time)[:, None]
    values = signal.values
    pieces = values[:-1] * step if signal.held else 0.5 * (values[:-1] + values[1:]) * step
    area = np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(pieces, axis=0)])

    def integral(at: np.ndarray) -> np.ndarray:
        index = np.clip(np.searchsorted(time, at, side="right") - 1, 0, len(time) - 1)
        past = (at - time[index])[:, None]
        slope = np.zeros_like(values[index])
        inner = index < len(time) - 1
        if not signal.held:
            nxt = np.minimum(index + 1, len(time) - 1)
            width_here = np.where(inner, time[nxt] - time[index], 1.0)[:, None]
            slope = np.where(inner[:, None], (values[nxt] - values[index]) / width_here, 0.0)
            slope = np.where(past < 0.0, 0.0, slope)
        return area[index] + values[index] * past + 0.5 * slope * past**2

    begin = start - origin
    return (integral(begin + SAMPLE_DT) - integral(begin)) / SAMPLE_DT
