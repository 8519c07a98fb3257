"""When the control loop ticks: 50 times a second, just after a new state where there is one.

The grid of due times runs at 50 Hz and is drawn slowly towards the arrival of states, so that
the state used is fresh and two samples in a row are one control interval apart. A tick never
waits longer than the window for a state that does not come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lafr_mjx.hil.timing.flight_clock import REAL_TIME
from lafr_mjx.types import CONTROL_DT

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from lafr_mjx.hil.timing.flight_clock import FlightClock

WINDOW_S = 0.005
"""How long a tick waits for a state that is late: an old state would be worse than a late tick."""

EARLY_S = 0.005
"""By which a state may come before its time; half the time between two if they come faster. With
the window it makes 10 ms: whatever has moved the states of a vehicle at 100 Hz, one of them comes
in it, and no tick uses the one before."""

AHEAD_S = 0.003
"""What a tick needs is prepared so long before its state is expected: late, so that the
processor's caches still hold it, and early enough to be done in time."""

_GAIN = 0.2
_MOST_SHIFT_S = 0.0005


class Pacer:
    """Keeps the grid, and counts what was late."""

    def __init__(self, state_hz: float = 100.0, clock: FlightClock = REAL_TIME) -> None:
        self._clock = clock
        self._early = min(EARLY_S, 0.5 / state_hz)
        self.due = clock.now() + CONTROL_DT
        self.ticks = 0
        self.missed = 0  # ticks that were not finished when the next was due
        self.missed_in_a_row = 0  # the longest such run, in periods
        self._shift = 0.0

    def wait(self, arrival: threading.Event, prepare: Callable[[], None] = lambda: None) -> float:
        """Sleep until the next tick, prepare it just before; the moment at which it begins."""
        opens, closes = self.due - self._early, self.due + WINDOW_S
        self._clock.sleep_until(opens)
        fresh = arrival.is_set()  # one that came outside of the window
        arrival.clear()
        came = self._clock.wait(arrival, self.due - AHEAD_S)
        if not came:
            prepare()
            came = self._clock.wait(arrival, closes)
        now = self._clock.now()
        shift = 0.0
        if came:
            shift = _GAIN * (now - self.due)
        elif fresh:
            shift = _MOST_SHIFT_S  # look for the states, a little later each time
        self._shift = min(max(shift, -_MOST_SHIFT_S), _MOST_SHIFT_S)
        return now

    def finish(self) -> int:
        """The tick is done; by how many periods it was late."""
        late = max(0, int((self._clock.now() - self.due) / CONTROL_DT))
        self.ticks += 1
        self.missed += late
        self.missed_in_a_row = max(self.missed_in_a_row, late)
        # What was missed is not made up for.
        self.due += (late + 1) * CONTROL_DT + self._shift
        return late
