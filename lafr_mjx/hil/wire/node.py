"""A ROS 1 node without ROS: registration over XML-RPC, topics over TCPROS.

One thread serves all sockets. Another talks to the master and to publishers, calls that may
wait; it registers again when the master has forgotten us, and connects again when a publisher
comes back. Neither is ever waited for by the control loop.
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import socket
import threading
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from lafr_mjx.closing import Closing
from lafr_mjx.errors import InputError
from lafr_mjx.hil.timing.flight_clock import REAL_TIME
from lafr_mjx.hil.wire import rpc
from lafr_mjx.hil.wire.publisher import HANDSHAKE_S, Publisher, SubscriberLink
from lafr_mjx.hil.wire.reactor import Channel, Reactor
from lafr_mjx.hil.wire.ros_messages import message_type
from lafr_mjx.hil.wire.subscriber import PublisherLink, Subscriber

if TYPE_CHECKING:
    from collections.abc import Callable

    from lafr_mjx.hil.timing.flight_clock import FlightClock

LOOPBACK = "127.0.0.1"
DEFAULT_MASTER = "http://127.0.0.1:11311"

_POLL_S = 0.5  # between two looks at the master
_ALIVE_S = 3.0  # a node that was there is not looked for again so soon
_KEEP_UP_S = 1.5  # real: the longest that a look at the master is waited for
_RETRY_S = 0.1  # between two tries to reach a publisher
_MAX_CONNECTIONS = 64
_NAME = re.compile(r"/[A-Za-z][A-Za-z0-9_]*(/[A-Za-z][A-Za-z0-9_]*)*")


class Node(Closing):
    """Our presence on the wire. Use it as a context manager, or call `close`."""

    def __init__(
        self,
        name: str,
        master: str = DEFAULT_MASTER,
        host: str = LOOPBACK,
        limit: int = 65_536,
        clock: FlightClock = REAL_TIME,
    ) -> None:
        """Prepare; nothing is sent before `start`.

        Args:
            name: of the node, e.g. "/lafr_mjx_control".
            master: address of the ROS master.
            host: address of this machine that peers can reach; also the only one it listens on.
            limit: largest message that is taken [bytes].
            clock: of the flight, by which messages are received and expire.
        """
        check_name(name)
        check_master(master)
        self.name, self.master, self.limit, self.clock = name, master, limit, clock
        self.publishers: dict[str, Publisher] = {}
        self.subscribers: dict[str, Subscriber] = {}
        self.master_seen = -float("inf")  # by the flight's clock: when the master last knew us
        self.publishing: dict[str, tuple[str, ...]] = {}  # topic: nodes, as the master says
        self._reactor = Reactor(f"{name} wire", rests=not clock.lockstep)
        self._closing = threading.Event()
        self._look = threading.Event()
        self._rounds = 0  # looks at the master
        self._asked = -float("inf")  # when a flight in lockstep last asked for one
        self._registered = False
        self._alive_until: dict[str, float] = {}  # monotonic, by node
        self._talk = threading.Thread(target=self._keep_registered, name=f"{name} master")
        self._talk.daemon = True
        try:
            self._rpc_socket = socket.create_server((host, 0), backlog=128)
            self._data_socket = socket.create_server((host, 0), backlog=128)
        except OSError as error:
            raise InputError(f"cannot listen on '{host}': {error.strerror or error}") from error
        self.host = host
        self.uri = f"http://{host}:{self._rpc_socket.getsockname()[1]}/"
        self.data_port: int = self._data_socket.getsockname()[1]

    def advertise(self, topic: str, kind: str) -> Publisher:
        """Announce a topic (before `start`)."""
        check_name(topic)
        publisher = Publisher(self.name, topic, message_type(kind))
        self.publishers[topic] = publisher
        return publisher

    def subscribe(
        self,
        topic: str,
        kind: str,
        read: Callable[[Any], Any] | None = None,
        arrival: threading.Event | None = None,
        idle_s: float = float("inf"),
    ) -> Subscriber:
        """Listen to a topic (before `start`).

        Args:
            topic: its full name.
            kind: its message, e.g. "std_msgs/Bool".
            read: turns a message into what is kept; may raise `MalformedError`.
            arrival: set at each good message.
            idle_s: a connection that is silent for so long is made anew.
        """
        check_name(topic)
        subscriber = Subscriber(
            self.name, topic, message_type(kind), self.limit, read, arrival, idle_s, self.clock
        )
        self.subscribers[topic] = subscriber
        return subscriber

    def start(self) -> Node:
        """Begin to serve and to register."""
        reactor = self._reactor
        reactor.post(lambda: reactor.add(_Listener(reactor, self._rpc_socket, self._open_rpc)))
        reactor.post(lambda: reactor.add(_Listener(reactor, self._data_socket, self._open_data)))
        reactor.start()
        self._talk.start()
        return self

    def close(self) -> None:
        """Tell the master, close everything."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._look.set()
        if self._talk.is_alive():
            self._talk.join(timeout=2.0)
        self._reactor.stop()
        for sock in (self._rpc_socket, self._data_socket):
            with contextlib.suppress(OSError):
                sock.close()

    # ------------------------------------------------------------- in lockstep

    @property
    def complete(self) -> bool:
        """Whether each of our topics has somebody at its other end, or nothing has begun."""
        if not self._talk.is_alive():
            return True
        heard = all(subscriber.connected for subscriber in self.subscribers.values())
        return heard and all(publisher.subscribers for publisher in self.publishers.values())

    def frames_to(self, peer: str) -> int:
        """Messages that a node was sent, over the connections that there are."""
        links = (link for publisher in self.publishers.values() for link in publisher.links)
        return sum(link.frames for link in links if link.peer == peer)

    def frames_from(self, peer: str) -> int:
        """Messages that a node has sent us."""
        links = (subscriber.link for subscriber in self.subscribers.values())
        return sum(link.frames for link in links if link is not None and link.peer == peer)

    def keep_up(self) -> None:
        """Have looked at the master lately by the flight's clock, which may outrun the real one."""
        now = self.clock.now()
        if now - self._asked < _POLL_S or not self._talk.is_alive():
            return
        self._asked, before, end = now, self._rounds, time.monotonic() + _KEEP_UP_S
        self._look.set()
        while self._rounds == before and time.monotonic() < end:
            time.sleep(0.0002)

    # ------------------------------------------------------------- the master

    def _keep_registered(self) -> None:
        while not self._closing.is_set():
            try:
                self._with_master()
            except rpc.RpcError:
                self._registered = False
            retry = any(s.link is None and s.publishers for s in self.subscribers.values())
            for subscriber in self.subscribers.values():
                if subscriber.link is None and not self._closing.is_set():
                    self._reach(subscriber)
            self._rounds += 1
            self._look.wait(_RETRY_S if retry else _POLL_S)
            self._look.clear()
        with contextlib.suppress(rpc.RpcError):
            for topic in self.publishers:
                self._call("unregisterPublisher", topic, self.uri)
            for topic in self.subscribers:
                self._call("unregisterSubscriber", topic, self.uri)

    def _call(self, method: str, *params: Any) -> Any:
        return rpc.call(self.master, method, self.name, *params)

    def _with_master(self) -> None:
        # Registering again is harmless, and tells of publishers whose news was lost.
        for topic, subscriber in self.subscribers.items():
            found = self._call("registerSubscriber", topic, subscriber.kind.name, self.uri)
            subscriber.publishers = _addresses(found)
        if not self._registered:
            for topic, publisher in self.publishers.items():
                self._call("registerPublisher", topic, publisher.kind.name, self.uri)
            self._registered = True
        publishing, _, _ = self._call("getSystemState")
        self.publishing = {
            str(topic): tuple(
                node
                for node in map(str, nodes)
                if topic not in self.publishers or node == self.name or not self._gone(node)
            )
            for topic, nodes in publishing
        }
        known = all(self.name in self.publishing.get(topic, ()) for topic in self.publishers)
        self._registered = known
        if known:
            self.master_seen = self.clock.now()

    def _gone(self, node: str) -> bool:
        """Whether its process has surely ended: one that was killed stays known to the master."""
        now = time.monotonic()
        if now < self._alive_until.get(node, 0.0):
            return False
        try:
            parts = urlsplit(str(self._call("lookupNode", node)))
            socket.create_connection((parts.hostname, parts.port or 0), timeout=0.2).close()
        except ConnectionRefusedError:
            return True
        except (rpc.RpcError, OSError, ValueError):
            pass
        self._alive_until = {
            name: until for name, until in self._alive_until.items() if until > now
        }
        self._alive_until[node] = now + _ALIVE_S
        return False

    def _reach(self, subscriber: Subscriber) -> None:
        """Ask the topic's publishers for their port, and connect to the first that answers."""
        for uri in subscriber.publishers:
            try:
                answer = rpc.call(
                    uri, "requestTopic", self.name, subscriber.topic, [["TCPROS"]], timeout=0.5
                )
                protocol, host, port = answer
                if protocol != "TCPROS" or not isinstance(port, int):
                    continue
                address = socket.getaddrinfo(str(host), port, socket.AF_INET, socket.SOCK_STREAM)[
                    0
                ][4]
            except (rpc.RpcError, ValueError, TypeError, OSError, OverflowError):
                continue

            def connect(address: Any = address, uri: str = uri) -> None:
                if subscriber.link is None:
                    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
                    sock.setblocking(False)
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    self._reactor.add(PublisherLink(self._reactor, sock, subscriber, address, uri))

            self._reactor.post(connect)
            return

    # ------------------------------------------------------------- our own doors

    def _open_rpc(self, sock: socket.socket) -> Channel:
        return _RpcChannel(self, self._reactor, sock)

    def _open_data(self, sock: socket.socket) -> Channel:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return SubscriberLink(self._reactor, sock, self.publishers, self.clock)

    def answer(self, method: str, params: tuple[Any, ...]) -> tuple[int, str, Any]:
        """Answer of our side to the master's and other nodes' calls."""
        if method == "requestTopic" and len(params) == 3:
            if params[1] in self.publishers:
                return 1, "ready", ["TCPROS", self.host, self.data_port]
            return 0, f"{params[1]!r:.80} is not published here", 0
        if method == "publisherUpdate" and len(params) == 3:
            subscriber = self.subscribers.get(str(params[1]))
            if subscriber is not None:
                subscriber.publishers = _addresses(params[2])
                self._look.set()
            return 1, "", 0
        if method == "getPid":
            return 1, "", os.getpid()
        if method == "getMasterUri":
            return 1, "", self.master
        if method == "getPublications":
            return 1, "", [[p.topic, p.kind.name] for p in self.publishers.values()]
        if method == "getSubscriptions":
            return 1, "", [[s.topic, s.kind.name] for s in self.subscribers.values()]
        if method in ("getBusStats", "getBusInfo"):
            return 1, "", []
        if method in ("paramUpdate", "shutdown"):
            # A drone in the air is not shut down by a stranger's call.
            return 1, "ignored", 0
        return -1, f"unknown call {method!r:.80}", 0


