"""Ask the system for punctual service; without the right to it, go on as well as possible."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import math
import os
import resource
import sys
import threading
import time
from pathlib import Path

_MCL_CURRENT, _MCL_FUTURE = 1, 2
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
_CAP_IPC_LOCK = 1 << 14
_STACK_BYTES = 1 << 20
_MOST_ROUNDS, _BUFFER_MB = 12, 16.0

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""Else matrix products wait for helper threads, which have no raised priority."""


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
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, niceness)
    leave_control_core()


def leave_control_core() -> None:
    """Keep off the control process's core, if there is another one."""
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


def keep_in_memory() -> bool:
    """Keep all of this process in memory, now and later; whether that was granted.

    A page of code that was not used for a while may otherwise have to be read from the disk in
    the middle of a tick. To be called before threads are started: their stacks count, too.
    """
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(None, use_errno=True)
        # What was allocated once is kept for the next time instead of being given back.
        library.mallopt(_M_MMAP_MAX, 0)
        library.mallopt(_M_TRIM_THRESHOLD, 1 << 30)
        if _may_lock():
            threading.stack_size(_STACK_BYTES)
            return library.mlockall(_MCL_CURRENT | _MCL_FUTURE) == 0
    return False


def reserve_matrix_memory(threads: int, seconds: float = 0.1) -> None:
    """Have the matrix library allocate now what so many threads need at the same time.

    It keeps 32 MB for each product that is computed while others are, and takes them from the
    system when that first happens. In locked memory that takes 100 ms, which the control loop would
    be late by when a policy is tried beside it. All threads compute for so many seconds together,
    until that takes no more memory. To be called with ordinary priority: in real time threads on
    one core do not take turns.
    """
    import numpy as np

    together = threading.Barrier(threads)

    def work() -> None:
        matrix = np.ones((600, 600), np.float32)
        together.wait()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            matrix @ matrix

    held, rounds, calm = memory_mb(os.getpid()), 0, 0
    while calm < 2 and rounds < _MOST_ROUNDS:
        workers = [threading.Thread(target=work) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        before, held, rounds = held, memory_mb(os.getpid()), rounds + 1
        calm = calm + 1 if not held > before + _BUFFER_MB else 0


def _may_lock() -> bool:
    """Whether there is no limit: with one, an allocation in flight could fail later on."""
    if resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] == resource.RLIM_INFINITY:
        return True
    with contextlib.suppress(OSError, ValueError, StopIteration):
        with open("/proc/self/status", encoding="ascii") as file:
            granted = next(line.split()[1] for line in file if line.startswith("CapEff:"))
        return bool(int(granted, 16) & _CAP_IPC_LOCK)
    return False


def memory_mb(process: int) -> float:
    """Memory that a process holds now [MB]; NaN if unknown."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        pages = int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
    return math.nan


def freeze_garbage(*, collect_later: bool = False) -> None:
    """What is there now stays; no collection by itself, or of what comes later only."""
    gc.collect()
    gc.freeze()
    if not collect_later:
        gc.disable()
