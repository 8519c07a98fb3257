"""How long this machine stands still: a bare loop on each core, before the control process.

Real-time bounds are met on a punctual machine; where the machine itself stood still, the bound is
later by as much. A vehicle's process may lose the one core and the control process the other, one
after the other: what counts is the sum. `python lateness.py FILE CORE` runs a loop and notes what
was late.
"""

import functools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PERIOD_S = 0.002
"""Of the loops: by so much at most a stall is longer than what a loop sees of it."""

WITHIN_S = 0.06
"""Stalls that follow each other in this time, three control periods, make one."""

_NOTED_S = 0.002


class BareLoop:
    """The loop in a process of its own."""

    def __init__(self, path, core):
        self.path = path
        command = [sys.executable, os.path.abspath(__file__), str(path), str(core)]
        self.process = subprocess.Popen(command)

    def stalls(self, begin, end):
        """(when it should have woken, by how much it was late) between two monotonic moments."""
        if not self.path.exists():
            return []
        lines = [line.split() for line in self.path.read_text().splitlines()]
        noted = [(float(line[0]), float(line[1])) for line in lines if len(line) == 2]
        return [(due, late) for due, late in noted if begin - late <= due <= end]

    def close(self):
        self.process.terminate()
        self.process.wait(10.0)


class AllCores:
    """A loop on each core: a virtual machine may lose one of them only."""

    def __init__(self, folder):
        self._folder = folder
        cores = sorted(os.sched_getaffinity(0))
        self.loops = [BareLoop(folder / f"lateness{core}.txt", core) for core in cores]

    def worst(self, begin, end):
        """How long [s] a core stood still within three control periods, in the worst case.

        A machine may take the processor away in one piece or in slices of a few milliseconds, one
        after the other: a tick is late by their sum.
        """
        longest = 0.0
        for loop in self.loops:
            stalls = loop.stalls(begin, end)
            for first, _ in stalls:
                near = [late for due, late in stalls if first <= due <= first + WITHIN_S]
                longest = max(longest, sum(near))
        return longest

    def away(self, begin, end):
        """How long the cores stood still in this time at most, one after the other [s]."""
        return sum(
            min(due + late, end) - max(due, begin) + PERIOD_S
            for loop in self.loops
            for due, late in loop.stalls(begin, end)
        )

    def close(self):
        for loop in self.loops:
            loop.close()
        shutil.rmtree(self._folder, ignore_errors=True)


@functools.cache
def machine():
    """The loops of this run of the tests; they end with it."""
    return AllCores(Path(tempfile.mkdtemp(prefix="lafr-mjx-lateness-")))


def main():
    from lafr_mjx.hil.realtime import freeze_garbage, keep_in_memory, prefer

    prefer(15)  # whatever the control process does, it cannot make this one late
    keep_in_memory()
    os.sched_setaffinity(0, {int(sys.argv[2])})
    freeze_garbage()
    due, parent = time.monotonic() + PERIOD_S, os.getppid()
    with open(sys.argv[1], "a", buffering=1) as file:
        while os.getppid() == parent:
            time.sleep(max(0.0, due - time.monotonic()))
            late = time.monotonic() - due
            if late > _NOTED_S:
                file.write(f"{due:.4f} {late:.5f}\n")
            due = max(due, time.monotonic()) + PERIOD_S


if __name__ == "__main__":
    main()
