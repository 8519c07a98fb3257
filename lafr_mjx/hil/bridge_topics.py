"""Topics behind a rosbridge: of ours the newest message leaves, of others each is converted."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from lafr_mjx.hil import messages as m
from lafr_mjx.hil.json_messages import from_json, to_json
from lafr_mjx.hil.publisher import UNTAKEN_FRAMES, untaken
from lafr_mjx.hil.subscriber import Subscriber

if TYPE_CHECKING:
    from lafr_mjx.hil.bridge import Bridge
    from lafr_mjx.hil.messages import MessageType

_KEPT = 8  # messages of one topic that came together and are recorded
_ECHO_S = 0.1  # after so long without an echo of its pings, a bridge hangs and gets no command


class BridgePublisher:
    """A topic of ours; made by `Bridge.advertise`. `publish` may be called from any thread."""

    def __init__(self, bridge: Bridge, topic: str, kind: MessageType) -> None:
        self.topic, self.kind = topic, kind
        self.listeners: frozenset[str] = frozenset()  # nodes that listen, as rosapi says
        self.sent = 0
        self.held = 0  # not sent, since the bridge does not take what it has, or since it expired
        self.waiting: tuple[bytes, float | None] | None = None  # queue of one
        self._bridge = bridge

    @property
    def subscribers(self) -> int:
        """How many nodes listen."""
        return len(self.listeners)

    @property
    def taken_by(self) -> frozenset[str]:
        """Nodes that the bridge gives our messages to."""
        return self.listeners

    def publish(self, body: bytes, expires: float | None = None) -> int:
        """Send unless the bridge is away or the moment has passed; never blocks."""
        message = to_json(self.kind.name, m.decode(self.kind.name, body))
        text = json.dumps({"op": "publish", "topic": self.topic, "msg": message})
        payload = text.encode()
        if not self._room(payload):
            self.held += 1
            return 0
        self.waiting = (payload, expires)
        self._bridge.soon(self._leave)
        return 1

    def _room(self, payload: bytes) -> bool:
        """Whether the bridge takes what it has: old commands would count as fresh."""
        bridge, protocol = self._bridge, self._bridge.protocol
        return (
            protocol is not None
            and time.monotonic() - bridge.echoed < _ECHO_S
            and _backlog(protocol) <= UNTAKEN_FRAMES * len(payload)
        )

    def _leave(self) -> None:
        """Give it to the kernel (loop thread)."""
        waiting, self.waiting = self.waiting, None
        if waiting is None:
            return
        payload, expires = waiting
        late = expires is not None and time.monotonic() > expires
        if late or not self._room(payload):
            self.held += 1
            return
        self._bridge.protocol.sendMessage(payload)
        self.sent += 1


class BridgeSubscriber(Subscriber):
    """A topic that we listen to, counted and recorded as over ROS."""

    heard = -float("inf")

    @property
    def connected(self) -> bool:
        """Whether something came lately; a bridge does not tell more."""
        return time.monotonic() - self.heard < self.idle_s

    def take_json(self, objects: list[Any]) -> None:
        """Objects that came together, oldest first (loop thread)."""
        frames = []
        old = objects[:-_KEPT]  # under a flood they are not even converted
        self.counters.received += len(old)
        self.counters.superseded += len(old)
        self.counters.unrecorded += len(old)
        for value in objects[-_KEPT:]:
            try:
                frames.append(m.encode(self.kind.name, from_json(self.kind.name, value)))
            except Exception:  # a number that fits into no field makes the encoder raise, too
                self.counters.received += 1
                self.counters.malformed += 1
        if frames:
            self.heard = time.monotonic()
            self.take(frames)


def _backlog(protocol: Any) -> int:
    """Bytes that the bridge's machine has not taken."""
    sock = protocol.transport.get_extra_info("socket")
    waiting = protocol.transport.get_write_buffer_size()
    return waiting + (untaken(sock) if sock is not None else 0)
