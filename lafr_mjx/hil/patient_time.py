"""Time that stands still while the machine does, the same one for all processes of a flight.

    python -m lafr_mjx.hil.patient_time FILE

runs the keeper: a thread on each core, before all others, that beats every millisecond. While a
core does not beat, it stands still, for instance because a machine below this one has taken it
away; then time stands still for everybody, and goes on when all cores do. A simulator that waits
for whoever commands it does the same. Of a stall at most `ALLOWED_S` counts, and is given back: a
machine may take a core away for many short moments in a row.

The keeper writes to a file in memory, and whoever flies by its time reads it there (`PatientTime`).
If the keeper itself has died, time goes on: nothing may wait for ever for it.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import struct
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lafr_mjx.hil.realtime import freeze_garbage, keep_in_memory

if TYPE_CHECKING:
    from collections.abc import Iterator

BEAT_S = 0.001
ALLOWED_S = 0.0025
"""So long time goes on without a beat of a core."""

_PUNCTUAL_S = 0.0005  # a beat is on time if it is not later than this

DEAD_S = 2.0
"""No machine stands still for longer: after that the keeper is taken for dead."""

_PRIORITY = 30  # before the control process (10) and the emergency stop (20)
_ORPHAN_S = 300.0  # who started it may have died, and the vehicle still be in the air
_COUNT, _SLOT = struct.Struct("=Q"), struct.Struct("=ddd")
_SIZE = _COUNT.size + 2 * _SLOT.size


class Stretch(NamedTuple):
    """How time runs from a beat on, until the next one is known. All by the monotonic clock."""

    time: float  # s, patient time at the beat
    since: float  # s, when it goes on: at the beat, or later if something is to be given back
    until: float  # s, time goes so far without a further one

    def at(self, moment: float) -> float:
        """Patient time at a moment after the beat."""
        runs = max(0.0, min(moment, self.until) - self.since)
        return self.time + runs + max(0.0, moment - max(self.until, self.since) - DEAD_S)


class Beats:
    """What is known of all cores: the next stretch follows from each beat."""

    def __init__(self, cores: list[int], moment: float) -> None:
        self._last = dict.fromkeys(cores, moment)
        self._time = dict.fromkeys(cores, moment)  # patient time of a core's last beat
        self._moment = moment  # of the last beat of any
        self._owed = 0.0  # s, to be given back
        self.stretch = Stretch(moment, moment, moment + ALLOWED_S)

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
        self._moment, self._last[core], self._time[core] = moment, moment, now
        until = min(self._last.values()) + ALLOWED_S
        self.stretch = Stretch(now, moment + self._owed, until)
        return self.stretch


class PatientTime:
    """Reads the time; call it to know the seconds. It never runs backwards and never waits."""

    def __init__(self, file: Path) -> None:
        with file.open("rb") as page:
            self._page = mmap.mmap(page.fileno(), _SIZE, prot=mmap.PROT_READ)

    def __call__(self) -> float:
        """Patient time of this moment [s]."""
        page = self._page
        while True:
            (count,) = _COUNT.unpack_from(page)
            stretch = _SLOT.unpack_from(page, _COUNT.size + (count & 1) * _SLOT.size)
            # The keeper never writes to the slot that counts; twice it may have come round to it.
            if _COUNT.unpack_from(page)[0] == count:
                return Stretch(*stretch).at(time.monotonic())

    @property
    def stood_still_s(self) -> float:
        """How long it has done so by now."""
        return time.monotonic() - self()


class Keeper:
    """Keeps the time in a file until it is told to stop."""

    def __init__(self, file: Path, stopping: threading.Event) -> None:
        self._stopping = stopping
        self._cores = sorted(os.sched_getaffinity(0))
        self._beats = Beats(self._cores, time.monotonic())
        self._lock = threading.Lock()
        self._count = 0
        part = file.with_suffix(".part")
        part.write_bytes(bytes(_SIZE))
        with part.open("r+b") as page:
            self._page = mmap.mmap(page.fileno(), _SIZE)
        self._write(self._beats.stretch)
        self._threads = [
            threading.Thread(target=self._beat, args=(core,), daemon=True) for core in self._cores
        ]
        for thread in self._threads:
            thread.start()
        part.rename(file)  # whole from the first moment

    def _write(self, stretch: Stretch) -> None:
        count = self._count + 1
        _SLOT.pack_into(self._page, _COUNT.size + (count & 1) * _SLOT.size, *stretch)
        _COUNT.pack_into(self._page, 0, count)
        self._count = count

    def _beat(self, core: int) -> None:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, {core})
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))
        while not self._stopping.is_set():
            time.sleep(BEAT_S)
            with self._lock:
                self._write(self._beats.beat(core, time.monotonic()))


@contextlib.contextmanager
def place() -> Iterator[Path]:
    """A file in memory for a keeper: one on a disk could hold it up."""
    memory = "/dev/shm"
    where = memory if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="lafr-mjx-time-", dir=where) as folder:
        yield Path(folder) / "time"


def main() -> None:
    """Keep the time until SIGTERM, or long after who started it has gone."""
    keep_in_memory()
    sys.setswitchinterval(0.0001)
    parent, orphan_since = os.getppid(), None
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    Keeper(Path(sys.argv[1]), stopping)
    freeze_garbage()
    while not stopping.wait(1.0):
        if os.getppid() != parent:
            orphan_since = orphan_since or time.monotonic()
            if time.monotonic() - orphan_since > _ORPHAN_S:
                return


if __name__ == "__main__":
    main()
