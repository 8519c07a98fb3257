"""An autopilot for tests: the real MAVLink protocol over UDP, in a process of its own.

Written from the documentation of PX4 and ArduPilot's Copter; **it is neither**, and no real
autopilot was flown. The body is our own plant's, as the software drone has it, and its position
controller is that one's, too. What it does as the documents say:

- PX4: OFFBOARD is given after more than a second of a stream of 2 Hz or more; without
  the stream for COM_OF_LOSS_T it does what COM_OBL_RC_ACT says (4 land, 5 hold). Take-off is a mode
  (MIS_TAKEOFF_ALT). It disarms 2 s after a landing (COM_DISARM_LAND).
- Copter: it arms in GUIDED, takes off there by NAV_TAKEOFF, and takes attitude targets there;
  without them for GUID_TIMEOUT it holds a level hover. It disarms after a landing.
- Both: streams of messages are asked for by SET_MESSAGE_INTERVAL; commands are acknowledged; a
  disarm in the air is refused unless it is forced. PX4 sends an integer parameter as its bytes.

    python mavlink_peer.py PROFILE.toml [--faults FILE] [--param NAME=VALUE ...]
        [--lockstep FOLDER --door FD]

What FILE says is wrong from then on: `silent`, `heartbeat`, `slow` (one heartbeat a second),
`frozen`, `nan`, `position`, `deaf`, `refuse`, `taken`, `switched` (as `taken`, but it would obey).
"""

import argparse
import asyncio
import contextlib
import math
import os
import signal
import socket
import struct
from pathlib import Path

import numpy as np
from pymavlink.dialects.v20 import common as mav
from scipy.spatial.transform import Rotation

from lafr_mjx.hil.safety.drone_profile import load_profile
from lafr_mjx.hil.simulator.physics import GROUND_M, SUBSTEPS, Physics
from lafr_mjx.hil.simulator.pilot import CYCLE_S, Estimate, Pilot, Settings
from lafr_mjx.hil.simulator.time_keeper import RealTime, TimeKeeper
from lafr_mjx.plant.scenario import load_scenario
from lafr_mjx.plant.vehicle import load_vehicle

G = 9.81
TURN = np.diag([1.0, -1.0, -1.0])  # NED and ours, FRD and ours
LANDED_S = 2.0  # until it disarms by itself
PX4 = {"HOLD": 4 << 16 | 3 << 24, "LAND": 4 << 16 | 6 << 24, "TAKEOFF": 4 << 16 | 2 << 24,
       "OFFBOARD": 6 << 16, "POSCTL": 3 << 16}  # fmt: skip
COPTER = {"STABILIZE": 0, "GUIDED": 4, "LOITER": 5, "LAND": 9, "BRAKE": 17}
DEFAULTS = {
    "px4": {"COM_OF_LOSS_T": 0.2, "COM_OBL_RC_ACT": 5, "MIS_TAKEOFF_ALT": 1.5},
    "ardupilot": {"GUID_TIMEOUT": 0.2, "GUID_OPTIONS": 8, "ATC_ANGLE_BOOST": 0},
}
OK, BUSY, DENIED = (
    mav.MAV_RESULT_ACCEPTED, mav.MAV_RESULT_TEMPORARILY_REJECTED, mav.MAV_RESULT_DENIED
)  # fmt: skip


