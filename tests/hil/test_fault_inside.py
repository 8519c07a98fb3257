# pyright: reportOptionalMemberAccess=false, reportArgumentType=false
"""Faults inside the control process, in lockstep: what the policy gives, what is heard and sent.

LAFR_HIL_PROCESS_REPEATS repeats each; LAFR_HIL_ONLY names a part of them.
"""

import os
from typing import NamedTuple

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
    Breakable,
    Hangar,
    fly_until_a_moment,
)

from lafr_mjx.hil.wire import ros_messages as m
from lafr_mjx.logs.flown_ticks import TICK, TICK_TOPIC

LIMITS = PROFILE.limits


class Case(NamedTuple):
    """What breaks, what is seen, and within which time commands end (of the policy's, or all)."""

    kind: str
    fault: str
    bound: float  # s
    baseline: bool = False  # it takes over; else nothing is sent any more
    injected: str = ""  # into the drone, too


AHEAD_S = 0.5  # by which a fault of the drone's is announced
CLAMPED_S = PROFILE.command.repeats * TICK_S
CASES = {
    "policy gives NaN": Case("nan", "NOT_FINITE", 0.0, True),
    "policy gives infinity": Case("infinite", "NOT_FINITE", 0.0, True),
    "policy out of range": Case("out of range", "CLAMPED", CLAMPED_S, True),
    "policy jumps to and fro": Case("to and fro", "CLAMPED", CLAMPED_S, True),
    "tilt beyond plan": Case("held", "TILT", LIMITS.tilt_s, False, f"tilt@+{AHEAD_S}:3:85"),
    "cannot stop within the volume": Case("rushing", "FENCE", 0.0),
    "publishing blocked": Case("unsent", "LINK", LIMITS.link_s),
}
_only = os.environ.get("LAFR_HIL_ONLY", "")
NAMES = [name for name in CASES if _only in name]


@pytest.fixture(scope="module")
def hangar(tmp_path_factory):
    """Flights one after the other."""
    hangar = Hangar(tmp_path_factory, Breakable)
    yield hangar
    hangar.close()


@pytest.mark.parametrize("attempt", range(REPEATS))
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("name", NAMES)
def test_fault(hangar, name, where, attempt):
    case, flight = CASES[name], hangar()
    session, seen = fly_until_a_moment(flight, where, attempt, name)
    modes = ("hover", "guard", "blind", "land")
    if case.injected:  # both begin at the same moment
        session.clock.sleep_until(flight.inject(case.injected) + AHEAD_S)
    begin = session.break_control(case.kind)
    try:
        session.wait(*modes, seconds=PROFILE.ladder.baseline_s + 3.0, what="the reaction")
        session.sleep(0.3)
    finally:
        session.break_control("")
    new = [what for _, what in session.events[seen:]]
    assert any(f"fault {case.fault}" in what for what in new), new
    records = [r for r in flight.records() if r.time > begin - 1.0]
    ticks = [m.decode(TICK, r.data) for r in records if r.topic == TICK_TOPIC]
    sent = np.array([tick.command for tick in ticks if tick.sent])
    assert np.isfinite(sent).all()
    assert np.all(np.abs(np.diff(sent, axis=0)) <= PROFILE.command.slew + 1e-9)
    if case.baseline:
        first, last, kept = policys(ticks)
        # It keeps the vehicle for as long as it may, unless something else goes wrong meanwhile.
        others = [what for what in new if "fault " in what and case.fault not in what]
        assert others or kept > PROFILE.ladder.baseline_s - 2 * TICK_S, new
    else:
        first, last = of_all(ticks, begin)
    assert begin - last < 2 * TICK_S, "the policy had the vehicle"
    reaction = max(0.0, last - first)
    assert reaction <= case.bound + TICK_S + MARGIN_S
    end = session.mode if session.mode == "hover" else "off"
    fault_table.note(CLOCK, name, where, reaction, case.bound, end)
    if session.mode == "hover":
        session.sleep(0.5)
        assert session.mode in ("hover", "land", "off"), "nothing goes up by itself"
    else:
        session.wait("off", seconds=40.0, what="the end")
    assert not flight.crashed()
    flight.over()


def policys(ticks):
    """First and last tick of the broken policy, and for how long the baseline had the vehicle then.

    What is not finite never left.
    """
    bad = [tick for tick in ticks if tick.controller == "policy"]
    assert all(np.isfinite(tick.wanted).all() or not tick.sent for tick in bad)
    after = [tick for tick in ticks if tick.time > bad[-1].time and tick.sent]
    assert after and all(tick.controller == "baseline" for tick in after)
    return bad[0].time, bad[-1].time, after[-1].time - bad[-1].time


def of_all(ticks, begin):
    """When it broke, and the last tick in the policy's hands after it."""
    return begin, max([tick.time for tick in ticks if tick.mode == "policy"], default=begin)


@pytest.mark.parametrize("attempt", range(REPEATS))
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize(
    ("seconds", "periods", "name"),
    [(0.025, 1, "tick late by one period"), (0.045, 2, "tick late by two periods")],
)
def test_a_tick_that_overruns(hangar, where, seconds, periods, name, attempt):
    """The policy ends, and if it is late by two periods, so do we."""
    flight = hangar()
    session, seen = fly_until_a_moment(flight, where, attempt, "test_a_tick_that_overruns")
    begin = session.break_control(f"late {seconds}")
    session.wait("hover", "land", "off", seconds=8.0, what="hover")
    session.sleep(0.1)
    new = [what for _, what in session.events[seen:]]
    assert any("fault DEADLINE" in what for what in new), new
    assert any(f"late by {periods} period" in what for what in new), new
    sent = [r.time for r in flight.records() if r.topic.endswith("feedthrough_command")]
    if periods == 2:
        # After it goes on, at most the tick that was late is still sent.
        reaction = max(0.0, sent[-1] - begin - seconds)
        assert reaction <= TICK_S + MARGIN_S
        fault_table.note(CLOCK, name, where, reaction, 0.0, "hover")
    assert not flight.crashed()
    flight.over()
