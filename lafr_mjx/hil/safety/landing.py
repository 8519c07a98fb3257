"""When to call `land`, and when a vehicle has landed: one rule for everybody who lands it.

The first call is due at once. Whether to call again is the pilot's to say, by what is known.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from lafr_mjx.hil.drones.drone_protocol import Pilot
    from lafr_mjx.hil.safety.drone_profile import Profile

LOW_M = 0.15
"""A vehicle that has landed is lower than this, above where it stood."""

STILL_MPS = 0.2
"""... and neither rises nor sinks faster."""

LANDED_S = 0.4
"""... for so long."""

SINKING_MPS = 0.15
"""Slower than this it does not sink."""

_VAIN_CALLS = 3
_SPAN_S = 0.3  # over which a vertical speed is measured
_LEAST_SPAN_S = 0.1
_LANDING_S = 40.0  # the longest way down, if the profile's own times are not longer


def longest_landing_s(profile: Profile) -> float:
    """The longest way down: hover, guard, a landing without a known height [s]."""
    ladder = profile.ladder
    return max(_LANDING_S, ladder.hover_s + ladder.guard_s + 2.0 * ladder.land_s)


class Landing(NamedTuple):
    """What is known of the calls so far."""

    called: float = -math.inf  # when `land` was last called
    guarded: bool = False  # the guard had triggered by then
    calls: int = 0  # how often
    vain: float = math.inf  # when it was called so often that it should have come down

    def due(self, pilot: Pilot, now: float, climb: float, guarded: bool, patience_s: float) -> bool:
        """Whether to call now.

        Args:
            pilot: who is called.
            now: s.
            climb: vertical speed by motion capture [m/s]; NaN if not known.
            guarded: the pilot's guard has triggered.
            patience_s: after a call, until a vehicle that does not sink is told again.
        """
        if math.isinf(self.called):
            return True
        sinks = None if math.isnan(climb) else climb <= -SINKING_MPS
        stopped = guarded and not self.guarded
        return pilot.lands_again(now - self.called, sinks, stopped, patience_s)

    def call(self, now: float, guarded: bool) -> Landing:
        """It was called."""
        calls = self.calls + 1
        return Landing(now, guarded, calls, now if calls == _VAIN_CALLS else self.vain)


def stands(height: float | None, climb: float) -> bool:
    """Whether a vehicle is low, above where it stood, and neither rises nor sinks."""
    return height is not None and height < LOW_M and abs(climb) < STILL_MPS


class Heights:
    """Heights of motion capture over the last moments, and how fast they change."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, float]] = deque(maxlen=256)  # receipt, m

    def see(self, receipt: float, height: float) -> None:
        """A new pose."""
        seen = self._seen
        if seen and receipt - seen[-1][0] > _SPAN_S:
            seen.clear()  # after a gap it tells nothing of now
        seen.append((receipt, height))
        while receipt - seen[0][0] > _SPAN_S:
            seen.popleft()

    def climb(self) -> float:
        """Vertical speed of the newest ones [m/s]; NaN if there are too few."""
        if not self._seen:
            return math.nan
        (first, low), (last, high) = self._seen[0], self._seen[-1]
        return (high - low) / (last - first) if last - first >= _LEAST_SPAN_S else math.nan
