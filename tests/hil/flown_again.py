"""A flight in real time that failed while the machine itself stood still is flown again.

A bare loop of the control process's priority runs on each core beside the tests. Where one of them
was late by so much that any control process must have tripped, a failure says nothing: the test
is repeated, at most twice, and the summary tells. A failure on a punctual machine stands.
"""

import tempfile
import time
from pathlib import Path

from _pytest.runner import runtestprotocol
from lateness import AllCores

REALTIME = {"test_realtime.py", "test_fault_realtime.py", "test_adaptation.py", "test_bridge.py"}
STALL_S = 0.04
"""Two control periods: late ticks in a row, which is a fault."""

ATTEMPTS = 3

stalls = []  # (test, s)
_loops = None


def protocol(item, nextitem):
    """`pytest_runtest_protocol` of the tests in real time; None for the others."""
    if item.path.name not in REALTIME:
        return None
    global _loops
    if _loops is None:
        _loops = AllCores(Path(tempfile.mkdtemp(prefix="lafr-mjx-lateness-")))
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for attempt in range(ATTEMPTS):
        begin = time.monotonic()
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        late = _loops.worst(begin, time.monotonic())
        passed = not any(report.failed for report in reports)
        if passed or late < STALL_S or attempt == ATTEMPTS - 1:
            break
        stalls.append((item.nodeid, late))
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def close():
    """End the loops."""
    if _loops is not None:
        _loops.close()
