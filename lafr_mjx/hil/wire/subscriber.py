"""What we receive on a topic: the newest message only, with the moment of its receipt.

A queue between socket and control loop would deliver stale messages under load. Here the newest
message replaces the last one; all raw messages pass through a bounded tape for the recording.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from lafr_mjx.hil.timing.flight_clock import REAL_TIME
from lafr_mjx.hil.wire import tcpros
from lafr_mjx.hil.wire.publisher import HANDSHAKE_S
from lafr_mjx.hil.wire.reactor import Channel, Reactor
from lafr_mjx.hil.wire.ros_messages import MalformedError, OutdatedError, decode

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from lafr_mjx.hil.timing.flight_clock import FlightClock
    from lafr_mjx.hil.wire.ros_messages import MessageType

TAPE = 128
"""Raw messages kept for the recording; at 100 Hz, more than a second."""


class Received(NamedTuple):
    """A message with the moments at which it came."""

    number: int  # counts the messages of the topic
    receipt: float  # s, the flight's monotonic clock
    wall: float  # s since 1970, for the recording and for comparing clocks only
    message: Any  # what the topic's reader made of it


class Raw(NamedTuple):
    """A message as bytes, for the recording."""

    receipt: float
    wall: float
    data: bytes


@dataclass
class Counters:
    """What has happened on a topic."""

    received: int = 0  # frames
    superseded: int = 0  # frames that came together with a newer one: never looked at
    malformed: int = 0  # not a message, or one that the reader refuses
    outdated: int = 0  # repeated, or in the wrong order
    oversized: int = 0  # connections closed for it
    refused: int = 0  # connections with a wrong digest, type or header
    unrecorded: int = 0  # frames that the tape had no room for
    connections: int = 0  # made so far


class Subscriber:
    """A topic that we listen to; made by `Node.subscribe`. Reading needs no lock."""

    def __init__(
        self,
        node_name: str,
        topic: str,
        kind: MessageType,
        limit: int,
        read: Callable[[Any], Any] | None,
        arrival: threading.Event | None,
        idle_s: float = float("inf"),
        clock: FlightClock = REAL_TIME,
    ) -> None:
        self.topic = topic
        self.kind = kind
        self.limit = limit
        self.idle_s = idle_s
        self.latest: Received | None = None
        self.counters = Counters()
        self.link: PublisherLink | None = None
        self.publishers: tuple[str, ...] = ()  # addresses that the master knows
        self._read = read
        self._arrival = arrival
        self._tape: deque[Raw] = deque(maxlen=TAPE)
        self._node_name = node_name
        self._clock = clock

    @property
    def connected(self) -> bool:
        """Whether a publisher is connected and has said what it sends."""
        return self.link is not None and self.link.agreed

    @property
    def awaited(self) -> bool:
        """Whether somebody waits for each message."""
        return self._arrival is not None

    def drain(self) -> list[Raw]:
        """Raw messages since the last call, oldest first."""
        return [self._tape.popleft() for _ in range(len(self._tape))]

    def take(self, frames: list[bytes]) -> None:
        """Frames that came together, oldest first (loop thread)."""
        receipt, wall = self._clock.now(), self._clock.wall()
        counters = self.counters
        counters.received += len(frames)
        counters.superseded += len(frames) - 1
        counters.unrecorded += max(0, len(self._tape) + len(frames) - TAPE)
        self._tape.extend(Raw(receipt, wall, frame) for frame in frames)
        try:
            message = decode(self.kind.name, frames[-1])
            if self._read is not None:
                message = self._read(message)
        except OutdatedError:
            counters.outdated += 1
            return
        except MalformedError:
            counters.malformed += 1
            return
        self.latest = Received(counters.received, receipt, wall, message)
        if self._arrival is not None:
            self._arrival.set()

    def hello(self) -> dict[str, str]:
        """Our side of the connection header."""
        return {
            "callerid": self._node_name,
            "md5sum": self.kind.digest,
            "message_definition": self.kind.definition,
            "tcp_nodelay": "1",
            "topic": self.topic,
            "type": self.kind.name,
        }


class PublisherLink(Channel):
    """A connection that we open to a publisher."""

    def __init__(
        self,
        reactor: Reactor,
        sock: socket.socket,
        subscriber: Subscriber,
        address: tuple[str, int],
        publisher: str,
    ) -> None:
        super().__init__(reactor, sock)
        self.agreed = False
        self.peer = ""  # name of the node
        self.frames = 0  # messages that have come
        self.urgent = subscriber.awaited
        self.publisher = publisher
        self._heard = self.opened
        self._subscriber = subscriber
        self._frames = tcpros.Frames(tcpros.MAX_HEADER)
        self._hello = tcpros.encode_fields(subscriber.hello())
        subscriber.link = self
        self.sock.connect_ex(address)

    def events(self) -> int:
        """Writing until the header is out."""
        writing = selectors.EVENT_WRITE if self._hello else 0
        return selectors.EVENT_READ | writing

    def ready(self, mask: int) -> None:
        """Send the header, then read."""
        if mask & selectors.EVENT_WRITE and self._hello:
            try:
                count = self.sock.send(self._hello)
            except BlockingIOError:
                return
            except OSError:
                self.close()
                return
            self._hello = self._hello[count:]
            self.reactor.update(self)
        if mask & selectors.EVENT_READ:
            self._read()

    def tick(self, now: float) -> None:
        """Drop a publisher that does not answer, or whose machine has gone without a word."""
        if not self.agreed and now - self.opened > HANDSHAKE_S:
            self.close()
        if self.agreed and now - self._heard > self._subscriber.idle_s:
            self.close()

    def on_close(self) -> None:
        """Make room for another publisher."""
        if self._subscriber.link is self:
            self._subscriber.link = None

    def _read(self) -> None:
        try:
            data = self.sock.recv(262_144)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        self._heard = time.monotonic()
        # Acknowledged at once: a publisher like ours holds back what nobody seems to take.
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        counters = self._subscriber.counters
        try:
            if not self.agreed:
                headers = self._frames.feed(data, at_most=1)
                if not headers:
                    return
                self._agree(tcpros.decode_fields(headers[0]))
                self._frames.limit = self._subscriber.limit
                data = b""
            frames = self._frames.feed(data)
        except tcpros.OversizedError:
            counters.oversized += 1
            self.close()
        except tcpros.WireError:
            counters.refused += 1
            self.close()
        else:
            if frames:
                self._subscriber.take(frames)
                self.frames += len(frames)

    def _agree(self, fields: dict[str, str]) -> None:
        kind = self._subscriber.kind
        if fields.get("md5sum") != kind.digest or fields.get("type", kind.name) != kind.name:
            raise tcpros.WireError(f"{self._subscriber.topic} has another type or digest")
        self.agreed, self.peer = True, fields.get("callerid", "")
        self._subscriber.counters.connections += 1
