# pyright: reportOptionalMemberAccess=false, reportArgumentType=false, reportCallIssue=false
"""MAVLink: frames and units, what is heard and what is said, at a clock that the test moves."""

import dataclasses
import math
import re
import socket
import struct
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mavlink_rig import profile_of
from pymavlink.dialects.v20 import common as mav
from scipy.spatial.transform import Rotation
from waiting import wait_for

from lafr_mjx import so3
from lafr_mjx.errors import InputError
from lafr_mjx.hil.drones.drone_protocol import Call
from lafr_mjx.hil.drones.mavlink_frames import (
    flipped,
    flipped_attitude,
    quaternion_of,
    thrust_share,
)
from lafr_mjx.hil.safety.drone_profile import load_profile
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

    def acknowledge(self, command, result=mav.MAV_RESULT_ACCEPTED):
        self.say(mav.MAVLink_command_ack_message(command, result))


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
        self.mode("HOLD" if self.px4 else "GUIDED")
        self.look()
        self.other.heard()
        return self

    def send(self, command=HOVER):
        return self.drone.send(np.asarray(command, float), self.clock.time + 0.05)


@pytest.fixture
def bench(tmp_path):
    made = []

    def make(*args, **options):
        made.append(Bench(tmp_path, *args, **options))
        return made[-1]

    yield make
    for one in made:
        one.drone.close()


# ------------------------------------------------------------------ frames and units


unit = st.floats(-1.0, 1.0)
turns = st.tuples(unit, unit, unit, unit).filter(lambda q: np.linalg.norm(q) > 0.1)


def rotation(quaternion):
    """By another library."""
    w, x, y, z = quaternion
    return Rotation.from_quat([x, y, z, w]).as_matrix()


@given(turns, st.tuples(unit, unit, unit))
def test_attitudes_turn_the_same_vectors_in_both_frames(turn, vector):
    turn = np.array(turn) / np.linalg.norm(turn)
    ned = rotation(turn) @ flipped(vector)  # a body vector of ours, over FRD to NED
    ours = rotation(flipped_attitude(turn)) @ vector
    assert np.allclose(flipped(ned), ours, atol=1e-9)


def test_axes_are_the_ones_that_the_names_say():
    north, east, down = np.eye(3)
    x, y, z = np.eye(3)
    assert np.allclose(flipped(north), x) and np.allclose(flipped(east), -y)
    assert np.allclose(flipped(down), -z)
    yaw_east = flipped_attitude((math.sqrt(0.5), 0.0, 0.0, math.sqrt(0.5)))  # nose to the east
    assert np.allclose(rotation(yaw_east) @ x, -y)
    nose_up = flipped_attitude((math.sqrt(0.5), 0.0, math.sqrt(0.5), 0.0))
    assert np.allclose(rotation(nose_up) @ x, z)
    right_wing_down = flipped_attitude((math.cos(0.1), math.sin(0.1), 0.0, 0.0))
    left = rotation(right_wing_down) @ y
    assert left[2] > 0.1, "the left side rises"


@given(turns, st.tuples(unit, unit, unit))
def test_rates_are_those_of_the_attitude(turn, rates):
    """Turned on by the rates for a moment, in their frames, both attitudes stay the same one."""
    turn, dt = np.array(turn) / np.linalg.norm(turn), 1e-3
    ned = Rotation.from_matrix(rotation(turn)) * Rotation.from_rotvec(dt * np.array(rates))
    ours = rotation(flipped_attitude(turn)) @ so3.exp(dt * np.array(flipped(rates)))
    x, y, z, w = ned.as_quat()
    assert np.allclose(rotation(flipped_attitude((w, x, y, z))), ours, atol=1e-9)


@given(st.floats(-3.1, 3.1), st.floats(-1.5, 1.5), st.floats(-3.1, 3.1))
def test_angles_are_yaw_then_pitch_then_roll(roll, pitch, yaw):
    matrix = Rotation.from_euler("ZYX", [yaw, pitch, roll]).as_matrix()
    assert np.allclose(rotation(quaternion_of(roll, pitch, yaw)), matrix, atol=1e-9)


