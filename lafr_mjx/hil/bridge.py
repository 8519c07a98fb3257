"""The second transport: a rosbridge (websocket, JSON) through `roslibpy`, seen like a `Node`.

`roslibpy`'s own topics keep what is published while the bridge is away and send all of it when
it comes back; a pilot would take those commands for fresh ones. So only its connection is used:
to each topic the newest message goes out, before it expires, or none.

What the master says is asked of `rosapi`, which a bridge's launch file starts beside it. Without
its answers nothing counts as connected. Digests, and other clients of the same bridge, cannot be
seen through it.
"""

from __future__ import annotations

import json
import logging
import struct
import time
from collections import deque
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from lafr_mjx.errors import InputError
from lafr_mjx.hil import messages as m
from lafr_mjx.hil.bridge_topics import BridgePublisher, BridgeSubscriber
from lafr_mjx.hil.json_messages import prepare
from lafr_mjx.hil.node import check_name

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable


_LIMIT = 262_144  # bytes of a message; JSON takes three to four times the room
_PING_S = 0.05  # between two pings
_POLL_S = 0.5  # between two rounds of questions to rosapi
_PATIENCE_S = 2.0  # for its answers
_ROUND_S = 10.0  # in which all of them must have come once
_MOMENT = struct.Struct("<d")
_UNSEEN = (
    "through a rosbridge: digests cannot be compared, and other clients of the same bridge that "
    "send commands cannot be seen"
)


def check_bridge(uri: str) -> None:
    """Refuse what is not the address of a rosbridge."""
    try:
        parts = urlsplit(uri)
        good = parts.scheme in ("ws", "wss") and bool(parts.hostname) and bool(parts.port)
    except ValueError:
        good = False
    if not good:
        raise InputError(f"--master '{uri}': must be an address like ws://127.0.0.1:9090")


class Bridge:
    """Our presence behind a rosbridge, with the interface of `Node`."""

    def __init__(self, name: str, master: str) -> None:
        """Prepare; nothing is sent before `start`.

        Args:
            name: of the client, e.g. "/lafr_mjx_control"; the bridge does not pass it on.
            master: address of the bridge, e.g. "ws://127.0.0.1:9090".
        """
        check_name(name)
        check_bridge(master)
        self.master = master
        self.name = name  # replaced by the name of the bridge's node, once it is known
        self.publishers: dict[str, BridgePublisher] = {}
        self.subscribers: dict[str, BridgeSubscriber] = {}
        self.publishing: dict[str, tuple[str, ...]] = {}  # topic: nodes, as rosapi says
        self.master_seen = -float("inf")
        self.protocol: Any = None  # while connected
        self.malformed = 0  # frames that are no message of the protocol
        self.connections = 0
        self.status = ""  # what the bridge last complained of
        self.echoed = -float("inf")  # monotonic: when the last ping was sent that came back
        self._mine = f"{name}_alive"  # nobody else publishes it: who does is the bridge
        self._pending: dict[str, list[Any]] = {}
        self._questions: deque[tuple[str, str]] = deque()  # of this round: question, topic
        self._asked = ("", 0.0)  # the open one, and when it was asked
        self._round = 0
        self._complete = -float("inf")  # monotonic: when all questions were last answered
        self._factory = _factory(self)

    def advertise(self, topic: str, kind: str) -> BridgePublisher:
        """Announce a topic (before `start`)."""
        check_name(topic)
        prepare(kind)
        self.publishers[topic] = BridgePublisher(self, topic, m.message_type(kind))
        return self.publishers[topic]

    def subscribe(
        self,
        topic: str,
        kind: str,
        read: Callable[[Any], Any] | None = None,
        arrival: threading.Event | None = None,
        idle_s: float = 3.0,
    ) -> BridgeSubscriber:
        """Listen to a topic (before `start`)."""
        check_name(topic)
        prepare(kind)
        found = BridgeSubscriber(
            self.name, topic, m.message_type(kind), _LIMIT, read, arrival, idle_s
        )
        self.subscribers[topic] = found
        return found

    def start(self) -> Bridge:
        """Connect, and connect again whenever the connection is lost."""
        self._factory.connect()
        self.soon(self._poll)
        self.soon(self._ping)
        return self

    def close(self) -> None:
        """Leave."""
        self._factory.leave()

    @property
    def unseen(self) -> str:
        """What this transport cannot see of the others, and what the bridge complains of."""
        return f"{_UNSEEN}; it says: {self.status}" if self.status else _UNSEEN

    def soon(self, function: Callable[[], None]) -> None:
        """Run a function in the connection's thread."""
        loop = self._factory.manager.loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(function)

    # ------------------------------------------------------------- loop thread

    def opened(self, protocol: Any) -> None:
        """Say what we send and want; after each new connection."""
        self.connections += 1
        self._asked = ("", 0.0)
        for topic, kind in [
            (self._mine, "std_msgs/Empty"),
            *((p.topic, p.kind.name) for p in self.publishers.values()),
        ]:
            _tell(protocol, op="advertise", topic=topic, type=kind, queue_size=1, latch=False)
        for subscriber in self.subscribers.values():
            # The bridge, too, shall keep the newest message only.
            _tell(
                protocol, op="subscribe", topic=subscriber.topic, type=subscriber.kind.name,
                queue_length=1, throttle_rate=0, compression="none",
            )  # fmt: skip
        self.echoed = time.monotonic()
        self.protocol = protocol

    def closed(self) -> None:
        """Nothing is known of the other side any more."""
        self.protocol = None
        self.publishing = {}
        for publisher in self.publishers.values():
            publisher.listeners = frozenset()

    def received(self, payload: bytes, binary: bool) -> None:
        """One frame of the bridge's."""
        try:
            message: Any = None if binary else json.loads(payload)
        except (ValueError, RecursionError):
            message = None
        operation = message.get("op") if isinstance(message, dict) else None
        topic = message.get("topic") if operation == "publish" else None
        if isinstance(topic, str) and topic in self.subscribers:
            if not self._pending:
                self.soon(self._take)  # after all frames that came together
            self._pending.setdefault(topic, []).append(message.get("msg"))
        elif operation == "service_response":
            self._answered(message)
        elif operation == "status":
            self.status = f"{message.get('level')}: {message.get('msg')}"[:200]
        else:
            self.malformed += 1

    def echo(self, payload: bytes) -> None:
        """A ping came back: so far the bridge has read what we sent."""
        if len(payload) == _MOMENT.size:
            (sent,) = _MOMENT.unpack(payload)
            if sent <= time.monotonic():
                self.echoed = max(self.echoed, sent)

    def _ping(self) -> None:
        if self._factory.left:
            return
        now = time.monotonic()
        if self.protocol is not None:
            if now - self.echoed > _PATIENCE_S:
                self.protocol.transport.abort()
            else:
                self.protocol.sendPing(_MOMENT.pack(now))
        self._factory.manager.loop.call_later(_PING_S, self._ping)

    def _take(self) -> None:
        pending, self._pending = self._pending, {}
        for topic, objects in pending.items():
            self.subscribers[topic].take_json(objects)

    def _poll(self) -> None:
        """Ask rosapi who publishes and who listens; give up a bridge that does not answer."""
        factory, protocol, now = self._factory, self.protocol, time.monotonic()
        if factory.left:
            return
        if protocol is not None:
            key, since = self._asked
            if key and now - since > _PATIENCE_S:
                self._asked = ("", 0.0)  # no answer: ask all again
            elif not key:
                self._round += 1
                self._questions = deque(
                    [("publishers", topic) for topic in (self._mine, *self.publishers)]
                    + [("subscribers", topic) for topic in self.publishers]
                    + [("topic_type", topic) for topic in self.subscribers]
                )
                self._ask()
        factory.manager.loop.call_later(_POLL_S, self._poll)

    def _ask(self) -> None:
        """The next question; one after the other, for they share the way with the commands."""
        question, topic = self._questions.popleft()
        key = f"{question}:{topic}:{self._round}"
        self._asked = (key, time.monotonic())
        _tell(
            self.protocol, op="call_service", service=f"/rosapi/{question}", id=key,
            args={"topic": topic},
        )  # fmt: skip

    def _answered(self, message: dict[str, Any]) -> None:
        key = message.get("id")
        if not key or key != self._asked[0]:
            self.malformed += 1
            return
        question, topic, _ = key.split(":")
        values = message.get("values")
        if message.get("result") is not True or not isinstance(values, dict):
            self.status = f"/rosapi/{question} failed: {values}"[:200]
            return  # stays open: without an answer nothing is known
        if question == "topic_type":
            subscriber = self.subscribers[topic]
            if values.get("type") not in ("", subscriber.kind.name):
                subscriber.counters.refused += 1
                self.status = f"{topic} is {values.get('type')}, not {subscriber.kind.name}"[:200]
                return
        else:
            nodes = values.get(question)
            if not isinstance(nodes, list):
                return
            names = tuple(str(node) for node in nodes[:64])
            if question == "subscribers":
                self.publishers[topic].listeners = frozenset(names)
            elif topic == self._mine:
                self.name = names[0] if len(names) == 1 else self.name
            else:
                self.publishing[topic] = names
        self._asked = ("", 0.0)
        now = time.monotonic()
        if self._questions:
            self._ask()
        else:
            self._complete = now
        if now - self._complete < _ROUND_S:
            self.master_seen = now


