"""The operator's keys while something flies: space or s stops, K cuts the motors, l lands."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import termios
import threading
import tty
from typing import TYPE_CHECKING

from lafr_mjx.hil.safety.modes import Word

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lafr_mjx.hil.operator.session import Session

_LOOK_S = 0.05


@contextlib.contextmanager
def keys(session: Session) -> Iterator[None]:
    """Heed the keys, but for the time of a prompt; nothing where there is no terminal."""
    if not sys.stdin.isatty():
        yield
        return
    keyboard = _Keyboard(session, sys.stdin.fileno())
    session.prompting = keyboard.prompting
    try:
        yield
    finally:
        session.prompting = contextlib.nullcontext
        keyboard.close()


class _Keyboard:
    """A thread that reads keys one by one."""

    def __init__(self, session: Session, descriptor: int) -> None:
        self._session, self._descriptor = session, descriptor
        self._usual = termios.tcgetattr(descriptor)
        self._turn = threading.Lock()  # whose the keyboard is
        self._done = threading.Event()
        tty.setcbreak(descriptor)
        threading.Thread(target=self._watch, name="keys", daemon=True).start()

    @contextlib.contextmanager
    def prompting(self) -> Iterator[None]:
        """Whole lines with echo, as a prompt needs them."""
        with self._turn:
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._usual)
            try:
                yield
            finally:
                tty.setcbreak(self._descriptor)

    def close(self) -> None:
        """Give the terminal back as it was."""
        self._done.set()
        with self._turn:
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._usual)

    def _watch(self) -> None:
        while not self._done.wait(0.001):  # a moment in which a prompt can have its turn
            with self._turn:
                ready = select.select([self._descriptor], [], [], _LOOK_S)[0]
                # All that is there: a buffered reader would keep the second of two quick keys.
                data = os.read(self._descriptor, 64) if ready else b""
            if ready and not data:
                return
            for key in data.decode(errors="replace"):
                self._press(key)

    def _press(self, key: str) -> None:
        if key == "K":
            self._session.cut()
        elif key in " s":
            self._session.stop()
        elif key == "l":
            self._session.say(Word.LAND)
