"""The processes of one flight: started together, watched, and ended together."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from lafr_mjx.hil.operator import child_process
from lafr_mjx.hil.timing.lockstep import place
from lafr_mjx.hil.timing.priority import ONE_THREAD

if TYPE_CHECKING:
    import socket
    import subprocess
    from pathlib import Path

_ENDS = ("control", "stop", "drone")  # in this order: who keeps a time in lockstep goes last


class Processes:
    """Control process, emergency stop; with the software drone that, too.

    What each of them prints is in `NAME.txt` of the folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        self._things = contextlib.ExitStack()

    def __getitem__(self, name: str) -> subprocess.Popen[bytes]:
        """One of: drone, control, stop."""
        return self._started[name]

    def start(self, name: str, command: list[str], descriptor: int | None = None) -> None:
        """Start one."""
        self._started[name] = child_process.start(
            command, self._folder / f"{name}.txt", descriptor, listens=name == "stop",
            environment=ONE_THREAD,
        )  # fmt: skip

    def place_of_time(self) -> tuple[Path, socket.socket]:
        """Folder of a time in lockstep, and its door, which the drone is to have."""
        return self._things.enter_context(place())

    def running(self, name: str) -> bool:
        """Whether it has been started and runs."""
        process = self._started.get(name)
        return process is not None and process.poll() is None

    def ended(self) -> tuple[str, str] | None:
        """One that must be there and is not, with its last words."""
        for name in _ENDS:
            if name in self._started and not self.running(name):
                return name, self._last_words(name)
        return None

    def _last_words(self, name: str) -> str:
        return child_process.last_line(self._folder / f"{name}.txt") or "without a word"

    def tell_stop(self, line: bytes) -> None:
        """A line to the emergency stop."""
        process = self._started.get("stop")
        if process is not None and process.stdin is not None:
            with contextlib.suppress(OSError, ValueError):  # it may be closed already
                process.stdin.write(line)
                process.stdin.flush()

    def said_by_stop(self) -> str:
        """All that the emergency stop has said."""
        return (self._folder / "stop.txt").read_text(encoding="utf-8", errors="replace")

    def end(self) -> None:
        """End all of them; may be called again if it was interrupted."""
        for name in _ENDS:
            if name in self._started:
                child_process.end(self._started[name])
        self._things.close()
