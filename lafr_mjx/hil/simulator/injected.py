"""Faults that can be injected: by time on the command line, or by a message from a test.

mocap-drop@12:0.5        at 12 s, for 0.5 s
mocap-jump@5:1:0.8       at 5 s, for 1 s, by 0.8 m
link-loss@+0:2           from now (in a message), for 2 s
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from lafr_mjx.errors import InputError

KINDS = {
    "mocap-drop": (
        None,
        "motion capture sends nothing; the estimator guesses on",
    ),
    "mocap-freeze": (None, "motion capture repeats its last pose with fresh stamps"),
    "mocap-jump": (0.5, "motion capture is off by so many metres along x"),
    "latency": (0.1, "state and motion capture come so many seconds later"),
    "nan": (None, "the state's position is not a number"),
    "voltage": (13.0, "the battery shows so many volts"),
    "battery-stop": (None, "no battery's topic; the pilot's telemetry says 15.5 V for ever"),
    "link-loss": (None, "nothing gets through in either direction"),
    "motor-weak": (0.5, "the first rotor gives that share of its thrust"),
    "clock-jump": (0.5, "the vehicle's clock is off by so many seconds"),
    "telemetry-stop": (None, "the pilot's telemetry and state stop"),
    "pilot-hang": (None, "the pilot gives no commands to the bridge"),
    "unsubscribe": (None, "the pilot drops its connection for commands; calls still arrive"),
    "guard": (None, "the pilot's guard triggers by itself"),
    "tilt": (100.0, "the reported attitude is rolled by so many degrees"),
    "outside": (8.0, "the reported position is off by so many metres along y"),
    "reorder": (None, "every second state is one that was sent before, or an older one"),
}
"""Kinds with the value that is taken if none is given, and what they do."""

_PATTERN = re.compile(r"([a-z-]+)@(\+?)([0-9.]+)(?::([0-9.]+)(?::(-?[0-9.]+))?)?")


class Injected(NamedTuple):
    """One fault."""

    kind: str
    start: float  # s since the drone's start
    end: float
    value: float


def parse(text: str, now: float = 0.0) -> Injected:
    """Read `KIND@START[:DURATION[:VALUE]]`; a START with + counts from now."""
    match = _PATTERN.fullmatch(text.strip())
    if text.strip().partition("@")[0] not in KINDS:
        raise InputError(
            f"--fault '{text[:80]}': must be KIND@START[:DURATION[:VALUE]] with a kind of "
            f"{', '.join(KINDS)}"
        )
    if match is None:
        raise InputError(
            f"--fault '{text[:80]}': must be KIND@START[:DURATION[:VALUE]], start and duration in "
            f"seconds, from 0 to 1e6"
        )
    kind, relative, start, duration, value = match.groups()
    try:
        begin = float(start) + (now if relative else 0.0)
        length = math.inf if duration is None else float(duration)
        default = KINDS[kind][0]
        amount = (default if default is not None else 0.0) if value is None else float(value)
    except ValueError as error:
        raise InputError(f"--fault '{text[:80]}': {error}") from error
    if not begin <= 1e6 or not abs(amount) <= 1e6:
        raise InputError(f"--fault '{text[:80]}': its numbers must be below 1e6")
    return Injected(kind, begin, begin + length, amount)


class Injector:
    """Which faults are on now."""

    def __init__(self, faults: list[Injected] | None = None) -> None:
        self._faults = list(faults or [])

    def add(self, fault: Injected) -> None:
        """Inject one more; old ones that are over are forgotten."""
        self._faults = [*[f for f in self._faults if f.end > fault.start - 60.0][-100:], fault]

    def value(self, kind: str, now: float) -> float | None:
        """Its value if that fault is on, else None."""
        for fault in reversed(self._faults):
            if fault.kind == kind and fault.start <= now < fault.end:
                return fault.value
        return None

    def on(self, kind: str, now: float) -> bool:
        """Whether that fault is on."""
        return self.value(kind, now) is not None
