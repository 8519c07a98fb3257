"""TCPROS as bytes: connection headers and length-prefixed frames, with bounds on both.

Facts of the protocol: https://wiki.ros.org/ROS/TCPROS and /ROS/Connection%20Header. A frame is a
little-endian length and that many bytes. A connection begins with one frame of fields on each
side; a field is again a length and `name=value`.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_HEADER = 65_536
"""Bytes of a connection header; the longest definition here has 6,000."""

_MAX_FIELDS = 64
_LENGTH = struct.Struct("<I")


class WireError(Exception):
    """A peer does not speak the protocol; its connection must be closed."""


class OversizedError(WireError):
    """A frame announces more bytes than are allowed."""


def encode_fields(fields: Mapping[str, str]) -> bytes:
    """A connection header with its length in front."""
    items = [f"{key}={value}".encode() for key, value in fields.items()]
    return frame(b"".join(frame(item) for item in items))


def decode_fields(body: bytes) -> dict[str, str]:
    """Fields of a connection header (without the length in front)."""
    fields: dict[str, str] = {}
    at = 0
    while at < len(body):
        if at + 4 > len(body) or len(fields) >= _MAX_FIELDS:
            raise WireError("a connection header is cut short or has too many fields")
        (length,) = _LENGTH.unpack_from(body, at)
        item = body[at + 4 : at + 4 + length]
        if len(item) != length:
            raise WireError("a field of a connection header is cut short")
        name, equals, value = item.partition(b"=")
        if not equals:
            raise WireError("a field of a connection header has no '='")
        try:
            fields[name.decode()] = value.decode()
        except UnicodeDecodeError as error:
            raise WireError("a field of a connection header is not UTF-8") from error
        at += 4 + length
    return fields


def frame(body: bytes) -> bytes:
    """Bytes with their length in front."""
    return _LENGTH.pack(len(body)) + body


class Frames:
    """Cuts a stream into frames; never holds more than one frame and what was just fed."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._buffer = bytearray()

    def feed(self, data: bytes, at_most: int | None = None) -> list[bytes]:
        """Add bytes from the stream; the frames that they complete, `at_most` so many."""
        self._buffer += data
        frames: list[bytes] = []
        at = 0
        while len(self._buffer) - at >= 4 and (at_most is None or len(frames) < at_most):
            (length,) = _LENGTH.unpack_from(self._buffer, at)
            if length > self.limit:
                raise OversizedError(f"a frame of {length} bytes; allowed are {self.limit}")
            if len(self._buffer) - at - 4 < length:
                break
            frames.append(bytes(self._buffer[at + 4 : at + 4 + length]))
            at += 4 + length
        del self._buffer[:at]
        return frames
