# pyright: reportOptionalMemberAccess=false, reportArgumentType=false
"""How flights end with real processes and a real wire; the bounds of `test_end_of_flight.py`.

Heights and speeds are those of motion capture and of the drone's own log.
"""

import fault_table
import numpy as np
import pytest
from lockstep_rig import PROFILE, Hangar, fly_until_a_moment, until

from lafr_mjx.hil.operator.operator_steps import land
from lafr_mjx.hil.safety.modes import Word
from lafr_mjx.hil.wire import ros_messages as m

WHERE = ["at hover", "at speed"]
MOCAP = PROFILE.pilot.topic("mocap")
OFF_S = 8.0
BLIND_S = 3.0
HIGHER_M = 0.3


@pytest.fixture(scope="module", params=["nominal", "wind5"])
def hangar(request, tmp_path_factory):
    """Flights one after the other, with the name of their world."""
    hangar = Hangar(tmp_path_factory, scenario=request.param)
    yield request.param, hangar
    hangar.close()


def motors_off(flight):
    return flight.drone_log()[-1][1][1] == "disarmed"


def heights(flight, begin):
    """What motion capture has shown since."""
    records = [r for r in flight.records() if r.topic == MOCAP and r.time >= begin]
    return np.array([m.decode(r.kind, r.data).pose.position.z for r in records])


def note(flight, what, where, world, took, bound):
    fault_table.note_end(f"{what}, real processes", f"{where}, {world}", s=(took, bound))
    assert took <= bound
    assert not flight.crashed()


@pytest.mark.parametrize("where", WHERE)
def test_normal_landing(hangar, where):
    world, flights = hangar
    flight = flights()
    session, _ = fly_until_a_moment(flight, where, 0, "test_normal_landing")
    begin = session.clock.now()
    if where == "at hover":
        land(session)
    else:
        session.say(Word.LAND)  # in the middle of a leg
    until(session, lambda: session.down, 120.0, "down, confirmed")
    took = session.clock.now() - begin
    seen = heights(flight, begin)
    assert seen.max() - seen[0] <= HIGHER_M
    note(flight, "normal landing", where, world, took, OFF_S)
    flight.over()


@pytest.mark.parametrize("where", WHERE)
def test_emergency_stop(hangar, where):
    """The key reaches the control process and the stop's own: one of them lands."""
    world, flights = hangar
    flight = flights()
    session, _ = fly_until_a_moment(flight, where, 1, "test_emergency_stop")
    begin = session.clock.now()
    session.stop()
    until(session, lambda: motors_off(flight), 120.0, "motors off")
    took = session.clock.now() - begin
    note(flight, "emergency stop", where, world, took, OFF_S)
    calls = [w[0] for _, w in flight.drone_log() if w[0] in ("land", "hover")]
    assert "land" in calls
    until(session, lambda: session.mode == "off", 60.0, "the machine's end")
    flight.over()


@pytest.mark.parametrize("where", WHERE)
def test_motion_capture_lost_for_good(hangar, where):
    world, flights = hangar
    flight = flights()
    session, seen = fly_until_a_moment(flight, where, 2, "test_motion_capture_lost")
    begin = flight.inject("mocap-drop@+0:6")
    until(session, lambda: motors_off(flight), 120.0, "motors off")
    took = session.clock.now() - begin
    note(flight, "motion capture lost", where, world, took, BLIND_S)
    assert any("nobody sees the vehicle" in what for _, what in session.events[seen:])
    until(session, lambda: session.mode == "off", 60.0, "the machine's end")
    flight.over()


@pytest.mark.parametrize("where", WHERE)
def test_motion_capture_back_early_is_a_hover(hangar, where):
    _, flights = hangar
    flight = flights()
    session, _ = fly_until_a_moment(flight, where, 3, "test_motion_capture_back")
    flight.inject("mocap-drop@+0:0.15")
    session.wait("hover", seconds=3.0, what="hover", unless=("land", "guard", "off"))
    session.sleep(2.0)
    assert session.mode == "hover" and not motors_off(flight), "no descent"
    assert not flight.crashed()
    flight.over()
