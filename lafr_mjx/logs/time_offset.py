"""How much later the attitude turns than its input says: a time offset, by the best match.

For commanded rates this is the lag of the vehicle, and the model learns it. For measured rates
(gyroscope) it is a difference of clocks or filters, and the log is shifted. The thrust's lag
cannot be matched like this, since drag and manoeuvres move with it: see `model/identify`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lafr_mjx.logs.flight_log import turn_rates
from lafr_mjx.logs.resample import interval_means
from lafr_mjx.logs.smoothing import moving_mean
from lafr_mjx.types import SAMPLE_DT

if TYPE_CHECKING:
    from lafr_mjx.logs.flight_log import FlightLog
    from lafr_mjx.logs.raw_log import Signal

_EARLIEST, _LATEST, _STEP = -0.06, 0.15, 0.003  # s
_COARSE = 4  # steps of the first, coarse search
_MOST_SAMPLES = 6000  # a minute says enough
_SMOOTH_S = 0.07
_LEAST_MOTION = 0.02  # rad/s: RMS change of the rates below which nothing is said


def rates_offset(log: FlightLog, start: int, stop: int) -> float | None:
    """Seconds by which the attitude follows the rates in samples [start, stop), if the log says.

    Without an attitude: by which the measured rates follow the commanded ones.
    """
    clock = log.start + log.time
    given = log.raw.rate_command if log.commanded else log.raw.rates
    part = np.zeros(len(clock), bool)
    part[start:stop] = True
    part &= log.usable
    if given is None:
        return None
    if log.rotation is not None:
        turns = np.zeros((len(clock), 3))
        turns[:-1] = turn_rates(log.rotation)
        return _best(turns, given, clock, part)
    if log.commanded and log.rates is not None:
        return _best(log.rates, given, clock - 0.5 * SAMPLE_DT, part)
    return None


def _best(response: np.ndarray, given: Signal, clock: np.ndarray, part: np.ndarray) -> float | None:
    """The offset for which the smoothed input, scaled, leaves the least of the response."""
    # Yaw is left out: it moves little, and its command often saturates.
    given = given._replace(values=given.values[:, :2])
    first = int(np.argmax(part))
    window = slice(first, first + _MOST_SAMPLES)
    response, clock, part = response[window, :2], clock[window], part[window]
    width = max(3, round(_SMOOTH_S / SAMPLE_DT) | 1)
    inner = np.convolve(part, np.ones(width), mode="same") > width - 0.5
    if inner.sum() < 50:
        return None
    target = moving_mean(np.nan_to_num(response), width)[inner]
    target = target - target.mean(axis=0)
    good = np.isfinite(given.values).all(axis=1)
    given = given._replace(time=given.time[good], values=given.values[good])

    def left_over(offset: float) -> float:
        x = moving_mean(interval_means(given, clock - offset), width)[inner]
        x = x - x.mean(axis=0)
        if np.sqrt(np.mean(x**2)) < _LEAST_MOTION:
            return np.inf
        gain = np.sum(x * target, axis=0) / np.maximum(np.sum(x * x, axis=0), 1e-9)
        return float(np.sum((target - gain * x) ** 2))

    count = round((_LATEST - _EARLIEST) / _STEP)
    values: dict[int, float] = {}

    def lowest(steps: range) -> int:
        for i in steps:
            if i not in values:
                values[i] = left_over(_EARLIEST + _STEP * i)
        return min(values, key=lambda i: values[i])

    near = lowest(range(0, count + 1, _COARSE))
    i = lowest(range(max(near - _COARSE, 0), min(near + _COARSE, count) + 1))
    if not np.isfinite(values[i]) or i in (0, count):
        return None
    if values[i] > 0.9 * float(np.sum(target**2)):
        return None  # the input explains nothing: any offset would be noise
    bend = values[i - 1] - 2.0 * values[i] + values[i + 1]
    shift = 0.5 * (values[i - 1] - values[i + 1]) / bend if bend > 0.0 else 0.0
    return float(_EARLIEST + _STEP * (i + shift))