def test_thrust_is_scaled_by_hover_and_bounded():
    assert thrust_share(9.81, 0.3) == pytest.approx(0.3)
    assert thrust_share(19.62, 0.3) == pytest.approx(0.6)
    assert thrust_share(-1.0, 0.3) == 0.0 and thrust_share(60.0, 0.3) == 1.0


# ------------------------------------------------------------------ what is heard


def test_a_state_comes_from_position_and_attitude(bench):
    rig = bench()
    rig.mode("HOLD", armed=False)
    turn = np.array([0.8, 0.1, -0.2, 0.3])
    turn /= np.linalg.norm(turn)
    rig.clock.time += 1.0
    rig.other.move((1.0, 2.0, -3.0), turn)
    heard = rig.look()
    assert rig.drone.arrival.is_set() and heard.connected and not heard.armed
    assert np.allclose(heard.state.position, [1.0, -2.0, 3.0])
    assert np.allclose(heard.state.velocity, [0.1, -0.2, -0.3])
    assert np.allclose(heard.state.rates, [0.4, -0.5, -0.6])
    flip = np.diag([1.0, -1.0, -1.0])
    assert np.allclose(heard.state.rotation, flip @ rotation(turn) @ flip, atol=1e-6)
    assert np.allclose(heard.mocap_position, heard.state.position)
    assert heard.state_stamp == heard.state_receipt == rig.clock.time, "ages are by arrival"
    assert heard.master_seen == rig.clock.time - 1.0
    # Half of one is none.
    rig.other.say(mav.MAVLink_local_position_ned_message(500, 0, 0, 0, 0, 0, 0))
    assert rig.look().state_number == heard.state_number
    # It is recorded as others are.
    topic, kind, receipt, _, _ = rig.drone.drain()[0]
    assert (topic, kind) == ("/mavlink/state", "agiros_msgs/QuadState")
    assert receipt == rig.clock.time and rig.drone.drain() == []


@pytest.mark.parametrize(
    ("position", "turn"),
    [((math.nan, 0, 0), (1, 0, 0, 0)), ((math.inf, 0, 0), (1, 0, 0, 0)),
     ((1e6, 0, 0), (1, 0, 0, 0)), ((0, 0, 0), (math.nan, 0, 0, 0)), ((0, 0, 0), (0.5, 0, 0, 0))],
)  # fmt: skip
def test_what_no_vehicle_can_be_is_refused(bench, position, turn):
    rig = bench()
    rig.other.move()
    before = rig.look()
    rig.clock.time += 0.01
    rig.other.move(position, turn)
    heard = rig.look()
    assert (heard.state_number, heard.state_receipt) == (before.state_number, before.state_receipt)
    assert rig.drone.counts()["state"]["refused"] == 1


def test_what_repeats_itself_with_its_old_stamp_gets_old(bench):
    rig = bench()
    rig.other.move(boot=1000)
    before = rig.look()
    for _ in range(5):
        rig.clock.time += 0.02
        rig.other.move(boot=1000)
    heard = rig.look()
    assert heard.mocap_receipt == before.mocap_receipt and heard.state_receipt < rig.clock.time
    rig.clock.time += 1.5  # an autopilot that began anew begins at 0
    rig.other.move(boot=20)
    assert rig.look().state_receipt == rig.clock.time


def test_angles_are_taken_where_there_are_no_quaternions(bench):
    rig = bench()
    rig.other.say(mav.MAVLink_attitude_message(10, 0.1, -0.2, 0.3, 0, 0, 0))
    rig.other.say(mav.MAVLink_local_position_ned_message(10, 0, 0, 0, 0, 0, 0))
    flip = np.diag([1.0, -1.0, -1.0])
    matrix = Rotation.from_euler("ZYX", [0.3, -0.2, 0.1]).as_matrix()
    assert np.allclose(rig.look().state.rotation, flip @ matrix @ flip, atol=1e-6)


