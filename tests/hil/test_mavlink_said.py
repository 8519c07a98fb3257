# pyright: reportOptionalMemberAccess=false, reportArgumentType=false, reportCallIssue=false
"""MAVLink: what is said to the autopilot, and what is not."""

import pytest
from mavlink_bench import HOVER
from pymavlink.dialects.v20 import common as mav

from lafr_mjx.hil.drones.drone_protocol import Call


def test_it_asks_for_streams_and_says_that_it_is_there(bench):
    rig = bench()
    rig.mode("HOLD", armed=False)
    rig.look()
    said = rig.other.heard()
    assert [m.get_seq() for m in said] == list(range(len(said))), "losses can be counted"
    wanted = {m.param1: m.param2 for m in said if m.get_type() == "COMMAND_LONG"}
    assert wanted[mav.MAVLINK_MSG_ID_HEARTBEAT] == 100_000.0, "who takes it is told soon"
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
    rig.next("GUIDED")
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
    rig.drone.call(Call.TAKE_OFF)
    tries, said = [], []
    for _ in range(100):
        tries += [m.confirmation for m in rig.other.heard("COMMAND_LONG")]
        rig.clock.time += 0.02
        said += rig.drone.heard().said
    assert tries == [0, 1, 2, 3, 4] and said == ["the autopilot does not answer: change its mode"]
    rig.drone.call(Call.TAKE_OFF)
    rig.other.acknowledge(mav.MAV_CMD_DO_SET_MODE)
    rig.arrive()
    rig.clock.time += 1.0
    rig.drone.heard()
    assert rig.asked() == ["TAKEOFF"]


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
    rig.drone.call(Call.LAND)
    rig.next("HOLD")  # not acknowledged
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
