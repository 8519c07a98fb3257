"""The clock of the drone's world: real time, slow motion, or a time that somebody else keeps.

A time that is kept stands in a file (`PAGE`): two slots of which the count says the valid one, each
with numbers by the machine's monotonic clock. The client reads the same file by code of its own, as
it does the wire.
"""

from __future__ import annotations

import mmap
import struct
import time
from typing import TYPE_CHECKING

from lafr_mjx.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

# Name, count, then twice: time, since, until, least, least since; all without gaps.
PAGE = struct.Struct("=8sQ5d5d")
_NAME = b"LAFRTIME"
_LEAST_PACE = 0.25  # at which it goes on in any case, from the last of the numbers on


class WorldClock:
    """Seconds of the drone's world, which never run backwards."""

    def __init__(self, slow: float = 1.0, kept: Path | None = None) -> None:
        self.slow = slow
        """How many seconds of ours a second of the world takes."""
        self._page = None if kept is None else _open(kept)
        self._latest = 0.0

    def now(self) -> float:
        """This moment [s]."""
        moment = time.monotonic() if self._page is None else self._kept()
        return moment / self.slow

    def real_s(self, seconds: float) -> float:
        """So long it takes by the machine's own clock, if nothing stands still."""
        return seconds * self.slow

    def _kept(self) -> float:
        page = self._page
        assert page is not None
        while True:
            _, count, *numbers = PAGE.unpack_from(page)
            if PAGE.unpack_from(page)[1] == count:  # not written to while it was read
                break
        first = 5 * (count % 2)
        at_beat, since, until, least, least_since = numbers[first : first + 5]
        moment = time.monotonic()
        ran = at_beat + max(0.0, min(moment, until) - since)
        at_least = least + _LEAST_PACE * max(0.0, moment - least_since)
        self._latest = max(self._latest, ran, at_least)
        return self._latest


def _open(file: Path) -> mmap.mmap:
    try:
        with file.open("rb") as opened:
            page = mmap.mmap(opened.fileno(), PAGE.size, prot=mmap.PROT_READ)
    except (OSError, ValueError) as error:
        raise InputError(f"--patient {file}: cannot be read: {error}") from error
    if page[: len(_NAME)] != _NAME:
        raise InputError(f"--patient {file}: cannot be read: nobody keeps a time in it")
    return page
