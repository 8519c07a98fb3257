"""What stands behind the policy of a leg, as the control process flies it: NumPy only.

The twin of `lafr_mjx/learner/guarded.py`, which needs JAX; a test compares the two. The clock of
the reference slows down when the error is larger than the model foretold, and beyond a limit the
last good policy takes over. Both last until the end of the leg.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from lafr_mjx.control.policy import Policy

DITHER = np.array([0.6, 0.4, 0.4, 0.4])
"""Standard deviation of the dither at full strength: m/s², rad/s."""

SLOW_WITHIN_M = 0.12
"""Further error within which the clock slows down to the full."""

SLOWEST = 3.0
"""Largest factor on the time scale."""


class Fallback(NamedTuple):
    """What stands behind the policy of a leg."""

    last_good: Policy
    slow_from: float  # m, error from which on the clock slows down
    error_limit: float  # m, error beyond which the last good policy flies

    def time_scale_factor(self, worst: float) -> float:
        """By how much the reference's clock is to slow down, for the largest error so far."""
        share = min(max((worst - self.slow_from) / SLOW_WITHIN_M, 0.0), 1.0)
        return 1.0 + (SLOWEST - 1.0) * share

    def takes_over(self, worst: float) -> bool:
        """Whether the last good policy has the vehicle."""
        return not worst <= self.error_limit