def test_the_battery_is_heard_both_ways(bench):
    rig = bench()
    assert math.isnan(rig.look().voltage)
    rig.other.say(mav.MAVLink_sys_status_message(0, 0, 0, 0, 16_200, -1, -1, 0, 0, 0, 0, 0, 0))
    assert rig.look().voltage == pytest.approx(16.2)
    rig.clock.time += 5.0
    rig.other.say(mav.MAVLink_sys_status_message(0, 0, 0, 0, 0xFFFF, -1, -1, 0, 0, 0, 0, 0, 0))
    assert rig.look().battery_receipt == rig.clock.time - 5.0, "unknown is not heard"
    cells = [4_000, 4_100, 4_050, 0xFFFF] + [0xFFFF] * 6
    rig.other.say(mav.MAVLink_battery_status_message(0, 0, 1, 0, cells, -1, -1, -1, -1))
    heard = rig.look()
    assert heard.voltage == pytest.approx(12.15) and heard.battery_receipt == rig.clock.time


def test_without_heartbeats_nobody_is_there(bench):
    rig = bench()
    rig.mode("HOLD", armed=False)
    rig.other.move()
    assert rig.look().connected
    rig.clock.time += rig.profile.limits.master_s + 0.01
    rig.other.move()
    heard = rig.look()
    assert not heard.connected and not heard.subscribed
    assert heard.telemetry_receipt == rig.clock.time, "the rest is heard"


def test_promises_are_compared_with_the_autopilot_s_parameters(bench):
    rig = bench()
    rig.mode("HOLD", armed=False)
    assert "COM_OF_LOSS_T not heard yet" in rig.look().set_up
    asked = {m.param_id for m in rig.other.heard("PARAM_REQUEST_READ")}
    assert asked == {"COM_OF_LOSS_T", "COM_OBL_RC_ACT", "MIS_TAKEOFF_ALT"}

    def tell(name, value, kind=mav.MAV_PARAM_TYPE_REAL32):
        if kind == mav.MAV_PARAM_TYPE_INT32:
            (value,) = struct.unpack("<f", struct.pack("<i", value))
        rig.other.say(mav.MAVLink_param_value_message(name.encode(), value, kind, 1, 0))

    tell("COM_OF_LOSS_T", 0.5)
    tell("COM_OBL_RC_ACT", 5, mav.MAV_PARAM_TYPE_INT32)
    tell("MIS_TAKEOFF_ALT", 1.5)
    assert rig.look().set_up == ""
    tell("COM_OF_LOSS_T", 1.0)
    tell("COM_OBL_RC_ACT", 0, mav.MAV_PARAM_TYPE_INT32)
    assert "COM_OF_LOSS_T is 1:" in rig.look().set_up
    assert "COM_OBL_RC_ACT is 0: it must be 4 (land) or 5 (hold)" in rig.look().set_up


def test_copter_must_take_thrust_as_thrust(bench):
    rig = bench("ardupilot")
    rig.mode("STABILIZE", armed=False)
    for name, value in (("GUID_TIMEOUT", 0.5), ("GUID_OPTIONS", 0.0)):
        kind = mav.MAV_PARAM_TYPE_REAL32
        rig.other.say(mav.MAVLink_param_value_message(name.encode(), value, kind, 1, 0))
    assert rig.look().set_up == "GUID_OPTIONS is 0: it must have 8 in it (thrust as thrust)"


def test_another_autopilot_than_the_profile_s_is_told(bench):
    rig = bench()
    rig.other.beat(0, autopilot=mav.MAV_AUTOPILOT_ARDUPILOTMEGA)
    assert "MAV_AUTOPILOT is 3, not 12" in rig.look().set_up


# ------------------------------------------------------------------ what is said


def test_it_asks_for_streams_and_says_that_it_is_there(bench):
    rig = bench()
    rig.mode("HOLD", armed=False)
    rig.look()
    said = rig.other.heard()
    wanted = {m.param1: m.param2 for m in said if m.get_type() == "COMMAND_LONG"}
    assert wanted[mav.MAVLINK_MSG_ID_LOCAL_POSITION_NED] == 10_000.0, "microseconds"
    assert wanted[mav.MAVLINK_MSG_ID_ATTITUDE_QUATERNION] == 10_000.0
    beats = []
    for _ in range(50):
        rig.clock.time += 0.1
        rig.drone.heard()
        beats += rig.other.heard("HEARTBEAT")
    assert len(beats) in (5, 6)


