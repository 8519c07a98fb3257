"""Where a period of the control loop went, part by part, to say why a tick was late."""

from __future__ import annotations

import time

_SHORT_S = 0.001  # parts that took no longer are not told


class SpentTime:
    """Parts of the period that goes on, in real time, each with the loop's own work in it.

    A part that took long without work was spent waiting: for its time, for the interpreter, which
    another thread of this process had, or for the system.
    """

    def __init__(self) -> None:
        self._parts: list[tuple[str, float, float]] = []
        self._moment, self._worked = time.monotonic(), time.thread_time()

    def begin(self) -> None:
        """Begin a period."""
        self._parts.clear()
        self._moment, self._worked = time.monotonic(), time.thread_time()

    def end(self, part: str) -> None:
        """A part has ended here; the next one begins."""
        moment, worked = time.monotonic(), time.thread_time()
        self._parts.append((part, moment - self._moment, worked - self._worked))
        self._moment, self._worked = moment, worked

    def told(self) -> str:
        """The parts that took long, e.g. "record 31.0 ms (0.2 working)"."""
        return ", ".join(
            f"{name} {1e3 * took:.1f} ms ({1e3 * worked:.1f} working)"
            for name, took, worked in self._parts
            if took > _SHORT_S
        )
