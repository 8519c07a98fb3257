# pyright: reportOptionalMemberAccess=false, reportArgumentType=false, reportCallIssue=false
"""MAVLink: who else takes the vehicle keeps it, and whose answer an answer is."""

import pytest
from pymavlink.dialects.v20 import common as mav

from lafr_mjx.hil.drones.drone_protocol import Call
from lafr_mjx.hil.safety.emergency_landing import TAKEN
from lafr_mjx.hil.safety.emergency_stop import EmergencyStop

MODE, DENIED = mav.MAV_CMD_DO_SET_MODE, mav.MAV_RESULT_DENIED


@pytest.mark.parametrize("then", ["LAND", "HOLD", "OFFBOARD"])
def test_who_took_it_keeps_it_in_a_mode_that_could_be_ours(bench, then):
    """A landing without a position has come to its limit: OFF is called again and again."""
    rig = bench().up()
    rig.next("POSCTL")
    for mode in ("POSCTL", then, then):
        heard = rig.next(mode, 0.5)
        for call in (Call.OFF, Call.LAND, Call.HOVER):
            rig.drone.call(call)
        assert heard.taken and heard.intruders and not rig.send()
    assert rig.asked() == []
    rig.mode(then, armed=False)
    assert not rig.drone.heard().taken
    rig.mode("POSCTL")  # armed once more, by whoever has it
    rig.drone.call(Call.OFF)
    assert rig.drone.heard().taken and rig.asked() == []
    rig.mode("HOLD", armed=False)
    rig.drone.call(Call.ARM)
    rig.mode("HOLD")
    rig.drone.call(Call.OFF)
    assert rig.asked() == ["arm", "disarm 21196"], "a new flight is ours"


@pytest.mark.parametrize("autopilot", ["px4", "ardupilot"])
def test_a_call_waits_for_a_heartbeat_that_may_tell_of_somebody(bench, autopilot):
    """With one heartbeat a second: it was taken at speed, and the tracking error came first."""
    rig = bench(autopilot).flown()
    taken = "POSCTL" if rig.px4 else "STABILIZE"
    rig.clock.time += 0.1
    rig.drone.call(Call.HOVER)
    for _ in range(20):
        rig.clock.time += 0.02
        rig.drone.heard()
    rig.drone.call(Call.LAND)
    rig.next(taken)
    rig.drone.call(Call.LAND)
    rig.next(taken)
    assert rig.asked() == [] and rig.other.heard("SET_ATTITUDE_TARGET") == []


@pytest.mark.parametrize("autopilot", ["px4", "ardupilot"])
def test_a_call_goes_out_with_the_next_heartbeat_or_without_any(bench, autopilot):
    rig = bench(autopilot)
    offboard, hold = ("OFFBOARD", "HOLD") if rig.px4 else ("GUIDED", "BRAKE")
    rig.flown().clock.time += 0.04
    rig.drone.call(Call.HOVER)
    assert rig.asked() == []
    rig.next(offboard)
    assert rig.asked() == [hold]
    # It is lost: repeated as long as its heartbeat says so, and not only a few times.
    for _ in range(20):
        rig.next(offboard, 0.2)
    assert rig.asked() == [hold] * 20
    rig.next(hold)
    rig.next(hold, 0.3)
    assert rig.asked() == []
    # Without any heartbeat there is an end, too.
    rig.flown().clock.time += 0.04
    rig.drone.call(Call.HOVER)
    rig.clock.time += rig.profile.limits.master_s - 0.1
    rig.drone.heard()
    assert rig.asked() == []
    rig.clock.time += 0.1
    rig.drone.heard()
    assert rig.asked() == [hold]


def test_a_hover_that_is_refused_is_a_landing(bench):
    rig = bench("ardupilot").flown()
    rig.drone.call(Call.HOVER)
    rig.next("GUIDED")
    rig.other.acknowledge(MODE, DENIED)
    rig.next("GUIDED", 0.3)
    assert rig.asked() == ["BRAKE", "LAND"]
    assert rig.send() and rig.next("GUIDED", 0.3), "the operator may ask again"


@pytest.mark.parametrize("last", [Call.HOVER, Call.LAND])
def test_a_call_ends_the_request_for_the_vehicle_and_what_shows_that_we_are_there(bench, last):
    rig = bench().up()
    rig.next("HOLD")
    rig.clock.time += 2.0
    assert rig.send() and rig.asked() == ["OFFBOARD"]  # not answered
    rig.next("LAND")  # by the emergency stop
    rig.drone.call(last)
    rig.other.heard()
    for _ in range(30):
        rig.next("LAND", 0.05)
    said = {m.get_type() for m in rig.other.heard()}
    assert not said & {"COMMAND_LONG", "SET_ATTITUDE_TARGET"}


def test_nothing_shows_that_we_are_there_once_it_is_to_land(bench):
    rig = bench().up()
    rig.next("HOLD")
    rig.drone.call(Call.LAND)
    rig.other.heard()
    for _ in range(10):
        rig.next("HOLD", 0.05)  # the call is lost
    assert rig.other.heard("SET_ATTITUDE_TARGET") == []


@pytest.mark.parametrize("stop", [False, True])
def test_nothing_is_repeated_after_the_motors_were_cut(bench, stop):
    rig = bench(stop=stop)
    look = rig.drone.seen if stop else rig.drone.heard
    rig.mode("HOLD", armed=False)
    rig.drone.call(Call.ARM)
    rig.drone.call(Call.TAKE_OFF)
    rig.drone.call(Call.OFF)
    for _ in range(40):
        rig.clock.time += 0.05
        look()
    assert rig.asked() == ["arm", "TAKEOFF", "disarm 21196"]