def test_px4_sees_a_stream_before_it_is_asked_for_the_vehicle(bench):
    rig = bench().up()
    rig.mode("HOLD")
    for _ in range(60):
        rig.clock.time += 0.02
        rig.drone.heard()
    shown = rig.other.heard("SET_ATTITUDE_TARGET")
    assert len(shown) >= 19, "at 16 Hz and more"
    assert all(m.thrust == pytest.approx(0.3) and m.body_roll_rate == 0.0 for m in shown)
    assert rig.send([12.0, 0.1, -0.2, 0.3])
    assert rig.asked() == ["OFFBOARD"]
    rig.other.acknowledge(mav.MAV_CMD_DO_SET_MODE)
    rig.arrive()
    rig.clock.time += 0.02
    rig.drone.heard()
    assert rig.send([12.0, 0.1, -0.2, 0.3])
    (last,) = rig.other.heard("SET_ATTITUDE_TARGET")
    assert last.type_mask == 128
    assert last.thrust == pytest.approx(12.0 / 9.81 * 0.3)
    rates = (last.body_roll_rate, last.body_pitch_rate, last.body_yaw_rate)
    assert rates == pytest.approx((0.1, 0.2, -0.3))
    # In OFFBOARD silence must be silence: the fail-safe hangs on it.
    rig.clock.time += 0.5
    rig.drone.heard()
    assert rig.other.heard("SET_ATTITUDE_TARGET") == []


def test_copter_takes_commands_in_guided_and_needs_no_stream_before(bench):
    rig = bench("ardupilot").up()
    for _ in range(20):
        rig.clock.time += 0.02
        rig.drone.heard()
    assert rig.other.heard("SET_ATTITUDE_TARGET") == []
    assert rig.send() and rig.asked() == []
    assert len(rig.other.heard()) == 0
    rig.drone.call(Call.HOVER)
    rig.other.acknowledge(mav.MAV_CMD_DO_SET_MODE)
    rig.arrive()
    assert rig.asked() == ["BRAKE"]
    assert rig.send() and rig.asked() == ["GUIDED"]


@pytest.mark.parametrize(
    ("autopilot", "call", "asked"),
    [("px4", Call.ARM, ["HOLD", "arm"]), ("px4", Call.TAKE_OFF, ["TAKEOFF"]),
     ("px4", Call.HOVER, ["HOLD"]), ("px4", Call.LAND, ["LAND"]),
     ("px4", Call.OFF, ["disarm 21196"]), ("px4", Call.GUARD, []),
     ("ardupilot", Call.ARM, ["GUIDED", "arm"]), ("ardupilot", Call.TAKE_OFF, ["takeoff 1.5"]),
     ("ardupilot", Call.HOVER, ["BRAKE"]), ("ardupilot", Call.LAND, ["LAND"])],
)  # fmt: skip
@pytest.mark.parametrize("stop", [False, True])
def test_calls(bench, autopilot, call, asked, stop):
    rig = bench(autopilot, stop=stop)
    rig.mode("POSCTL" if autopilot == "px4" else "STABILIZE", armed=False)
    rig.drone.call(call)
    assert rig.asked() == asked


def test_what_is_not_acknowledged_is_repeated_a_few_times(bench):
    rig = bench()
    rig.mode("HOLD")
    rig.look()
    rig.other.heard()
    rig.drone.call(Call.LAND)
    tries, said = [], []
    for _ in range(100):
        tries += [m.confirmation for m in rig.other.heard("COMMAND_LONG")]
        rig.clock.time += 0.02
        said += rig.drone.heard().said
    assert tries == [0, 1, 2, 3, 4] and said == ["the autopilot does not answer: change its mode"]
    rig.drone.call(Call.LAND)
    rig.other.acknowledge(mav.MAV_CMD_DO_SET_MODE)
    rig.arrive()
    rig.clock.time += 1.0
    rig.drone.heard()
    assert rig.asked() == ["LAND"]


def test_a_refused_mode_is_told_and_the_vehicle_is_not_counted_as_flown(bench):
    rig = bench().up()
    sent, said = [], []
    for _ in range(100):
        rig.clock.time += 0.02
        rig.mode("HOLD")
        rig.other.acknowledge(mav.MAV_CMD_DO_SET_MODE, mav.MAV_RESULT_TEMPORARILY_REJECTED)
        said += rig.look().said
        sent.append(rig.send())
    assert "the autopilot refuses to change its mode: temporarily_rejected" in said
    assert sent[0] and not any(sent[55:]), "after a second it gives up"


