"""The clock that a flight runs by: real time, or slow motion or patience on the software drone.

A machine that takes the processor away for tens of milliseconds breaks off every flight in real
time, as it must. In slow motion all that flies, the software drone and whoever commands it, runs by
a clock that goes so many times slower: the processes, the wire and the safety machine are the same,
and a stall counts for so many times less. A patient clock stands still while the machine does
(`patient_time.py`): of a stall of up to 2 s next to nothing counts. Neither tells anything about
how punctual a machine is.

Both ends of the wire count from the start of the machine they share, so they agree.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lafr_mjx.errors import InputError

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable
    from pathlib import Path

MOST_SLOW = 100.0
_LEAST_PAUSE_S = 0.0002  # between two looks at a clock that stands still


@dataclass(frozen=True)
class FlightClock:
    """Moments and times of a flight, in its own seconds."""

    slow: float = 1.0
    """How many seconds of ours a second of the flight takes."""

    source: Callable[[], float] = time.monotonic
    """What it counts: the machine's own seconds, or a `PatientTime`."""

    def now(self) -> float:
        """Moment that never runs backwards [s]."""
        return self.source() / self.slow

    def wall(self) -> float:
        """Date [s since 1970]; of another clock than the real one from the machine's start on."""
        if self.slow == 1.0 and self.source is time.monotonic:
            return time.time()
        # In this order: a pause between them makes the date late, never early.
        moment = time.monotonic()
        return time.time() - moment + self.now()

    def real_s(self, seconds: float) -> float:
        """So long it takes on a real clock, if nothing stands still."""
        return seconds * self.slow

    def sleep(self, seconds: float) -> None:
        """Wait for so long, by this clock."""
        self.sleep_until(self.now() + seconds)

    def sleep_until(self, moment: float) -> None:
        """Wait until this moment."""
        least = 0.0
        while (left := moment - self.now()) > 0.0:
            time.sleep(max(self.real_s(left), least))
            least = _LEAST_PAUSE_S

    def wait(self, event: threading.Event, until: float) -> bool:
        """Wait for an event until this moment; whether it came."""
        least = 0.0
        while not event.wait(max(self.real_s(until - self.now()), least)):
            if self.now() >= until:
                return False
            least = _LEAST_PAUSE_S
        return True


REAL_TIME = FlightClock()


def flight_clock(slow: float = 1.0, patient: Path | None = None) -> FlightClock:
    """The clock of this pace, by the time that a keeper writes to this file if there is one."""
    if patient is None:
        return FlightClock(slow)
    from lafr_mjx.hil.patient_time import PatientTime

    try:
        return FlightClock(slow, PatientTime(patient))
    except (OSError, ValueError) as error:
        raise InputError(f"--patient {patient}: cannot be read: {error}") from error


def check_pace(slow: float, patient: bool = False, *, simulated: bool = True) -> None:
    """Refuse another clock than the real one where it cannot be."""
    if not (math.isfinite(slow) and 1.0 <= slow <= MOST_SLOW):
        raise InputError(f"--slow {slow}: must be a number from 1 (real time) to {MOST_SLOW:g}")
    given = f"--slow {slow:g}" if slow != 1.0 else "--patient" if patient else ""
    if given and not simulated:
        raise InputError(f"{given}: a real drone flies in real time")
