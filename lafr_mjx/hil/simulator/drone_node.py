"""The drone's own ROS 1 node, on asyncio; written apart from the client's on purpose.

If both ends of a wire share their code, a mistake in it goes unnoticed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import xmlrpc.client
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from lafr_mjx.hil.wire.ros_messages import MalformedError, decode, encode, message_type

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_BYTES = 1 << 16
_MOST_WAITING = 1 << 16  # bytes to a subscriber that does not read


class DroneNode:
    """Publishes and subscribes; all in the running event loop."""

    def __init__(self, name: str, master: str, host: str = "127.0.0.1") -> None:
        self.name, self.master, self.host = name, master, host
        self.malformed = 0
        self._kinds: dict[str, str] = {}
        self._writers: dict[str, list[asyncio.StreamWriter]] = {}
        self._callbacks: dict[str, tuple[str, Callable[[Any], None]]] = {}
        self._links: dict[tuple[str, str], asyncio.Task] = {}  # (topic, publisher): reader
        # Of each connection that there is: the other node, and the messages over it so far.
        self._sent: dict[asyncio.StreamWriter, tuple[str, int]] = {}
        self._got: dict[asyncio.StreamWriter, tuple[str, int]] = {}
        self._left: set[str] = set()  # topics that are not listened to for now
        self._uri = ""
        self._port = 0

    def advertise(self, topic: str, kind: str) -> None:
        """Announce a topic (before `run`)."""
        self._kinds[topic] = kind
        self._writers[topic] = []

    def subscribe(self, topic: str, kind: str, callback: Callable[[Any], None]) -> None:
        """Call back with each message of a topic (before `run`)."""
        self._callbacks[topic] = (kind, callback)

    def publish(self, topic: str, message: Any) -> None:
        """Send to who listens; who does not read misses it."""
        writers = self._writers[topic]
        if not writers:
            return
        body = encode(self._kinds[topic], message)
        data = len(body).to_bytes(4, "little") + body
        for writer in tuple(writers):
            if writer.is_closing():
                writers.remove(writer)
                self._sent.pop(writer, None)
            elif writer.transport.get_write_buffer_size() < _MOST_WAITING:
                writer.write(data)
                name, count = self._sent.get(writer, ("", 0))
                self._sent[writer] = (name, count + 1)

    def frames_to(self, peer: str) -> int:
        """Messages that a node was sent."""
        return sum(count for name, count in self._sent.values() if name == peer)

    def frames_from(self, peer: str) -> int:
        """Messages that a node has sent."""
        return sum(count for name, count in self._got.values() if name == peer)

    async def serve(self) -> None:
        """Open the doors and stay registered, for ever."""
        rpc = await asyncio.start_server(self._on_rpc, self.host, 0)
        data = await asyncio.start_server(self._on_subscriber, self.host, 0)
        self._uri = f"http://{self.host}:{rpc.sockets[0].getsockname()[1]}/"
        self._port = data.sockets[0].getsockname()[1]
        async with rpc, data:
            while True:
                await self._register()
                await asyncio.sleep(0.5)

    async def _register(self) -> None:
        try:
            for topic, kind in self._kinds.items():
                await self._call(self.master, "registerPublisher", topic, kind, self._uri)
            for topic, (kind, _) in self._callbacks.items():
                found = await self._call(self.master, "registerSubscriber", topic, kind, self._uri)
                self._follow(topic, found)
        except (OSError, ValueError, TimeoutError, EOFError, xmlrpc.client.Error):
            return  # the master will be there again, or not; flying does not need it

    async def _call(self, uri: str, method: str, *params: Any) -> Any:
        parts = urlsplit(uri)
        body = xmlrpc.client.dumps((self.name, *params), method).encode()
        head = (
            f"POST / HTTP/1.0\r\nHost: {parts.hostname}\r\nContent-Type: text/xml\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        async with asyncio.timeout(1.0):
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
            try:
                writer.write(head.encode() + body)
                answer = await self._http_body(reader)
            finally:
                writer.close()
        (values,), _ = xmlrpc.client.loads(answer)
        code, text, value = values  # type: ignore[misc]
        if code != 1:
            raise ValueError(str(text))
        return value

    @staticmethod
    async def _http_body(reader: asyncio.StreamReader) -> bytes:
        head = await reader.readuntil(b"\r\n\r\n")
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                length = int(line.split(b":")[1])
                if length > 1 << 20:
                    raise ValueError("too long")
                return await reader.readexactly(length)
        return await reader.read(1 << 20)

    # ------------------------------------------------------------- others call us

    async def _on_rpc(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(Exception):  # nonsense from a stranger ends its own connection
            async with asyncio.timeout(2.0):
                params, method = xmlrpc.client.loads(await self._http_body(reader))
                value = self._answer(str(method), params)
                body = xmlrpc.client.dumps((value,), methodresponse=True).encode()
                head = f"HTTP/1.0 200 OK\r\nContent-Type: text/xml\r\nContent-Length: {len(body)}"
                writer.write(head.encode() + b"\r\n\r\n" + body)
                await writer.drain()
        writer.close()

    def _answer(self, method: str, params: tuple[Any, ...]) -> list[Any]:
        if method == "requestTopic":
            if params[1] in self._kinds:
                return [1, "", ["TCPROS", self.host, self._port]]
            return [0, "not here", 0]
        if method == "publisherUpdate":
            self._follow(str(params[1]), params[2])
            return [1, "", 0]
        if method == "getPid":
            return [1, "", os.getpid()]
        if method in ("getBusInfo", "getBusStats", "getSubscriptions", "getPublications"):
            return [1, "", []]
        return [-1, "unknown", 0]

    async def _on_subscriber(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(Exception):
            async with asyncio.timeout(2.0):
                fields = await self._read_header(reader)
            topic = fields["topic"]
            kind = message_type(self._kinds[topic])
            if fields.get("md5sum") not in ("*", kind.digest):
                writer.write(_header({"error": "md5sum differs"}))
                await writer.drain()
                writer.close()
                return
            writer.write(
                _header(
                    {
                        "callerid": self.name, "md5sum": kind.digest, "type": kind.name,
                        "topic": topic, "latching": "0", "message_definition": kind.definition,
                    }
                )
            )  # fmt: skip
            self._writers[topic].append(writer)
            self._sent[writer] = (fields.get("callerid", ""), 0)
            while await reader.read(4096):
                pass
        self._sent.pop(writer, None)
        writer.close()

    # ------------------------------------------------------------- we listen to others

    def leave(self, topic: str, gone: bool) -> None:
        """Drop the connections of a topic and make none, until it is back."""
        if not gone:
            self._left.discard(topic)
        elif topic not in self._left:
            self._left.add(topic)
            for (name, _), task in self._links.items():
                if name == topic:
                    task.cancel()

    def _follow(self, topic: str, publishers: Any) -> None:
        known = topic in self._callbacks and topic not in self._left
        if not known or not isinstance(publishers, list):
            return
        for uri in publishers[:16]:
            task = self._links.get((topic, str(uri)))
            if task is None or task.done():
                self._links[topic, str(uri)] = asyncio.ensure_future(self._listen(topic, str(uri)))
        for key in [k for k, task in self._links.items() if task.done() and k[0] == topic]:
            if key[1] not in publishers:
                del self._links[key]

    async def _listen(self, topic: str, uri: str) -> None:
        kind, callback = self._callbacks[topic]
        with contextlib.suppress(Exception):
            protocol, host, port = await self._call(uri, "requestTopic", topic, [["TCPROS"]])
            assert protocol == "TCPROS"
            reader, writer = await asyncio.open_connection(host, port)
            known = message_type(kind)
            writer.write(
                _header(
                    {
                        "callerid": self.name, "topic": topic, "type": known.name,
                        "md5sum": known.digest, "tcp_nodelay": "1",
                        "message_definition": known.definition,
                    }
                )
            )  # fmt: skip
            try:
                fields = await self._read_header(reader)
                if fields.get("md5sum") != known.digest:
                    return
                sender, sock = fields.get("callerid", ""), writer.get_extra_info("socket")
                self._got[writer] = (sender, 0)
                while True:
                    length = int.from_bytes(await reader.readexactly(4), "little")
                    if length > _MOST_BYTES:
                        return
                    body = await reader.readexactly(length)
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
                    try:
                        message = decode(kind, body)
                    except MalformedError:
                        self.malformed += 1
                    else:
                        callback(message)
                    self._got[writer] = (sender, self._got[writer][1] + 1)
            finally:
                self._got.pop(writer, None)
                writer.close()

    @staticmethod
    async def _read_header(reader: asyncio.StreamReader) -> dict[str, str]:
        total = int.from_bytes(await reader.readexactly(4), "little")
        if total > _MOST_BYTES:
            raise ValueError("too long")
        body, fields = await reader.readexactly(total), {}
        while body:
            length = int.from_bytes(body[:4], "little")
            name, _, value = body[4 : 4 + length].partition(b"=")
            fields[name.decode()] = value.decode()
            body = body[4 + length :]
        return fields


def _header(fields: dict[str, str]) -> bytes:
    items = [f"{name}={value}".encode() for name, value in fields.items()]
    body = b"".join(len(item).to_bytes(4, "little") + item for item in items)
    return len(body).to_bytes(4, "little") + body
