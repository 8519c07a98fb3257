"""How late this machine wakes a bare 50 Hz loop of the control process's priority.

Real-time bounds are met on a punctual machine; where the machine itself was late, the bound is
later by as much. `python lateness.py FILE` runs the loop and notes what was late.
"""

import os
import subprocess
import sys
import time

_NOTED_S = 0.002


class BareLoop:
    """The loop in a process of its own."""

    def __init__(self, path):
        self.path = path
        self.process = subprocess.Popen([sys.executable, os.path.abspath(__file__), str(path)])

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


def main():
    from lafr_mjx.hil.realtime import freeze_garbage, prefer

    prefer()
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
