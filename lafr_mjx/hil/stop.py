"""The emergency stop: a process of its own, with its own connection to the pilot.

It can cut even if everything else hangs: it needs neither the control process nor the operator's
console nor, once connected, the master. The guard beats a stream of commands; `off` beats all.
"""

from __future__ import annotations

import contextlib
import os
import select
import struct
import sys
import termios
import tty
from typing import TYPE_CHECKING

from lafr_mjx.hil import messages as m
from lafr_mjx.hil.flight_clock import REAL_TIME
from lafr_mjx.hil.node import LOOPBACK
from lafr_mjx.hil.transport import open_node, own_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lafr_mjx.hil.flight_clock import FlightClock
    from lafr_mjx.hil.profile import Profile

_REPEAT_S = 0.05
_FOR_S = 1.0
_JOYSTICK = "/dev/input/js0"
_JS_EVENT = struct.Struct("IhBB")


class EmergencyStop:
    """Publishes `trigger_guard`, `land` and `off`, again and again until they must be heard."""

    def __init__(
        self,
        profile: Profile,
        master: str,
        host: str = LOOPBACK,
        clock: FlightClock = REAL_TIME,
    ) -> None:
        self._clock = clock
        self.node = open_node(own_name("stop"), master, host, clock)
        self._topics = {
            name: self.node.advertise(profile.topic(name), "std_msgs/Empty")
            for name in ("trigger_guard", "land", "off")
        }
        self._pending: list[tuple[float, str]] = []  # due, name
        self.node.start()

    @property
    def connected(self) -> bool:
        """Whether the pilot listens."""
        return all(topic.subscribers for topic in self._topics.values())

    def stop(self) -> None:
        """Guard at once; a second later land, for as long as it takes."""
        now = self._clock.now()
        guard = [(now + k * _REPEAT_S, "trigger_guard") for k in range(round(_FOR_S / _REPEAT_S))]
        land = [(now + _FOR_S + 0.5 * k, "land") for k in range(20)]
        self._pending += guard + land
        self.poll()

    def cut(self) -> None:
        """Motors off, now."""
        now = self._clock.now()
        self._pending = [(now + k * _REPEAT_S, "off") for k in range(round(_FOR_S / _REPEAT_S))]
        self.poll()

    def poll(self) -> float:
        """Send what is due; real seconds until the next is."""
        now = self._clock.now()
        due = [name for when, name in self._pending if when <= now]
        self._pending = [(when, name) for when, name in self._pending if when > now]
        for name in dict.fromkeys(due):
            self._topics[name].publish(m.encode("std_msgs/Empty", m.empty()))
        return min((self._clock.real_s(when - now) for when, _ in self._pending), default=0.1)

    @property
    def busy(self) -> bool:
        """Whether something remains to be sent."""
        return bool(self._pending)

    def close(self) -> None:
        """Leave."""
        self.node.close()


@contextlib.contextmanager
def keys() -> Iterator[int | None]:
    """Standard input, key by key if it is a terminal."""
    try:
        descriptor = sys.stdin.fileno()
    except (OSError, ValueError):
        yield None
        return
    if not sys.stdin.isatty():
        yield descriptor
        return
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield descriptor
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def joystick() -> int | None:
    """A joystick, if there is one: any button stops."""
    try:
        return os.open(_JOYSTICK, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None


def watch(stop: EmergencyStop, once: bool = False) -> None:
    """Serve keys until standard input ends (or, with `once`, until the first stop is sent).

    Space or s: guard, then land. K (capital): motors off. A line `stop` or `off` does the same
    where standard input is a pipe.
    """
    stick = joystick()
    said = None
    with keys() as keyboard:
        sources = [source for source in (keyboard, stick) if source is not None]
        while True:
            if stop.connected != said:
                said = stop.connected
                print("emergency stop: " + ("ready" if said else "NOT connected"), flush=True)
            ready, _, _ = select.select(sources, [], [], min(0.1, stop.poll()))
            for source in ready:
                data = os.read(source, 4096)
                if source == keyboard and not data:
                    if not once or not stop.busy:
                        sources.remove(source)
                        if not stop.busy:
                            return
                    continue
                _react(stop, data, source == stick)
            if not sources and not stop.busy:
                return


def _react(stop: EmergencyStop, data: bytes, from_joystick: bool) -> None:
    if from_joystick:
        for at in range(0, len(data) - _JS_EVENT.size + 1, _JS_EVENT.size):
            _, value, kind, _ = _JS_EVENT.unpack_from(data, at)
            if kind == 1 and value:  # a button is pressed; not the initial state (0x81)
                stop.stop()
                _say(stop, "STOP: guard, then land")
        return
    if b"K" in data or b"off" in data:
        stop.cut()
        _say(stop, "CUT: motors off")
    elif b" " in data or b"s" in data.lower():
        stop.stop()
        _say(stop, "STOP: guard, then land")


def _say(stop: EmergencyStop, what: str) -> None:
    heard = stop.connected
    print(what if heard else f"NOT SENT, not connected ({what}): use the transmitter", flush=True)
