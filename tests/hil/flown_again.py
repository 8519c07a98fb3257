"""A flight in real time that failed while the machine itself stood still is flown again.

A bare loop of more than the control process's priority runs on each core beside the tests. Where
one of them was late by a control period, which may trip any control process, a failure says
nothing: the test is repeated, at most twice. If the machine stands still each time, or no time is
left for repeating, the test counts as skipped: it has shown nothing. The summary names all of
these, those that failed at the same place each time above all, and if they are more than a tenth,
the whole run fails. A failure on a punctual machine stands.
"""

import math
import os
import time

import lateness
import pytest
from _pytest.runner import runtestprotocol

REALTIME = {
    "test_realtime.py": 1.0,
    "test_fault_realtime.py": 1.0,
    "test_fault_inside.py": 1.0,
    "test_slow_motion.py": 4.0,
    "test_patient_time.py": 1.0,
}
"""Tests that need a punctual machine, and how many times slower than real time they fly."""


def stall_s(slow):
    """What a loop sees at least of a stall of a control period: a tick late by that is a fault."""
    return slow * 0.02 - lateness.PERIOD_S


ATTEMPTS = 3
_REPEATS = max(1, int(os.environ.get("LAFR_HIL_REALTIME_REPEATS", "1")))
AGAIN_S = 300.0 * _REPEATS
"""Time for repeating, of a whole run."""

ENOUGH_S = 2400.0 * _REPEATS
"""After so long the machine is hopeless: what is left is skipped, which fails the run if it is
more than a few. It should take 20 minutes, and took 25 beside something else that used all cores
(of a soak: each round of it)."""

MOST_SKIPPED = 0.1
"""Share of the tests in real time that may have shown nothing."""


class FlownAgain:
    """Repeats tests, and knows what came of it."""

    def __init__(self):
        self.repeated = []  # (test, s)
        self.skipped = []  # (test, s, whether it failed in the same way each time)
        self.count = 0
        self._left = AGAIN_S
        self._began = time.monotonic()
        self._loops = None

    def protocol(self, item, nextitem):
        """`pytest_runtest_protocol` of the tests in real time; None for the others."""
        if item.path.name not in REALTIME:
            return None
        if self._loops is None:
            self._loops = lateness.machine()
        self.count += 1
        if time.monotonic() - self._began > ENOUGH_S and self.repeated:
            item.add_marker(pytest.mark.skip(reason="no time left: the machine stood still"))
            self.skipped.append((item.nodeid, math.nan, False))
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        ways = []
        for attempt in range(ATTEMPTS):
            begin = time.monotonic()
            reports = runtestprotocol(item, nextitem=nextitem, log=False)
            took, late = time.monotonic() - begin, self._loops.worst(begin, time.monotonic())
            if not any(report.failed for report in reports):
                break
            ways.append(_way(reports))
            last = attempt == ATTEMPTS - 1 or self._left < took
            if late < stall_s(REALTIME[item.path.name]):
                break
            if last:
                same = len(ways) > 1 and len(set(ways)) == 1
                self.skipped.append((item.nodeid, late, same))
                _as_skipped(reports, item, late)
                break
            self.repeated.append((item.nodeid, late))
            self._left -= took
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    @property
    def too_many(self):
        """Whether so much was skipped that the run has not shown what it should."""
        return len(self.skipped) > max(1.0, MOST_SKIPPED * self.count)

    def lines(self):
        """What the summary says."""
        for name, late in self.repeated:
            yield f"{name}: a bare loop was late by {1e3 * late:.0f} ms, flown again"
        for name, late, same in self.skipped:
            why = f"a bare loop was late by {1e3 * late:.0f} ms again"
            way = "; IT FAILED IN THE SAME WAY EACH TIME: look at it" if same else ""
            yield f"{name}: SKIPPED, {'no time left' if math.isnan(late) else why}{way}"
        if self.too_many:
            yield f"{len(self.skipped)} of {self.count} have shown nothing: too many, it fails"

    def close(self):
        """End the loops."""
        if self._loops is not None:
            self._loops.close()


def _way(reports):
    """Where a test failed."""
    places = [getattr(report.longrepr, "reprcrash", None) for report in reports if report.failed]
    return tuple((place.path, place.lineno) for place in places if place is not None)


def _as_skipped(reports, item, late):
    reason = f"the machine stood still: a bare loop was late by {1e3 * late:.0f} ms"
    for report in reports:
        if report.failed:
            report.outcome = "skipped"
            report.longrepr = (str(item.path), item.location[1] or 0, reason)
