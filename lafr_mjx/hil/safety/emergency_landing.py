"""How a vehicle is brought down by somebody who cannot fly it: by calls to the pilot alone.

The emergency stop does this, and the control process when its own logic is broken. Pure: it is
told what is known, and says what to call.
"""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, NamedTuple

from lafr_mjx.hil.drones.drone_protocol import Call
from lafr_mjx.hil.safety.landing import LANDED_S, LOW_M, SINKING_MPS, Landing, stands

if TYPE_CHECKING:
    from lafr_mjx.hil.drones.drone_protocol import Heard
    from lafr_mjx.hil.safety.drone_profile import Profile

SILENT = "the pilot is not heard"
"""What it says when nothing comes of what it does."""

OFF = "motors are off"
"""What it says last ..."""

DOWN = f"it stands, {OFF}"
"""... when it has seen the vehicle come down."""

TAKEN = "somebody else has taken the vehicle, and keeps it"
"""What it says last where no person wants it down, but a program that gave up."""

UNKNOWN_GROUND_M = 0.15
"""Height of a vehicle that stands, where it was never seen standing [m]."""

_REPEAT_S = 0.05  # between calls that may be repeated
_GUARD_FOR_S = 1.0  # the guard is called until the pilot says so, and not for longer
_AFTER_OTHERS_S = 0.9  # whoever else lands the vehicle comes first, and it sinks by then
_AGAIN_S = 2.0  # later than the control process, so that the two do not call at the same time
_STREAM_S = 0.1  # a younger command counts as a stream that somebody sends
_STREAM_FOR_S = 0.5  # without a guard a stream that goes on so long is cut
_SLOWEST_MPS = 0.25  # of a landing; slower is none
_SPARE_S = 4.0
_FALLS_S = 1.5  # without motors, at the most
_SILENT_S = 5.0  # so long nothing of the pilot


class Known(NamedTuple):
    """What is known of the vehicle."""

    now: float  # s
    position: tuple[float, ...] | None  # m, of motion capture's last pose
    mocap_age: float  # s
    climb: float  # m/s; NaN if not known
    telemetry_age: float  # s
    armed: bool  # the bridge to the motors
    guarded: bool  # the guard has triggered
    stream_age: float  # s, of the last command of anybody
    ground: float = UNKNOWN_GROUND_M  # m, height at which it stood
    taken: bool = False  # somebody else has it


def known_of(now: float, heard: Heard, climb: float, ground: float) -> Known:
    """The same from what the control process hears; it sends no commands by then."""
    position = None if heard.mocap_position is None else tuple(heard.mocap_position.tolist())
    return Known(
        now=now, position=position, mocap_age=now - heard.mocap_receipt, climb=climb,
        telemetry_age=now - heard.telemetry_receipt, armed=heard.armed, guarded=heard.guard,
        stream_age=math.inf, ground=ground if math.isfinite(ground) else UNKNOWN_GROUND_M,
        taken=heard.taken,
    )  # fmt: skip