class Autopilot:
    """Modes, arming and fail-safes; time is given from outside."""

    def __init__(self, kind, vehicle, height, parameters):
        self.kind, self.parameters = kind, parameters
        self.px4 = kind == "px4"
        self.modes = PX4 if self.px4 else COPTER
        self.mode = "HOLD" if self.px4 else "STABILIZE"
        self.flies = Pilot(
            Settings(
                feedthrough_timeout_s=math.inf, has_guard=False, hover_height_m=height,
                command_low=vehicle.limits.low, command_high=vehicle.limits.high,
            ),
            GROUND_M,
        )  # fmt: skip
        self.texts, self.faults = [], set()
        self.streamed = self.streams_since = -math.inf  # commands of who flies it
        self.command = np.zeros(4)
        self.landed_since = math.inf
        self.estimate, self.switched = None, False

    @property
    def armed(self):
        return self.flies.armed

    @property
    def airborne(self):
        return self.armed and self.estimate is not None and self.estimate.position[2] > 0.1

    def set_mode(self, now, mode):
        if mode is None or "taken" in self.faults:
            return DENIED
        if mode == "OFFBOARD" and ("refuse" in self.faults or not self._streams(now)):
            self.texts.append("Offboard refused: no offboard signal")
            return BUSY
        if mode == "TAKEOFF" and not self.armed:
            return DENIED
        self._enter(mode)
        return OK

    def _streams(self, now):
        return now - self.streamed <= 0.5 and now - self.streams_since > 1.0

    def _enter(self, mode):
        if mode == self.mode:
            return
        self.mode, flies = mode, self.flies
        flies.feeding = False
        if mode == "TAKEOFF":
            flies.start()
        elif self.armed and mode != "OFFBOARD" and flies.mode != "idle":
            flies.force_hover()
            if mode == "LAND":
                flies.land()

    def take_off(self):
        if self.px4 or not self.armed or self.mode != "GUIDED":
            return DENIED
        self.flies.start()
        return OK

    def arm(self, on, forced):
        if on and not self.px4 and self.mode != "GUIDED":
            return DENIED
        if not on and self.airborne and not forced:
            return DENIED
        if on:
            self.flies.enable(True)
        else:
            self._disarm()
        return OK

    def _disarm(self):
        self.flies.off()
        self.landed_since = math.inf

    def target(self, now, command):
        """An attitude target: thrust in m/s², rates."""
        if "deaf" in self.faults:
            return
        if now - self.streamed > 0.5:
            self.streams_since = now
        self.streamed = now
        taken = self.mode == ("OFFBOARD" if self.px4 else "GUIDED") and self.airborne
        if taken:
            self.flies.feedthrough(now, command)

    def cycle(self, now, estimate):
        """The command of this cycle."""
        self.estimate = estimate
        switched = "switched" in self.faults
        if "taken" in self.faults or switched > self.switched:
            self._enter("POSCTL" if self.px4 else "LOITER")
        self.switched = switched
        silence = now - self.streamed
        if self.px4 and self.mode == "OFFBOARD" and silence > self.parameters["COM_OF_LOSS_T"]:
            self.texts.append("Failsafe activated: no offboard signal")
            self._enter("LAND" if self.parameters["COM_OBL_RC_ACT"] == 4 else "HOLD")
        low = estimate.position[2] < GROUND_M + 0.02
        self.landed_since = min(self.landed_since, now) if low else math.inf
        if self.mode == "LAND" and now - self.landed_since > LANDED_S and self.armed:
            self._disarm()
        if not self.px4 and self.flies.feeding and silence > self.parameters["GUID_TIMEOUT"]:
            return self._level(estimate)
        command = self.flies.cycle(now, estimate)
        return np.zeros(4) if command is None else command

    def _level(self, estimate):
        """Level, without climbing: it drifts on."""
        up = Rotation.from_quat(np.roll(estimate.quaternion, -1)).inv().apply([0.0, 0.0, 1.0])
        rates = np.cross(up, [0.0, 0.0, 1.0]) * -6.0
        return np.array([(G - 3.0 * estimate.velocity[2]) / max(up[2], 0.5), *rates])