def test_a_landing_is_not_broken_off_by_a_call_to_hover(bench):
    for stop in (False, True):
        rig = bench(stop=stop)
        rig.mode("LAND")
        rig.drone.call(Call.HOVER)
        assert rig.asked() == []


def test_who_takes_the_vehicle_keeps_it(bench):
    rig = bench().up()
    rig.mode("POSCTL")  # by the transmitter
    heard = rig.look()
    assert heard.intruders and not rig.send()
    for call in (Call.HOVER, Call.LAND, Call.OFF):
        rig.drone.call(call)
    rig.clock.time += 0.1
    rig.drone.heard()
    assert rig.asked() == [] and rig.other.heard("SET_ATTITUDE_TARGET") == []
    rig.mode("POSCTL", armed=False)
    assert rig.look().intruders == ()


def test_what_was_asked_for_before_is_not_repeated_against_who_took_it(bench):
    rig = bench().up()
    rig.drone.call(Call.LAND)  # not acknowledged
    rig.mode("POSCTL")
    for _ in range(50):
        rig.clock.time += 0.05
        rig.look()
    assert rig.asked() == ["LAND"]


@pytest.mark.parametrize("stop", [False, True])
def test_one_that_lands_is_not_told_to_land_again(bench, stop):
    """Its heartbeat is slow: the transmitter may have taken it back meanwhile."""
    rig = bench(stop=stop)
    rig.mode("HOLD")
    for _ in range(3):
        rig.drone.call(Call.LAND)
        rig.other.acknowledge(mav.MAV_CMD_DO_SET_MODE)
        rig.arrive()
    assert rig.asked() == ["LAND"]


def test_what_the_fail_safe_took_is_not_taken_back_unasked(bench):
    rig = bench().up()
    rig.mode("OFFBOARD")
    assert rig.send()
    rig.mode("HOLD")
    assert not rig.send() and rig.asked() == []
    assert "the autopilot has taken the vehicle back" in rig.look().said
    rig.drone.call(Call.HOVER)
    assert rig.send(), "asked anew"


def test_a_late_command_is_not_sent(bench):
    rig = bench().up()
    rig.mode("OFFBOARD")
    assert not rig.drone.send(HOVER, rig.clock.time - 1e-3)
    assert rig.other.heard("SET_ATTITUDE_TARGET") == []


# ------------------------------------------------------------------ the port


def test_a_second_one_at_the_same_port_is_refused(bench):
    rig = bench()
    with pytest.raises(InputError, match=f":{rig.profile.pilot.port} cannot be listened at"):
        rig.profile.pilot.connect(rig.profile, None, "127.0.0.1", rig.clock)


def test_a_second_person_s_stop_has_a_port_of_its_own(bench):
    rig = bench(stop=True)
    pilot = rig.profile.pilot
    second = pilot.watch(rig.profile, None, "127.0.0.1", rig.clock)
    try:
        assert second.link.name == f"mavlink:{pilot.stop_ports[1]}"
        with pytest.raises(InputError, match="a second one of these"):
            pilot.watch(rig.profile, None, "127.0.0.1", rig.clock)
        other = Counterpart(pilot.stop_ports[1])
        other.beat(0)
        wait_for(lambda: second.reaches, what="its heartbeat")
        second.call(Call.LAND)
        (said,) = other.heard("COMMAND_LONG")
        assert (said.command, said.get_srcComponent()) == (mav.MAV_CMD_DO_SET_MODE, 193)
    finally:
        second.close()


def test_it_listens_on_the_loopback(bench):
    rig = bench()
    assert rig.drone.link._sock.getsockname() == ("127.0.0.1", rig.profile.pilot.port)


def test_somebody_else_who_speaks_as_the_autopilot_is_told_and_not_heard(bench):
    rig = bench()
    rig.mode("HOLD", armed=False)
    rig.other.move()
    rig.arrive()
    false = Counterpart(rig.profile.pilot.port)
    false.move((50.0, 0.0, 0.0), boot=900)
    wait_for(lambda: rig.drone.link.received >= rig.other.said + 2, what="both")
    heard = rig.drone.heard()
    assert heard.mocap_position[0] == 1.0 and "speaks as the autopilot" in heard.intruders[0]
    rig.clock.time += 1.1
    assert rig.drone.heard().intruders == ()


