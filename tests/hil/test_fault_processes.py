# pyright: reportOptionalMemberAccess=false, reportArgumentType=false
"""Every fault with real processes and a real wire, in lockstep, at hover and at speed.

LAFR_HIL_PROCESS_REPEATS repeats each; LAFR_HIL_ONLY names a part of the faults. Reactions are
read from the recording of the wire, so each of them also shows that it is complete.
"""

import os
import resource
import signal
import time
from typing import Any, NamedTuple

import fault_table
import numpy as np
import pytest
from lockstep_rig import CLOCK, PROFILE, Flight, Hangar, fly_until_a_moment, until

from lafr_mjx.errors import RunError
from lafr_mjx.hil.recording.bags import read_records
from lafr_mjx.hil.safety.modes import Word
from lafr_mjx.hil.wire import ros_messages as m
from lafr_mjx.logs.flown_ticks import TICK_TOPIC

LIMITS = PROFILE.limits
TICK_S = 0.02
MARGIN_S = 0.005  # from a decision to the kernel, and the wire
DISK_S = 5.0  # of a flight at most, in the time between two writes to the disk
REPEATS = int(os.environ.get("LAFR_HIL_PROCESS_REPEATS", "1"))
WHERE = ["at hover", "at speed"]
STATE, MOCAP, TELEMETRY, BATTERY = (
    PROFILE.pilot.topic(name) for name in ("state", "mocap", "telemetry", "battery")
)


# ------------------------------------------------------------------ what a bad sample is


def nothing(topic):
    """None is bad: they just stop coming."""
    return topic, lambda message, before: False


def voltage(message, before):
    return message.voltage < LIMITS.voltage_land_v


def guarded(message, before):
    return message.guard_triggered.data


def jumped(message, before):
    return before is not None and abs(message.pose.position.x - before.pose.position.x) > 0.3


def frozen(message, before):
    return before is not None and message.pose.position.x == before.pose.position.x


def not_finite(message, before):
    return not np.isfinite(message.pose.position.x)


def inverted(message, before):
    turn = message.pose.orientation
    return 1.0 - 2.0 * (turn.x**2 + turn.y**2) < 0.0


def outside(message, before):
    return message.pose.position.y > PROFILE.fence.high[1]


def stamp_jump(message, before):
    if before is None:
        return False
    return abs(m.seconds(message.header.stamp) - m.seconds(before.header.stamp)) > 0.2


class Case(NamedTuple):
    """A fault of the drone's: what is injected, seen, and within which time commands stop."""

    text: str
    fault: str
    bound: float  # s, from the last good sample to the last command
    bad: Any  # topic, and which of its messages are bad
    end: str = "off"  # hover: waits for the operator


CASES = {
    "motion capture stale": Case(
        "mocap-drop@+0:4", "MOCAP_STALE", LIMITS.mocap_stale_s, nothing(MOCAP)),
    "motion capture frozen": Case(
        "mocap-freeze@+0:4", "MOCAP_FROZEN", LIMITS.mocap_frozen_s, (MOCAP, frozen)),
    "motion capture jumps": Case(
        "mocap-jump@+0:7.5:0.8", "MOCAP_JUMP", 0.0, (MOCAP, jumped), "hover"),
    "input delayed": Case("latency@+0:4:0.2", "STATE_STALE", LIMITS.state_age_s, nothing(STATE)),
    "state is not a number": Case(
        "nan@+0:4", "STATE_STALE", LIMITS.state_age_s, (STATE, not_finite)),
    "link lost": Case("link-loss@+0:2", "STATE_STALE", LIMITS.state_age_s, nothing(STATE)),
    "pilot silent": Case(
        "telemetry-stop@+0:4", "STATE_STALE", LIMITS.state_age_s, nothing(STATE)),
    "vehicle's clock jumps": Case("clock-jump@+0:7.5", "CLOCK", 0.0, (STATE, stamp_jump), "hover"),
    "battery low": Case("voltage@+0:3:13.0", "VOLTAGE", 0.1, (BATTERY, voltage)),
    "upside down": Case("tilt@+0:3:100", "INVERTED", LIMITS.inverted_s, (STATE, inverted)),
    "outside of the volume": Case("outside@+0:3", "OUTSIDE", 0.0, (STATE, outside)),
    "pilot's guard": Case("guard@+0:0.1", "GUARDED", 0.0, (TELEMETRY, guarded)),
}  # fmt: skip
_only = os.environ.get("LAFR_HIL_ONLY", "")
NAMES = [name for name in CASES if _only in name]


