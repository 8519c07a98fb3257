"""When the control loop ticks: 50 times a second, just after a new state where there is one.

The grid of due times runs at 50 Hz and is drawn slowly towards the arrival of states, so that
the state used is fresh and two samples in a row are one control interval apart. A tick never
waits longer than the window for a state that does not come.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from lafr_mjx.types import CONTROL_DT

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

WINDOW_S = 0.005
"""How long a tick waits for a state that is late: an old state would be worse than a late tick."""

AHEAD_S = 0.003
"""What is prepared for a tick is begun so long before a state may come: late, so that the
processor's caches still hold what the tick needs, and early enough to be done in time."""

_EARLY_S = 0.0025  # by which a state may come before its time
_GAIN = 0.2
_MOST_SHIFT_S = 0.0005


class Pacer:
    """Keeps the grid, and counts what was late."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.due = clock() + CONTROL_DT
        self.ticks = 0
        self.missed = 0  # ticks that were not finished when the next was due
        self.missed_in_a_row = 0  # the longest such run, in periods
        self.last_late = 0  # periods, of the last tick
        self._shift = 0.0

    def wait(self, arrival: threading.Event, prepare: Callable[[], None] = lambda: None) -> float:
        """Sleep until the next tick, prepare it just before; the moment at which it begins."""
        opens, closes = self.due - _EARLY_S, self.due + WINDOW_S
        self._sleep(opens - AHEAD_S)
        prepare()
        self._sleep(opens)
        fresh = arrival.is_set()  # one that came outside of the window
        arrival.clear()
        came = arrival.wait(max(0.0, closes - self._clock()))
        now = self._clock()
        shift = 0.0
        if came:
            shift = _GAIN * (now - self.due)
        elif fresh:
            shift = _MOST_SHIFT_S  # look for the states, a little later each time
        self._shift = min(max(shift, -_MOST_SHIFT_S), _MOST_SHIFT_S)
        return now

    def finish(self) -> int:
        """The tick is done; by how many periods it was late."""
        late = max(0, int((self._clock() - self.due) / CONTROL_DT))
        self.ticks += 1
        self.missed += late
        self.missed_in_a_row = max(self.missed_in_a_row, late)
        self.last_late = late
        # What was missed is not made up for.
        self.due += (late + 1) * CONTROL_DT + self._shift
        return late

    def _sleep(self, until: float) -> None:
        while (left := until - self._clock()) > 0.0:
            time.sleep(left)
