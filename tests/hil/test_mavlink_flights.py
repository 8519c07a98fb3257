# pyright: reportOptionalMemberAccess=false, reportArgumentType=false
# pyright: reportOptionalSubscript=false
"""Whole flights over MAVLink in lockstep: all processes, with the tests' autopilot in its own.

That one was written from the documentation of PX4 and ArduPilot: no real autopilot was flown.
"""

import contextlib
import os
import signal

import numpy as np
import pytest
from lockstep_rig import Flight, leg, until
from mavlink_rig import MavlinkSession

from lafr_mjx.errors import RunError
from lafr_mjx.hil.operator.operator_steps import land, take_off
from lafr_mjx.hil.recording.bags import flights, read_records
from lafr_mjx.hil.safety.modes import Word

HOLD = {"px4": "HOLD", "ardupilot": "BRAKE"}
OFFBOARD = {"px4": "OFFBOARD", "ardupilot": "GUIDED"}
SLOW = 0.7  # time scale


class MavlinkFlight(Flight):
    """A session that can be brought into the air again and again."""

    def __init__(self, folder, autopilot):
        self.autopilot = autopilot
        self.session = MavlinkSession(folder, autopilot)
        self.clock, self.folder = self.session.clock, folder
        self._legs, self._broken_until = 0, 0.0

    def up(self, where):
        if self.session.mode == "disconnected":
            self.session.wait_ready()  # its processes may take long to start
        return super().up(where)

    def down(self):
        self.session.fault()
        super().down()


@pytest.fixture(scope="module", params=["px4", "ardupilot"])
def flight(request, tmp_path_factory):
    made = MavlinkFlight(tmp_path_factory.mktemp(request.param), request.param)
    with made.session:
        yield made


@pytest.fixture
def session(flight):
    """At speed, in the policy's hands."""
    yield flight.up("at speed").session
    flight.down()
    assert not flight.crashed()


def events_since(session, begin):
    return [text for _, text in session.events[begin:]]


def ends_down(session, begin):
    """It lands by itself, and is seen to stand with its motors off."""
    session.fault()
    until(session, lambda: session.mode == "off", 40.0, "off")
    until(session, lambda: session.down, 5.0, "down")
    return events_since(session, begin)


@pytest.mark.parametrize("autopilot", ["px4", "ardupilot"])
def test_a_leg_from_take_off_to_landing(tmp_path, autopilot):
    with MavlinkSession(tmp_path, autopilot) as session:
        take_off(session)
        flown = session.fly(leg(0, 8.0, SLOW))
        land(session)
    error = np.linalg.norm(flown.sensed.position - flown.reference.position, axis=-1)
    assert np.sqrt(np.mean(error**2)) < 0.15 and len(flown.time) == 400
    assert flown.sample_received.mean() > 0.97
    assert session.down and session.ended["missed_deadlines"] == 0
    assert not [text for _, text in session.events if text.startswith("fault ")]
    hold, offboard = HOLD[autopilot], OFFBOARD[autopilot]
    begins = [("HOLD", "disarmed"), ("HOLD", "armed"), ("TAKEOFF", "armed")]
    if autopilot == "ardupilot":
        begins = [("STABILIZE", "disarmed")]
    assert session.modes() == [
        *begins, (offboard, "armed"), (hold, "armed"), ("LAND", "armed"), ("LAND", "disarmed")
    ]  # fmt: skip
    # What was flown is recorded as with any other drone.
    bagged = flights(read_records(tmp_path / "flight.bag"))
    assert sorted(bagged) == [0] and np.allclose(bagged[0].command, flown.command)
    kinds = {(r.topic, r.kind) for r in read_records(tmp_path / "flight.spool")}
    assert ("/mavlink/state", "agiros_msgs/QuadState") in kinds
    assert ("/mavlink/command", "agiros_msgs/Command") in kinds


@pytest.mark.parametrize(
    ("fault", "told", "bound"),
    [
        ("heartbeat", "MASTER", 3.0 + 1.0),
        ("nan", "STATE_STALE", 0.05),
        ("frozen", "MOCAP_FROZEN", 0.06),
        ("position", "MOCAP_STALE", 0.06),
        ("silent", "LINK", 0.1),
    ],
)
def test_what_is_not_heard_ends_on_the_ground(session, fault, told, bound):
    begin, sent = len(session.events), session.fault(fault)
    session.wait("hover", seconds=bound + 1.0, what="the reaction")
    assert session.clock.now() - sent < bound + 0.15, "and the time until it is told"
    session.wait("land", seconds=10.0, what="landing")
    events = ends_down(session, begin)
    assert any(text.startswith(f"fault {told}") for text in events)
    assert "call land" in events and not any("blind" in text for text in events)


def test_a_stream_that_does_not_arrive(flight, session):
    """The autopilot's own time-out; what it took is not taken back unasked."""
    begin, _ = len(session.events), session.fault("deaf")
    if flight.autopilot == "ardupilot":  # its mode does not tell: our tracking error does
        session.wait("hover", seconds=5.0, what="the reaction")
    else:
        until(session, lambda: session.modes()[-1][0] == "HOLD", 1.0, "its own time-out")
        session.wait("hover", seconds=2.0, what="the reaction")
        assert "the autopilot has taken the vehicle back" in events_since(session, begin)
    session.fault()
    session.say(Word.LAND)
    ends_down(session, begin)


