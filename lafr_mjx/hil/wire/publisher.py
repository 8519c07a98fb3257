"""What we send on a topic: to each subscriber the newest message only, and never waiting."""

from __future__ import annotations

import contextlib
import fcntl
import selectors
import struct
import termios
import threading
import time
from typing import TYPE_CHECKING

from lafr_mjx.hil.timing.flight_clock import REAL_TIME
from lafr_mjx.hil.wire import tcpros
from lafr_mjx.hil.wire.reactor import Channel, Reactor

if TYPE_CHECKING:
    import socket

    from lafr_mjx.hil.timing.flight_clock import FlightClock
    from lafr_mjx.hil.wire.ros_messages import MessageType

HANDSHAKE_S = 2.0
"""A peer that has not said what it wants by then is dropped."""

_STUCK_S = 1.0  # a subscriber that takes nothing for so long is dropped
UNTAKEN_FRAMES = 6
"""On their way in the kernel; 5 are usual with delayed acknowledgements."""


class Publisher:
    """A topic of ours; made by `Node.advertise`. `publish` may be called from any thread."""

    def __init__(self, node_name: str, topic: str, kind: MessageType) -> None:
        self.topic = topic
        self.kind = kind
        self.links: tuple[SubscriberLink, ...] = ()
        self.sent = 0  # messages given to at least one subscriber
        self.held = 0  # not given to a subscriber, since it does not take what it has
        self.refused = 0  # peers with another digest or type
        self.taken_by: frozenset[str] = frozenset()  # nodes that got the last message
        self._node_name = node_name

    @property
    def subscribers(self) -> int:
        """Peers that are connected now."""
        return len(self.links)

    @property
    def listeners(self) -> frozenset[str]:
        """Their names."""
        return frozenset(link.peer for link in self.links)

    def publish(self, body: bytes, expires: float | None = None) -> int:
        """Send to all subscribers and say how many got it; never blocks.

        Args:
            body: the encoded message.
            expires: moment (of the flight's clock) after which it must not leave any more.
        """
        data = tcpros.frame(body)
        taken = [link.peer for link in self.links if link.offer(data, expires)]
        self.taken_by = frozenset(taken)
        self.sent += bool(taken)
        return len(taken)

    def answer(self, fields: dict[str, str]) -> tuple[dict[str, str], bool]:
        """Connection header in reply to a subscriber's, and whether it is accepted."""
        digest, kind = fields.get("md5sum", ""), fields.get("type", "")
        if digest not in ("*", self.kind.digest) or kind not in ("*", "", self.kind.name):
            self.refused += 1
            return {"error": f"{self.topic} is {self.kind.name} with {self.kind.digest}"}, False
        return {
            "callerid": self._node_name,
            "latching": "0",
            "md5sum": self.kind.digest,
            "message_definition": self.kind.definition,
            "topic": self.topic,
            "type": self.kind.name,
        }, True


class SubscriberLink(Channel):
    """A connection that a subscriber opened to us."""

    def __init__(
        self,
        reactor: Reactor,
        sock: socket.socket,
        publishers: dict[str, Publisher],
        clock: FlightClock = REAL_TIME,
    ) -> None:
        super().__init__(reactor, sock)
        self.peer = ""
        self.frames = 0  # messages that have begun to leave
        self._publishers = publishers
        self._clock = clock
        self._publisher: Publisher | None = None
        self._frames = tcpros.Frames(tcpros.MAX_HEADER)
        self._lock = threading.Lock()
        self._partial = b""  # of a frame that has begun to leave
        self._next: tuple[bytes, float | None] | None = None
        self._moved = time.monotonic()  # when something last left

    def events(self) -> int:
        """Writing is waited for only while a frame is half out."""
        writing = selectors.EVENT_WRITE if self._partial else 0
        return selectors.EVENT_READ | writing

    def ready(self, mask: int) -> None:
        """Header of the subscriber, its end, or room for the rest of a frame."""
        if mask & selectors.EVENT_READ:
            self._read()
        if mask & selectors.EVENT_WRITE and not self.closed:
            with self._lock:
                self._flush()
            self.reactor.update(self)

    def tick(self, now: float) -> None:
        """Drop a peer that does not say what it wants or takes nothing."""
        silent = self._publisher is None and now - self.opened > HANDSHAKE_S
        if silent or (self._partial and now - self._moved > _STUCK_S):
            self.close()

    def on_close(self) -> None:
        """Leave the topic."""
        if self._publisher is not None:
            links = self._publisher.links
            self._publisher.links = tuple(link for link in links if link is not self)

    def offer(self, data: bytes, expires: float | None) -> bool:
        """Send now, or as soon as the frame that is half out has left."""
        with self._lock:
            if self.closed:
                return False
            if self._partial:
                self._next = (data, expires)  # queue of one: what waited is replaced
                return True
            # Old commands would arrive in a burst and count as fresh. In lockstep none is under
            # way when time goes on, but the kernel may acknowledge later than that.
            if not self._clock.lockstep and untaken(self.sock) > UNTAKEN_FRAMES * len(data):
                if self._publisher is not None:
                    self._publisher.held += 1
                return False
            self._partial = data
            self.frames += 1
            self._flush()
            waiting = bool(self._partial)
        if waiting:
            self.reactor.post(lambda: self.reactor.update(self))
        return True

    def _read(self) -> None:
        try:
            data = self.sock.recv(65_536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        if self._publisher is not None:
            return  # a subscriber has nothing more to say
        headers = self._frames.feed(data, at_most=1)
        if not headers:
            return
        fields = tcpros.decode_fields(headers[0])
        publisher = self._publishers.get(fields.get("topic", ""))
        if publisher is None:
            self._say({"error": "no such topic here"})
            self.close()
            return
        reply, accepted = publisher.answer(fields)
        self._say(reply)
        if not accepted:
            self.close()
            return
        self.peer = fields.get("callerid", "")
        self._publisher = publisher
        publisher.links = (*publisher.links, self)

    def _say(self, fields: dict[str, str]) -> None:
        with self._lock:
            self._partial = tcpros.encode_fields(fields)
            self._flush()
        self.reactor.update(self)

    def _flush(self) -> None:
        """Give the kernel what it takes (lock held)."""
        while self._partial:
            try:
                count = self.sock.send(self._partial)
            except BlockingIOError:
                return
            except OSError:
                self._partial = b""
                self.reactor.post(self.close)
                return
            self._moved = time.monotonic()
            self._partial = self._partial[count:]
            if not self._partial and self._next is not None:
                data, expires = self._next
                self._next = None
                if expires is None or self._clock.now() <= expires:
                    self._partial = data
                    self.frames += 1


def untaken(sock: socket.socket) -> int:
    """Bytes that the peer's machine has not acknowledged."""
    with contextlib.suppress(OSError):
        answer = fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, b"\0\0\0\0")
        return struct.unpack("i", answer)[0]
    return 0
