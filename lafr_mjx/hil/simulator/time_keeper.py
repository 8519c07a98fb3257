"""The drone's clock: real time, or a time that goes on when all who take part wait.

Those who take part connect to the folder's `door` and say in lines of text who they are (in JSON:
role, pid, node), then each time that they wait: a number, until when, and how many messages they
have sent to us. A line back is their turn: that number, how many of our messages they must have
got, and the name of our node. The time stands in the folder's page `time`, after a name of 8
bytes, as a double.

Written apart from the client's side, as the wire is.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import mmap
import socket
import time
from typing import TYPE_CHECKING

from lafr_mjx.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from lafr_mjx.hil.simulator.drone_node import DroneNode

FIRST = ("control", "stop", "beat", "operator")
"""Who must be there before time begins; turns are given in this order."""

_HANGS_S = 10.0  # real: so long a turn may take
_THINKS_S = 120.0  # real: the operator's, in whose process somebody's own program may run
_BEGINS_S = 120.0  # real: then it begins without who is missing
_LOOKS_S = 0.5
_LEAST_S = 1e-4  # by so much time goes on at least from turn to turn
_ARRIVES_S = 1.0  # real: the longest that a message is on its way before it counts as lost
_ONE_LOOK_S = 0.005  # of that, at most, from look to look


class RealTime:
    """The machine's own time."""

    def now(self) -> float:
        """This moment [s]."""
        return time.monotonic()


class _Seat:
    """One who takes part."""

    def __init__(self, role: str, pid: int, node: str, writer: asyncio.StreamWriter) -> None:
        self.role, self.pid, self.node, self.writer = role, pid, node, writer
        self.number, self.until, self.sent = 0, math.inf, 0
        self.waits = self.lost = self.gone = False
        self.told = 0  # how many of ours it must have got
        self.missing = 0  # of its own, lost
        self.spoke = asyncio.Event()

    @property
    def order(self) -> tuple[int, str]:
        """By which turns are given."""
        return (FIRST.index(self.role) if self.role in FIRST else len(FIRST), self.role)


class TimeKeeper:
    """Keeps a time in lockstep."""

    def __init__(self, folder: Path, door: int) -> None:
        try:
            with (folder / "time").open("r+b") as file:
                self._page = memoryview(mmap.mmap(file.fileno(), 16)).cast("d")
            self._door = socket.socket(fileno=door)
        except (OSError, ValueError) as error:
            raise InputError(f"--lockstep {folder}: cannot be opened: {error}") from error
        self._seats: list[_Seat] = []
        self.node: DroneNode | None = None

    def now(self) -> float:
        """This moment [s]."""
        return self._page[1]

    async def begin(self, stop: asyncio.Event) -> None:
        """Serve the door, and wait for all who must be there."""
        self._server = await asyncio.start_unix_server(self._serve, sock=self._door)
        end = time.monotonic() + _BEGINS_S
        while not stop.is_set() and time.monotonic() < end:
            if {seat.role for seat in self._seats if seat.waits} >= set(FIRST):
                return
            await asyncio.sleep(0.01)
        missing = set(FIRST) - {seat.role for seat in self._seats if seat.waits}
        print(f"time begins without {', '.join(sorted(missing))}", flush=True)

    async def go_to(self, moment: float, stop: asyncio.Event) -> None:
        """Let everybody have the turns that they wait for until this moment, which it is then."""
        if not self._seats:
            await asyncio.sleep(max(0.0, moment - self.now()))  # nobody: no faster than real time
        while not stop.is_set():
            for seat in [seat for seat in self._seats if not (seat.waits or seat.lost)]:
                await self._answer(seat, stop)  # has just come
            due = min((seat.until for seat in self._seats if seat.waits), default=math.inf)
            if due >= moment:
                break
            self._page[1] = now = max(self.now(), due)
            for seat in sorted(self._seats, key=lambda seat: seat.order):
                if seat.waits and seat.until <= now:
                    await self._turn(seat, stop)
        self._page[1] = moment

    async def round(self, stop: asyncio.Event) -> None:
        """A turn for everybody to whom we send messages: what we have said must be heard now."""
        for seat in sorted(self._seats, key=lambda seat: seat.order):
            if seat.waits and self._due(seat) != seat.told:
                await self._turn(seat, stop)

    def _due(self, seat: _Seat) -> int:
        """Messages that it must have got by now."""
        assert self.node is not None
        return self.node.frames_to(seat.node) if seat.node else 0

    async def _turn(self, seat: _Seat, stop: asyncio.Event) -> None:
        assert self.node is not None
        if seat.gone:
            return
        seat.waits = False
        seat.spoke.clear()
        seat.told = self._due(seat)
        seat.writer.write(f"{seat.number} {seat.told} {self.node.name}\n".encode())
        await self._answer(seat, stop)
        await self._arrive(seat)
        if seat.until <= self.now():
            seat.until = self.now() + _LEAST_S

    async def _answer(self, seat: _Seat, stop: asyncio.Event) -> None:
        """Until it waits again, has gone, or hangs."""
        stopped = any(other.lost and other.pid == seat.pid for other in self._seats)
        patience = _THINKS_S if seat.role == "operator" and not stopped else _HANGS_S
        waited = 0.0  # a machine that stands still adds no more than one look
        while not (seat.waits or seat.lost or seat.gone or stop.is_set()):
            try:
                async with asyncio.timeout(_LOOKS_S):
                    await seat.spoke.wait()
            except TimeoutError:
                waited += _LOOKS_S
            if waited >= patience:
                print(f"{seat.role} hangs: time goes on without it", flush=True)
                seat.lost = True

    async def _arrive(self, seat: _Seat) -> None:
        """Until what it has sent is here."""
        assert self.node is not None
        waited, looked, looks = 0.0, time.monotonic(), 0
        if seat.node:  # what counted as lost and came late after all is not lost
            away = seat.sent - self.node.frames_from(seat.node)
            seat.missing = min(seat.missing, max(0, away))
        while seat.node and not seat.gone:
            away = seat.sent - seat.missing - self.node.frames_from(seat.node)
            if away <= 0:
                return
            before, looked = looked, time.monotonic()
            waited += min(looked - before, _ONE_LOOK_S)
            if waited > _ARRIVES_S:
                seat.missing += away
                return
            looks += 1
            await asyncio.sleep(0.0 if looks < 20 else 0.001)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seat = None
        with contextlib.suppress(
            OSError, ValueError, KeyError, asyncio.IncompleteReadError, asyncio.CancelledError
        ):
            hello = json.loads(await reader.readuntil())
            seat = _Seat(str(hello["role"]), int(hello["pid"]), str(hello["node"]), writer)
            self._seats.append(seat)
            while line := await reader.readline():
                number, until, sent = line.split()
                if int(sent) < seat.sent:
                    seat.missing = 0  # a connection has ended, and with it what it counted
                seat.number, seat.until, seat.sent = int(number), float(until), int(sent)
                seat.waits, seat.lost = True, False
                seat.spoke.set()
        if seat is not None:
            seat.gone, seat.waits = True, False
            seat.spoke.set()
            self._seats.remove(seat)
        writer.close()
