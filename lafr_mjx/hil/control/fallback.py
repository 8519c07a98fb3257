"""What stands behind the policy of a leg, as the control process flies it: NumPy only.

The twin of `lafr_mjx/learner/guarded.py`, which needs JAX; a test compares the two. The clock of
the reference slows down when the vehicle departs further from it than the model predicted, and
beyond a limit of the error the last good policy takes over. Both last until the end of the leg.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lafr_mjx.control.departure import departure, slow_down_factor, window

if TYPE_CHECKING:
    from lafr_mjx.control.policy import Policy


class Trouble(NamedTuple):
    """The largest of a leg so far."""

    worst: float = 0.0  # m, error
    excess: float = 0.0  # m, of the departure over its limit

    @property
    def time_scale_factor(self) -> float:
        """By how much the reference's clock is to slow down."""
        return float(slow_down_factor(self.excess))


class Fallback(NamedTuple):
    """What stands behind the policy of a leg."""

    last_good: Policy
    slow_from: np.ndarray  # [WINDOWS] m, departure from which on the clock slows down
    error_limit: float  # m, error beyond which the last good policy flies

    def seen(
        self,
        trouble: Trouble,
        elapsed: float,
        position_error: np.ndarray,
        velocity_error: np.ndarray,
    ) -> Trouble:
        """After a look at the errors, so long after the leg's start; what is no number is worst."""
        limit = float(self.slow_from[window(elapsed)])
        gone = float(departure(position_error, velocity_error)) - limit
        error = float(np.linalg.norm(position_error))
        return Trouble(
            np.inf if np.isnan(error) else max(trouble.worst, error),
            np.inf if np.isnan(gone) else max(trouble.excess, gone),
        )

    def takes_over(self, trouble: Trouble) -> bool:
        """Whether the last good policy has the vehicle."""
        return trouble.worst > self.error_limit
