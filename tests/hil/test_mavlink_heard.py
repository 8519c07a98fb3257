# pyright: reportOptionalMemberAccess=false, reportArgumentType=false, reportCallIssue=false
"""MAVLink: what is heard, and what of it is refused."""

import math
import struct

import numpy as np
import pytest
from mavlink_bench import Counterpart
from pymavlink.dialects.v20 import common as mav
from scipy.spatial.transform import Rotation
from waiting import wait_for

from lafr_mjx.errors import InputError
from lafr_mjx.hil.control.tick_logic import Around, Logic
from lafr_mjx.hil.drones.drone_protocol import Call
from lafr_mjx.hil.safety.modes import Mode
from lafr_mjx.hil.safety.state_machine import Machine
from lafr_mjx.hil.safety.trips import Fault


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
    matrix = Rotation.from_quat(np.roll(turn, -1)).as_matrix()
    assert np.allclose(heard.state.rotation, flip @ matrix @ flip, atol=1e-6)
    assert np.allclose(heard.mocap_position, heard.state.position)
    assert heard.state_receipt == rig.clock.time
    assert heard.state_stamp == pytest.approx(rig.clock.time), "the first one came at once"
    assert heard.master_seen == rig.clock.time - 1.0
    # Half of one is none.
    rig.other.say(mav.MAVLink_local_position_ned_message(500, 0, 0, 0, 0, 0, 0))
    rig.look()
    assert rig.drone.counts()["state"]["received"] == 1
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
    assert heard.state_receipt == before.state_receipt
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

    tell("COM_OF_LOSS_T", 0.2)
    tell("COM_OBL_RC_ACT", 5, mav.MAV_PARAM_TYPE_INT32)
    tell("MIS_TAKEOFF_ALT", 1.5)
    assert rig.look().set_up == ""
    tell("COM_OF_LOSS_T", 1.0)
    tell("COM_OBL_RC_ACT", 0, mav.MAV_PARAM_TYPE_INT32)
    assert "COM_OF_LOSS_T is 1:" in rig.look().set_up
    assert "COM_OBL_RC_ACT is 0: it must be 4 (land) or 5 (hold)" in rig.look().set_up


@pytest.mark.parametrize(
    ("options", "boost", "told"),
    [(0.0, 0.0, "GUID_OPTIONS is 0: it must have 8 in it (thrust as thrust)"),
     (8.0, 1.0, "ATC_ANGLE_BOOST is 1: it must be 0: the thrust would be divided by the cosine of "
      "the tilt"),
     (8.0, 0.0, "")],
)  # fmt: skip
def test_copter_must_take_thrust_as_thrust(bench, options, boost, told):
    rig = bench("ardupilot")
    rig.mode("STABILIZE", armed=False)
    for name, value in (
        ("GUID_TIMEOUT", 0.2),
        ("GUID_OPTIONS", options),
        ("ATC_ANGLE_BOOST", boost),
    ):
        kind = mav.MAV_PARAM_TYPE_REAL32
        rig.other.say(mav.MAVLink_param_value_message(name.encode(), value, kind, 1, 0))
    assert rig.look().set_up == told


def test_another_autopilot_than_the_profile_s_is_told(bench):
    rig = bench()
    rig.other.beat(0, autopilot=mav.MAV_AUTOPILOT_ARDUPILOTMEGA)
    assert "MAV_AUTOPILOT is 3, not 12" in rig.look().set_up


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
    assert after.state_receipt == rig.clock.time > before.state_receipt
    assert rig.drone.link.malformed >= 900 and rig.drone.link._thread.is_alive()


