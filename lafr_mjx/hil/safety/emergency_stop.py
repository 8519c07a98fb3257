"""The emergency stop: a process of its own, with its own connection to the pilot.

It can stop even if everything else hangs: it needs neither the control process nor the operator's
console nor, once connected, the master. The guard beats a stream of commands; `off` beats all.
"""

from __future__ import annotations

import contextlib
import math
import os
import struct
import sys
import termios
import tty
from typing import TYPE_CHECKING

from lafr_mjx.hil.drones.drone_protocol import Call
from lafr_mjx.hil.safety.emergency_landing import UNKNOWN_GROUND_M, EmergencyLanding, Known
from lafr_mjx.hil.safety.landing import Heights

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lafr_mjx.hil.drones.drone_protocol import Seen, Watched
    from lafr_mjx.hil.safety.drone_profile import Profile

_CUT_REPEAT_S = 0.05
_CUT_S = 1.0
_RESTS_S = 2.0  # a vehicle whose motors have been off for so long stands
_POLL_S = 0.01  # while it brings the vehicle down
_JOYSTICK = "/dev/input/js0"
_JS_EVENT = struct.Struct("IhBB")


class EmergencyStop:
    """Watches the vehicle, and on a key brings it down by calls to its pilot."""

    def __init__(self, drone: Watched, profile: Profile) -> None:
        self.drone, self.clock = drone, drone.clock
        self._landing = EmergencyLanding(profile)
        self._heights = Heights()
        self._mocap_number = -1
        self._position: tuple[float, ...] | None = None
        self._changed = -math.inf  # when motion capture last showed something new
        self._off_since = math.inf  # since when the motors are off
        self._ground = UNKNOWN_GROUND_M
        self._cut_until = -math.inf
        self._cut_next = -math.inf

    def stop(self, yields: bool = False) -> bool:
        """Guard or hover at once, then land, then motors off; whether the pilot listens.

        A key that nobody hears is not kept: it would act at a moment at which nobody wants it.
        One that no person pressed yields to who has taken the vehicle.
        """
        reaches = self.drone.reaches
        if reaches:
            self._landing.begin(self.clock.now(), yields)
            self.poll()
        return reaches

    def cut(self) -> bool:
        """Motors off, now; whether that leaves for the pilot, who need not be heard any more."""
        sends = self.drone.sends
        if sends:
            self._cut_next = self.clock.now()
            self._cut_until = self._cut_next + _CUT_S
            self.poll()
        return sends

    def poll(self) -> float:
        """Send what is due; seconds until to call this again."""
        now = self.clock.now()
        seen = self._look()
        if now >= self._cut_next and now < self._cut_until:
            self._cut_next = now + _CUT_REPEAT_S
            self.drone.call(Call.OFF)
        if not self._landing.done:
            doing = self._landing.doing
            for call in self._landing.calls(self._known(now, seen)):
                self.drone.call(call)
            if self._landing.doing != doing:
                print(f"emergency stop: {self._landing.doing}", flush=True)
        return _POLL_S if self.busy or self.clock.lockstep else 0.1

    @property
    def busy(self) -> bool:
        """Whether it is at work."""
        return not self._landing.done or self.clock.now() < self._cut_until

    def _look(self) -> Seen:
        seen, now = self.drone.seen(), self.clock.now()
        if seen.mocap_number != self._mocap_number:
            self._mocap_number = seen.mocap_number
            if seen.position is not None and seen.position != self._position:
                self._position, self._changed = seen.position, seen.mocap_receipt
                self._heights.see(seen.mocap_receipt, seen.position[2])
        off = not math.isinf(seen.telemetry_receipt) and not seen.armed
        self._off_since = min(self._off_since, now) if off else math.inf
        # Not of one that falls: when the motors have been off for long, and nobody has stopped it.
        rests = now - self._off_since > _RESTS_S and not self.busy
        if rests and self._position is not None:
            self._ground = self._position[2]
        return seen

    def _known(self, now: float, seen: Seen) -> Known:
        return Known(
            now=now,
            position=self._position,
            # One that repeats itself shows nothing.
            mocap_age=now - self._changed,
            climb=self._heights.climb(),
            telemetry_age=now - seen.telemetry_receipt,
            armed=seen.armed,
            guarded=seen.guarded,
            stream_age=now - seen.stream_receipt,
            ground=self._ground,
            taken=seen.taken,
        )


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


def watch(stop: EmergencyStop) -> None:
    """Serve keys until standard input ends.

    Space or s: guard or hover, land, motors off. K (capital): motors off. A line `stop` or `off`
    does the same where standard input is a pipe; `land` is a stop that no person wants, and yields
    to who takes the vehicle.
    """
    stick = joystick()
    said = None
    with keys() as keyboard:
        sources = [source for source in (keyboard, stick) if source is not None]
        while True:
            if stop.drone.connected != said:
                said = stop.drone.connected
                print("emergency stop: " + ("ready" if said else "NOT connected"), flush=True)
            for source in stop.clock.readable(sources, stop.poll()):
                try:
                    data = os.read(source, 4096)
                except OSError:  # a joystick that was pulled out
                    data = b""
                if not data:
                    sources.remove(source)
                    continue
                _react(stop, data, source == stick)
            if not sources and not stop.busy:
                return


def _react(stop: EmergencyStop, data: bytes, from_joystick: bool) -> None:
    if from_joystick:
        for at in range(0, len(data) - _JS_EVENT.size + 1, _JS_EVENT.size):
            _, value, kind, _ = _JS_EVENT.unpack_from(data, at)
            if kind == 1 and value:  # a button is pressed; not the initial state (0x81)
                _say(stop.stop(), "STOP: guard, land, motors off")
        return
    if b"K" in data or b"off" in data:
        unheard = "" if stop.drone.reaches else ", but nothing is heard: use the transmitter, too"
        _say(stop.cut(), f"CUT: motors off{unheard}")
    elif b" " in data or b"s" in data.lower():
        _say(stop.stop(), "STOP: guard, land, motors off")
    elif b"land" in data:
        _say(stop.stop(yields=True), "STOP: guard, land, motors off")


def _say(heard: bool, what: str) -> None:
    print(what if heard else f"NOT SENT, not connected ({what}): use the transmitter", flush=True)
