"""The vehicle's clock seen from ours: when a sample was taken, on the monotonic clock.

Only the monotonic clock is used for control. A stamp of the vehicle is mapped onto it by the
smallest difference between receipt and stamp that was seen lately: that of a message with the
least delay. A message that is later than that is an old one; one that seems to come before it
means that the vehicle's clock has jumped.
"""

from __future__ import annotations

import math
from typing import NamedTuple

_BUCKET_S = 5.0  # clocks drift by less than 1 ms in this time
_RECENT = 20  # messages; if all of them are late, it is the clock
_REMEMBERED_S = 0.5  # a jump is told for so long, for not every message is looked at
_NOISE_S = 0.002  # least differences vary by so much


class ClockMap(NamedTuple):
    """Memory of the map."""

    smallest: float = math.inf  # receipt - stamp, in the present bucket
    before: float = math.inf  # in the last one
    started: float = -math.inf  # of the present bucket
    recent: tuple[float, ...] = ()
    jump: float = 0.0  # s, the last one
    jumped: float = -math.inf  # when
    receipt: float = -math.inf

    def seen(self, receipt: float, stamp: float) -> ClockMap:
        """After one more message."""
        difference = receipt - stamp
        if math.isinf(self.started):
            return ClockMap(difference, difference, receipt, (difference,), receipt=receipt)
        offset = self.offset
        recent = (*self.recent, difference)[-_RECENT:]
        forward = offset - difference
        backward = offset - min(recent) if len(recent) == _RECENT else 0.0
        jump, jumped = self.jump, self.jumped
        if forward > _NOISE_S:
            jump, jumped = forward, receipt
        elif backward < -_NOISE_S:
            jump, jumped = backward, receipt
        smallest, before, started = min(self.smallest, difference), self.before, self.started
        if receipt - started > _BUCKET_S:
            smallest, before, started = difference, smallest, receipt
        return ClockMap(smallest, before, started, recent, jump, jumped, receipt)

    @property
    def skew(self) -> float:
        """By how much the vehicle's clock has jumped lately [s]."""
        return self.jump if self.receipt - self.jumped < _REMEMBERED_S else 0.0

    @property
    def offset(self) -> float:
        """Add it to a stamp to have the moment on our clock (without the least delay)."""
        return min(self.smallest, self.before)
