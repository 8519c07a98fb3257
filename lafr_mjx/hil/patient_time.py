"""Time that stands still while the machine does, the same one for all processes of a flight.

A keeper beats on each core (`time_keeper.py`). While a core does not beat, it stands still, for
instance because a machine below this one has taken it away; then time stands still for everybody,
and goes on when all cores do. A simulator that waits for whoever commands it does the same. Of a
stall at most `ALLOWED_S` counts, and is given back: a machine may take a core away for many short
moments in a row.

Nothing waits for ever: after `MOST_STILL_S` time goes on at `LEAST_PACE` at least, whatever the
keeper does or does not.
"""

from __future__ import annotations

import mmap
import struct
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

BEAT_S = 0.001
ALLOWED_S = 0.0025
"""So long time goes on without a beat of a core."""

MOST_STILL_S = 2.0
LEAST_PACE = 0.25
"""No machine stands still for longer. If it seems so, somebody else is the cause: the keeper has
died, a core beats no more, or the machine's timers are too coarse for beats."""

_PUNCTUAL_S = 0.0005  # a beat is on time if it is not later than this
_RUNS = 0.5  # real pace that says that all is well
_MAGIC = b"LAFRTIME"
_COUNT, _SLOT = struct.Struct("=Q"), struct.Struct("=5d")
_COUNT_AT = len(_MAGIC)
_SLOTS_AT = _COUNT_AT + _COUNT.size
PAGE_SIZE = _SLOTS_AT + 2 * _SLOT.size


class Stretch(NamedTuple):
    """How time runs from a beat on, until the next one is known. All by the monotonic clock."""

    time: float  # s, patient time at the beat
    since: float  # s, when it goes on: at the beat, or later if something is to be given back
    until: float  # s, time goes so far without a further one
    least: float  # s, patient time ...
    least_since: float  # s, ... from which it goes on at the least pace in any case

    def at(self, moment: float) -> float:
        """Patient time at a moment after the beat."""
        runs = max(0.0, min(moment, self.until) - self.since)
        least = self.least + LEAST_PACE * max(0.0, moment - self.least_since)
        return max(self.time + runs, least)


class Beats:
    """What is known of all cores: the next stretch follows from each beat."""

    def __init__(self, cores: list[int], moment: float) -> None:
        self._last = dict.fromkeys(cores, moment)
        self._time = dict.fromkeys(cores, moment)  # patient time of a core's last beat
        self._moment = moment  # of the last beat of any
        self._owed = 0.0  # s, to be given back
        self._well = (moment, moment)  # moment and patient time when it last ran as it should
        self.stretch = self._next(moment, moment)

    def beat(self, core: int, moment: float) -> Stretch:
        """A core has beaten."""
        now = self.stretch.at(moment)
        # Only while all cores run does standing still give anything back.
        self._owed -= min(self._owed, max(0.0, min(moment, self.stretch.until) - self._moment))
        late = now - self._time[core] - BEAT_S
        if late > _PUNCTUAL_S:
            counted = min(late, ALLOWED_S)
            self._owed += counted
            for other in self._time:  # what is given back once is given back to all
                self._time[other] += counted
        if now - self._well[1] >= _RUNS * (moment - self._well[0]):
            self._well = (moment, now)
        self._moment, self._last[core], self._time[core] = moment, moment, now
        self.stretch = self._next(moment, now)
        return self.stretch

    def _next(self, moment: float, now: float) -> Stretch:
        until = min(self._last.values()) + ALLOWED_S
        well, at_it = self._well
        return Stretch(now, moment + self._owed, until, at_it, well + MOST_STILL_S)


class PatientPage:
    """The keeper's side: stretches as it writes them to its file."""

    def __init__(self, file: Path) -> None:
        file.write_bytes(bytes(PAGE_SIZE))
        with file.open("r+b") as page:
            self._page = mmap.mmap(page.fileno(), PAGE_SIZE)
        self._count = 0
        self._page[: len(_MAGIC)] = _MAGIC

    def write(self, stretch: Stretch) -> None:
        """From now on time runs so."""
        count = self._count + 1
        _SLOT.pack_into(self._page, _SLOTS_AT + (count & 1) * _SLOT.size, *stretch)
        _COUNT.pack_into(self._page, _COUNT_AT, count)
        self._count = count


class PatientTime:
    """Everybody's side: call it to know the seconds. It never runs backwards and never waits."""

    def __init__(self, file: Path) -> None:
        with file.open("rb") as page:
            self._page = mmap.mmap(page.fileno(), PAGE_SIZE, prot=mmap.PROT_READ)
        if self._page[: len(_MAGIC)] != _MAGIC:
            raise ValueError("nobody keeps a patient time in it")
        self._latest = 0.0

    def __call__(self) -> float:
        """Patient time of this moment [s]."""
        page = self._page
        while True:
            (count,) = _COUNT.unpack_from(page, _COUNT_AT)
            stretch = _SLOT.unpack_from(page, _SLOTS_AT + (count & 1) * _SLOT.size)
            # The keeper never writes to the slot that counts; twice it may have come round to it.
            if _COUNT.unpack_from(page, _COUNT_AT)[0] == count:
                break
        # A beat is known a little after its moment: until then time may have run on a little.
        self._latest = max(self._latest, Stretch(*stretch).at(time.monotonic()))
        return self._latest

    @property
    def stood_still_s(self) -> float:
        """How long it has done so by now."""
        return time.monotonic() - self()
