# pyright: reportOptionalMemberAccess=false, reportArgumentType=false
"""Every fault with real processes and a real wire, in lockstep, at hover and at speed.

LAFR_HIL_PROCESS_REPEATS repeats each; LAFR_HIL_ONLY names a part of the faults. Reactions are
read from the recording of the wire, so each of them also shows that it is complete.
"""

import os
from typing import Any, NamedTuple

import fault_table
import numpy as np
import pytest
from lockstep_rig import (
    CLOCK,
    MARGIN_S,
    PROFILE,
    REPEATS,
    TICK_S,
    WHERE,
    Hangar,
    fly_until_a_moment,
    guarded_by,
    note_last_command,
)
from waiting import wait_for

from lafr_mjx.hil.safety.modes import Word
from lafr_mjx.hil.wire import ros_messages as m
from lafr_mjx.hil.wire.node import Node
from lafr_mjx.logs.flown_ticks import TICK_TOPIC

LIMITS = PROFILE.limits
LOOKS_S = 0.5  # between two looks at the master
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
    end: str = "off"  # hover: waits for the operator; landed: by our word


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
    "vehicle's clock jumps back": Case(
        "clock-jump@+0:7.5:-0.5", "STATE_STALE", LIMITS.state_age_s, (STATE, stamp_jump), "landed"),
    "battery silent": Case("battery-stop@+0:5", "BATTERY", LIMITS.battery_s, nothing(BATTERY)),
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


@pytest.mark.parametrize("attempt", range(REPEATS))
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("name", NAMES)
def test_fault(hangar, name, where, attempt):
    case, flight = CASES[name], hangar()
    session, seen = fly_until_a_moment(flight, where, attempt, name)
    before = flight.inject(case.text)
    session.wait("hover", "guard", "blind", "land", seconds=case.bound + 3.0, what="the reaction")
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
    if case.end in ("hover", "landed"):
        session.sleep(0.8)
        assert case.end == "landed" or session.mode == "hover", "waits for the operator"
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
    # The drone looks once in its cycle of 10 ms.
    note_last_command(flight, begin, "pilot no longer subscribed", where, 0.01)
    session.wait("off", seconds=40.0, what="the end")
    assert not flight.crashed()
    flight.over()


@pytest.mark.parametrize("attempt", range(REPEATS))
@pytest.mark.parametrize("where", WHERE)
def test_another_commander(hangar, where, attempt):
    """Somebody announces commands: seen at the next look at the master."""
    flight = hangar()
    session, seen = fly_until_a_moment(flight, where, attempt, "test_another_commander")
    begin = session.clock.now()
    with Node("/other", session.master) as other:
        other.advertise(PROFILE.pilot.topic("feedthrough_command"), "agiros_msgs/Command")
        other.start()
        wait_for(lambda: other.master_seen > 0.0, 60.0, "its registration")
        session.wait("hover", "land", seconds=2.0, what="hover")
        assert any("fault INTRUDER" in what for _, what in session.events[seen:])
        note_last_command(flight, begin, "another commander", where, LOOKS_S)
        session.wait("off", seconds=40.0, what="the end")
    assert not flight.crashed()
    flight.over()


@pytest.mark.parametrize("attempt", range(REPEATS))
@pytest.mark.parametrize("where", WHERE)
def test_emergency_stop(hangar, where, attempt):
    flight = hangar()
    session, _ = fly_until_a_moment(flight, where, attempt, "test_emergency_stop")
    begin = session.clock.now()
    session.stop()
    session.wait("guard", "land", seconds=1.0, what="the guard")
    note_last_command(flight, begin, "emergency stop", where, 0.0)
    session.wait("off", seconds=40.0, what="the end")
    assert guarded_by(flight) and not flight.crashed()
    flight.over()
