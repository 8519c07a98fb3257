"""Files that survive a kill: whole files, lines that are complete or dropped, and a lock."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
from typing import TYPE_CHECKING, Any

from lafr_mjx.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

LOCK_NAME = ".lock"


def read_lines(path: Path) -> list[tuple[dict[str, Any], int]]:
    """Records of a file of JSON lines, each with the offset of its end."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    lines: list[tuple[dict[str, Any], int]] = []
    end = 0
    *complete, _ = data.split(b"\n")  # what follows the last line's end is half a line
    for i, line in enumerate(complete):
        end += len(line) + 1
        record: dict[str, Any] = {}
        with contextlib.suppress(ValueError, RecursionError):
            read = json.loads(line)
            record = read if isinstance(read, dict) else {}
        number = record.get("iteration")
        if not isinstance(number, int) or (lines and number <= lines[-1][0]["iteration"]):
            if i == len(complete) - 1:
                break  # lost with the power before it was all on the disk
            raise InputError(f"{path}: line {i + 1} is not a record of an iteration")
        lines.append((record, end))
    return lines


def locked(path: Path) -> int:
    """Become the only writer until the descriptor is closed, be it by a kill."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    lock = os.open(path / LOCK_NAME, flags, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            raise InputError(f"{path}: another process is writing to this folder") from error
        raise
    return lock


def unlock(lock: int | None) -> None:
    """Let others write."""
    if lock is not None:
        os.close(lock)


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file; it has the old or the new content, whatever happens."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        with partial.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)  # on a full disk it would hold what is left
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
