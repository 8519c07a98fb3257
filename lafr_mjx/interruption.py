"""Ctrl-C and SIGTERM: the first one ends the command in order, a second one at once."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import threading
from importlib.machinery import ExtensionFileLoader
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_AGAIN_S = 0.02
_WEAK_REFERENCES = ("_weakrefset.py", "weakref.py")  # whose callbacks are called by nobody


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


@contextlib.contextmanager
def held() -> Iterator[list[int]]:
    """Within it the first signal only joins the list that is given; it acts when the block ends.

    For what must not be left in the middle; it looks at the list where it can stop.
    """
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield came
        return

    def noted(number: int, frame: Any) -> None:
        del frame
        if came:
            os._exit(128 + number)
        came.append(number)

    before = [signal.signal(each, noted) for each in _SIGNALS]
    try:
        yield came
    finally:
        for each, handler in zip(_SIGNALS, before, strict=True):
            signal.signal(each, handler)
        if came:
            signal.raise_signal(came[0])


def would_be_lost(frame: Any) -> bool:
    """Whether Python would drop an exception that is raised now.

    It does in `__del__`, in callbacks of weak references, and in what is called by the garbage
    collector, where JAX has a function; Ctrl-C would do nothing but print a traceback. An
    extension that is being loaded fails for it, and takes the process down when that ends.
    """
    called_by_collector = {getattr(callback, "__code__", None) for callback in gc.callbacks}
    while frame is not None:
        code = frame.f_code
        if code in called_by_collector or code.co_name == "__del__":
            return True
        if os.path.basename(code.co_filename) in _WEAK_REFERENCES:
            return True
        if code.co_name == "exec_module" and isinstance(
            frame.f_locals.get("self"), ExtensionFileLoader
        ):
            return True
        frame = frame.f_back
    return False
