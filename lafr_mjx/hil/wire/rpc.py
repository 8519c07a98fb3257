"""XML-RPC over HTTP as far as ROS 1 uses it, with bounds on time and size."""

from __future__ import annotations

import socket
import time
import xmlrpc.client
from typing import Any
from urllib.parse import urlsplit

MAX_BODY = 262_144
"""Bytes of a request or an answer; a system with hundreds of topics fits."""

_MAX_HEAD = 8_192


class RpcError(Exception):
    """A call failed: no connection, no answer in time, or not an answer."""


def call(uri: str, method: str, *params: Any, timeout: float = 1.0) -> Any:
    """Value of a ROS XML-RPC call, which answers (code, message, value).

    The whole call takes at most `timeout` seconds, whatever the peer does.
    """
    deadline = time.monotonic() + timeout
    try:
        parts = urlsplit(uri)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise RpcError(f"'{uri}' is not an address") from error
    if parts.scheme != "http" or not host or not port:
        raise RpcError(f"'{uri}' is not an address like http://127.0.0.1:11311")
    body = xmlrpc.client.dumps(params, method, allow_none=False).encode()
    request = (
        f"POST {parts.path or '/'} HTTP/1.1\r\nHost: {host}:{port}\r\n"
        f"Content-Type: text/xml\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    ).encode() + body
    try:
        with socket.create_connection((host, port), timeout=timeout) as connection:
            connection.settimeout(max(0.001, deadline - time.monotonic()))
            connection.sendall(request)
            answer = _read_answer(connection, deadline)
        values, _ = xmlrpc.client.loads(_checked(answer))
    except RpcError:
        raise
    except Exception as error:  # the parser raises almost anything on odd bytes
        raise RpcError(f"{method} at {uri}: {error or type(error).__name__}") from error
    answer = values[0] if len(values) == 1 else None
    if not isinstance(answer, list | tuple) or len(answer) != 3:
        raise RpcError(f"{method} at {uri}: the answer is not (code, message, value)")
    code, text, value = answer
    if code != 1:
        raise RpcError(f"{method} at {uri}: {text}")
    return value


def parse_request(data: bytes) -> tuple[str, tuple[Any, ...]] | None:
    """Method and parameters of an HTTP request, or None while it is not complete.

    Raises:
        RpcError: if it can never become one.
    """
    head, end, body = data.partition(b"\r\n\r\n")
    if not end:
        if len(data) > _MAX_HEAD:
            raise RpcError("the head of a request is too long")
        if data and not b"POST ".startswith(data[:5]):
            raise RpcError("not a POST request")
        return None
    if len(head) > _MAX_HEAD or not head.startswith(b"POST "):
        raise RpcError("not a POST request")
    length = _content_length(head)
    if length is None:
        raise RpcError("a request without its length")
    if len(body) < length:
        return None
    try:
        params, method = xmlrpc.client.loads(_checked(body[:length]))
    except RpcError:
        raise
    except Exception as error:
        raise RpcError(f"a request that cannot be read: {error}") from error
    if method is None:
        raise RpcError("a request without a method")
    return method, params


def answer_bytes(code: int, text: str, value: Any) -> bytes:
    """HTTP answer of a ROS XML-RPC call."""
    body = xmlrpc.client.dumps(([code, text, value],), methodresponse=True).encode()
    head = (
        f"HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nContent-Length: {len(body)}\r\n"
        f"Connection: close\r\n\r\n"
    )
    return head.encode() + body


def _read_answer(connection: socket.socket, deadline: float) -> bytes:
    data = b""
    while True:
        left = deadline - time.monotonic()
        if left <= 0.0:
            raise RpcError("no answer in time")
        connection.settimeout(left)
        chunk = connection.recv(65_536)
        data += chunk
        head, end, body = data.partition(b"\r\n\r\n")
        if len(data) > MAX_BODY + _MAX_HEAD:
            raise RpcError("an answer that is too long")
        if end:
            if b" 200 " not in head.partition(b"\r\n")[0] + b" ":
                raise RpcError(f"the answer is {head.partition(chr(13).encode())[0][:60]!r}")
            length = _content_length(head)
            if length is not None and len(body) >= length:
                return body[:length]
            if not chunk and length is None:
                return body
        if not chunk:
            raise RpcError("the answer was cut short")


def _content_length(head: bytes) -> int | None:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            text = value.strip()
            if not text.isdigit() or len(text) > 9 or int(text) > MAX_BODY:
                raise RpcError(f"a length of {text[:20]!r}; allowed are {MAX_BODY} bytes")
            return int(text)
    return None


def _checked(body: bytes) -> bytes:
    # A document type can define entities that expand without bound; ROS never sends one.
    if b"<!DOCTYPE" in body or b"<!ENTITY" in body:
        raise RpcError("a document type in XML-RPC")
    return body
