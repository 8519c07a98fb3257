"""What the operator's side knows of a flight: what the control process says, and what happened."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

from lafr_mjx.hil.timing.flight_clock import REAL_TIME

if TYPE_CHECKING:
    from pathlib import Path

    from lafr_mjx.hil.timing.flight_clock import FlightClock


class FlightRecord:
    """Status and events; events are also lines of a file."""

    def __init__(self, log: Path) -> None:
        self.status: dict[str, Any] = {}
        self.events: list[tuple[float, str]] = []
        self.refused: list[str] = []  # legs
        self.refusals: list[str] = []  # words of the operator's, each with its reason
        self.ended: dict[str, Any] | None = None
        self.priority = ""
        self.table: list[dict[str, Any]] = []  # figures of the flights so far, for the view
        self.stage = ""  # what the learner does, for the view
        self.last_said = time.monotonic()  # when the control process did
        self.clock: FlightClock = REAL_TIME
        self._log = log
        self._log.touch()
        self.begin(REAL_TIME)

    def begin(self, clock: FlightClock) -> None:
        """Events count from now on, by this clock."""
        self.clock, self._started = clock, clock.now()

    @property
    def mode(self) -> str:
        """Mode of the state machine, as last heard."""
        return str(self.status.get("mode", "disconnected"))

    def note(self, text: str) -> None:
        """Add an event to the log."""
        at = self.clock.now() - self._started
        self.events.append((at, text))
        with contextlib.suppress(OSError), self._log.open("a", encoding="utf-8") as log:
            log.write(f"{at:9.3f} s  {text}\n")

    def trouble(self) -> str:
        """What stands in the way, in one line."""
        failed = [
            f"{name} ({why})" for name, good, why in self.status.get("checks", []) if not good
        ]
        told = [text for _, text in self.events if not text.startswith("call ")]
        last = "; ".join(told[-3:])
        on_ground = self.mode in ("preflight", "disconnected")
        return ", ".join([f"mode {self.mode}", *(failed if on_ground else []), last or "no events"])

    def failed_checks(self) -> list[str]:
        """Preflight checks that are not good."""
        return [name for name, good, _ in self.status.get("checks", []) if not good]

    def take(self, message: dict[str, Any]) -> None:
        """What the control process says."""
        if isinstance(message.get("status"), dict):
            self.status = message["status"]
            self.last_said = time.monotonic()
        for text in message.get("events", []):
            self.note(str(text))
            if str(text).startswith("refused: "):
                self.refusals.append(str(text))
        if "refused" in message:
            self.refused.append(str(message["refused"]))
            self.note(f"refused: {message['refused']}")
        if "end" in message:
            self.ended = message["end"]
        if "priority" in message:
            self.priority = str(message["priority"])
            self.note(f"control process: {self.priority}")