class Peer:
    """The wire: a link to each port, whether somebody listens there or not."""

    name = "autopilot"

    def __init__(self, profile, faults, parameters):
        pilot = profile.pilot
        vehicle = load_vehicle(profile.vehicle)
        settings = load_scenario("nominal").drawn(0).settings_for(0)[0]
        self.body = Physics(vehicle, settings)
        self.full = G / pilot.hover_thrust  # m/s²
        wanted = {**DEFAULTS[pilot.kind], **parameters}
        self.autopilot = Autopilot(pilot.kind, vehicle, profile.ladder.hover_height_m, wanted)
        self.parameters, self.crashed = wanted, ""
        self._system, self._faults = pilot.system, faults
        self._ports = (pilot.port, *pilot.stop_ports)
        self._pack = mav.MAVLink(None, pilot.system, mav.MAV_COMP_ID_AUTOPILOT1)
        self._parse = mav.MAVLink(None)
        self._sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._sock.bind(("127.0.0.1", 0))
        self._sock.setblocking(False)
        self._to = dict.fromkeys(self._ports, 0)
        self._from = dict.fromkeys(self._ports, 0)
        self._every = {port: {mav.MAVLINK_MSG_ID_HEARTBEAT: 100, mav.MAVLINK_MSG_ID_SYS_STATUS: 100}
                       for port in self._ports}  # fmt: skip
        self.now, self._frozen, self._said = 0.0, None, None

    # as a time in lockstep wants to know it
    def frames_to(self, peer):
        return self._to[int(peer.partition(":")[2])]

    def frames_from(self, peer):
        return self._from[int(peer.partition(":")[2])]

    def _send(self, port, message):
        if "silent" in self.autopilot.faults:
            return
        with contextlib.suppress(OSError):
            self._sock.sendto(message.pack(self._pack), ("127.0.0.1", port))
            self._to[port] += 1

    def read(self):
        """Everything that has come."""
        while True:
            try:
                data, (_, port) = self._sock.recvfrom(65_536)
            except BlockingIOError:
                return
            except OSError:
                continue
            message = self._parse.decode(bytearray(data))
            if "silent" not in self.autopilot.faults:
                self._take(port, message)
            self._from[port] = self._from.get(port, 0) + 1

    def _take(self, port, message):
        kind, autopilot = message.get_type(), self.autopilot
        if kind == "SET_ATTITUDE_TARGET":
            assert message.type_mask == 128 and message.target_system == self._system
            rates = TURN @ [message.body_roll_rate, message.body_pitch_rate, message.body_yaw_rate]
            autopilot.target(self.now, np.array([self.full * message.thrust, *rates]))
        elif kind == "COMMAND_LONG":
            result = self._command(port, message)
            asker = message.get_srcSystem(), message.get_srcComponent()
            ack = mav.MAVLink_command_ack_message(message.command, result, 0, 0, *asker)
            self._send(port, ack)
        elif kind == "PARAM_REQUEST_READ" and message.param_id in self.parameters:
            value = self.parameters[message.param_id]
            whole = isinstance(value, int)
            if whole and autopilot.px4:
                (value,) = struct.unpack("<f", struct.pack("<i", value))
            sort = mav.MAV_PARAM_TYPE_INT32 if whole else mav.MAV_PARAM_TYPE_REAL32
            name = message.param_id.encode()
            self._send(port, mav.MAVLink_param_value_message(name, float(value), sort, 1, 0))

    def _command(self, port, message):
        autopilot, now = self.autopilot, self.now
        if message.command == mav.MAV_CMD_SET_MESSAGE_INTERVAL:
            self._every[port][int(message.param1)] = max(1, round(1e-6 * message.param2 / CYCLE_S))
            return OK
        if message.command == mav.MAV_CMD_COMPONENT_ARM_DISARM:
            return autopilot.arm(message.param1 == 1.0, message.param2 == 21196.0)
        if message.command == mav.MAV_CMD_NAV_TAKEOFF:
            return autopilot.take_off()
        if message.command == mav.MAV_CMD_DO_SET_MODE:
            number = int(message.param2)
            if autopilot.px4:
                number = number << 16 | int(message.param3) << 24
            names = {number: name for name, number in autopilot.modes.items()}
            return autopilot.set_mode(now, names.get(number))
        return mav.MAV_RESULT_UNSUPPORTED

    def cycle(self, now, count):
        """The 10 ms up to now."""
        self.now, autopilot = now, self.autopilot
        if self._faults is not None and self._faults.exists():
            autopilot.faults = set(self._faults.read_text().split())
        command = autopilot.command if autopilot.armed else np.zeros(4)
        moment = self.body.step(np.tile(command, (SUBSTEPS, 1)))
        sensed = moment.sensed
        estimate = Estimate(sensed[:3], sensed[3:6], sensed[6:10], sensed[10:13])
        autopilot.command = autopilot.cycle(now, estimate)
        if not self.crashed and moment.impact > 2.0:
            self.crashed = f", CRASHED at {moment.impact:.1f} m/s"
        self._publish(count, sensed, moment.voltage)
        said = f"{autopilot.mode}, {'armed' if autopilot.armed else 'disarmed'}{self.crashed}"
        if said != self._said:
            self._said = said
            print(f"{now:8.2f} s  {said}", flush=True)

    def _publish(self, count, sensed, voltage):
        autopilot, boot = self.autopilot, round(1e3 * self.now)
        if "frozen" in autopilot.faults:
            self._frozen = sensed if self._frozen is None else self._frozen
            sensed = np.concatenate([self._frozen[:6], sensed[6:]])
        else:
            self._frozen = None
        place = TURN @ sensed[:3] * (np.nan if "nan" in autopilot.faults else 1.0)
        matrix = TURN @ Rotation.from_quat(np.roll(sensed[6:10], -1)).as_matrix() @ TURN
        x, y, z, w = Rotation.from_matrix(matrix).as_quat()
        armed = mav.MAV_MODE_FLAG_SAFETY_ARMED if autopilot.armed else 0
        sort = mav.MAV_AUTOPILOT_PX4 if autopilot.px4 else mav.MAV_AUTOPILOT_ARDUPILOTMEGA
        messages = {
            mav.MAVLINK_MSG_ID_HEARTBEAT: mav.MAVLink_heartbeat_message(
                mav.MAV_TYPE_QUADROTOR, sort, armed | 1, autopilot.modes[autopilot.mode],
                mav.MAV_STATE_ACTIVE, 3,
            ),
            mav.MAVLINK_MSG_ID_LOCAL_POSITION_NED: mav.MAVLink_local_position_ned_message(
                boot, *place, *(TURN @ sensed[3:6])
            ),
            mav.MAVLINK_MSG_ID_ATTITUDE_QUATERNION: mav.MAVLink_attitude_quaternion_message(
                boot, w, x, y, z, *(TURN @ sensed[10:13])
            ),
            mav.MAVLINK_MSG_ID_SYS_STATUS: mav.MAVLink_sys_status_message(
                0, 0, 0, 0, round(1e3 * voltage), -1, -1, 0, 0, 0, 0, 0, 0
            ),
        }  # fmt: skip
        slow = "slow" in autopilot.faults and count % 100
        if "heartbeat" in autopilot.faults or slow:
            del messages[mav.MAVLINK_MSG_ID_HEARTBEAT]
        if "position" in autopilot.faults:
            del messages[mav.MAVLINK_MSG_ID_LOCAL_POSITION_NED]
        for port, intervals in self._every.items():
            for number, every in intervals.items():
                if number in messages and count % every == 0:
                    self._send(port, messages[number])
            for text in autopilot.texts:
                text = text.encode()
                self._send(port, mav.MAVLink_statustext_message(mav.MAV_SEVERITY_WARNING, text))
        autopilot.texts.clear()

    async def run(self, clock):
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        loop.add_reader(self._sock, self.read)
        lockstep = isinstance(clock, TimeKeeper)
        if lockstep:
            clock.node = self
            await clock.begin(stop)
        start, count, parent = clock.now(), 0, os.getppid()
        while not stop.is_set() and os.getppid() == parent:  # it does not outlive who started it
            count += 1
            moment = count * CYCLE_S
            if lockstep:
                await clock.go_to(start + moment, stop)
            else:
                await asyncio.sleep(max(0.0, start + moment - clock.now()))
            self.cycle(moment, count)
            if lockstep:
                await clock.round(stop)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("profile")
    parser.add_argument("--faults", type=Path)
    parser.add_argument("--param", action="append", default=[])
    parser.add_argument("--lockstep", type=Path)
    parser.add_argument("--door", type=int)
    given = parser.parse_args()
    parameters = {}
    for text in given.param:
        name, _, value = text.partition("=")
        parameters[name] = float(value) if "." in value else int(value)
    peer = Peer(load_profile(given.profile), given.faults, parameters)
    clock = RealTime() if given.lockstep is None else TimeKeeper(given.lockstep, given.door)
    print("autopilot, written from documentation", flush=True)
    asyncio.run(peer.run(clock))


if __name__ == "__main__":
    main()
