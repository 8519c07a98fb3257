"""The recording of a flight while it goes on: records appended to one file, never rewritten.

A process that is killed in the middle leaves all records but the last one readable. A bag is
made of it afterwards, by another process. Each record has its length and a checksum in front.
"""

from __future__ import annotations

import json
import os
import struct
import threading
import time
import zlib
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from lafr_mjx.errors import InputError
from lafr_mjx.hil.timing.priority import background

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_MAGIC = b"lafr-mjx spool 1\n"
_HEAD = struct.Struct("<IIddH")  # length of the data, checksum, monotonic, wall, topic's number
_NEW_TOPIC = 0xFFFF
_MOST_BYTES = 1 << 20
_QUEUE = 20_000  # records that wait for a slow disk, then recording stops
_SYNC_S = 1.0


class Record(NamedTuple):
    """One message."""

    topic: str
    kind: str  # e.g. "agiros_msgs/QuadState"
    time: float  # s, monotonic clock of the control process
    wall: float  # s since 1970
    data: bytes


class SpoolWriter:
    """Writes in a thread of its own; the control loop only hands over."""

    def __init__(self, path: Path, write: Callable[[int, bytes], int] = os.write) -> None:
        """Begin a new file.

        Args:
            path: must not exist.
            write: how bytes reach the disk; tests make it slow or full.
        """
        self.trouble = ""  # why recording has stopped, if it has
        self._queue: deque[Record] = deque()
        self._numbers: dict[tuple[str, str], int] = {}
        self._write = write
        self._wake, self._closing = threading.Event(), False
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error
        self._put(_MAGIC)
        self._thread = threading.Thread(target=self._run, name="spool", daemon=True)
        self._thread.start()

    def add(self, record: Record) -> None:
        """Hand over a record; never blocks, never raises."""
        if self.trouble:
            return
        if len(self._queue) >= _QUEUE:
            self.trouble = "the disk is too slow"
            return
        self._queue.append(record)
        self._wake.set()

    def close(self, timeout: float = 5.0) -> None:
        """Write what waits and close the file."""
        self._closing = True
        self._wake.set()
        self._thread.join(timeout)

    def _run(self) -> None:
        background()
        synced = time.monotonic()
        try:
            while True:
                chunk = bytearray()
                while self._queue and len(chunk) < 1 << 18:
                    chunk += self._packed(self._queue.popleft())
                if chunk:
                    self._put(chunk)
                if time.monotonic() - synced > _SYNC_S:
                    synced = time.monotonic()
                    os.fsync(self._file)
                if self._closing and not self._queue:
                    break
                if not self._queue:
                    # A pause, so that records are written together.
                    self._wake.wait(0.2)
                    self._wake.clear()
                    time.sleep(0.02)
            os.fsync(self._file)
        except OSError as error:
            self.trouble = error.strerror or str(error)
            self._queue.clear()
        finally:
            os.close(self._file)

    def _put(self, data: bytes | bytearray) -> None:
        view = memoryview(bytes(data))
        while view:
            count = self._write(self._file, bytes(view))
            view = view[count:]

    def _packed(self, record: Record) -> bytes:
        key = (record.topic, record.kind)
        packed = b""
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._numbers)
            text = json.dumps([record.topic, record.kind]).encode()
            packed = _pack(0.0, 0.0, _NEW_TOPIC, text)
        return packed + _pack(record.time, record.wall, number, record.data)


def _pack(moment: float, wall: float, number: int, data: bytes) -> bytes:
    head = struct.pack("<ddH", moment, wall, number)
    return struct.pack("<II", len(data), zlib.crc32(head + data)) + head + data


class SpoolReader:
    """Reads the records that are whole; `damaged` says where reading had to end.

    Of a file that is still being written, a further iteration goes on where the last one ended,
    if the reader was made to `follow`.
    """

    def __init__(self, path: Path, *, follow: bool = False) -> None:
        self.path = path
        self.damaged = ""
        self._follow = follow
        self._at = 0
        self._topics: list[tuple[str, str]] = []

    def __iter__(self) -> Iterator[Record]:
        try:
            file = self.path.open("rb")
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read: {error.strerror or error}") from error
        with file:
            if file.read(len(_MAGIC)) != _MAGIC:
                raise InputError(f"{self.path}: is not a recorded flight")
            if not self._follow:
                self._at, self._topics, self.damaged = 0, [], ""
            file.seek(max(self._at, len(_MAGIC)))
            while head := file.read(_HEAD.size):
                at = file.tell() - len(head)
                if len(head) < _HEAD.size:
                    self.damaged = f"cut at byte {at}"
                    return
                length, checksum, moment, wall, number = _HEAD.unpack(head)
                data = file.read(length) if length <= _MOST_BYTES else b""
                whole = len(data) == length and zlib.crc32(head[8:] + data) == checksum
                if not whole or (number != _NEW_TOPIC and number >= len(self._topics)):
                    self.damaged = f"damaged at byte {at}"
                    return
                self._at = file.tell()
                if number == _NEW_TOPIC:
                    topic, kind = json.loads(data)
                    self._topics.append((topic, kind))
                else:
                    topic, kind = self._topics[number]
                    yield Record(topic, kind, moment, wall, data)
