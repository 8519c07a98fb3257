"""Legs read back from the recording while it is still being written."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from lafr_mjx.hil.recording.bags import flights
from lafr_mjx.hil.recording.spool import Record, SpoolReader
from lafr_mjx.hil.wire.ros_messages import decode
from lafr_mjx.logs.flown_ticks import TICK, TICK_TOPIC

if TYPE_CHECKING:
    from pathlib import Path

    from lafr_mjx.hil.timing.flight_clock import FlightClock
    from lafr_mjx.types import Rollout

_TO_THE_DISK_S = 5.0  # the longest that the last records of a leg may take


class RecordedLegs:
    """Follows a spool: of a long recording only what is new is read."""

    def __init__(self, spool: Path, clock: FlightClock) -> None:
        self._spool, self._clock = spool, clock
        self._tail: SpoolReader | None = None

    def pass_over(self) -> None:
        """What was recorded so far belongs to no leg that is asked for later."""
        if self._tail is None and self._spool.exists():
            self._tail = SpoolReader(self._spool, follow=True)
        for _ in self._tail or ():
            pass

    def newest(self, number: int) -> Rollout | None:
        """The leg that was just flown; its last records may still be on their way to the disk."""
        if self._tail is None:
            return self.find(number)
        records: list[Record] = []
        self._clock.sleep(0.1)
        # A disk takes its time by the real clock.
        end, later = time.monotonic() + _TO_THE_DISK_S, False
        while not later and time.monotonic() < end:
            new = list(self._tail)
            records += new
            ticks = [record for record in new if record.topic == TICK_TOPIC]
            later = any(_leg_of(tick) != number for tick in ticks[-1:])
            if not later:
                time.sleep(0.02)
        return flights(records).get(number)

    def find(self, number: int) -> Rollout | None:
        """A leg in the whole recording."""
        return flights(SpoolReader(self._spool)).get(number)


def _leg_of(record: Record) -> int:
    return int(decode(TICK, record.data).leg)
