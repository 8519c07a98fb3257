"""How late this machine wakes a bare 50 Hz loop of the control process's priority.

Real-time bounds are met on a punctual machine; where the machine itself was late, the bound is
later by as much. `python lateness.py FILE [CORE]` runs the loop and notes what was late.
"""

import os
import subprocess
import sys
import time

_NOTED_S = 0.002


class BareLoop:
    """The loop in a process of its own."""

    def __init__(self, path, core=None):
        self.path = path
        command = [sys.executable, os.path.abspath(__file__), str(path)]
        self.process = subprocess.Popen(command + ([str(core)] if core is not None else []))

    def worst(self, begin, end):
        """Longest lateness [s] of the ticks that were due between two monotonic moments."""
        if not self.path.exists():
            return 0.0
        lines = [line.split() for line in self.path.read_text().splitlines()]
        found = [float(s) for t, s in lines if begin - 0.1 <= float(t) <= end]
        return max(found, default=0.0)

    def close(self):
        self.process.terminate()
        self.process.wait(10.0)


class AllCores:
    """A loop on each core: a virtual machine may lose one of them only."""

    def __init__(self, folder):
        cores = sorted(os.sched_getaffinity(0))
        self.loops = [BareLoop(folder / f"lateness{core}.txt", core) for core in cores]

    def worst(self, begin, end):
        """Longest lateness [s] on any core."""
        return max(loop.worst(begin, end) for loop in self.loops)

    def close(self):
        for loop in self.loops:
            loop.close()


def main():
    from lafr_mjx.hil.realtime import freeze_garbage, prefer

    prefer()
    if len(sys.argv) > 2:
        os.sched_setaffinity(0, {int(sys.argv[2])})
    freeze_garbage()
    due, parent = time.monotonic() + 0.02, os.getppid()
    with open(sys.argv[1], "a", buffering=1) as file:
        while os.getppid() == parent:
            time.sleep(max(0.0, due - time.monotonic()))
            late = time.monotonic() - due
            if late > _NOTED_S:
                file.write(f"{due:.4f} {late:.5f}\n")
            due = max(due, time.monotonic()) + 0.02


if __name__ == "__main__":
    main()