def test_no_number_ends_the_listening(bench):
    """Whatever is in a message: one that no handler can take is counted, and the next is heard."""
    rig = bench()
    rig.mode("HOLD", armed=False)
    numbers = (math.inf, -math.inf, math.nan)
    for value in numbers:  # they are taken only before any quaternion
        rig.other.say(mav.MAVLink_attitude_message(9, *(value,) * 6))
    for value in numbers:
        for message in (
            mav.MAVLink_attitude_quaternion_message(9, *(value,) * 7),
            mav.MAVLink_local_position_ned_message(9, *(value,) * 6),
            mav.MAVLink_param_value_message(b"COM_OF_LOSS_T", value, 9, 1, 0),
            mav.MAVLink_param_value_message(b"COM_OBL_RC_ACT", value, 6, 1, 0),
        ):
            rig.other.say(message)
    assert rig.look().set_up and rig.drone.heard().state is None
    assert rig.drone.link._thread.is_alive() and rig.drone.link.malformed >= 2
    rig.other.move()
    assert rig.look().state is not None


def test_what_is_on_its_way_for_ever_longer_gets_old(bench):
    """Messages come as often as ever, each later than the one before."""
    rig = bench()
    logic, delay, told = Logic(rig.profile), 0.0, {}
    begin = rig.clock.time
    for k in range(200):
        sampled = 0.01 * k
        delay = max(0.0, sampled - 1.0) * 0.1
        rig.clock.time = begin + sampled + delay
        rig.mode("HOLD", armed=False)
        rig.other.move((0.1, 0.0, 1e-4 * k), boot=1000 + 10 * k)
        rig.arrive()
        for fault in logic.tick(rig.clock.time, rig.drone.heard(), Around()).faults:
            told.setdefault(fault, delay)
    limits = rig.profile.limits
    assert limits.state_age_s < told[Fault.STATE_STALE] < limits.state_age_s + 0.003
    assert limits.mocap_stale_s < told[Fault.MOCAP_STALE] < limits.mocap_stale_s + 0.003


def test_after_a_loss_a_position_is_not_paired_with_an_older_attitude(bench):
    rig = bench()

    def say(boot, position=True):
        rig.clock.time += 0.01
        x = 1e-3 * boot
        if position:
            rig.other.say(mav.MAVLink_local_position_ned_message(boot, x, 0, 0, 0, 0, 0))
            rig.look()
        rig.other.say(mav.MAVLink_attitude_quaternion_message(boot, 1, 0, 0, 0, x, 0, 0))
        return rig.look()

    for boot in range(1000, 1200, 10):
        heard = say(boot, position=boot != 1050)
        if boot != 1050:
            assert heard.state.position[0] == pytest.approx(heard.state.rates[0])
            assert heard.state_receipt == rig.clock.time, "one more"
    # Where the two are sampled a little apart, a state is as old as the older of both.
    for k in range(5):
        rig.clock.time += 0.01
        boot = 1200 + 10 * k
        rig.other.say(mav.MAVLink_attitude_quaternion_message(boot, 1, 0, 0, 0, 0, 0, 0))
        rig.other.say(mav.MAVLink_local_position_ned_message(boot + 4, 0, 0, 0, 0, 0, 0))
        heard = rig.look()
    assert heard.mocap_receipt - heard.state_stamp == pytest.approx(0.004)


def test_who_disarms_it_before_a_heartbeat_tells_that_it_was_armed_has_the_last_word(bench):
    """The logic arms again as long as it was not seen to be armed."""
    rig = bench()
    logic = Logic(rig.profile)
    logic.machine = Machine(mode=Mode.ARMED, since=rig.clock.time)

    def tick(seconds=0.02):
        rig.clock.time += seconds
        rig.other.move((0.0, 0.0, 1e-4 * rig.other.boot))
        decision = logic.tick(rig.clock.time, rig.look(), Around())
        for call in decision.calls:
            rig.drone.call(call)
        return decision.mode

    rig.mode("HOLD", armed=False)
    rig.other.say(mav.MAVLink_sys_status_message(0, 0, 0, 0, 16_200, -1, -1, 0, 0, 0, 0, 0, 0))
    assert tick() is Mode.ARMED and rig.asked() == ["arm"]
    rig.other.acknowledge(mav.MAV_CMD_COMPONENT_ARM_DISARM)
    assert tick() is Mode.ARMED
    rig.mode("HOLD", armed=False)  # somebody has cut the motors
    assert tick() is Mode.OFF
    for _ in range(100):
        tick()
    assert "arm" not in rig.asked()
