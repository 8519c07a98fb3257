"""Ctrl-C and SIGTERM: the first one ends the command in order, a second one at once."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_AGAIN_S = 0.02


class Interrupted(KeyboardInterrupt):
    """Somebody wants the command to end."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.status = 128 + number


@contextlib.contextmanager
def orderly() -> Iterator[None]:
    """Within it the first signal raises `Interrupted`; a second one does not wait for it."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may say what signals do
        return

    def first(number: int, frame: Any) -> None:
        if would_be_lost(frame):
            again = threading.Timer(_AGAIN_S, os.kill, (os.getpid(), number))
            again.daemon = True
            again.start()
            return
        for each in _SIGNALS:
            signal.signal(each, at_once)
        raise Interrupted(number)

    def at_once(number: int, frame: Any) -> None:
        del frame
        os._exit(128 + number)

    before = [signal.signal(each, first) for each in _SIGNALS]
    try:
        yield
    finally:
        for each, handler in zip(_SIGNALS, before, strict=True):
            signal.signal(each, handler)


def would_be_lost(frame: Any) -> bool:
    """Whether Python would drop an exception that is raised now.

    It does in `__del__` and in what is called by the garbage collector, where JAX has a function;
    Ctrl-C would do nothing but print a traceback.
    """
    called_by_collector = {getattr(callback, "__code__", None) for callback in gc.callbacks}
    while frame is not None:
        if frame.f_code in called_by_collector or frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False