def _tell(protocol: Any, **message: Any) -> None:
    protocol.sendMessage(json.dumps(message).encode())


def _factory(bridge: Bridge) -> Any:
    """`roslibpy`'s connection, with bounds on all that it takes."""
    try:
        from roslibpy.comm.comm_asyncio import (
            AsyncioRosBridgeClientFactory,
            AsyncioRosBridgeProtocol,
        )
    except ImportError as error:
        raise InputError(
            "--master ws://...: a rosbridge needs roslibpy: pip install 'lafr-mjx[rosbridge]'"
        ) from error
    logging.getLogger("roslibpy").setLevel(logging.CRITICAL)

    class Protocol(AsyncioRosBridgeProtocol):
        def onMessage(self, payload: bytes, isBinary: bool) -> None:
            bridge.received(payload, isBinary)

        def onPong(self, payload: bytes) -> None:
            bridge.echo(payload)

    class Factory(AsyncioRosBridgeClientFactory):
        protocol = Protocol
        initialDelay = 0.2
        maxDelay = 1.0
        compression = "none"
        left = False

        def ready(self, proto: Any) -> None:
            super().ready(proto)
            if self.left:
                proto.send_close()
            else:
                bridge.opened(proto)

        def connection_lost(self, proto: Any) -> None:
            bridge.closed()
            super().connection_lost(proto)

        def leave(self) -> None:
            self.left = self._stop = True
            protocol = bridge.protocol
            bridge.closed()
            if protocol is not None:
                protocol.send_close()

    factory = Factory(bridge.master)
    factory.setProtocolOptions(
        maxFramePayloadSize=_LIMIT, maxMessagePayloadSize=_LIMIT, openHandshakeTimeout=2.0,
        closeHandshakeTimeout=1.0, tcpNoDelay=True,
    )  # fmt: skip
    return factory
