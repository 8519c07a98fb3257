"""The panel beside the scene: figures, buttons, sliders and plots."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np

from lafr_mjx.metrics import event_in
from lafr_mjx.view.decorations import legend, speed_colour
from lafr_mjx.view.player import SPEEDS
from lafr_mjx.view.web.browser_plots import FlightPlot, add_progress_plot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lafr_mjx.view.player import Player
    from lafr_mjx.view.shown_flight import Moment

_UPDATE_EVERY_S = 0.15
_SWATCH = "display:inline-block;width:16px;height:8px;margin-right:5px;border:1px solid #999"
_ROWS = "display:flex;flex-wrap:wrap;gap:2px 12px;font-size:12px;padding:0 12px 6px"
_QUIET_S = 5.0  # s, in which a plot is left alone after a visitor has arrived


class Panel:
    """Buttons, sliders and plots beside the scene."""

    def __init__(self, server: Any, player: Player, top_speed: float) -> None:
        self._player = player
        self._updated = self._quiet_until = 0.0
        self._index = -1
        gui = server.gui
        self._text = gui.add_markdown("")
        self._legend = gui.add_html("")
        self._top_speed = top_speed
        titles = tuple(f"{i}: {_title(player, i)}" for i in range(player.count))
        self._flight = gui.add_dropdown("Flight", titles, initial_value=titles[0])
        self._play = gui.add_button("Pause")
        self._time = gui.add_slider("Time [s]", 0.0, player.duration, 0.02, 0.0)
        speeds = tuple(f"{s:g}" for s in SPEEDS)
        nearest = min(SPEEDS, key=lambda s: abs(s - player.speed))
        self._speed = gui.add_dropdown("Speed", speeds, initial_value=f"{nearest:g}")
        self._follow = gui.add_checkbox("Follow the drone", initial_value=False)
        self._ghost = gui.add_checkbox("Reference drone", initial_value=True)
        self._corridor = gui.add_checkbox(
            "Corridor around the task's path", initial_value=True,
            visible=any(f.planned is not None for r in player.replays for f in r.flights),
        )  # fmt: skip
        # Beside another run, the plots are those of the first.
        first, *others = player.replays
        whose = f" · {first.name}" if others else ""
        with gui.add_folder(f"This flight{whose}"):
            self._plot = FlightPlot(gui, player.flights[0])
        if player.count > 1:
            with gui.add_folder(f"All flights{whose}"):
                add_progress_plot(gui, first)
        self._play.on_click(lambda _: self._toggle())
        self._flight.on_update(lambda e: self._by_visitor(e, self._choose))
        self._time.on_update(lambda e: self._by_visitor(e, self._seek))
        self._speed.on_update(lambda e: self._by_visitor(e, self._set_speed))
        self._follow.on_update(lambda e: self._by_visitor(e, self._set_follow))

    @property
    def ghost(self) -> bool:
        """Whether the reference drone is wanted."""
        return bool(self._ghost.value)

    @property
    def corridor(self) -> bool:
        """Whether the room around the task's path is wanted."""
        return bool(self._corridor.value)

    def welcome(self, _: Any) -> None:
        """A page that gets new data while it is laid out would lose the numbers of its axis."""
        self._quiet_until = time.monotonic() + _QUIET_S

    def update(self, moments: Sequence[Moment]) -> None:
        """Show the figures of the moment, a few times a second."""
        if self._index != self._player.index:
            self._show_flight()
        now = time.monotonic()
        if now - self._updated < _UPDATE_EVERY_S:
            return
        self._updated = now
        if now > self._quiet_until:
            self._plot.show(self._player.flights[0], moments[0].time)
        for handle, name, value in (
            (self._time, "value", round(min(self._player.time, self._time.max), 2)),
            (self._play, "label", "Play" if self._player.paused else "Pause"),
            (self._text, "content", _metrics(self._player, moments)),
            (self._legend, "content", self._colours(moments)),
        ):
            if getattr(handle, name) != value:
                setattr(handle, name, value)

    def _colours(self, moments: Sequence[Moment]) -> str:
        """What the colours of trail, lines and gates mean, as HTML."""
        rows = "".join(
            f'<span style="white-space:nowrap"><span style="{_SWATCH};background:'
            f'{mpl.colors.to_hex(rgba)};opacity:{0.4 if rgba[3] < 0.5 else 1}"></span>{name}</span>'
            for name, rgba in legend(self._player.flights, moments)
        )
        return _colour_scale(self._top_speed) + f'<div style="{_ROWS}">{rows}</div>'

    def _show_flight(self) -> None:
        self._index = self._player.index
        self._time.max = max(round(self._player.duration, 2), 0.02)
        self._flight.value = self._flight.options[self._index]

    def _by_visitor(self, event: Any, act: Any) -> None:
        # What we set ourselves must not come back as if a visitor had asked for it.
        if event.client is not None:
            act()

    def _toggle(self) -> None:
        self._player.paused = not self._player.paused

    def _choose(self) -> None:
        self._player.choose(list(self._flight.options).index(self._flight.value))

    def _seek(self) -> None:
        self._player.paused = True
        self._player.seek(float(self._time.value))

    def _set_speed(self) -> None:
        self._player.speed = float(self._speed.value)

    def _set_follow(self) -> None:
        self._player.follow = bool(self._follow.value)


def _title(player: Player, index: int) -> str:
    flights = player.replays[0].flights
    flight = flights[min(index, len(flights) - 1)]
    event = event_in(vars(flight.metrics))
    title = f"{flight.title}, {flight.metrics.peak_speed_mps:.1f} m/s"
    return f"{title}, {event}" if event else title


def _metrics(player: Player, moments: Sequence[Moment]) -> str:
    lines = []
    for replay, flight, moment in zip(player.replays, player.flights, moments, strict=True):
        state = f" · **{moment.event}**" if moment.event else ""
        title = "" if replay.name.endswith(flight.title) else f" · {flight.title}"
        lines += [
            f"**{replay.name}**{title}{state}",
            "",
            "| speed | error | lap | time scale | wind |",
            "|---|---|---|---|---|",
            f"| {moment.speed:.1f} m/s | {moment.error:.2f} m | {int(moment.lap) + 1} "
            f"| {moment.time_scale:.2f} | {np.linalg.norm(moment.wind):.1f} m/s |",
            "",
        ]
    return "\n".join(lines)


def _colour_scale(top_speed: float) -> str:
    """What the colours of the trail mean, as HTML."""
    shares = np.linspace(0.0, 1.0, 9)
    colours = (mpl.colors.to_hex(speed_colour(share, 1.0)) for share in shares)
    blend = f"linear-gradient(90deg,{','.join(colours)})"
    bar = f"flex:1;height:9px;border-radius:4px;background:{blend}"
    return (
        '<div style="display:flex;align-items:center;gap:8px;font-size:12px;padding:0 12px 8px">'
        f'<span>trail: 0</span><span style="{bar}"></span><span>{top_speed:.1f} m/s</span></div>'
    )
