"""The clock that a flight runs by: real time, or for the software drone a time in lockstep.

All that flies reads moments and waits through one of these. In lockstep (`lockstep.py`) waiting is
what makes time go on, so nothing of a flight may wait in another way.
"""

from __future__ import annotations

import select
import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import threading
    from pathlib import Path

_LEAST_PAUSE_S = 0.0002


class Counted(Protocol):
    """A wire to the drone as a time in lockstep knows it: it counts messages."""

    @property
    def name(self) -> str:
        """Of our end."""
        ...

    @property
    def complete(self) -> bool:
        """Whether messages can go both ways."""
        ...

    def frames_to(self, peer: str) -> int:
        """Messages that somebody was sent."""
        ...

    def frames_from(self, peer: str) -> int:
        """Messages that somebody has sent us."""
        ...

    def keep_up(self) -> None:
        """Do what is due by the flight's clock, which may outrun the real one."""


class FlightClock:
    """Moments and times of a flight: here the machine's own."""

    lockstep = False

    def now(self) -> float:
        """Moment that never runs backwards [s]."""
        return time.monotonic()

    def wall(self) -> float:
        """Date [s since 1970]."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Wait for so long."""
        self.sleep_until(self.now() + seconds)

    def sleep_until(self, moment: float) -> None:
        """Wait until this moment."""
        while (left := moment - self.now()) > 0.0:
            time.sleep(max(left, _LEAST_PAUSE_S))

    def wait(self, event: threading.Event, until: float) -> bool:
        """Wait for an event until this moment; whether it came."""
        return event.wait(max(0.0, until - self.now()))

    def readable(self, sources: list[int], seconds: float) -> list[int]:
        """Those of some descriptors that can be read; waits for so long at most."""
        return select.select(sources, [], [], seconds)[0]

    def join(self, role: str, node: Counted | None = None) -> None:
        """Take part: from now on time waits for this thread, where it waits for anybody.

        Args:
            role: what it is called.
            node: whose messages must have arrived before time goes on.
        """

    def leave(self) -> None:
        """Take part no longer."""


REAL_TIME = FlightClock()


def flight_clock(lockstep: Path | None = None) -> FlightClock:
    """Real time, or the time that the software drone keeps in this folder."""
    if lockstep is None:
        return REAL_TIME
    from lafr_mjx.hil.timing.lockstep import Lockstep

    return Lockstep(lockstep)
