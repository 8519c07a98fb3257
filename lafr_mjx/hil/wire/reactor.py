"""One thread that serves all sockets of a node, so that no peer can hold up another.

Nothing here blocks but the wait for readiness. A channel that raises is closed. Under
a flood the loop rests, so that the control loop beside it keeps its share of the interpreter; in
lockstep that waits for us, and takes no time.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_TICK_S = 0.05
_BUDGET = 20  # rounds in 10 ms; the traffic of a drone needs about 6
_REST_S = 0.001
_URGENT_S = 0.002  # the control loop has the interpreter for itself after what it waits for


class Channel:
    """A socket in the loop. Subclasses handle what arrives."""

    urgent = False  # somebody waits for what arrives here: let them work before anything else

    def __init__(self, reactor: Reactor, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.reactor = reactor
        self.sock = sock
        self.opened = time.monotonic()
        self.closed = False

    def events(self) -> int:
        """What to wait for."""
        return selectors.EVENT_READ

    def ready(self, mask: int) -> None:
        """Called when the socket is ready; must not block."""
        raise NotImplementedError

    def tick(self, now: float) -> None:
        """Called about every 50 ms."""

    def on_close(self) -> None:
        """Called once when the channel is closed."""

    def close(self) -> None:
        """Close and forget (loop thread only)."""
        if not self.closed:
            self.closed = True
            self.reactor.forget(self)
            with contextlib.suppress(OSError):
                self.sock.close()
            self.on_close()


class Reactor:
    """The loop and its thread."""

    def __init__(self, name: str, *, rests: bool = True) -> None:
        self._rests = rests
        self._selector = selectors.DefaultSelector()
        self._channels: set[Channel] = set()
        self._posted: deque[Callable[[], None]] = deque()
        self._stopping = False
        self._woken, self._waker = socket.socketpair()
        self._woken.setblocking(False)
        self._waker.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ, None)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def stop(self) -> None:
        """Close all channels and end the thread."""
        self._stopping = True
        self.wake()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(timeout=2.0)

    def post(self, function: Callable[[], None]) -> None:
        """Run a function in the loop's thread, soon."""
        self._posted.append(function)
        self.wake()

    def wake(self) -> None:
        """End the present wait."""
        with contextlib.suppress(OSError):
            self._waker.send(b"\0")

    def add(self, channel: Channel) -> None:
        """Serve a channel (loop thread only)."""
        self._channels.add(channel)
        self._selector.register(channel.sock, channel.events(), channel)

    def update(self, channel: Channel) -> None:
        """Its `events` have changed (loop thread only)."""
        if not channel.closed:
            self._selector.modify(channel.sock, channel.events(), channel)

    def forget(self, channel: Channel) -> None:
        """Serve it no longer."""
        self._channels.discard(channel)
        with contextlib.suppress(KeyError, ValueError, OSError):
            self._selector.unregister(channel.sock)

    def _run(self) -> None:
        next_tick = time.monotonic() + _TICK_S
        rounds, window = 0, time.monotonic()
        while not self._stopping:
            ready = self._selector.select(max(0.0, next_tick - time.monotonic()))
            for key, mask in ready:
                if key.data is None:
                    with contextlib.suppress(OSError):
                        while self._woken.recv(4096):
                            pass
                else:
                    self._guarded(key.data, key.data.ready, mask)
                    if key.data.urgent and self._rests:
                        time.sleep(_URGENT_S)
            while self._posted:
                self._guarded(None, self._posted.popleft())
            now = time.monotonic()
            if now >= next_tick:
                next_tick = now + _TICK_S
                for channel in tuple(self._channels):
                    self._guarded(channel, channel.tick, now)
            rounds += 1
            if now - window > 0.01:
                rounds, window = 0, now
            elif rounds > _BUDGET and self._rests:
                time.sleep(_REST_S)
        for channel in tuple(self._channels):
            self._guarded(channel, channel.close)
        self._selector.close()
        self._woken.close()
        self._waker.close()

    def _guarded(
        self, channel: Channel | None, function: Callable[..., None], *args: object
    ) -> None:
        if channel is not None and channel.closed:
            return
        try:
            function(*args)
        except Exception:  # one bad peer must not end the thread that serves all
            if channel is not None:
                with contextlib.suppress(Exception):
                    channel.close()