class EmergencyLanding:
    """From the key to the motors' stop; `calls` again and again until `done`."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._pressed = self._last = math.inf  # s; the key, and the last look
        self._begin = math.inf  # the key, less the time in which the pilot was not heard
        self._next = -math.inf
        self._landing = Landing()
        self._hovered = False
        self._seen = False
        self._limit = self._longest(profile.limits.altitude_max_m)
        self._low_since = self._off_since = math.inf
        self._streams_since = self._unseen_since = math.inf
        self._patience = _AGAIN_S + random.random()  # two that call together must get apart
        self._yields = False  # to who takes the vehicle
        self.doing = ""  # in words
        self.done = True

    def begin(self, now: float, yields: bool = False) -> None:
        """The key was pressed; again does nothing new.

        Args:
            now: s.
            yields: it was no person: who takes the vehicle keeps it.
        """
        self._yields = self._yields and yields
        if self.done:
            self.__init__(self._profile)
            self._begin = self._pressed = self._last = now
            self.done, self._yields = False, yields

    def calls(self, known: Known) -> tuple[Call, ...]:
        """What to call now."""
        if self.done or known.now < self._next:
            return ()
        if known.telemetry_age > self._profile.limits.link_s:
            self._begin += known.now - self._last  # what is not heard takes none of its time
        self._last, self._next = known.now, known.now + _REPEAT_S
        if known.telemetry_age <= self._profile.limits.link_s and not known.armed:
            self._end(known)
            return ()
        if self._yields and known.taken:
            self.done, self.doing = True, TAKEN
            return ()
        call = self._call(known)
        if min(known.telemetry_age, known.now - self._pressed) > _SILENT_S:
            self.doing = SILENT
        return () if call is None else (call,)

    def _end(self, known: Known) -> None:
        """The motors are off: does it stand, or does it still fall?"""
        self._off_since = min(self._off_since, known.now)
        seen = known.mocap_age <= self._profile.limits.mocap_stale_s
        down = seen and stands(_height(known), known.climb)
        if down or known.now - self._off_since > _FALLS_S:
            self.done, self.doing = True, DOWN if down else OFF

    def _call(self, known: Known) -> Call | None:
        since, position = known.now - self._begin, known.position
        if since > self._limit and not known.taken:  # who flies it would fall with it
            return self._say(Call.OFF, "switches the motors off: it does not come down")
        streams = known.stream_age < _STREAM_S
        if position is None or known.mocap_age > self._profile.limits.mocap_lost_s:
            return self._unseen(known, streams)
        if not self._seen:
            self._seen, self._limit = True, self._longest(position[2])
        self._unseen_since = math.inf
        self._streams_since = min(self._streams_since, known.now) if streams else math.inf
        if known.mocap_age > self._profile.limits.mocap_stale_s:
            return None
        still = stands(_height(known), known.climb)
        self._low_since = min(self._low_since, known.now) if still else math.inf
        if known.now - self._low_since >= LANDED_S:
            return self._say(Call.OFF, "switches the motors off")
        if _height(known) < LOW_M:
            return None  # it stands, or is about to
        calls_guard = self._profile.pilot.guards(position) and since < _GUARD_FOR_S
        if not known.guarded and calls_guard:
            return self._say(Call.GUARD, "triggers the guard")
        if not known.guarded and streams:
            # There is no guard, or it does not answer, and a call to hover does not stop a stream.
            late = known.now - self._streams_since > _STREAM_FOR_S
            return self._say(Call.OFF, "cuts a stream of commands") if late else None
        if not known.guarded and not self._hovered:
            self._hovered = True
            return self._say(Call.HOVER, "hovers")
        waited = since >= self._profile.ladder.guard_s + _AFTER_OTHERS_S
        others = math.isinf(self._landing.called) and not known.climb > -SINKING_MPS
        due = self._due(known)
        return self._land(known) if waited and due and not others else None

    def _due(self, known: Known) -> bool:
        pilot, now = self._profile.pilot, known.now
        return self._landing.due(pilot, now, known.climb, known.guarded, self._patience)

    def _land(self, known: Known) -> Call:
        self._landing = self._landing.call(known.now, known.guarded)
        return self._say(Call.LAND, "lands")

    def _unseen(self, known: Known, streams: bool) -> Call | None:
        """Nobody sees the vehicle: who flies it blind may go on; else it must not fly at all.

        If the pilot is not heard either, it is the link: the others may see it well.
        """
        now = known.now
        self._unseen_since, self._streams_since = min(self._unseen_since, now), math.inf
        if known.telemetry_age > self._profile.limits.link_s:
            return None
        if self._profile.pilot.lands_unseen:
            return self._land(known) if self._due(known) else None
        if streams and now - self._unseen_since < self._profile.ladder.blind_s:
            self.doing = "leaves the blind descent to the control process"
            return None
        return self._say(Call.OFF, "switches the motors off: nobody sees the vehicle")

    def _longest(self, height: float) -> float:
        """The longest way down [s]."""
        return height / _SLOWEST_MPS + self._profile.ladder.guard_s + _SPARE_S

    def _say(self, call: Call, words: str) -> Call:
        self.doing = words
        return call


def _height(known: Known) -> float:
    """Above where it stood [m]."""
    return math.inf if known.position is None else known.position[2] - known.ground