class _Listener(Channel):
    """Accepts connections, as many as are allowed; the oldest unfinished one makes room."""

    def __init__(
        self, reactor: Reactor, sock: socket.socket, make: Callable[[socket.socket], Channel]
    ) -> None:
        super().__init__(reactor, sock)
        self._make = make
        self._open: list[Channel] = []

    def ready(self, mask: int) -> None:
        """Accept what waits."""
        for _ in range(32):
            try:
                sock, _ = self.sock.accept()
            except OSError:
                return
            self._open = [channel for channel in self._open if not channel.closed]
            if len(self._open) >= _MAX_CONNECTIONS:
                unfinished = [c for c in self._open if not getattr(c, "peer", "")]
                if not unfinished:
                    sock.close()
                    continue
                unfinished[0].close()
            channel = self._make(sock)
            self._open.append(channel)
            self.reactor.add(channel)


class _RpcChannel(Channel):
    """One HTTP request to us."""

    def __init__(self, node: Node, reactor: Reactor, sock: socket.socket) -> None:
        super().__init__(reactor, sock)
        self._node = node
        self._data = b""
        self._reply = b""

    def events(self) -> int:
        """Read the request, then write the answer."""
        return selectors.EVENT_WRITE if self._reply else selectors.EVENT_READ

    def ready(self, mask: int) -> None:
        """Go on with either."""
        if self._reply:
            self._reply = self._reply[self.sock.send(self._reply) :]
            if not self._reply:
                self.close()
            return
        data = self.sock.recv(65_536)
        if not data:
            self.close()
            return
        self._data += data
        if len(self._data) > 2 * rpc.MAX_BODY:
            raise rpc.RpcError("a request that is too long")
        request = rpc.parse_request(self._data)
        if request is not None:
            self._reply = rpc.answer_bytes(*self._node.answer(*request))
            self.reactor.update(self)

    def tick(self, now: float) -> None:
        """A request takes at most 2 s."""
        if now - self.opened > HANDSHAKE_S:
            self.close()


def _addresses(found: Any) -> tuple[str, ...]:
    if not isinstance(found, list | tuple):
        return ()
    return tuple(str(uri) for uri in found[:16])


def check_name(name: str) -> None:
    """Refuse what is not a full ROS name."""
    if not isinstance(name, str) or len(name) > 200 or not _NAME.fullmatch(name):
        raise InputError(f"'{name}' is not a full ROS name like /quad/agiros_pilot/state")


def check_master(uri: str) -> None:
    """Refuse what is not the address of a master."""
    try:
        parts = urlsplit(uri)
        good = parts.scheme == "http" and bool(parts.hostname) and bool(parts.port)
    except ValueError:
        good = False
    if not good:
        raise InputError(f"--master '{uri}': must be an address like {DEFAULT_MASTER}")
