"""Time in lockstep: it goes on when everybody who takes part waits, and then at once.

The software drone keeps it (`simulator/time_keeper.py`): it moves the vehicle, and time with it, to
the earliest moment that somebody waits for. So a flight is the same on every machine, as fast as
the machine allows, and work takes no time, however long it takes.

Each thread that waits has a seat: a connection to the drone's process. It says until when it waits
and how many messages it has sent; the drone gives it a turn, and says how many messages it must
have got by now. The time itself stands in a page of memory that all of them see. Nobody waits for
ever: who has gone is not waited for, nor who hangs for many seconds (the drone's log says it), and
without the drone time goes on as the machine's own.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import select
import socket
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from lafr_mjx.errors import InputError
from lafr_mjx.hil.timing.flight_clock import FlightClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lafr_mjx.hil.timing.flight_clock import Counted

START_S = 1000.0
"""Where it begins; a moment of 0 means never."""

_NAME = b"LAFRSTEP"
_PAGE = 16  # bytes: the name, then the time
_STILL_S = 1.0  # so often who waits looks whether those it waits for are still there
_ARRIVE_S = 1.0  # real: the longest that a message is on its way before it counts as lost
_ONE_LOOK_S = 0.005  # of that, at most, from look to look: a machine that stands still loses none
_REACH_S = 30.0  # real: the longest that the wire may take to be complete
_LOOK_S = 0.0001


class _Seat:
    """A thread's place: what it has been told, and what it has said."""

    def __init__(self, folder: Path, role: str, node: Counted | None) -> None:
        self.node = node
        self._number, self._buffer, self._still = 0, b"", 0.0
        self._lost, self._due = 0, 0
        self._drone = ""  # name of its node
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._sock.connect(str(folder / "door"))
        self._sock.settimeout(_STILL_S)
        hello = {"role": role, "pid": os.getpid(), "node": node.name if node else ""}
        self._sock.sendall(json.dumps(hello).encode() + b"\n")

    def turn(self, until: float, still: Callable[[], bool]) -> bool:
        """Wait until this moment at most; whether a turn has come. Raises when time has ended."""
        self._number += 1
        sent = self.node.frames_to(self._drone) if self.node else 0
        self._sock.sendall(f"{self._number} {until!r} {sent}\n".encode())
        while True:
            line = self._line(still)
            if not line:
                return False
            number, due, *name = line.split()
            if name:
                self._drone = name[0].decode()
            if int(number) == self._number:  # else of a wait that was interrupted
                self._arrive(int(due))
                return True

    def _line(self, still: Callable[[], bool]) -> bytes:
        while b"\n" not in self._buffer:
            try:
                data = self._sock.recv(4096)
            except TimeoutError:
                if still():
                    return b""
                continue
            if not data:
                raise ConnectionError("the software drone has gone")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _arrive(self, due: int) -> None:
        """Wait until so many messages of the drone's have come."""
        if self.node is None:
            return
        if due < self._due:
            self._lost = 0  # a connection has ended, and with it what it counted
        # What counted as lost and came late after all is not lost.
        self._lost = min(self._lost, max(0, due - self.node.frames_from(self._drone)))
        self._due, waited, looked = due, 0.0, time.monotonic()
        while (missing := due - self._lost - self.node.frames_from(self._drone)) > 0:
            before, looked = looked, time.monotonic()
            waited += min(looked - before, _ONE_LOOK_S)
            if waited > _ARRIVE_S:
                self._lost += missing
                return
            time.sleep(_LOOK_S)

    def close(self) -> None:
        self._sock.close()


class Lockstep(FlightClock):
    """The time of a flight in lockstep. Each thread that waits by it takes part."""

    lockstep = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            with (folder / "time").open("rb") as file:
                page = mmap.mmap(file.fileno(), _PAGE, prot=mmap.PROT_READ)
        except (OSError, ValueError) as error:
            raise InputError(f"--lockstep {folder}: cannot be read: {error}") from error
        if page[: len(_NAME)] != _NAME:
            raise InputError(f"--lockstep {folder}: nobody keeps a time in it")
        self._page = memoryview(page).cast("d")
        self._mine = threading.local()
        self._gone: float | None = None  # real moment at which the drone had
        self.still: Callable[[], bool] = lambda: False
        """Called while time has stood still for a second; says whether to wait no longer."""

    @property
    def began(self) -> bool:
        """Whether time has begun to go on."""
        return self._gone is not None or self._page[1] > START_S

    def now(self) -> float:
        """Moment that never runs backwards [s]."""
        since = 0.0 if self._gone is None else time.monotonic() - self._gone
        return self._page[1] + since

    def wall(self) -> float:
        """Date [s]: flights in lockstep are all of the same one."""
        return self.now()

    def sleep_until(self, moment: float) -> None:
        """Wait until this moment."""
        while self.now() < moment:
            if not self._turn(moment):
                return

    def wait(self, event: threading.Event, until: float) -> bool:
        """Wait for an event until this moment; whether it came."""
        while not event.is_set():
            if self.now() >= until or not self._turn(until):
                return event.is_set()
        return True

    def readable(self, sources: list[int], seconds: float) -> list[int]:
        """Those of some descriptors that can be read; waits for so long."""
        self.sleep(seconds)
        return select.select(sources, [], [], 0.0)[0]

    def join(self, role: str, node: Counted | None = None) -> None:
        """Take part, once the wire is complete."""
        end = time.monotonic() + _REACH_S
        while node is not None and not node.complete and time.monotonic() < end:
            time.sleep(0.01)
        with contextlib.suppress(OSError):
            self._mine.seat = _Seat(self._folder, role, node)

    def leave(self) -> None:
        """Take part no longer."""
        seat = getattr(self._mine, "seat", None)
        if seat is not None:
            seat.close()
            self._mine.seat = None

    def _turn(self, until: float) -> bool:
        """Let others have their turn; whether ours has come."""
        if self._gone is None:
            try:
                if getattr(self._mine, "seat", None) is None:
                    self._mine.seat = _Seat(self._folder, threading.current_thread().name, None)
                seat = self._mine.seat
                if seat.node is not None:
                    seat.node.keep_up()
                return seat.turn(until, self.still)
            except OSError:
                self._gone = time.monotonic()
        time.sleep(max(0.0, min(until - self.now(), 0.005)))
        return True


@contextlib.contextmanager
def place() -> Iterator[tuple[Path, socket.socket]]:
    """A folder in memory for a time that has not begun, and the door that its keeper serves."""
    memory = "/dev/shm"
    where = memory if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(
        prefix="lafr-mjx-time-", dir=where, ignore_cleanup_errors=True
    ) as name:
        folder = Path(name)
        with (folder / "time").open("w+b") as file:
            file.write(bytes(_PAGE))
            file.flush()
            page = mmap.mmap(file.fileno(), _PAGE)
        memoryview(page).cast("d")[1] = START_S
        page[: len(_NAME)] = _NAME
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
            door.bind(str(folder / "door"))
            door.listen(16)
            yield folder, door
