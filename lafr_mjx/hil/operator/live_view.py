"""The live view in a terminal: state machine, ages, rates, battery, room to each limit, flights.

Where there is no terminal, each event is a line.
"""

from __future__ import annotations

import contextlib
import math
import sys
import threading
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from lafr_mjx.metrics import event_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lafr_mjx.hil.operator.session import Session

_STAGES = {
    "calibrate": "fitting the residuals",
    "plan": "planning the reference",
    "improve": "training the policy",
    "accelerate": "verifying time scales",
}
_ORDER = ("disconnected", "preflight", "armed", "takeoff", "hover", "policy", "land", "off")


@contextlib.contextmanager
def view(session: Session) -> Iterator[None]:
    """Show the session while it lasts: a table in a terminal, one line per event elsewhere."""
    if sys.stdout.isatty():
        with Live(_Page(session), console=Console(), refresh_per_second=5):
            yield
        return
    done = threading.Event()
    printed = 0

    def tell() -> None:
        nonlocal printed
        for at, text in session.events[printed:]:
            print(f"{at:8.2f} s  {text}", flush=True)
            printed += 1

    def follow() -> None:
        while not done.wait(0.1):
            tell()

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(1.0)
        tell()


class _Page:
    def __init__(self, session: Session) -> None:
        self._session = session

    def __rich__(self) -> Group:
        session = self._session
        status = session.status
        parts: list[Any] = [_machine(session.mode, status), Text(), _limits(session, status)]
        if session.table:
            parts += [Text(), _flights(session.table)]
        if session.stage:
            parts.append(Text(f"learner: {_STAGES.get(session.stage, session.stage)}", "cyan"))
        return Group(*parts, Text(), _events(session))


def _machine(mode: str, status: dict[str, Any]) -> Text:
    line = Text()
    for name in (*_ORDER, *((mode,) if mode in ("guard", "blind") else ())):
        line.append(f" {name.upper()} ", "reverse bold" if name == mode else "dim")
    line.append(f"  {status.get('stage', '')}  rung {status.get('rung', '-')}")
    if status.get("faults"):
        line.append("  " + ", ".join(status["faults"]), "bold red")
    return line


def _limits(session: Session, status: dict[str, Any]) -> Table:
    """How near each figure is to its limit: green, yellow above 70 % of it, red beyond it."""
    profile = session.profile
    limits, fence = profile.limits, profile.fence
    table = Table("", "now", "limit", "room", show_edge=False)

    def row(
        name: str, value: Any, limit: float, unit: str, *, scale: float = 1.0, least: bool = False
    ) -> None:
        if not isinstance(value, int | float) or not math.isfinite(value):
            table.add_row(name, "-", f"{scale * limit:g} {unit}", "-")
            return
        room = value - limit if least else limit - value
        share = limit / value if least and value > 0.0 else value / limit if limit else 1.0
        style = "red" if room < 0.0 else "yellow" if share > 0.7 and not least else "green"
        table.add_row(
            name, Text(f"{scale * value:.2f}", style), f"{scale * limit:g} {unit}",
            f"{scale * room:.2f}",
        )  # fmt: skip

    row("state age", status.get("state_age"), limits.state_age_s, "ms", scale=1e3)
    row("motion capture age", status.get("mocap_age"), limits.mocap_stale_s, "ms", scale=1e3)
    row("telemetry age", status.get("telemetry_age"), limits.link_s, "ms", scale=1e3)
    row("learner's silence", status.get("learner_age"), limits.learner_s, "s")
    row("speed", status.get("speed"), limits.speed_mps, "m/s")
    row("body rates", status.get("turning"), limits.rates_radps, "rad/s")
    row("tilt", status.get("tilt"), limits.tilt_deg, "°")
    row("tracking error", status.get("error"), limits.tracking_slow_m, "m")
    position, velocity = status.get("position"), status.get("velocity")
    if position is not None and velocity is not None:
        row("height, at least", position[2], limits.altitude_min_m, "m", least=True)
        row("height, at most", position[2], limits.altitude_max_m, "m")
        room = -fence.excess(position, velocity)
        style = "red" if room < 0.0 else "yellow" if room < 0.5 else "green"
        table.add_row(
            "to the fence, if it stopped now", Text(f"{room:.2f}", style), "0 m", f"{room:.2f}"
        )
    row("battery, at least", status.get("voltage"), limits.voltage_land_v, "V", least=True)
    wanted = {"state": profile.pilot.state_hz, "mocap": profile.pilot.mocap_hz}
    for name, rate in status.get("rates", {}).items():
        table.add_row(f"{name} rate", f"{rate:.0f}", f"{wanted.get(name, 0.0):g} Hz", "")
    late = f"{status.get('missed', '-')} of {status.get('ticks', '-')}"
    table.add_row("missed deadlines", late, f"{limits.deadline_misses} in a row", "")
    return table


def _flights(records: list[dict[str, Any]]) -> Table:
    """The flights so far, newest last."""
    table = Table(
        "flight", "time scale", "lap s", "peak m/s", "RMSE m", "peak error m", "predicted m",
        "bound by", "event", show_edge=False,
    )  # fmt: skip

    def figure(value: Any, digits: int) -> str:
        return f"{value:.{digits}f}" if isinstance(value, int | float) else "-"

    for record in records[-15:]:
        table.add_row(
            str(record["iteration"]), figure(record["time_scale"], 3),
            figure(record["lap_time_s"], 2), figure(record["peak_speed_mps"], 2),
            figure(record["rmse_m"], 3), figure(record["peak_error_m"], 3),
            figure(record["predicted_peak_error_m"], 3), str(record["bound_by"]), event_in(record),
        )  # fmt: skip
    return table


def _events(session: Session) -> Text:
    return Text("\n".join(f"{at:8.2f} s  {text}" for at, text in session.events[-8:]))
