"""What is heard of an autopilot over MAVLink, and what is called to it."""

from __future__ import annotations

import math
import struct
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from pymavlink.dialects.v20 import common as mav

from lafr_mjx import so3
from lafr_mjx.hil.drones.drone_protocol import Call
from lafr_mjx.hil.drones.mavlink_frames import (
    Four,
    Three,
    flipped,
    flipped_attitude,
    quaternion_of,
)
from lafr_mjx.hil.drones.mavlink_link import Link
from lafr_mjx.hil.timing.clock_map import ClockMap
from lafr_mjx.types import State

if TYPE_CHECKING:
    from lafr_mjx.hil.drones.mavlink_pilot import FlightMode, MavlinkPilot
    from lafr_mjx.hil.safety.drone_profile import Profile
    from lafr_mjx.hil.timing.flight_clock import FlightClock

_BEAT_S = 1.0  # between two heartbeats of ours
_ASK_S = 1.0  # between two requests of what has not come
REPEAT_S = 0.2
"""Between two tries of a command that is not acknowledged."""

UNANSWERED = 5
"""So many tries without an answer are told."""

_ANSWER_S = 1.0  # an answer may be to whatever was asked for since then
_RESET_S = 1.0  # after so long without a message, an older stamp is taken again
_EULER_S = 1.0  # without quaternions for so long, angles are taken
_FAR_M = 1e4
_UNIT = 0.01  # how far a quaternion's length may be from 1
_FORCED = 21196.0  # disarm in the air, too
_BATTERY_HZ = 5.0
_BEAT_HZ = 10.0  # of its heartbeat, which alone tells who has set another mode
_NAMES = {
    mav.MAV_CMD_DO_SET_MODE: "change its mode",
    mav.MAV_CMD_COMPONENT_ARM_DISARM: "arm or disarm",
    mav.MAV_CMD_NAV_TAKEOFF: "take off",
}


class Motion(NamedTuple):
    """Position or attitude, as last heard, in our frames."""

    number: int
    receipt: float
    boot_ms: int
    first: tuple[float, ...]  # position; or quaternion wxyz
    second: Three  # velocity; or rates


_NEVER = Motion(-1, -math.inf, -1, (), (0.0, 0.0, 0.0))


class Paired(NamedTuple):
    """A state of position and attitude."""

    receipt: float
    boot_ms: int  # when the older of both was sampled
    state: State


