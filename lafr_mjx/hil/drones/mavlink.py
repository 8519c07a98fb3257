"""A drone over MAVLink: PX4, or ArduPilot's Copter. Body rates and thrust by SET_ATTITUDE_TARGET.

Both obey DO_SET_MODE whatever is streamed to them, so a call to hover or to land ends the stream's
power at once. Who else takes the vehicle, by the transmitter or a ground station, keeps it: nothing
is called against a mode that was not asked for here.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from pymavlink.dialects.v20 import common as mav

from lafr_mjx.hil.drones.drone_protocol import Call, Heard, Seen
from lafr_mjx.hil.drones.mavlink_ears import REPEAT_S, UNANSWERED, Ears, Motion
from lafr_mjx.hil.drones.mavlink_frames import flipped, thrust_share
from lafr_mjx.hil.wire import ros_messages as m
from lafr_mjx.hil.wire.fast_messages import command_bytes
from lafr_mjx.types import COMMAND_HOVER

if TYPE_CHECKING:
    from lafr_mjx.hil.drones.mavlink_pilot import FlightMode, MavlinkPilot
    from lafr_mjx.hil.safety.drone_profile import Profile
    from lafr_mjx.hil.timing.flight_clock import FlightClock

_ENGAGE_S = 1.0  # the longest that it may take to give us the vehicle
_STREAM_S = 0.045  # between two commands that only show that we are there
_STATE = "agiros_msgs/QuadState"  # recorded as the other drones' are: one format to read
_COMMAND = "agiros_msgs/Command"
_RATES_AND_THRUST = mav.ATTITUDE_TARGET_TYPEMASK_ATTITUDE_IGNORE


class Mavlink(Ears):
    """A `Drone`."""

    def __init__(
        self, pilot: MavlinkPilot, profile: Profile, host: str, clock: FlightClock
    ) -> None:
        ports = {pilot.port: mav.MAV_COMP_ID_ONBOARD_COMPUTER}
        self._settings = pilot.settings(profile.ladder.hover_height_m)
        autopilot = pilot.autopilot
        self._goals = {Call.HOVER: autopilot.hover, Call.LAND: autopilot.land}
        self._goal: FlightMode | None = None  # asked for until a heartbeat says so
        self._asks = 0  # how often it was
        self._shows = False  # by the last call it hovers by itself
        self._up = False  # told to take off, and armed since
        self._has = False  # our commands fly
        self._engaging = math.inf  # since when we want that
        self._streamed = -math.inf
        self._topic = f"/{profile.name}"
        self._sent: list[tuple[str, str, float, float, bytes]] = []
        self._sequence = 0
        super().__init__(pilot, profile, host, ports, clock)  # from here on it hears

    def heard(self) -> Heard:
        """What is known now; to be called at each tick, which keeps the link alive."""
        now = self.clock.now()
        self._up = self._up and self._armed
        if self._taken:
            self._pending.clear()
        self._keep(now)
        if self._armed:
            self._ask_for_mode(now)
        self._show(now)
        state, position = self._state, self._position
        there = self._there
        told, self._told = tuple(self._told), []
        return Heard(
            state=state.state if state else None,
            state_stamp=self._sampled(state.boot_ms) if state else -math.inf,
            state_receipt=state.receipt if state else -math.inf,
            mocap_position=np.array(position.first) if position.first else None,
            mocap_receipt=self._sampled(position.boot_ms) if position.first else -math.inf,
            mocap_number=position.number,
            telemetry_receipt=self._any,
            armed=self._armed,
            guard=False,
            references=0,
            voltage=self._voltage,
            battery_receipt=self._battery,
            own_command=None,
            own_number=-1,
            clock_skew=self._boot.skew,
            wall_skew=0.0,  # its stamps are those of its own start
            subscribed=there,
            connected=there and state is not None and bool(position.first),
            master_seen=self._beat,
            intruders=self._intruders,
            set_up="; ".join(self._troubles()),
            taken=self._taken and self._armed,
            said=told,
        )

    def _follow_mode(self) -> None:
        super()._follow_mode()
        # From the first foreign mode on it is not ours any more, whatever mode comes then: one of
        # ours may be set by somebody else, too.
        foreign = self._mode not in self._modes
        self._taken = self._taken or (self._up and self._armed and foreign)

    @property
    def _intruders(self) -> tuple[str, ...]:
        somebody = ("somebody who has set another mode",) if self._taken and self._armed else ()
        return (*self.link.intruders, *somebody)

    def _troubles(self) -> list[str]:
        """What of its set-up is not as the profile says."""
        known = self._parameters
        found = [one.trouble(known.get(one.name)) for one in self._settings]
        return [text for text in (self._stranger, *found) if text]

    def _ask(self) -> None:
        super()._ask()
        for setting in self._settings:
            self.link.send(
                mav.MAVLink_param_request_read_message(
                    self._pilot.system, mav.MAV_COMP_ID_AUTOPILOT1, setting.name.encode(), -1
                )
            )

    def _show(self, now: float) -> None:
        """That we are there, to one that wants to see that before it gives us the vehicle.

        Only where it hovers by itself, and is known to: it must not obey this.
        """
        idle = self._autopilot.streams_first and math.isinf(self._engaging) and self._shows
        not_there = (self._autopilot.offboard.number, self._autopilot.land.number)
        waits = self._up and self._mode not in not_there
        known = self._beat > self._asked_mode
        due = now - self._streamed >= _STREAM_S
        if idle and waits and known and due and not self._intruders:
            self._stream(now, np.array(COMMAND_HOVER, float))

    def _stream(self, now: float, command: np.ndarray) -> bool:
        self._streamed = now
        thrust, *rates = command.tolist()
        share = thrust_share(thrust, self._pilot.hover_thrust)
        return self.link.send(
            mav.MAVLink_set_attitude_target_message(
                int(1e3 * now) & 0xFFFFFFFF, self._pilot.system, mav.MAV_COMP_ID_AUTOPILOT1,
                _RATES_AND_THRUST, (1.0, 0.0, 0.0, 0.0), *flipped(rates), share,
            )
        )  # fmt: skip

    def send(self, command: np.ndarray, expires: float) -> bool:
        """Send a command [4] unless it is late, or somebody else has the vehicle."""
        now, offboard = self.clock.now(), self._autopilot.offboard
        if now > expires or self._intruders:
            return False
        self._goal, self._shows = None, False
        flies = self._mode == offboard.number
        if self._has and not flies:
            self._tell("the autopilot has taken the vehicle back")
            return False
        self._has = flies
        if not flies:
            self._engaging = min(self._engaging, now)
            if now - self._engaging > _ENGAGE_S:
                return False
            if self._mode_asked != offboard or now - self._asked_mode >= REPEAT_S:
                self._set_mode(offboard, repeated=False)
        sent = self._stream(now, command)
        if sent and len(self._sent) < 1000:
            wall, self._sequence = self.clock.wall(), self._sequence + 1
            body = command_bytes(self._sequence, wall, tuple(command.tolist()))
            self._sent.append((f"{self._topic}/command", _COMMAND, now, wall, body))
        return sent

    def call(self, call: Call) -> None:
        """Make a call, unless somebody else has the vehicle."""
        self._has, self._engaging = False, math.inf
        goal, self._shows = self._goals.get(call), call in (Call.TAKE_OFF, Call.HOVER)
        self._asks = self._asks if goal == self._goal else 0
        self._goal = goal
        if call is Call.ARM and not self._armed:
            self._taken = False  # a new flight
        if self._taken:
            self._tell(f"not called, somebody else has the vehicle: {call}")
            return
        if call is Call.TAKE_OFF and self._armed and self._mode not in self._modes:
            self._tell("not called, it is armed in another mode: take off")
            return
        self._up = self._up or call is Call.TAKE_OFF
        if goal is not None:
            self._pending.clear()
            self._ask_for_mode(self.clock.now())
        else:
            super().call(call)

    def _ask_for_mode(self, now: float) -> None:
        """To hover or to land, until it does.

        Only with a heartbeat that is newer than all that we said: an older one cannot tell that
        somebody has taken the vehicle meanwhile. Until then the autopilot's own time-out acts; and
        without any heartbeat there must be an end, too.
        """
        goal = self._goal
        if goal is None or self._taken or self._mode in (goal.number, self._autopilot.land.number):
            return
        told = self._beat > max(self._streamed, self._asked_mode) or not self._there
        if told and (self._mode_asked != goal or now - self._asked_mode >= REPEAT_S):
            self._asks += 1
            if self._asks == UNANSWERED:
                self._tell(f"the autopilot does not change its mode: {goal.name}")
            self._set_mode(goal, repeated=False)

    def _answered(self, mode: FlightMode, accepted: bool) -> None:
        super()._answered(mode, accepted)
        if not accepted and mode == self._goal == self._autopilot.hover:
            self._goal, self._shows = self._autopilot.land, False  # it must not drift

    def drain(self) -> list[tuple[str, str, float, float, bytes]]:
        """States and commands since the last call."""
        tape, self._sent = self._sent, []
        while self._tape:
            receipt, wall, position, attitude = self._tape.popleft()
            body = _state_bytes(wall, position, attitude)
            tape.append((f"{self._topic}/state", _STATE, receipt, wall, body))
        return tape

    def counts(self) -> dict[str, dict[str, int]]:
        """What was received, and what of it was refused."""
        counts, link = self._counts, self.link
        return {
            "state": {"received": counts["state"], "refused": counts["refused"],
                      "outdated": counts["outdated"]},
            "mocap": {"received": counts["mocap"]},
            "datagrams": {"received": link.received, "malformed": link.malformed},
        }  # fmt: skip


class WatchedMavlink(Ears):
    """The same for an emergency stop, at a port of its own: a `Watched`."""

    def __init__(
        self, pilot: MavlinkPilot, profile: Profile, host: str, clock: FlightClock
    ) -> None:
        first = mav.MAV_COMP_ID_ONBOARD_COMPUTER2
        ports = {port: first + k for k, port in enumerate(pilot.stop_ports)}
        self._retakes = False  # a call of ours is to end that somebody else has it
        super().__init__(pilot, profile, host, ports, clock)

    @property
    def reaches(self) -> bool:
        """Whether anything of the autopilot's is heard: its heartbeat alone may be gone."""
        return self.clock.now() - self._any <= self._gone_s

    @property
    def sends(self) -> bool:
        """Wherever it was last heard."""
        return self.link.known

    @property
    def connected(self) -> bool:
        """Whether its heart beats and its position is heard."""
        return self._there and self._position.number >= 0

    def call(self, call: Call) -> None:
        """Make a call, whoever has the vehicle: a person wants it."""
        self._retakes = True
        super().call(call)

    def _follow_mode(self) -> None:
        super()._follow_mode()
        foreign = self._mode not in self._modes
        # A mode of ours may be theirs, too, unless we have called since.
        taken = self._armed and (foreign or (self._taken and not self._retakes))
        if taken and not self._taken:
            self._retakes = False  # what was asked for before is not repeated against them
            self._pending.clear()
        self._taken, self._retakes = taken, self._retakes and taken

    def seen(self) -> Seen:
        """What is known now; to be called again and again, which keeps the link alive."""
        self._keep(self.clock.now())
        for text in self._told:
            print(text, flush=True)
        self._told.clear()
        self._tape.clear()
        position = self._position
        return Seen(
            position=position.first or None,
            mocap_number=position.number,
            mocap_receipt=position.receipt,
            telemetry_receipt=self._any,
            armed=self._armed,
            guarded=False,
            stream_receipt=-math.inf,  # a call to hover stops it
            taken=self._taken,
        )


def _state_bytes(wall: float, position: Motion, attitude: Motion) -> bytes:
    none = (0.0, 0.0, 0.0)
    state = m.message_class(_STATE)(
        m.header(wall, position.number), 1e-3 * min(position.boot_ms, attitude.boot_ms),
        m.pose(position.first, attitude.first), m.twist(position.second, attitude.second),
        m.twist(none, none), *(m.vector(none) for _ in range(4)), np.zeros(4),
    )  # fmt: skip
    return m.encode(_STATE, state)
