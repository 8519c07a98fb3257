"""The plots of the web view's panel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from lafr_mjx.view.replay import Replay
    from lafr_mjx.view.shown_flight import Flight

_BLUE, _RED, _DARK = "#0072B2", "#D55E00", "#222222"
_HEIGHT = 155  # px
_FONT = "11px sans-serif"
# There is no iteration 2.5. The list is long since a page that is not laid out yet is narrow.
_WHOLE = tuple(step * 10**power for power in range(10) for step in (1, 2, 5))


class FlightPlot:
    """Speed and error over the time of one flight, with a mark at the moment."""

    def __init__(self, gui: Any, flight: Flight) -> None:
        self._flight = flight
        self._mark = -1
        self._handle = _plot(
            gui, self._data(0), "time [s]", ("speed [m/s]", "error [m]"),
            {"label": "now", "stroke": _DARK, "width": 1, "scale": "now",
             "points": {"show": False}},
        )  # fmt: skip

    def show(self, flight: Flight, time: float) -> None:
        """Another flight, or another moment of it."""
        mark = int(np.clip(np.searchsorted(flight.time, time), 0, len(flight.time) - 1))
        if flight is not self._flight or mark != self._mark:
            self._flight, self._mark = flight, mark
            self._handle.data = self._data(mark)

    def _data(self, mark: int) -> tuple[np.ndarray, ...]:
        # The mark is a spike on a scale of its own: gaps in a line would upset its scale.
        flight = self._flight
        spike = np.zeros(len(flight.time))
        spike[mark] = 1.0
        return flight.time, flight.speed, flight.error, spike


def add_progress_plot(gui: Any, replay: Replay) -> None:
    """Peak speed and peak error over the iterations of a run."""
    flights = replay.flights
    data = (
        np.array([flight.number for flight in flights], float),
        np.array([flight.metrics.peak_speed_mps for flight in flights]),
        np.array([flight.metrics.peak_error_m for flight in flights]),
    )
    _plot(gui, data, "iteration", ("peak speed [m/s]", "peak error [m]"), ticks={"incrs": _WHOLE})


def _plot(
    gui: Any, data: tuple[np.ndarray, ...], below: str, names: tuple[str, str], *more: Any,
    ticks: dict[str, Any] | None = None,
) -> Any:  # fmt: skip
    """Two quantities with an axis each, in the colours of their lines."""
    axis = {"font": _FONT, "labelFont": _FONT, "labelSize": 18}
    left, right = names
    return gui.add_uplot(
        data,
        ({"label": below}, {"label": left, "stroke": _BLUE, "width": 2},
         {"label": right, "stroke": _RED, "width": 2, "scale": "error"}, *more),
        scales={"x": {"time": False}, "now": {"range": (0.0, 1.0)}},
        axes=(axis | {"label": below, "size": 26} | (ticks or {}),
              axis | {"stroke": _BLUE, "size": 34},
              axis | {"stroke": _RED, "scale": "error", "side": 1, "size": 50,
                      "grid": {"show": False}}),
        legend={"live": False},
        padding=(10, 0, 0, 0),  # or the uppermost number is cut
        height=_HEIGHT,
    )  # fmt: skip