@pytest.mark.parametrize("to", [(1, 192), (255, 190)])
def test_an_answer_to_somebody_else_does_not_give_us_the_vehicle(bench, to):
    rig = bench().up()
    rig.next("HOLD", 2.0)
    assert rig.send() and rig.asked() == ["OFFBOARD"]
    rig.other.acknowledge(MODE, to=to)
    rig.arrive()
    rig.clock.time += 0.25
    assert rig.send() and rig.asked() == ["OFFBOARD"]


@pytest.mark.parametrize("to", [(1, 192), (255, 190)])
def test_answers_to_others_are_not_ours(bench, to):
    """What shows that we are there would be obeyed in OFFBOARD."""
    rig = bench().flown()
    rig.clock.time += 0.05
    rig.drone.call(Call.HOVER)
    rig.next("OFFBOARD")
    rig.other.acknowledge(MODE, to=to)
    rig.arrive()
    for _ in range(20):
        rig.clock.time += 0.05
        rig.drone.heard()
    assert rig.other.heard("SET_ATTITUDE_TARGET") == []
    rig.next("OFFBOARD")
    assert rig.asked() == ["HOLD"], "once more"


def test_a_late_answer_is_not_taken_for_one_to_something_else(bench):
    rig = bench().up()
    rig.next("HOLD", 2.0)
    assert rig.send()
    rig.next("HOLD")
    rig.drone.call(Call.HOVER)  # it holds already
    assert rig.send()
    rig.next("OFFBOARD")
    rig.drone.call(Call.HOVER)
    rig.next("OFFBOARD")
    rig.other.heard()
    rig.other.acknowledge(MODE)  # of the request for OFFBOARD
    rig.next("OFFBOARD", 0.25)
    assert rig.asked() == ["HOLD"]
    rig.other.acknowledge(MODE, DENIED)  # nor is this one that of HOLD
    rig.next("OFFBOARD", 0.25)
    assert rig.asked() == ["HOLD"]


@pytest.mark.parametrize("stop", [False, True])
def test_a_hover_that_is_repeated_does_not_break_off_somebody_s_landing(bench, stop):
    rig = bench(stop=stop)
    look = rig.drone.seen if stop else rig.drone.heard
    rig.mode("TAKEOFF")
    rig.drone.call(Call.HOVER)
    rig.clock.time += 0.1
    rig.mode("LAND")
    for _ in range(40):
        rig.clock.time += 0.05
        look()
    assert rig.asked() == ["HOLD"]


def test_it_does_not_take_off_in_somebody_else_s_mode(bench):
    rig = bench()
    rig.mode("POSCTL")
    rig.drone.call(Call.TAKE_OFF)
    assert rig.asked() == [] and "armed in another mode" in rig.drone.heard().said[0]
    rig.drone.call(Call.OFF)
    assert rig.asked() == ["disarm 21196"]


# ------------------------------------------------------------------ the emergency stop


class Stop:
    """The process that holds it, and a vehicle at 3 m that never comes down."""

    def __init__(self, rig):
        self.rig, self.stop = rig, EmergencyStop(rig.drone, rig.profile)
        self.see("HOLD", 1.0)

    def see(self, mode, seconds):
        """What was asked for in this time."""
        rig = self.rig
        for _ in range(round(seconds / 0.1)):
            rig.clock.time += 0.1
            rig.other.move((0.0, 0.0, -3.0 - 1e-6 * rig.other.boot), boot=rig.other.boot + 100)
            rig.mode(mode)
            self.stop.poll()
        return rig.asked()


def test_the_stop_s_time_limit_does_not_cut_who_has_taken_the_vehicle(bench):
    held = Stop(bench(stop=True))
    held.stop.stop()
    held.see("HOLD", 1.0)
    asked = held.see("POSCTL", 30.0)
    assert "disarm 21196" not in asked and set(asked) == {"LAND"}, "a person wants it down"
    held.stop.cut()
    assert "disarm 21196" in held.see("POSCTL", 0.1)
    assert "disarm 21196" in held.see("LAND", 1.0), "it does as it is told, and does not come down"


def test_a_stop_that_no_person_wants_yields_to_who_takes_the_vehicle(bench, capsys):
    held = Stop(bench(stop=True))
    held.stop.stop(yields=True)
    asked = held.see("HOLD", 5.0)
    assert (asked[0], asked[-1]) == ("HOLD", "LAND")
    held.stop.drone.call(Call.LAND)  # the last one, a moment before they take it
    held.rig.asked()
    held.see("POSCTL", 0.1)
    assert held.see("POSCTL", 1.0) == held.see("LAND", 30.0) == []
    assert TAKEN in capsys.readouterr().out
    held.stop.stop(yields=True)
    assert held.see("HOLD", 3.0) == [], "it is still theirs"
    held.stop.stop()
    assert held.see("HOLD", 3.0)[0] == "HOLD", "a person's is obeyed"


def test_a_person_s_stop_does_not_yield_when_the_program_asks_for_one_too(bench):
    held = Stop(bench(stop=True))
    held.stop.stop(yields=True)
    held.stop.stop()
    held.stop.stop(yields=True)
    assert held.see("POSCTL", 4.0) != []


def test_the_stop_s_keys_work_without_heartbeats_and_a_cut_without_anything(bench):
    rig = bench(stop=True)
    held = Stop(rig)
    rig.clock.time += rig.profile.limits.master_s + 1.0
    rig.other.move((0.0, 0.0, -3.0))
    rig.arrive()
    assert rig.drone.reaches and held.stop.stop() and rig.asked() == ["HOLD"]
    rig.clock.time += 60.0
    assert not rig.drone.reaches
    assert held.stop.cut() and rig.asked()[-1] == "disarm 21196"
    fresh = EmergencyStop(bench(stop=True).drone, rig.profile)
    assert not fresh.cut(), "nobody knows where it is"
