"""A small ROS 1 master, so that a newcomer needs no ROS; a real `roscore` does as well.

It keeps who publishes and who subscribes, tells subscribers of new publishers, and has the plain
parameter server that `rospy` and the ROS tools ask for. It listens on the loopback by default.
"""

from __future__ import annotations

import os
import queue
import socketserver
import threading
from http import HTTPStatus
from typing import Any
from xmlrpc.server import SimpleXMLRPCRequestHandler, SimpleXMLRPCServer

from lafr_mjx.closing import Closing
from lafr_mjx.errors import InputError
from lafr_mjx.hil.wire import rpc

_MAX_ENTRIES = 2_000  # topics, nodes, parameters
_MAX_THREADS = 32


class Master(Closing):
    """Registers nodes; runs in threads of its own. Use it as a context manager."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Listen; port 0 takes a free one (see `uri`)."""
        try:
            self._server = _Server((host, port), _Handler, logRequests=False, allow_none=False)
        except OSError as error:
            raise InputError(f"no master at {host}:{port}: {error.strerror or error}") from error
        self.uri = f"http://{host}:{self._server.server_address[1]}"
        self._lock = threading.Lock()
        self._nodes: dict[str, str] = {}  # name: address
        self._types: dict[str, str] = {}
        self._publishers: dict[str, dict[str, str]] = {}  # topic: name: address
        self._subscribers: dict[str, dict[str, str]] = {}
        self._services: dict[str, tuple[str, str, str]] = {}  # name: node, service's, node's
        self._params: dict[str, Any] = {"/run_id": "lafr-mjx"}
        self._news: queue.Queue[tuple[str, str, list[str]] | None] = queue.Queue(10_000)
        self._server.register_instance(_Calls(self))
        self._threads = [
            threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True),
            threading.Thread(target=self._tell, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop to serve."""
        self._server.shutdown()
        self._server.server_close()
        self._news.put(None)

    def register(self, role: str, caller: str, topic: str, kind: str, uri: str) -> list[str]:
        """Add a publisher or subscriber; the addresses of the other side."""
        with self._lock:
            if len(self._nodes) > _MAX_ENTRIES or len(self._types) > _MAX_ENTRIES:
                raise ValueError("too many registrations")
            self._nodes[caller] = uri
            if kind != "*" or topic not in self._types:
                self._types[topic] = kind
            mine = self._publishers if role == "publisher" else self._subscribers
            other = self._subscribers if role == "publisher" else self._publishers
            new = mine.setdefault(topic, {}).get(caller) != uri
            mine[topic][caller] = uri
            if role == "publisher" and new:
                self._announce(topic)
            return list(other.get(topic, {}).values())

    def unregister(self, role: str, caller: str, topic: str, uri: str) -> int:
        """Remove a publisher or subscriber; how many were removed."""
        with self._lock:
            entries = (self._publishers if role == "publisher" else self._subscribers).get(topic)
            if not entries or entries.get(caller) != uri:
                return 0
            del entries[caller]
            if role == "publisher":
                self._announce(topic)
            return 1

    def _announce(self, topic: str) -> None:
        uris = list(self._publishers.get(topic, {}).values())
        for uri in self._subscribers.get(topic, {}).values():
            try:
                self._news.put_nowait((uri, topic, uris))
            except queue.Full:
                return  # nodes ask again by themselves

    def _tell(self) -> None:
        while (item := self._news.get()) is not None:
            uri, topic, uris = item
            try:
                rpc.call(uri, "publisherUpdate", "/master", topic, uris, timeout=0.5)
            except rpc.RpcError:
                continue


class _Calls:
    """The master's calls, by the names that ROS gives them."""

    def __init__(self, master: Master) -> None:
        self._m = master

    def _dispatch(self, method: str, params: tuple[Any, ...]) -> list[Any]:
        # Only what is listed can be called, and whatever goes wrong is an answer.
        known = {name: getattr(self, name) for name in dir(type(self)) if not name.startswith("_")}
        try:
            return [1, "", known[method](*params)]
        except KeyError as error:
            return [-1, f"unknown: {error}"[:200], 0]
        except Exception as error:
            return [-1, f"{method}: {error}"[:200], 0]

    def registerPublisher(self, caller: str, topic: str, kind: str, uri: str) -> list[str]:
        return self._m.register("publisher", str(caller), str(topic), str(kind), str(uri))

    def registerSubscriber(self, caller: str, topic: str, kind: str, uri: str) -> list[str]:
        return self._m.register("subscriber", str(caller), str(topic), str(kind), str(uri))

    def unregisterPublisher(self, caller: str, topic: str, uri: str) -> int:
        return self._m.unregister("publisher", str(caller), str(topic), str(uri))

    def unregisterSubscriber(self, caller: str, topic: str, uri: str) -> int:
        return self._m.unregister("subscriber", str(caller), str(topic), str(uri))

    def registerService(self, caller: str, service: str, api: str, uri: str) -> int:
        if len(self._m._services) < _MAX_ENTRIES:
            self._m._services[str(service)] = (str(caller), str(api), str(uri))
            self._m._nodes.setdefault(str(caller), str(uri))
        return 1

    def unregisterService(self, caller: str, service: str, api: str) -> int:
        return int(self._m._services.pop(str(service), None) is not None)

    def lookupService(self, caller: str, service: str) -> str:
        return self._m._services[service][1]

    def lookupNode(self, caller: str, name: str) -> str:
        return self._m._nodes[name]

    def getPublishedTopics(self, caller: str, prefix: str) -> list[list[str]]:
        with self._m._lock:
            topics = [topic for topic, nodes in self._m._publishers.items() if nodes]
            return [[t, self._m._types[t]] for t in topics if t.startswith(prefix)]

    def getTopicTypes(self, caller: str) -> list[list[str]]:
        with self._m._lock:
            return [list(item) for item in self._m._types.items()]

    def getSystemState(self, caller: str) -> list[Any]:
        with self._m._lock:
            sides = [
                [[topic, list(nodes)] for topic, nodes in side.items() if nodes]
                for side in (self._m._publishers, self._m._subscribers)
            ]
            return [*sides, [[name, [entry[0]]] for name, entry in self._m._services.items()]]

    def getUri(self, caller: str) -> str:
        return self._m.uri

    def getPid(self, caller: str) -> int:
        return os.getpid()

    def setParam(self, caller: str, key: str, value: Any) -> int:
        if len(self._m._params) < _MAX_ENTRIES:
            self._m._params[str(key)] = value
        return 0

    def getParam(self, caller: str, key: str) -> Any:
        return self._m._params[key]

    def hasParam(self, caller: str, key: str) -> bool:
        return key in self._m._params

    def deleteParam(self, caller: str, key: str) -> int:
        del self._m._params[key]
        return 0

    def searchParam(self, caller: str, key: str) -> str:
        return {name: name for name in self._m._params}[key]

    def getParamNames(self, caller: str) -> list[str]:
        return list(self._m._params)

    def subscribeParam(self, caller: str, uri: str, key: str) -> Any:
        return self._m._params.get(key, {})

    def unsubscribeParam(self, caller: str, uri: str, key: str) -> int:
        return 1


class _Handler(SimpleXMLRPCRequestHandler):
    rpc_paths = ("/", "/RPC2", "")
    timeout = 5.0  # s, for each read of a request

    def do_POST(self) -> None:
        length = self.headers.get("content-length", "")
        if not length.isdigit() or int(length) > rpc.MAX_BODY:
            self.send_error(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return
        super().do_POST()


class _Server(socketserver.ThreadingMixIn, SimpleXMLRPCServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    allow_reuse_address = True

    def __init__(self, *args: Any, **options: Any) -> None:
        self._free = threading.BoundedSemaphore(_MAX_THREADS)
        super().__init__(*args, **options)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(timeout=1.0):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A peer that breaks off is no news."""