@pytest.fixture(scope="module")
def hangar(tmp_path_factory):
    """Flights one after the other."""
    hangar = Hangar(tmp_path_factory)
    yield hangar
    hangar.close()


@pytest.fixture
def alone(tmp_path, hangar, master):
    """A session that does not outlive its test; two at once would hold each other up."""
    hangar.close()
    flight = Flight(tmp_path / "hil", master=master.uri)
    yield flight
    flight.close()


@pytest.mark.parametrize("attempt", range(REPEATS))
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("name", NAMES)
def test_fault(hangar, name, where, attempt):
    case, flight = CASES[name], hangar()
    session, seen = fly_until_a_moment(flight, where, attempt, name)
    before = flight.inject(case.text)
    session.wait("hover", "guard", "blind", "land", seconds=3.0, what="the reaction")
    session.sleep(0.3)
    new = [what for _, what in session.events[seen:]]
    assert any(f"fault {case.fault}" in what for what in new), new
    records = [r for r in flight.records() if r.time > before - 1.0]
    reaction, last = reaction_s(records, case.bad)
    assert before - last < 2 * TICK_S, "the policy had the vehicle"
    assert reaction <= case.bound + TICK_S + MARGIN_S
    fault_table.note(CLOCK, name, where, max(0.0, reaction), case.bound, case.end)
    # The recording goes on to the policy's very last command.
    commands = [r.time for r in records if r.topic.endswith("feedthrough_command")]
    assert min(abs(time - last) for time in commands) < TICK_S
    if case.end == "hover":
        session.sleep(0.8)
        assert session.mode == "hover", "waits for the operator"
        # The jump back is another fault, and would land it: it is down before that.
        session.say(Word.LAND)
        session.wait("off", seconds=40.0, what="landing")
        session.clock.sleep_until(before + 8.0)
    else:
        session.wait("off", seconds=40.0, what="the end")
    assert not flight.crashed()
    flight.over()


def reaction_s(records, bad):
    """(from the last good sample to the policy's last tick, when that was) by the recording."""
    topic, is_bad = bad
    last = max(r.time for r in records if r.topic == TICK_TOPIC)
    good, before = None, None
    for record in records:
        if record.topic != topic or record.time > last:
            continue
        message = m.decode(record.kind, record.data)
        if is_bad(message, before):
            break
        good, before = record.time, message
    assert good is not None
    return last - good, last


@pytest.mark.parametrize("attempt", range(REPEATS))
@pytest.mark.parametrize("where", WHERE)
def test_input_repeated_and_reordered(hangar, where, attempt):
    """Dropped; the flight goes on."""
    flight = hangar()
    session, seen = fly_until_a_moment(flight, where, attempt, "test_input_repeated_and_reordered")
    begin = flight.inject("reorder@+0:2")
    session.sleep(2.2)
    stamps = [
        m.seconds(m.decode(r.kind, r.data).header.stamp)
        for r in flight.records()
        if r.topic == STATE and begin < r.time < begin + 2.2
    ]
    assert sum(np.diff(stamps) <= 0.0) > 50, "they came"
    faults = [what for _, what in session.events[seen:] if what.startswith("fault ")]
    assert session.mode == "policy" and not faults
    fault_table.note(CLOCK, "input repeated and reordered", where, 0.0, None, "policy")
    assert not flight.crashed()
    flight.over()


@pytest.mark.parametrize("attempt", range(REPEATS))
@pytest.mark.parametrize("where", WHERE)
def test_pilot_no_longer_subscribed(hangar, where, attempt):
    """Our commands have nowhere to go, for two seconds; calls arrive."""
    flight = hangar()
    session, seen = fly_until_a_moment(flight, where, attempt, "test_pilot_no_longer_subscribed")
    begin = flight.inject("unsubscribe@+0:2")
    session.wait("hover", "land", seconds=1.0, what="hover")
    assert any("fault LINK" in what for _, what in session.events[seen:])
    commands = [r.time for r in flight.records() if r.topic.endswith("feedthrough_command")]
    assert begin - commands[-1] < 2 * TICK_S, "the policy had the vehicle"
    reaction = max(0.0, commands[-1] - begin)
    # The drone looks once in its cycle of 10 ms.
    assert reaction <= 0.01 + TICK_S + MARGIN_S
    name = "pilot no longer subscribed"
    fault_table.note(CLOCK, name, where, reaction, 0.0, "off")
    session.wait("off", seconds=40.0, what="the end")
    assert not flight.crashed()
    flight.over()


# ------------------------------------------------------------------ our own processes


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


def guarded_by(flight):
    return any("guard" in words for _, words in flight.drone_log())


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
