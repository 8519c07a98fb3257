# pyright: reportOptionalMemberAccess=false, reportArgumentType=false
"""What goes wrong on our own side, with real processes, in lockstep, at hover and at speed.

As `test_fault_processes.py`, which has the faults of the drone's.
"""

import os
import resource
import signal
import time

import fault_table
import pytest
from lockstep_rig import (
    CLOCK,
    PROFILE,
    REPEATS,
    TICK_S,
    WHERE,
    Flight,
    fly_until_a_moment,
    guarded_by,
    note_last_command,
    until,
)

from lafr_mjx.errors import RunError
from lafr_mjx.hil.recording.bags import read_records
from lafr_mjx.hil.safety.modes import Word
from lafr_mjx.hil.wire import ros_messages as m
from lafr_mjx.logs.flown_ticks import TICK_TOPIC

LIMITS = PROFILE.limits
DISK_S = 5.0  # of a flight at most, in the time between two writes to the disk
STATE = PROFILE.pilot.topic("state")


@pytest.fixture
def alone(tmp_path, master):
    """A session that does not outlive its test."""
    flight = Flight(tmp_path / "hil", master=master.uri)
    yield flight
    flight.close()


@pytest.mark.parametrize("attempt", range(REPEATS))
@pytest.mark.parametrize("where", WHERE)
def test_console_gone(alone, where, attempt):
    """The operator's end is closed: the control process lands by itself, and ends."""
    flight = alone
    session, _ = fly_until_a_moment(flight, where, attempt, "test_console_gone")
    begin = session.clock.now()
    session.console.close()
    control = session.process("control")
    until(session, lambda: control.poll() is not None, 60.0, "the end")
    assert flight.drone_log()[-1][1][1] == "disarmed" and not flight.crashed()
    note_last_command(flight, begin, "operator's console gone", where, TICK_S)


@pytest.mark.parametrize("attempt", range(REPEATS))
@pytest.mark.parametrize("where", WHERE)
def test_exception_in_a_tick(alone, where, attempt):
    flight = alone
    session, _ = fly_until_a_moment(flight, where, attempt, "test_exception_in_a_tick")
    begin = session.clock.now()
    session._send({"word": []})  # no word at all: what handles it raises
    session.wait("guard", seconds=1.0, what="the guard")
    sent = [r.time for r in flight.records() if r.topic.endswith("feedthrough_command")]
    reaction = sent[-1] - begin
    assert reaction <= 0.1
    fault_table.note(CLOCK, "exception in a tick", where, max(0.0, reaction), 0.1, "off")
    session.wait("off", seconds=40.0, what="the end")
    assert "TypeError" in (flight.folder / "errors.txt").read_text()
    assert not flight.crashed()


@pytest.mark.parametrize("attempt", range(REPEATS))
@pytest.mark.parametrize("where", WHERE)
def test_disk_full(alone, where, attempt):
    """The control process may write no more: recording stops with a warning, flying goes on."""
    flight = alone
    session, _ = fly_until_a_moment(flight, where, attempt, "test_disk_full")
    control = session.process("control").pid
    size = (flight.folder / "flight.spool").stat().st_size + 20_000
    begin = session.clock.now()
    resource.prlimit(control, resource.RLIMIT_FSIZE, (size, size))
    until(
        session, lambda: any("recording has stopped" in text for _, text in session.events), 30.0,
        "the warning",
    )  # fmt: skip
    told = session.clock.now() - begin
    missed = session.status["missed"]
    session.sleep(3.0)
    assert session.mode == "policy" and session.status["missed"] == missed
    assert len(flight.records()) > 300, "what was written before can be read"
    fault_table.note(CLOCK, "disk full", where, told, None, "policy")
    session.say(Word.LAND)
    session.wait("off", seconds=40.0, what="landing")
    assert not flight.crashed()


@pytest.mark.parametrize("attempt", range(REPEATS))
@pytest.mark.parametrize("where", WHERE)
def test_master_gone(alone, master, where, attempt):
    flight = alone
    session, _ = fly_until_a_moment(flight, where, attempt, "test_master_gone")
    begin = session.clock.now()
    master.close()
    session.wait("hover", seconds=8.0, what="hover")
    reaction = session.clock.now() - begin
    assert reaction <= LIMITS.master_s + 1.0
    assert any("fault MASTER" in text for _, text in session.events)
    bound = LIMITS.master_s
    fault_table.note(CLOCK, "ROS master gone", where, reaction, bound, "off")
    session.wait("off", seconds=40.0, what="the end")
    assert not flight.crashed()


