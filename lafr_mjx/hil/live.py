"""The live view in a terminal: state machine, ages, rates, battery, distance to each limit."""

from __future__ import annotations

import contextlib
import sys
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lafr_mjx.hil.session import Session

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
        return Group(_machine(session.mode, status), _limits(session, status), _events(session))


def _machine(mode: str, status: dict[str, Any]) -> Text:
    line = Text()
    for name in (*_ORDER, *(("guard",) if mode == "guard" else ())):
        line.append(f" {name.upper()} ", "reverse bold" if name == mode else "dim")
    line.append(f"  {status.get('stage', '')}  rung {status.get('rung', '-')}")
    if status.get("faults"):
        line.append("  " + ", ".join(status["faults"]), "bold red")
    return line


def _limits(session: Session, status: dict[str, Any]) -> Table:
    """How near each figure is to its limit."""
    limits, fence = session.profile.limits, session.profile.fence
    table = Table("", "now", "limit", title="", show_edge=False)

    def row(name: str, value: float | None, limit: float, unit: str, scale: float = 1.0) -> None:
        if value is None:
            table.add_row(name, "-", f"{scale * limit:g} {unit}")
            return
        share = value / limit
        style = "red" if share > 1.0 else "yellow" if share > 0.7 else "green"
        table.add_row(name, Text(f"{scale * value:.2f}", style), f"{scale * limit:g} {unit}")

    row("state age", status.get("state_age"), limits.state_age_s, "ms", 1e3)
    row("motion capture age", status.get("mocap_age"), limits.mocap_stale_s, "ms", 1e3)
    row("telemetry age", status.get("telemetry_age"), limits.link_s, "ms", 1e3)
    row("speed", status.get("speed"), limits.speed_mps, "m/s")
    row("tracking error", status.get("error"), limits.tracking_slow_m, "m")
    position = status.get("position")
    if position is not None:
        inside = np.minimum(np.array(position) - fence.low, fence.high - np.array(position))
        table.add_row("to the fence", f"{inside.min():.2f}", "0 m")
    voltage = status.get("voltage")
    if isinstance(voltage, float):
        table.add_row("battery", f"{voltage:.2f}", f"{limits.voltage_land_v:g} V")
    rates = status.get("rates", {})
    table.add_row("rates", " ".join(f"{k} {v:.0f}" for k, v in rates.items()), "Hz")
    table.add_row("missed deadlines", str(status.get("missed", "-")), "")
    return table


def _events(session: Session) -> Text:
    return Text("\n".join(f"{at:8.2f} s  {text}" for at, text in session.events[-8:]))
