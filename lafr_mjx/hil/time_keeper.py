"""The process that keeps a patient time: it beats every millisecond on each core.

    python -m lafr_mjx.hil.time_keeper FILE PARENT

Its threads come before everything else on their cores, so a beat that does not come means that
the core itself stands still. What follows from the beats is in `patient_time.py`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from lafr_mjx.hil.patient_time import BEAT_S, Beats, PatientPage
from lafr_mjx.hil.realtime import freeze_garbage, keep_in_memory

if TYPE_CHECKING:
    from collections.abc import Iterator

_PRIORITY = 30  # before the control process (10) and the emergency stop (20)
_MOST_CORES = 8  # more threads than that would wait for each other
_ORPHAN_S = 90.0  # who started it may have died, and the vehicle still be in the air


class Keeper:
    """Keeps the time in a file until it is told to stop."""

    def __init__(self, file: Path, stopping: threading.Event) -> None:
        # The last ones: the control process has the last of them for itself.
        cores = sorted(os.sched_getaffinity(0))[-_MOST_CORES:]
        self._stopping = stopping
        self._lock = threading.Lock()
        part = file.with_suffix(".part")
        self._page = PatientPage(part)
        self._beats = Beats(cores, time.monotonic())
        self._page.write(self._beats.stretch)
        for core in cores:
            threading.Thread(target=self._beat, args=(core,), daemon=True).start()
        part.rename(file)  # whole from the first moment

    def _beat(self, core: int) -> None:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, {core})
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))
        while not self._stopping.is_set():
            time.sleep(BEAT_S)
            with self._lock:
                self._page.write(self._beats.beat(core, time.monotonic()))


@contextlib.contextmanager
def place() -> Iterator[Path]:
    """A file in memory for a keeper: one on a disk could hold it up."""
    memory = "/dev/shm"
    where = memory if os.access(memory, os.W_OK) else None
    folder = tempfile.TemporaryDirectory(
        prefix="lafr-mjx-time-", dir=where, ignore_cleanup_errors=True
    )
    with folder as path:
        yield Path(path) / "time"


def main() -> None:
    """Keep the time until SIGTERM, or for a while after who started it has gone."""
    file, parent = Path(sys.argv[1]), int(sys.argv[2])
    keep_in_memory()
    sys.setswitchinterval(0.0001)
    stopping, orphan_since = threading.Event(), None
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    try:
        Keeper(file, stopping)
        freeze_garbage()
        while not stopping.wait(1.0):
            if os.getppid() != parent:
                orphan_since = orphan_since or time.monotonic()
                if time.monotonic() - orphan_since > _ORPHAN_S:
                    return
    finally:
        # Who started it does so, too, if it still can.
        file.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            file.parent.rmdir()


if __name__ == "__main__":
    main()
