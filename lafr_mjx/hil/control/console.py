"""Lines of JSON between the operator's process and the control process, over one socket.

Neither side ever waits for the other: what does not fit is dropped, and lines are bounded.
"""

from __future__ import annotations

import contextlib
import json
import select
from typing import TYPE_CHECKING, Any

from lafr_mjx.hil.timing.flight_clock import REAL_TIME

if TYPE_CHECKING:
    import socket

    from lafr_mjx.hil.timing.flight_clock import FlightClock

_MOST_LINE = 65_536


class Console:
    """One end."""

    def __init__(self, sock: socket.socket, clock: FlightClock = REAL_TIME) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._clock = clock
        self._buffer = b""
        self._waiting = b""
        self.closed = False
        self.heard = clock.now()  # when the other side last said something

    def send(self, message: dict[str, Any]) -> None:
        """Say something; dropped if the other side does not listen."""
        line = json.dumps(message, allow_nan=True).encode() + b"\n"
        if len(self._waiting) <= _MOST_LINE:
            self._waiting += line
        self.flush()

    def flush(self) -> None:
        """Send on what waits."""
        try:
            while self._waiting:
                self._waiting = self._waiting[self._sock.send(self._waiting) :]
        except BlockingIOError:
            return
        except OSError:
            self.closed = True

    def receive(self) -> list[dict[str, Any]]:
        """What the other side has said since."""
        messages = []
        try:
            while data := self._sock.recv(65_536):
                self._buffer += data
                if len(self._buffer) > 4 * _MOST_LINE:
                    self._buffer = b""
            self.closed = True
        except BlockingIOError:
            pass
        except OSError:
            self.closed = True
        *lines, self._buffer = self._buffer.split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError, RecursionError):
                message = json.loads(line)
                if isinstance(message, dict):
                    messages.append(message)
        if messages:
            self.heard = self._clock.now()
        return messages

    def wait(self, seconds: float) -> None:
        """Until something can be read."""
        with contextlib.suppress(OSError, ValueError):
            select.select([self._sock], [], [], seconds)

    def close(self) -> None:
        """Hang up."""
        self._sock.close()
