# pyright: reportOptionalMemberAccess=false, reportArgumentType=false, reportCallIssue=false
"""A drone over MAVLink beside the other end of its wire, at a clock that the test moves."""

import socket

import numpy as np
from mavlink_rig import profile_of
from pymavlink.dialects.v20 import common as mav
from waiting import wait_for

from lafr_mjx.hil.drones.drone_protocol import Call
from lafr_mjx.hil.timing.flight_clock import FlightClock

HOVER = np.array([9.81, 0.0, 0.0, 0.0])
PX4 = {"HOLD": (4, 3), "LAND": (4, 6), "TAKEOFF": (4, 2), "OFFBOARD": (6, 0), "POSCTL": (3, 0)}
COPTER = {"STABILIZE": 0, "GUIDED": 4, "LAND": 9, "BRAKE": 17}


class Moved(FlightClock):
    """A clock that stands until it is moved."""

    def __init__(self):
        self.time = 1000.0

    def now(self):
        return self.time

    def wall(self):
        return self.time


class Counterpart:
    """An autopilot's end of the wire."""

    def __init__(self, port, system=1, component=1):
        self.sock = socket.socket(type=socket.SOCK_DGRAM)
        self.sock.bind(("127.0.0.1", 0))
        self.sock.setblocking(False)
        self.port, self.boot, self.said = port, 0, 0
        self.mav = mav.MAVLink(None, system, component)

    def raw(self, data):
        self.sock.sendto(data, ("127.0.0.1", self.port))
        self.said += 1

    def say(self, message):
        self.raw(message.pack(self.mav))

    def heard(self, kind=None):
        """What has come since the last time."""
        messages = []
        while True:
            try:
                message = mav.MAVLink(None).decode(bytearray(self.sock.recv(4096)))
            except BlockingIOError:
                return messages
            if kind in (None, message.get_type()):
                messages.append(message)

    def beat(self, number, armed=False, autopilot=mav.MAV_AUTOPILOT_PX4):
        flags = mav.MAV_MODE_FLAG_SAFETY_ARMED if armed else 0
        self.say(mav.MAVLink_heartbeat_message(2, autopilot, flags | 1, number, 4, 3))

    def move(self, position=(1.0, 2.0, -3.0), quaternion=(1.0, 0.0, 0.0, 0.0), boot=None):
        self.boot = self.boot + 10 if boot is None else boot
        self.say(mav.MAVLink_local_position_ned_message(self.boot, *position, 0.1, 0.2, 0.3))
        self.say(mav.MAVLink_attitude_quaternion_message(self.boot, *quaternion, 0.4, 0.5, 0.6))

    def acknowledge(self, command, result=mav.MAV_RESULT_ACCEPTED, to=(0, 0)):
        self.say(mav.MAVLink_command_ack_message(command, result, 0, 0, *to))


class Bench:
    """The drone and its counterpart."""

    def __init__(self, folder, autopilot="px4", stop=False):
        profile = profile_of(folder, autopilot)
        self.clock, self.profile = Moved(), profile
        connect = profile.pilot.watch if stop else profile.pilot.connect
        self.drone = connect(profile, None, "127.0.0.1", self.clock)
        self.other = Counterpart(profile.pilot.stop_ports[0] if stop else profile.pilot.port)
        self.px4 = autopilot == "px4"

    def arrive(self):
        """All that was said is there."""
        wait_for(lambda: self.drone.link.received >= self.other.said, what="all messages")

    def look(self):
        self.arrive()
        return self.drone.heard()

    def mode(self, name, armed=True):
        if self.px4:
            main, sub = PX4[name]
            self.other.beat(main << 16 | sub << 24, armed)
        else:
            self.other.beat(COPTER[name], armed, mav.MAV_AUTOPILOT_ARDUPILOTMEGA)
        self.arrive()

    def asked(self):
        """Modes and commands that were asked for since the last time."""
        names = {values: name for name, values in PX4.items()} if self.px4 else {
            (number, 0): name for name, number in COPTER.items()
        }  # fmt: skip
        found = []
        for message in self.other.heard("COMMAND_LONG"):
            if message.command == mav.MAV_CMD_DO_SET_MODE:
                assert message.param1 == 1.0
                found.append(names[int(message.param2), int(message.param3)])
            elif message.command == mav.MAV_CMD_COMPONENT_ARM_DISARM:
                found.append("arm" if message.param1 else f"disarm {message.param2:g}")
            elif message.command == mav.MAV_CMD_NAV_TAKEOFF:
                found.append(f"takeoff {message.param7:g}")
        return found

    def up(self):
        """Armed, in the air, in its own hover."""
        self.mode("HOLD" if self.px4 else "GUIDED")
        self.drone.call(Call.TAKE_OFF)
        self.other.acknowledge(mav.MAV_CMD_DO_SET_MODE if self.px4 else mav.MAV_CMD_NAV_TAKEOFF)
        self.clock.time += 0.01
        self.mode("HOLD" if self.px4 else "GUIDED")
        self.look()
        self.other.heard()
        return self

    def next(self, name, seconds=0.1):
        """The next heartbeat, and what is known and done at it."""
        self.clock.time += seconds
        self.mode(name)
        return self.drone.heard()

    def flown(self):
        """In the policy's hands."""
        self.up().next("OFFBOARD" if self.px4 else "GUIDED", 2.0)
        assert self.send()
        self.other.heard()
        return self

    def send(self, command=HOVER):
        return self.drone.send(np.asarray(command, float), self.clock.time + 0.05)
