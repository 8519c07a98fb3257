"""Single samples that cannot be: flipped bits, lost markers, another body for one frame.

A sample of a state is compared with the straight line between its neighbours. What no vehicle
can do between three samples, and what is far beyond the signal's own liveliness, is an outlier.
Any signal has outliers by size alone, if a value is out of all proportion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from lafr_mjx.logs.raw_log import Signal

# Allowed distance from the neighbours' line: constant, times dt, times dt².
_ALLOWED = {
    "position": (0.03, 0.0, 250.0),  # m; 500 m/s²
    "velocity": (0.5, 100.0, 0.0),  # m/s; a jump of the acceleration by 200 m/s²
    "rates": (5.0, 1000.0, 0.0),  # rad/s
}
_LIVELY = 20.0  # times the median distance
_SIZE = 50.0  # times the size that 99 of 100 samples stay below
_MOST = 0.02  # share of the samples; more are no accidents
_ROUNDS = 5  # neighbouring outliers hide each other


def outliers(where: str, signal: Signal) -> np.ndarray:
    """[N] which samples of a signal (finite, with growing stamps) cannot be."""
    time, values = signal.time, np.clip(signal.values, -1e100, 1e100)
    bad = _out_of_proportion(values)
    if where in _ALLOWED:
        for _ in range(_ROUNDS):
            kept = np.flatnonzero(~bad)
            found = kept[_apart(where, time[kept], values[kept])]
            if len(found) == 0:
                break
            bad[found] = True
    return bad


def accidents(bad: np.ndarray) -> bool:
    """Whether there are so few outliers that they may be left out."""
    return float(np.mean(bad)) <= _MOST


def _out_of_proportion(values: np.ndarray) -> np.ndarray:
    centred = np.abs(values - np.median(values, axis=0))
    usual = np.percentile(centred, 99.0, axis=0)
    return np.asarray((centred > _SIZE * usual + 10.0).any(axis=1))


def _apart(where: str, time: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Which samples stand apart from both neighbours, more than these do from theirs."""
    constant, by_dt, by_square = _ALLOWED[where]
    before, after = time[1:-1] - time[:-2], time[2:] - time[1:-1]
    share = (before / (before + after))[:, None]
    line = (1.0 - share) * values[:-2] + share * values[2:]
    distance = np.zeros(len(time))
    distance[1:-1] = np.linalg.norm(values[1:-1] - line, axis=1)
    dt = np.zeros(len(time))
    dt[1:-1] = np.maximum(before, after)
    allowed = constant + by_dt * dt + by_square * dt**2
    allowed = np.maximum(allowed, _LIVELY * float(np.median(distance)))
    highest = np.maximum(
        np.concatenate([[0.0], distance[:-1]]), np.concatenate([distance[1:], [0.0]])
    )
    return (distance > allowed) & (distance >= highest)