class Ears:
    """What is heard of an autopilot, and what both of our processes say to it."""

    def __init__(
        self,
        pilot: MavlinkPilot,
        profile: Profile,
        host: str,
        ports: dict[int, int],
        clock: FlightClock,
    ) -> None:
        """Listen.

        Args:
            pilot: the autopilot.
            profile: of the drone.
            host: address of this machine.
            ports: the first that is free is taken; each with our component there.
            clock: of the flight.
        """
        self.arrival = threading.Event()
        self.clock = clock
        self._pilot, self._autopilot = pilot, pilot.autopilot
        self._gone_s = profile.limits.master_s
        self._height = profile.ladder.hover_height_m
        self._beat = self._said_beat = self._asked = -math.inf
        self._armed, self._mode = False, -1
        self._taken = False  # somebody has set a mode that nobody here asks for
        self._modes = {mode.number for mode in pilot.autopilot.modes}
        self._mode_asked: FlightMode | None = None  # the last one ...
        self._asked_mode = self._asked_another = -math.inf  # ... when, and when one before it
        self._position = self._attitude = self._paired = _NEVER
        self._state: Paired | None = None
        self._boot = ClockMap()  # its clock, seen from ours
        # Further apart, the partner is still to come, or lost.
        self._pair_ms = math.ceil(500.0 / pilot.state_hz)
        self._any = self._battery = self._quaternions = -math.inf  # receipts
        self._voltage = math.nan
        self._parameters: dict[str, float] = {}
        self._pending: dict[int, tuple[tuple[float, ...], int, float]] = {}
        self._told: list[str] = []
        self._tape: deque[tuple[float, float, Motion, Motion]] = deque(maxlen=2000)
        self._counts = {"state": 0, "mocap": 0, "outdated": 0, "refused": 0}
        self._stranger = ""
        self.link = Link(host, ports, pilot.system, clock, self._hear)

    # ------------------------------------------------------------- what is heard

    def _hear(self, message: Any) -> None:
        now = self.clock.now()
        take = getattr(self, f"_on_{message.get_type().lower()}", None)
        if take is not None:
            take(message, now)
        self._any = now

    def _on_heartbeat(self, message: Any, now: float) -> None:
        wanted, number = self._autopilot.number, message.autopilot
        self._stranger = "" if number == wanted else f"MAV_AUTOPILOT is {number}, not {wanted}"
        self._armed = bool(message.base_mode & mav.MAV_MODE_FLAG_SAFETY_ARMED)
        self._mode = message.custom_mode
        self._follow_mode()
        self._beat = now

    def _follow_mode(self) -> None:
        """What a new mode means to what was asked for."""
        autopilot = self._autopilot
        if self._mode == autopilot.land.number and self._mode_asked == autopilot.hover:
            # Somebody lands it meanwhile: that is not broken off by a call that is repeated.
            self._pending.pop(mav.MAV_CMD_DO_SET_MODE, None)

    def _on_local_position_ned(self, message: Any, now: float) -> None:
        position = flipped((message.x, message.y, message.z))
        velocity = flipped((message.vx, message.vy, message.vz))
        # Written so that a NaN is refused.
        good = all(abs(value) < _FAR_M for value in (*position, *velocity))
        self._position = self._newer(self._position, message, now, good, position, velocity)
        self._counts["mocap"] += self._position.receipt == now
        self._pair(now)

    def _on_attitude_quaternion(self, message: Any, now: float) -> None:
        self._quaternions = now
        self._turn(message, now, (message.q1, message.q2, message.q3, message.q4))

    def _on_attitude(self, message: Any, now: float) -> None:
        if now - self._quaternions > _EULER_S:
            self._turn(message, now, quaternion_of(message.roll, message.pitch, message.yaw))

    def _turn(self, message: Any, now: float, quaternion: Four) -> None:
        rates = flipped((message.rollspeed, message.pitchspeed, message.yawspeed))
        length = math.hypot(*quaternion)
        good = abs(length - 1.0) <= _UNIT and all(map(math.isfinite, rates))
        turn = tuple(value / length for value in flipped_attitude(quaternion)) if good else ()
        self._attitude = self._newer(self._attitude, message, now, good, turn, rates)
        self._pair(now)

    def _newer(
        self,
        last: Motion,
        message: Any,
        now: float,
        good: bool,
        first: tuple[float, ...],
        second: Three,
    ) -> Motion:
        """The new one, or the last one where that can not be."""
        old = message.time_boot_ms <= last.boot_ms and now - last.receipt < _RESET_S
        self._counts["refused"] += not good
        self._counts["outdated"] += old
        if old or not good:
            return last
        self._boot = self._boot.seen(now, 1e-3 * message.time_boot_ms)
        return Motion(last.number + 1, now, message.time_boot_ms, first, second)

    def _pair(self, now: float) -> None:
        """A state of the position and the attitude that belong together, both newer than the last.

        After a loss nothing is paired with what was sampled a period before: it waits for the next.
        """
        position, attitude, paired = self._position, self._attitude, self._paired
        new = position.number > paired.number and attitude.boot_ms != paired.boot_ms
        if not new or abs(position.boot_ms - attitude.boot_ms) > self._pair_ms:
            return
        if min(position.number, attitude.number) < 0:
            return
        self._paired = paired._replace(number=position.number, boot_ms=attitude.boot_ms)
        rotation = so3.quaternion_to_matrix(np.array(attitude.first))
        state = State(
            np.array(position.first), np.array(position.second), rotation,
            np.array(attitude.second),
        )  # fmt: skip
        older = min(position.boot_ms, attitude.boot_ms)
        self._state = Paired(now, older, state)
        self._counts["state"] += 1
        self._tape.append((now, self.clock.wall(), position, attitude))
        self.arrival.set()

    def _on_sys_status(self, message: Any, now: float) -> None:
        if 0 < message.voltage_battery < 0xFFFF:
            self._voltage, self._battery = 1e-3 * message.voltage_battery, now

    def _on_battery_status(self, message: Any, now: float) -> None:
        cells = [value for value in message.voltages if value < 0xFFFF]
        if message.id == 0 and sum(cells) > 0:
            self._voltage, self._battery = 1e-3 * sum(cells), now

    def _on_param_value(self, message: Any, now: float) -> None:
        value = message.param_value
        if self._autopilot.number == mav.MAV_AUTOPILOT_PX4 and message.param_type < 9:
            (value,) = struct.unpack("<i", struct.pack("<f", value))  # its bytes, not its value
        self._parameters[message.param_id] = float(value)

    def _on_statustext(self, message: Any, now: float) -> None:
        if message.severity <= mav.MAV_SEVERITY_NOTICE:
            self._tell(f"autopilot: {message.text}")

    def _on_command_ack(self, message: Any, now: float) -> None:
        to_us = self.link.is_ours(message.target_system, message.target_component)
        if message.result == mav.MAV_RESULT_IN_PROGRESS or not to_us:
            return
        accepted = message.result == mav.MAV_RESULT_ACCEPTED
        if not accepted and message.command in _NAMES:
            why = mav.enums["MAV_RESULT"].get(message.result)
            name = why.name.removeprefix("MAV_RESULT_") if why else str(message.result)
            self._tell(f"the autopilot refuses to {_NAMES[message.command]}: {name.lower()}")
        if message.command == mav.MAV_CMD_DO_SET_MODE:
            # It does not say which mode it is about: it may be about one before.
            if self._mode_asked is not None and now - self._asked_another > _ANSWER_S:
                self._pending.pop(message.command, None)
                self._answered(self._mode_asked, accepted)
            return
        asked = self._pending.pop(message.command, None)
        if message.command == mav.MAV_CMD_COMPONENT_ARM_DISARM and asked is not None:
            # Whoever disarms it before the next heartbeat must be seen to have done so.
            self._armed = self._armed or accepted

    def _answered(self, mode: FlightMode, accepted: bool) -> None:
        """The autopilot's answer to the mode that was asked for last."""
        if accepted:
            self._mode = mode.number

    def _tell(self, text: str) -> None:
        if text not in self._told and len(self._told) < 20:
            self._told.append(text)

    def _sampled(self, boot_ms: int) -> float:
        """A stamp by our clock: what was on its way for long is as old as what came long ago."""
        return 1e-3 * boot_ms + self._boot.offset

    # ------------------------------------------------------------- what is said

    @property
    def _there(self) -> bool:
        """Whether its heart beats."""
        return self.clock.now() - self._beat <= self._gone_s

    def _keep(self, now: float) -> None:
        """What must be said all the time."""
        if now - self._said_beat >= _BEAT_S:
            self._said_beat = now
            self.link.send(
                mav.MAVLink_heartbeat_message(
                    mav.MAV_TYPE_ONBOARD_CONTROLLER, mav.MAV_AUTOPILOT_INVALID, 0, 0,
                    mav.MAV_STATE_ACTIVE, 3,
                )
            )  # fmt: skip
        for command, (params, tries, when) in tuple(self._pending.items()):
            if now - when < REPEAT_S:
                continue
            if tries >= UNANSWERED:
                self._pending.pop(command, None)
                self._tell(f"the autopilot does not answer: {_NAMES[command]}")
            else:
                self._pending[command] = (params, tries + 1, now)
                self._send_command(command, params, tries)
        if now - self._asked >= _ASK_S and not self._armed:
            self._asked = now
            self._ask()

    def _ask(self) -> None:
        """For streams of messages."""
        pace = 1e6 / self._pilot.state_hz
        for kind, interval in (
            (mav.MAVLINK_MSG_ID_LOCAL_POSITION_NED, pace),
            (mav.MAVLINK_MSG_ID_ATTITUDE_QUATERNION, pace),
            (mav.MAVLINK_MSG_ID_SYS_STATUS, 1e6 / _BATTERY_HZ),
            (mav.MAVLINK_MSG_ID_HEARTBEAT, 1e6 / _BEAT_HZ),
        ):
            self._send_command(mav.MAV_CMD_SET_MESSAGE_INTERVAL, (kind, interval))

    def _send_command(self, command: int, params: tuple[float, ...], tries: int = 0) -> None:
        all_seven = (*params, *(0.0,) * (7 - len(params)))
        self.link.send(
            mav.MAVLink_command_long_message(
                self._pilot.system, mav.MAV_COMP_ID_AUTOPILOT1, command, tries, *all_seven
            )
        )

    def _command(self, command: int, *params: float) -> None:
        """A command that is repeated until it is acknowledged; it replaces one of its kind."""
        self._pending[command] = (params, 1, self.clock.now())
        self._send_command(command, params)

    def _set_mode(self, mode: FlightMode, repeated: bool = True) -> None:
        now, flag = self.clock.now(), float(mav.MAV_MODE_FLAG_CUSTOM_MODE_ENABLED)
        if mode != self._mode_asked:
            self._asked_another = self._asked_mode
        self._mode_asked, self._asked_mode = mode, now
        if repeated:
            self._command(mav.MAV_CMD_DO_SET_MODE, flag, mode.main, mode.sub)
        else:
            self._send_command(mav.MAV_CMD_DO_SET_MODE, (flag, mode.main, mode.sub))

    def call(self, call: Call) -> None:
        """Make a call; nothing of the one before is repeated any more."""
        autopilot = self._autopilot
        self._pending.clear()
        if call is Call.ARM:
            if self._mode != autopilot.ready.number:
                self._set_mode(autopilot.ready)
            self._command(mav.MAV_CMD_COMPONENT_ARM_DISARM, 1.0)
        elif call is Call.TAKE_OFF and autopilot.take_off is not None:
            self._set_mode(autopilot.take_off)
        elif call is Call.TAKE_OFF:
            nowhere = (0.0,) * 6
            self._command(mav.MAV_CMD_NAV_TAKEOFF, *nowhere, self._height)
        elif call is Call.HOVER:
            if self._mode != autopilot.land.number:  # nobody's landing is broken off by this
                self._set_mode(autopilot.hover)
        elif call is Call.LAND:
            # Once it lands, whoever takes it back must not be called against.
            if self._mode != autopilot.land.number:
                self._set_mode(autopilot.land)
        elif call is Call.OFF:
            self._send_command(mav.MAV_CMD_COMPONENT_ARM_DISARM, (0.0, _FORCED))

    def join(self, role: str) -> None:
        """Take part in the flight's time."""
        self.clock.join(role, self.link)

    def close(self) -> None:
        """Leave."""
        self.link.close()
