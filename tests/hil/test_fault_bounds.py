# pyright: reportOptionalMemberAccess=false, reportArgumentType=false
"""Bounds of faults, to the tick, and a bad wire; on a simulated clock, on the real plant."""

import fault_table
import numpy as np
import pytest
from fault_rig import CYCLE_S, LIMITS, TICK_S, WHERE, around, hook, in_flight, inject, late, tilted
from rig import PROFILE

from lafr_mjx.hil.safety.modes import Mode, Word
from lafr_mjx.hil.safety.trips import Fault, Rung


@pytest.fixture
def flight(plant):
    return in_flight(plant)


def rising(sim, begin, steps, age):
    """Make the fault longer until it trips; (age at the last good tick, age at the trip)."""
    good = 0.0
    for step in steps:
        before = len(sim.looks)
        begin(sim, step)
        sim.run(0.4)
        looks = sim.looks[before:]
        modes = [mode for _, mode, *_ in sim.history[before:]]
        ages = [age(look) for look in looks]
        if sim.mode is Mode.POLICY:
            good = max(good, *ages)
            sim.run(0.3)
            continue
        trip = next(k for k, mode in enumerate(modes) if mode is not Mode.POLICY)
        return max(good, *ages[:trip]), ages[trip]
    raise AssertionError("never tripped")


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize(
    ("kind", "limit", "column"),
    [("mocap-drop", LIMITS.mocap_stale_s, 1), ("telemetry-stop", LIMITS.state_age_s, 2)],
)
def test_age_trips_at_the_first_tick_beyond_its_bound(flight, where, kind, limit, column):
    sim = flight(where, 3)
    good, bad = rising(
        sim, lambda s, step: inject(f"{kind}@+0:{step:.3f}")(s), np.arange(0.015, 0.12, 0.01),
        lambda look: look[column],
    )  # fmt: skip
    assert good <= limit < bad
    assert limit - good < TICK_S and bad - limit < TICK_S, "to the tick"


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize(
    ("degrees", "limit", "first"), [(85, LIMITS.tilt_s, 0.25), (100, LIMITS.inverted_s, 0.05)]
)
def test_tilt_trips_at_the_first_tick_beyond_its_time(flight, where, degrees, limit, first):
    sim = flight(where, 4)
    spans = []
    original = sim.logic.flyer.tick
    for seconds in np.arange(first, limit + 0.1, CYCLE_S):
        before = len(sim.history)
        tilted(f"tilt@+0:{seconds:.3f}:{degrees}")(sim)
        start = sim.time
        sim.run(float(seconds))
        sim.logic.flyer.tick = original
        sim.run(0.2)
        modes = [(t, mode) for t, mode, *_ in sim.history[before:]]
        left = [t for t, mode in modes if mode is Mode.GUARD]
        if left:
            spans.append((seconds, left[0] - start))
            break
        assert sim.mode is Mode.POLICY
        sim.run(1.5)
    (seconds, reaction) = spans[0]
    assert limit - 1e-6 < reaction <= limit + 2 * TICK_S
    assert seconds >= limit - CYCLE_S, "a shorter tilt is within the plan"


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize(
    ("good", "bad"),
    [
        (inject("clock-jump@+0:0.3:0.009"), inject("clock-jump@+0:0.3:0.012")),
        (inject(f"voltage@+0:0.3:{LIMITS.voltage_land_v}"), inject("voltage@+0:0.3:13.39")),
        (around(learner_age=LIMITS.learner_s), around(learner_age=LIMITS.learner_s + 0.02)),
        (inject("mocap-jump@+0:0.3:0.1"), inject("mocap-jump@+0:0.3:0.9")),
        (late(0), late(2)),
    ],
    ids=["clock", "voltage", "learner", "jump", "late"],
)
def test_value_at_its_bound_is_good_and_beyond_it_trips(flight, where, good, bad):
    for begin, trips in ((good, False), (bad, True)):
        sim = flight(where, 6)
        begin(sim)
        sim.run(0.25)
        assert (sim.mode is not Mode.POLICY) == trips, sim.events[-3:]


@pytest.mark.parametrize("where", WHERE)
def test_clamping_trips_at_the_first_tick_beyond_its_count(flight, where):
    repeats = PROFILE.command.repeats
    for ticks, trips in ((repeats, False), (repeats + 1, True)):
        sim = flight(where, 7)
        original, count = sim.logic.flyer.tick, [0]

        def clamped(*args, original=original, count=count, ticks=ticks, **options):
            wanted = original(*args, **options)
            count[0] += 1
            if count[0] > ticks:
                return wanted
            return wanted._replace(
                command=np.array([40.0, *wanted.command[1:]]), controller="policy"
            )

        sim.logic.flyer.tick = clamped
        sim.run(0.6)
        assert any(rung >= Rung.BASELINE for *_, rung in sim.looks) == trips


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize(
    ("loss", "jitter"),
    [(0.01, 0.0), (0.1, 0.0), (0.5, 0.0), (0.0, 0.02), (0.0, 0.1), (0.0, 0.5), (0.1, 0.1)],
)
def test_loss_and_jitter(flight, where, loss, jitter):
    """No command from an old state, no crash; what cannot be flown is left to the pilot."""
    sim = flight(where, 8)
    sim.ages.clear()
    sim.loss, sim.jitter = loss, jitter
    sim.run(6.0)
    assert not sim.ages or max(sim.ages) <= LIMITS.state_age_s
    if loss <= 0.1 and jitter == 0.0:
        assert sim.mode is Mode.POLICY, sim.events[-3:]
    if jitter >= 0.1:
        assert sim.mode is not Mode.POLICY
    sim.loss = sim.jitter = 0.0
    sim.run(2.0)
    if sim.mode is Mode.POLICY:
        sim.say(Word.LAND)
    sim.run(30.0, lambda: sim.mode is Mode.OFF)
    assert sim.mode in (Mode.OFF, Mode.HOVER), "down, or waiting for the operator"
    assert sim.drone.crashed == ""


@pytest.mark.parametrize("where", WHERE)
def test_swapped_frames_and_a_frozen_state_are_found_out(flight, where):
    def swapped(heard):
        x, y, z = heard.state.position
        return heard.state._replace(position=np.array([y + 1.0, x - 1.0, z]))

    sim = flight(where, 9)
    hook(state=swapped)(sim)
    sim.run(0.06)
    assert sim.mode is not Mode.POLICY
    if where == "at hover":
        return  # there a state that repeats itself is the truth
    sim = flight(where, 10)
    still, begin = sim._heard.state, sim.time
    hook(2.0, state=still)(sim)
    sim.run(0.4)
    assert sim.mode is not Mode.POLICY
    assert any(Fault.DISAGREE in faults for _, _, faults, _, _ in sim.history)
    fault_table.note("simulated", "state frozen", where, sim.left_policy() - begin, None, "hover")
    sim.run(3.0)
    assert sim.drone.crashed == ""