@pytest.mark.parametrize("attempt", range(REPEATS))
@pytest.mark.parametrize("where", WHERE)
def test_control_process_killed(alone, where, attempt):
    flight = alone
    session, _ = fly_until_a_moment(flight, where, attempt, "test_control_process_killed")
    before = len(flight.drone_log())
    begin = session.clock.now()
    session.process("control").kill()
    until(session, lambda: flight.drone_log()[before:], 1.0, "the pilot's time-out")
    took = session.clock.now() - begin
    assert flight.drone_log()[-1][1][0] == "hover", "the pilot hovers without us"
    bound = PROFILE.pilot.feedthrough_timeout_s
    assert took <= bound + TICK_S + 0.01
    fault_table.note(CLOCK, "our process killed", where, took, bound, "landed by the stop")
    with pytest.raises(RunError, match="control process has ended"):
        session.wait("off", seconds=1.0, what="nothing")
    # The independent stop brings it down, though the session ends at once.
    session.close()
    assert "has ended: the emergency stop lands" in (flight.folder / "events.txt").read_text()
    assert flight.drone_log()[-1][1][1] == "disarmed" and not flight.crashed()
    assert session.down, "the stop has seen it stand"
    ticks = [r for r in flight.records() if r.topic == TICK_TOPIC]
    # The disk is written to about 5 times a second, of real ones.
    assert len(ticks) > 20 and begin - ticks[-1].time < DISK_S, "complete but for the last"
    bagged = [r.topic for r in read_records(flight.folder / "flight.bag")]
    assert STATE in bagged, "what was recorded before is in the bag"


@pytest.mark.parametrize("attempt", range(REPEATS))
@pytest.mark.parametrize("where", WHERE)
def test_emergency_stop_while_the_control_process_hangs(alone, where, attempt):
    flight = alone
    session, _ = fly_until_a_moment(flight, where, attempt, "test_emergency_stop_while_it_hangs")
    os.kill(session.process("control").pid, signal.SIGSTOP)
    # Its last command is on the wire; the stop must not need it.
    begin = session.clock.now()
    session.stop()
    until(session, lambda: guarded_by(flight), 1.0, "the guard")
    took = session.clock.now() - begin
    until(session, lambda: flight.drone_log()[-1][1][1] == "disarmed", 60.0, "motors off")
    assert session.clock.now() - begin < 8.0
    assert "control hangs" in (flight.folder / "drone.txt").read_text()
    assert not flight.crashed()
    os.kill(session.process("control").pid, signal.SIGCONT)
    assert took < 0.1
    fault_table.note(CLOCK, "emergency stop, control process hangs", where, took, 0.1, "land")


@pytest.mark.parametrize("attempt", range(REPEATS))
@pytest.mark.parametrize("where", WHERE)
def test_ctrl_c(alone, where, attempt):
    flight = alone
    session, _ = fly_until_a_moment(flight, where, attempt, "test_ctrl_c")
    control = session.process("control")
    begin = session.clock.now()
    os.kill(control.pid, signal.SIGINT)
    time.sleep(0.1)  # until it has it: time waits for us
    session.wait("hover", "land", seconds=PROFILE.ladder.rest_s + 1.0, what="hover")
    until(session, lambda: control.poll() is not None, 60.0, "the end")
    assert control.returncode == 0
    assert not flight.crashed()
    assert flight.drone_log()[-1][1][1] == "disarmed"
    ticks = [m.decode(r.kind, r.data) for r in flight.records() if r.topic == TICK_TOPIC]
    before = [tick for tick in ticks if tick.time <= begin][-1]
    # At speed it brakes along its path, at hover the pilot has it at once.
    brakes = [t.time for t in ticks if t.time > begin and t.phase_rate < 0.995 * before.phase_rate]
    acts = brakes[0] if brakes else ticks[-1].time
    reaction = max(0.0, acts - begin)
    assert reaction <= 0.1
    fault_table.note(CLOCK, "Ctrl-C", where, reaction, 0.1, "off")
