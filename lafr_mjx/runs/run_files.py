"""Files that survive a kill: whole files, lines that are complete or dropped, and a lock."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from typing import TYPE_CHECKING, Any

from lafr_mjx.errors import InputError
from lafr_mjx.output import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

LOCK_NAME = ".lock"


def read_lines(path: Path, refused: Callable[[int, str], InputError]) -> list[tuple[Any, int]]:
    """What the lines of a file say, each with the offset of its end; half a line is left out.

    Args:
        path: of a file of JSON lines; without it there is none.
        refused: the error for a line, by its number and what is wrong with it.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    lines, end = [], 0
    *complete, _ = data.split(b"\n")  # what follows the last line's end is half a line
    for number, line in enumerate(complete, start=1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            if number == len(complete):
                break  # lost with the power before it was all on the disk
            raise refused(number, "cannot be read") from error
        end += len(line) + 1
        lines.append((record, end))
    return lines


def append_lines(path: Path, records: Iterable[Any], end: int) -> None:
    """Write lines from an offset on; when this returns, they are on the disk."""
    text = "".join(json.dumps(plain(record), allow_nan=False) + "\n" for record in records)
    with path.open("r+b" if path.exists() else "xb") as file:
        # A killed writer may have left half a line.
        file.seek(end)
        file.truncate()
        file.write(text.encode("utf-8"))
        file.flush()
        os.fsync(file.fileno())


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
