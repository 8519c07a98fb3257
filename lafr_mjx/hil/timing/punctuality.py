"""How punctual the commands of a flight were: figures of every tick, kept for the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

_MOST_TIMES = 400_000  # ticks whose latency is kept: more than two hours


class Punctuality:
    """Latencies and gaps of the commands that were sent. Takes no new memory in flight."""

    def __init__(self) -> None:
        self.count = 0  # commands
        self._latency = np.zeros(_MOST_TIMES, np.float32)  # s, from the state's receipt to send
        self._gaps = np.zeros(_MOST_TIMES, np.float32)  # s, between commands
        self._gap_count = 0
        self._last_sent = -np.inf

    def sent(self, at: float, receipt: float) -> None:
        """A command was sent, after a state received then [s]."""
        if self.count < _MOST_TIMES:
            self._latency[self.count] = at - receipt
            self.count += 1
        gap = at - self._last_sent
        if gap < 1.0 and self._gap_count < _MOST_TIMES:
            self._gaps[self._gap_count] = gap
            self._gap_count += 1
        self._last_sent = at

    def pause(self) -> None:
        """It is not ours to send: no gap."""
        self._last_sent = -np.inf

    def begin_anew(self) -> None:
        """Forget the figures so far."""
        self.count = self._gap_count = 0

    def save(self, path: Path) -> None:
        """Write the figures."""
        np.savez(path, latency=self._latency[: self.count], gaps=self._gaps[: self._gap_count])
