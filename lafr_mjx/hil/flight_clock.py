"""The clock that a flight runs by: real time, or slow motion on the software drone.

A machine that takes the processor away for tens of milliseconds breaks off every flight in real
time, as it must. In slow motion all that flies, the software drone and whoever commands it, runs by
a clock that goes so many times slower: the processes, the wire and the safety machine are the same,
and a stall counts for so many times less. It tells nothing about how punctual a machine is.

Both ends of the wire count from the start of the machine they share, so they agree.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from lafr_mjx.errors import InputError

MOST_SLOW = 100.0


@dataclass(frozen=True)
class FlightClock:
    """Moments and times of a flight, in its own seconds."""

    slow: float = 1.0
    """How many seconds of ours a second of the flight takes."""

    def now(self) -> float:
        """Moment that never runs backwards [s]."""
        return time.monotonic() / self.slow

    def wall(self) -> float:
        """Date [s since 1970]; in slow motion it runs from the machine's start at its own pace."""
        if self.slow == 1.0:
            return time.time()
        # In this order: a pause between the two makes the date late, never early.
        moment = time.monotonic()
        return time.time() - moment + moment / self.slow

    def real_s(self, seconds: float) -> float:
        """So long it takes on a real clock."""
        return seconds * self.slow

    def sleep(self, seconds: float) -> None:
        """Wait for so long, by this clock."""
        time.sleep(max(0.0, self.real_s(seconds)))


REAL_TIME = FlightClock()


def check_slow(slow: float, *, simulated: bool = True, bridge: bool = False) -> None:
    """Refuse slow motion where it cannot be."""
    if not (math.isfinite(slow) and 1.0 <= slow <= MOST_SLOW):
        raise InputError(f"--slow {slow}: must be a number from 1 (real time) to {MOST_SLOW:g}")
    if slow != 1.0 and not simulated:
        raise InputError(f"--slow {slow:g}: a real drone flies in real time")
    if slow != 1.0 and bridge:
        raise InputError(f"--slow {slow:g}: behind a rosbridge the drone flies in real time")
