"""When a flight departs from its prediction: how much slower its clock then runs.

One source for the learner's simulated flights (JAX) and a drone's control process (NumPy).

Where something has changed, a payload for one, it shows long before the error is large: at the
start of a flight next to none is expected. So what is expected is a value for each window of
time since the start. And what counts is where the vehicle will be in a moment: the error and how
fast it grows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lafr_mjx.arrays import namespace

if TYPE_CHECKING:
    from lafr_mjx.arrays import Array

DITHER = np.array([0.6, 0.4, 0.4, 0.4], np.float32)
"""Standard deviation of the dither at full strength: m/s², rad/s."""

WINDOWS = 11
WINDOW_S = 0.15
"""Windows of time; the last one lasts until the end of the flight."""

LOOK_AHEAD_S = 0.15

SLOW_WITHIN_M = 0.12
"""Excess within which the clock slows down to the full; it stays so for the flight."""

SLOWEST = 3.0
"""Largest factor on the time scale."""


def window(elapsed: Any) -> Any:
    """Index of the window at a time since the start [s]."""
    xp = namespace(elapsed)
    return xp.clip(xp.floor(xp.asarray(elapsed) / WINDOW_S), 0, WINDOWS - 1).astype(int)


def departure(position_error: Array, velocity_error: Array) -> Any:
    """Distance from the reference [...] m, a moment ahead; of vectors [..., 3]."""
    xp = namespace(position_error)
    return xp.sqrt(xp.sum((position_error + LOOK_AHEAD_S * velocity_error) ** 2, axis=-1))


def slow_down_factor(excess: Any) -> Any:
    """Factor on the time scale, for the largest excess [m] over the limit so far."""
    xp = namespace(excess)
    return 1.0 + (SLOWEST - 1.0) * xp.clip(excess / SLOW_WITHIN_M, 0.0, 1.0)
