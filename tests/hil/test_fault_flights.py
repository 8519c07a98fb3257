# pyright: reportOptionalMemberAccess=false, reportArgumentType=false
"""Every fault in flight on a simulated clock, on the real plant, at hover and at full speed.

LAFR_HIL_REPEATS repeats each at other random moments; LAFR_HIL_ONLY names a part of the faults.
"""

import os
import zlib
from typing import Any, NamedTuple

import fault_table
import numpy as np
import pytest
from fault_rig import (
    CYCLE_S,
    LIMITS,
    TICK_S,
    WHERE,
    around,
    commanding,
    hook,
    in_flight,
    inject,
    killed,
    late,
    master_gone,
    rushing,
    tilted,
    undelivered,
)
from rig import PROFILE

from lafr_mjx.hil.safety.modes import Mode, Word
from lafr_mjx.hil.safety.trips import Fault, Rung

REPEATS = int(os.environ.get("LAFR_HIL_REPEATS", "1"))


@pytest.fixture
def flight(plant):
    return in_flight(plant)


class Case(NamedTuple):
    """A fault: how it begins, what is seen, where it leads, and within which time."""

    begin: Any
    fault: Fault | None
    first: str  # mode that follows: hover, guard, blind; or baseline: the policy flies no more
    bound: float  # s, until the last command of ours (baseline: of the policy's)
    end: str = "off"  # hover: waits for the operator; policy: the flight goes on


CASES = {
    "motion capture stale": Case(
        inject("mocap-drop@+0"), Fault.MOCAP_STALE, "blind", LIMITS.mocap_stale_s),
    "motion capture frozen": Case(
        inject("mocap-freeze@+0"), Fault.MOCAP_FROZEN, "blind", LIMITS.mocap_frozen_s),
    "motion capture jumps": Case(
        inject("mocap-jump@+0"), Fault.MOCAP_JUMP, "hover", 0.0, "hover"),
    "tick late by one period": Case(late(1), Fault.DEADLINE, "baseline", 0.0, "hover"),
    "tick late by two periods": Case(late(2), Fault.DEADLINES, "hover", 0.0, "hover"),
    "policy gives NaN": Case(
        commanding(lambda k: [np.nan] * 4), Fault.NOT_FINITE, "baseline", 0.0, "hover"),
    "policy gives infinity": Case(
        commanding(lambda k: [np.inf, 0, 0, 0]), Fault.NOT_FINITE, "baseline", 0.0, "hover"),
    "policy out of range": Case(
        commanding(lambda k: [40.0, 0.3, 0, 0]), Fault.CLAMPED, "baseline",
        PROFILE.command.repeats * TICK_S, "hover or off"),
    "policy jumps to and fro": Case(
        commanding(lambda k: [9.8 + 30 * (k % 2), 6.0 * (-1) ** k, 0, 0]), Fault.CLAMPED,
        "baseline", PROFILE.command.repeats * TICK_S, "hover or off"),
    "tilt beyond plan": Case(tilted("tilt@+0:9:85"), Fault.TILT, "guard", LIMITS.tilt_s),
    "upside down": Case(tilted("tilt@+0:9:100"), Fault.INVERTED, "guard", LIMITS.inverted_s),
    "cannot stop within the volume": Case(
        hook(0.5, state=rushing), Fault.FENCE, "hover", 0.0, "hover"),
    "outside of the volume": Case(inject("outside@+0"), Fault.OUTSIDE, "guard", 0.0),
    "input delayed": Case(
        inject("latency@+0"), Fault.STATE_STALE, "hover", LIMITS.state_age_s),
    "input repeated and reordered": Case(inject("reorder@+0"), None, "policy", 0.0, "policy"),
    "state is not a number": Case(
        inject("nan@+0"), Fault.STATE_STALE, "hover", LIMITS.state_age_s),
    "vehicle's clock jumps": Case(inject("clock-jump@+0"), Fault.CLOCK, "hover", 0.0, "hover"),
    "vehicle's clock jumps back": Case(
        inject("clock-jump@+0:9:-0.5"), Fault.STATE_STALE, "hover", LIMITS.state_age_s,
        "hover or off"),
    "pilot silent": Case(
        inject("telemetry-stop@+0"), Fault.STATE_STALE, "hover", LIMITS.state_age_s),
    "pilot no longer subscribed": Case(hook(subscribed=False), Fault.LINK, "hover", 0.0),
    "publishing blocked": Case(undelivered, Fault.LINK, "hover", LIMITS.link_s, "hover"),
    "ROS master gone": Case(master_gone, Fault.MASTER, "hover", LIMITS.master_s),
    "another commander": Case(hook(intruders=("/other",)), Fault.INTRUDER, "hover", 0.0),
    "emergency stop": Case(around(stop=True), Fault.STOP, "guard", 0.0),
    "operator's console gone": Case(around(console=False), Fault.CONSOLE, "hover", 0.0),
    "learner silent": Case(around(learner_age=61.0), Fault.LEARNER, "hover", 0.0),
    "battery low": Case(inject("voltage@+0"), Fault.VOLTAGE, "hover", 0.0),
    "battery silent": Case(
        inject("battery-stop@+0"), Fault.BATTERY, "hover", LIMITS.battery_s),
    "pilot's guard": Case(inject("guard@+0"), Fault.GUARDED, "guard", 0.0),
}  # fmt: skip
_only = os.environ.get("LAFR_HIL_ONLY", "")
NAMES = [name for name in CASES if _only in name]


def seed(name):
    return zlib.crc32(name.encode())