def test_a_mode_that_is_refused(flight):
    if flight.autopilot == "ardupilot":
        pytest.skip("GUIDED, in which it took off, is kept")
    session = flight.up("hovering").session
    session.say(Word.HOVER)
    session.wait("hover", seconds=2.0, what="hover")
    begin = len(session.events)
    session.fault("refuse")
    session.sleep(1.0)
    session.say(Word.POLICY)
    session.wait("policy", seconds=2.0, what="the policy")
    session.wait("hover", seconds=2.0, what="giving up")
    events = events_since(session, begin)
    assert any("refuses to change its mode: temporarily_rejected" in text for text in events)
    assert "autopilot: Offboard refused: no offboard signal" in events
    assert session.modes()[-1] == ("HOLD", "armed")
    flight.down()


def test_who_takes_the_vehicle_keeps_it(flight, session):
    """Our calls stop; the emergency stop is a person's, and goes on."""
    begin, _ = len(session.events), session.fault("taken")
    session.wait("hover", seconds=2.0, what="the reaction")
    taken = "POSCTL" if flight.autopilot == "px4" else "LOITER"
    session.wait("land", seconds=5.0, what="our landing, in vain")
    session.sleep(3.0)
    assert session.modes()[-1] == (taken, "armed")
    events = events_since(session, begin)
    assert any(text.startswith("fault INTRUDER") for text in events)
    assert any(text.startswith("not called, somebody else has the vehicle") for text in events)
    session.fault()  # its mode can be changed again: by the stop's process only
    session.stop()
    ends_down(session, begin)
    assert ("LAND", "armed") in session.modes()[-2:]


def test_emergency_stop(flight, session):
    begin = len(session.events)
    session.stop()
    ends_down(session, begin)
    assert [mode for mode, _ in session.modes()][-3:-1] == [HOLD[flight.autopilot], "LAND"]


@pytest.mark.parametrize(
    ("autopilot", "dies", "also"),
    [("px4", False, ()), ("px4", True, ()), ("px4", False, ("slow",)),
     ("ardupilot", False, ("slow",)), ("ardupilot", True, ())],
)  # fmt: skip
def test_nothing_of_ours_is_called_by_itself_against_who_took_it(tmp_path, autopilot, dies, also):
    """A person flies it, and it would obey us; the session ends, or our process does."""
    flight = MavlinkFlight(tmp_path, autopilot)
    with flight.session as session:
        flight.up("at speed")
        session.fault(*also)
        session.sleep(1.0)
        session.fault("switched", *also)
        until(session, lambda: session.status["taken"], 1.3, "what its heartbeat says")
        if dies:
            os.kill(session.process("control").pid, signal.SIGKILL)
            with contextlib.suppress(RunError):
                session.sleep(1.0)
                session.check_alive()
        begin = session.clock.now()
    longest = 0.0 if dies else session.landing_s
    assert session.clock.now() - begin >= longest
    taken = "POSCTL" if autopilot == "px4" else "LOITER"
    assert session.modes()[-2:] == [(OFFBOARD[autopilot], "armed"), (taken, "armed")]
    assert not session.down
    assert any("NOT CONFIRMED DOWN" in text for _, text in session.events)


@pytest.mark.parametrize("autopilot", ["px4", "ardupilot"])
def test_our_process_is_killed(tmp_path, autopilot):
    """It is told as soon as that is seen, and the emergency stop lands."""
    flight = MavlinkFlight(tmp_path, autopilot)
    with flight.session as session:
        flight.up("at speed")
        os.kill(session.process("control").pid, signal.SIGKILL)
        with contextlib.suppress(RunError):
            session.sleep(1.0)
    assert session.down and not flight.crashed()
    modes = session.modes()
    assert modes[-3:] == [(HOLD[autopilot], "armed"), ("LAND", "armed"), ("LAND", "disarmed")]


def test_motors_that_are_cut_at_once_are_not_armed_again(tmp_path):
    """Before anything has told that they were armed."""
    with MavlinkSession(tmp_path) as session:
        session.wait_ready()
        session.say(Word.ARM)
        until(session, lambda: session.modes()[-1] == ("HOLD", "armed"), 1.0, "arming")
        session.cut()
        session.sleep(3.0)
        assert session.mode == "off"
        assert session.modes() == [("HOLD", "disarmed"), ("HOLD", "armed"), ("HOLD", "disarmed")]


def test_an_autopilot_that_promises_something_else_is_not_armed(tmp_path):
    with MavlinkSession(tmp_path, parameters=("COM_OBL_RC_ACT=0",)) as session:
        until(session, lambda: session.mode == "preflight", 10.0, "preflight")

        def told():
            checks = {name: why for name, good, why in session.status["checks"] if not good}
            return "COM_OBL_RC_ACT is 0" in checks.get("set-up", "")

        until(session, told, 5.0, "the check")
        session.say(Word.ARM)
        session.sleep(1.0)
        assert session.mode == "preflight" and "COM_OBL_RC_ACT" in session.refusals[-1]
    assert session.modes() == [("HOLD", "disarmed")]
