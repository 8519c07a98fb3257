"""Readers of logs: what one is, where they are found, and reading a path with the right one.

To add a format, add a module to `logs/readers/` whose `READER` is a `LogReader`. Outside of this
package, `register(reader)` does the same; what is registered comes before what ships.
"""

from __future__ import annotations

import functools
import pkgutil
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from lafr_mjx.errors import InputError
from lafr_mjx.logs import readers

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lafr_mjx.logs.raw_log import RawLog


@dataclass(frozen=True)
class ReadOptions:
    """What a user may say about a log; each reader takes what concerns it."""

    columns: Path | None = None  # column map (TOML) of a table
    state_topic: str | None = None  # of a bag, instead of the one that is found
    command_topic: str | None = None
    full_thrust: float | None = None  # m/s² at a MAVROS thrust of 1


class LogReader(Protocol):
    """One format: which files it reads, and how."""

    label: str  # in help texts and messages, e.g. "`.csv` with --columns"
    suffixes: tuple[str, ...]  # of its files, in lower case

    def recognises(self, path: Path) -> bool:
        """Whether it reads this file or folder; by default, files by their suffix."""
        return path.is_file() and path.suffix.lower() in self.suffixes

    def read(self, path: Path, options: ReadOptions) -> Sequence[RawLog]:
        """All flights of the file or folder; an `InputError` says what is wrong with it."""
        ...


_registered: list[LogReader] = []


def register(reader: LogReader) -> None:
    """Add a format of your own; it is asked before all others."""
    _registered.insert(0, reader)


@functools.cache
def _shipped() -> tuple[LogReader, ...]:
    names = [module.name for module in pkgutil.iter_modules(readers.__path__)]
    return tuple(import_module(f"{readers.__name__}.{name}").READER for name in names)


def all_readers() -> tuple[LogReader, ...]:
    """Every reader, in the order in which they are asked."""
    return (*_registered, *_shipped())


def known_formats() -> str:
    """All formats, for help texts and messages."""
    return "; ".join(reader.label for reader in all_readers())


def read_logs(path: Path, options: ReadOptions = ReadOptions()) -> Sequence[RawLog]:
    """All flights of a file or folder, by the first reader that recognises it."""
    if not path.exists():
        raise InputError(f"{path}: there is no such file or folder")
    for reader in all_readers():
        if reader.recognises(path):
            return reader.read(path, options)
    raise InputError(
        f"{path}: is no log that is known here; known are {known_formats()}{_inside(path)}"
    )


def _inside(path: Path) -> str:
    """A hint for who gave a folder of logs."""
    if not path.is_dir():
        return ""
    suffixes = {suffix for reader in all_readers() for suffix in reader.suffixes}
    names = sorted(p.name for p in path.iterdir() if p.suffix.lower() in suffixes)
    if not names:
        return ""
    return f"; give the logs in it one by one: {', '.join(names[:5])}{', ...' * (len(names) > 5)}"