@pytest.mark.parametrize("attempt", range(REPEATS))
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("name", NAMES)
def test_fault(flight, name, where, attempt):
    case = CASES[name]
    sim = flight(where, seed(name), attempt)
    begin, before = sim.time, len(sim.history)
    case.begin(sim)
    sim.run(case.bound + 0.3)
    ticks = sim.history[before:]
    seen = {fault for _, _, faults, _, _ in ticks for fault in faults}
    sent = np.array([c for *_, c, _ in sim.history if c is not None])
    assert np.isfinite(sent).all()
    assert np.all(np.abs(np.diff(sent, axis=0)) <= PROFILE.command.slew + 1e-9)
    if case.first == "policy":
        assert sim.outdated > 5 and sim.mode is Mode.POLICY and not seen
        reaction = 0.0
    elif case.first == "baseline":
        reaction = _check_baseline(sim, case, before)
    else:
        assert case.fault in seen, seen
        modes = [mode for _, mode, *_ in ticks if mode is not Mode.POLICY]
        assert modes[0] is Mode(case.first)
        # The last command of the policy's; where none leaves anyway, when we see that.
        in_policy = [t for t, mode, *_ in ticks if mode is Mode.POLICY]
        reaction = max(in_policy, default=begin) - begin
    # One cycle of the vehicle, for the fault begins between two of our ticks.
    assert reaction <= case.bound + CYCLE_S + 1e-6
    fault_table.note("simulated", name, where, max(0.0, reaction), case.bound, case.end)
    _check_end(sim, case, begin)


def _check_baseline(sim, case, before):
    """When the policy's last command left, and that the baseline stays."""
    assert any(case.fault in faults for _, _, faults, _, _ in sim.history[before:])
    rungs = [(t, rung) for t, *_, rung in sim.looks[before:]]
    first = next(t for t, rung in rungs if rung >= Rung.BASELINE)
    assert all(rung >= Rung.BASELINE for t, rung in rungs if first <= t < first + 2.0)
    # From the first bad command; the tick before the baseline's was the policy's last.
    return max(0.0, first - rungs[0][0] - TICK_S)


def _check_end(sim, case, begin):
    """The drone ends in the right safe state, unharmed, and nothing goes up again by itself."""
    if case.end == "policy":
        sim.run(2.0)
        assert sim.mode is Mode.POLICY
    elif case.end == "hover":
        assert sim.run(PROFILE.ladder.baseline_s + 1.0, lambda: sim.mode is Mode.HOVER)
        sim.run(3.0)
        assert sim.mode is Mode.HOVER, "waits for the operator"
    else:
        assert sim.run(30.0, lambda: sim.mode in (Mode.OFF, Mode.HOVER)), sim.events
        sim.run(20.0, lambda: sim.mode is Mode.OFF)
        assert case.end == "hover or off" or sim.mode is Mode.OFF, sim.events
        sim.run(1.5)
    assert sim.drone.crashed == "", sim.drone.crashed
    if case.first not in ("policy",):
        left = [t for t, mode, *_ in sim.history if t > begin and mode is not Mode.POLICY]
        after = [t for t, mode, *_ in sim.history if left and t > left[0] and mode is Mode.POLICY]
        assert left and not after


@pytest.mark.parametrize("attempt", range(REPEATS))
@pytest.mark.parametrize("where", WHERE)
def test_our_process_killed(flight, where, attempt):
    sim = flight(where, 1, attempt)
    begin, pilot = sim.time, sim.drone.pilot
    killed(sim)
    assert sim.run(0.3, lambda: not pilot.feeding)
    reaction, bound = sim.time - begin, PROFILE.pilot.feedthrough_timeout_s
    assert reaction <= bound + CYCLE_S + 1e-6
    sim.run(6.0)
    assert np.linalg.norm(sim.truth[3:6]) < 0.3, "hovers without us"
    assert sim.drone.crashed == "" and not pilot.guard
    fault_table.note("simulated", "our process killed", where, reaction, bound, "pilot hovers")


@pytest.mark.parametrize("attempt", range(REPEATS))
@pytest.mark.parametrize("where", WHERE)
def test_link_lost_and_back(flight, where, attempt):
    """Under a lost link nothing of ours arrives; once it is back, the operator must ask."""
    sim = flight(where, 2, attempt)
    begin = sim.time
    inject("link-loss@+0")(sim)
    sim.run(0.3)
    reaction = sim.left_policy() - begin
    assert reaction <= LIMITS.state_age_s + CYCLE_S
    assert sim.drone.pilot.mode == "hover" and not sim.drone.pilot.feeding
    fault_table.note("simulated", "link lost", where, reaction, LIMITS.state_age_s, "pilot hovers")
    sim.drone.injector._faults.clear()
    sim.run(0.1)
    assert sim.mode is Mode.HOVER
    # Until it was stable for its time the word does not count, and nobody flies without it.
    clear = sim.logic.machine.clear_since
    while sim._heard.state_receipt - clear < PROFILE.ladder.stable_s - 2 * TICK_S:
        sim.say(Word.POLICY)
        sim.run(TICK_S)
        assert sim.mode is Mode.HOVER
    back = sim.time
    assert sim.run(8.0, lambda: np.linalg.norm(sim.truth[3:6]) < 0.1), "settled"
    sim.run(0.5)
    assert sim.mode is Mode.HOVER
    for _ in range(20):
        sim.say(Word.POLICY)
        if sim.run(0.2, lambda: sim.mode is Mode.POLICY):
            break
    assert sim.mode is Mode.POLICY and sim.time - back > 0.0
    assert sim.drone.crashed == ""