def test_somebody_else_who_commands_it_is_told(bench):
    rig = bench()
    station = Counterpart(rig.profile.pilot.port, 255, 190)
    target = mav.MAVLink_set_attitude_target_message(0, 1, 1, 128, (1, 0, 0, 0), 0, 0, 0, 0.5)
    station.say(target)
    wait_for(lambda: rig.drone.link.received, what="it")
    assert rig.drone.heard().intruders == ("system 255, component 190",)


def test_nonsense_is_counted_and_costs_nothing_else(bench):
    rig, rng = bench(), np.random.default_rng(0)
    rig.mode("HOLD", armed=False)
    rig.other.move()
    good = bytearray(
        mav.MAVLink_local_position_ned_message(0, 9, 9, 9, 0, 0, 0).pack(rig.other.mav)
    )
    for _ in range(300):
        rig.other.raw(rng.bytes(int(rng.integers(1, 300))))
        rig.other.raw(b"\xfd" + rng.bytes(40))
        broken = good.copy()
        broken[int(rng.integers(0, len(broken)))] ^= 0x55
        rig.other.raw(bytes(broken))
        rig.other.raw(bytes(good[: int(rng.integers(1, len(good)))]))
        rig.arrive()
    before = rig.drone.heard()
    rig.clock.time += 0.01
    rig.other.move()
    after = rig.look()
    assert after.state_number == before.state_number + 1
    assert rig.drone.link.malformed >= 900 and rig.drone.link._thread.is_alive()


# ------------------------------------------------------------------ the profile


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('kind = "mavlink"', 'kind = "dji"', "agilicious, mavlink"),
        ('autopilot = "px4"', 'autopilot = "inav"', "px4, ardupilot"),
        ("hover_thrust = 0.3", "hover_thrust = 0.4", "of the full thrust"),
        ("hover_thrust = 0.3", "hover_thrust = 30", "<= 0.8"),
        ("silence_s = 0.5", "silence_s = 30.0", "<= 3"),
        ("system = 1", "system = 0", ">= 1"),
        ("state_hz = 100.0", "state_hz = 100.0\nquad = 'x'", "unknown key"),
    ],
)
def test_nonsense_in_a_profile_is_named(tmp_path, old, new, told):
    path = profile_of(tmp_path).path
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_profile(str(path))
    assert told in str(caught.value) and "mavlink.toml" in str(caught.value)


def test_its_ports_must_differ(tmp_path):
    profile = profile_of(tmp_path)
    path, port = profile.path, profile.pilot.port
    text = path.read_text(encoding="utf-8")
    first, second = profile.pilot.stop_ports
    path.write_text(text.replace(f"[{first}, {second}]", f"[{first}, {port}]"), encoding="utf-8")
    with pytest.raises(InputError, match="two others than 'port'"):
        load_profile(str(path))


def test_it_never_guards_and_its_landing_may_be_asked_for_again():
    pilot = load_profile("mavlink").pilot
    assert not pilot.guards((0.0, 0.0, 1.5)) and pilot.lands_unseen
    for sinks in (None, True, False):
        assert pilot.lands_again(0.6, sinks, False, 9.0)
        assert not pilot.lands_again(0.4, sinks, False, 0.0)
    copter = dataclasses.replace(pilot, kind="ardupilot")
    assert any("GUID_TIMEOUT is 0.5 s" in line for line in copter.checklist())


def test_without_pymavlink_it_says_how_to_get_it(monkeypatch):
    pilot = load_profile("mavlink").pilot  # a profile can be read without it
    monkeypatch.setitem(sys.modules, "pymavlink", None)
    with pytest.raises(InputError, match=re.escape("pip install 'lafr-mjx[mavlink]'")):
        pilot.check_start(None, simulated=True)


def test_there_is_no_ros_master():
    with pytest.raises(InputError, match="with MAVLink there is no ROS master"):
        load_profile("mavlink").pilot.check_start("http://127.0.0.1:11311", simulated=False)
