"""The processes of a flight as their starter sees them: begun, ended, and their last words."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def start(
    command: list[str],
    log: Path,
    descriptor: int | None = None,
    *,
    listens: bool = False,
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start Python with these arguments.

    Args:
        command: arguments of the interpreter.
        log: file that what it prints is appended to.
        descriptor: of a socket that it inherits.
        listens: whether it reads what we write to it.
        environment: beside our own.
    """
    with log.open("ab") as file:
        # A session of its own: Ctrl-C reaches the operator's process only, which then lands.
        return subprocess.Popen(
            [sys.executable, *command],
            stdin=subprocess.PIPE if listens else subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env=os.environ | dict(environment or {}),
            start_new_session=True,
            pass_fds=() if descriptor is None else (descriptor,),
        )


def end(process: subprocess.Popen[bytes], patience: float = 5.0) -> None:
    """Ask it to end, and make it; returns when it has."""
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    for number, seconds in ((signal.SIGTERM, patience), (signal.SIGKILL, 5.0)):
        if process.poll() is None:
            with contextlib.suppress(OSError):
                process.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(seconds)


def last_line(log: Path) -> str:
    """What it said last; empty if nothing."""
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else ""
