"""Ask the system for punctual service; without the right to it, go on as well as possible."""

from __future__ import annotations

import contextlib
import gc
import math
import os
import sys
from pathlib import Path


def prefer(priority: int = 10, *, own_core: bool = False) -> str:
    """Raise the calling thread, and those that it starts later; what was granted.

    Args:
        priority: of real time.
        own_core: stay on the core that the learner keeps off. There the caches stay warm, and a
            machine below this one, which sees an idle core, lends it at once when it is needed.
    """
    if own_core:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, _last_core())
    # A thread that has the interpreter gives it up after this time when another wants it.
    sys.setswitchinterval(0.0001)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
        return f"real time (SCHED_FIFO {priority})"
    except OSError:
        pass
    try:
        os.nice(-10)
        return "priority raised (nice -10)"
    except OSError:
        return "ordinary priority"


def prefer_operator() -> None:
    """Put this process before ordinary ones, if that is allowed: master and console live in it."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, -5)


def step_back(niceness: int) -> None:
    """Put this process behind all others, off the control process's core."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, niceness)
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, os.sched_getaffinity(0) - _last_core())


def _last_core() -> set[int]:
    """The last of at least two cores that this process may use; none if there is but one."""
    cores = sorted(os.sched_getaffinity(0))
    return set(cores[-1:]) if len(cores) > 1 else set()


def background() -> None:
    """Put the calling thread just behind the others of this process.

    Not lower: a thread that holds the interpreter's lock and is not run, since another process
    has a priority between the two, holds up the control loop, whatever the loop's own is.
    """
    with contextlib.suppress(OSError):
        if os.sched_getscheduler(0) == os.SCHED_FIFO:
            lower = max(1, os.sched_getparam(0).sched_priority - 1)
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(lower))


def stolen_s() -> float:
    """Time that the machine below has taken from all cores since the start [s]; 0 if unknown."""
    with contextlib.suppress(OSError, ValueError, IndexError), open("/proc/stat", "rb") as file:
        return int(file.readline().split()[8]) / os.sysconf("SC_CLK_TCK")
    return 0.0


def memory_mb(process: int) -> float:
    """Memory that a process holds now [MB]; NaN if unknown."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        pages = int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
    return math.nan


def freeze_garbage() -> None:
    """No collection in flight by itself: what is there now stays."""
    gc.collect()
    gc.freeze()
    gc.disable()
