# pyright: reportOptionalMemberAccess=false, reportArgumentType=false, reportOptionalCall=false
"""The flyer: commands of a leg, those of training, within their bounds."""

from itertools import groupby

import numpy as np
import pytest
from control_legs import PROFILE, TASK, leg, policy
from hypothesis import given, settings
from hypothesis import strategies as st

from lafr_mjx.control.geometric import geometric_controller
from lafr_mjx.errors import InputError
from lafr_mjx.hil.control import flyer as flyer_module
from lafr_mjx.hil.control.flyer import Flyer, bounded
from lafr_mjx.hil.operator.drone_plant import as_flown
from lafr_mjx.reference import clock as clocks
from lafr_mjx.reference.flatness import reference_at
from lafr_mjx.reference.splines import from_waypoints
from lafr_mjx.types import COMMAND_HOVER, Reference, Sensed, State


def state_at(rng, position):
    return State(position + 0.05 * rng.standard_normal(3), 0.1 * rng.standard_normal(3),
                 np.eye(3), np.zeros(3))  # fmt: skip


def begin(flyer, start, given):
    flyer.begin(100.0, start)
    flyer.offer(given)
    state = State(start, np.zeros(3), np.eye(3), np.zeros(3))
    now = 100.0
    while flyer.stage != "track":
        now += 0.02
        flyer.tick(now, state, now - 0.005, slow=False, baseline=False)
        flyer.sent(COMMAND_HOVER)
    return now


def test_commands_are_those_of_training():
    """The same states through the flyer and through the policy as the plant calls it."""
    rng = np.random.default_rng(1)
    flyer, given = Flyer(PROFILE), leg()
    start = begin(flyer, TASK.start_position, given)
    # The first tick of the track was made above; go on from there with a clock of our own.
    flown = given.policy
    memory, clock = flown.start(), clocks.start(given.time_scale, given.ramp_s)
    worst = 0.0
    for k in range(1, 400):
        now, age = start + 0.02 * k, 0.004
        state = state_at(rng, TASK.start_position)
        flyer.prepare()
        wanted = flyer.tick(now, state, now - age, slow=False, baseline=False)
        clock = clocks.advance(clock, 0.02)
        references = [reference_at(given.path, clock, float(p) - age) for p in flown.preview_s()]
        stacked = Reference(*(np.stack(fields) for fields in zip(*references, strict=True)))
        if k == 1:
            memory = np.tile(COMMAND_HOVER, (len(memory), 1))
        sensed = Sensed(state, np.asarray(now - age), np.asarray(now))
        memory, expected = flown(memory, sensed, stacked)
        worst = max(worst, float(np.abs(wanted.command - expected).max()))
        flyer.sent(wanted.command)
    assert worst < 1e-3, "the stamp of the first sample was 1 ms elsewhere"


def test_prepared_and_unprepared_ticks_agree():
    rng = np.random.default_rng(2)
    ready, plain = Flyer(PROFILE), Flyer(PROFILE)
    start = begin(ready, TASK.start_position, leg())
    assert begin(plain, TASK.start_position, leg()) == start
    for k in range(1, 600):
        now = start + 0.02 * k
        state = state_at(rng, TASK.start_position)
        slow = 200 < k < 250
        ready.prepare()
        a = ready.tick(now, state, now - 0.005, slow=slow, baseline=False)
        b = plain.tick(now, state, now - 0.005, slow=slow, baseline=False)
        ready.sent(a.command), plain.sent(b.command)
        assert np.allclose(a.command, b.command, atol=1e-6), k
        assert a.leg == b.leg and ready.stage == plain.stage
    assert ready.finished == [0]
    assert ready.stage == "hold"


def test_the_way_to_a_leg_is_made_before_the_tick_that_takes_it(monkeypatch):
    """The same way whether prepared or not; of two legs that were offered, to the second's."""
    calls = []
    made = flyer_module.from_waypoints
    monkeypatch.setattr(
        flyer_module, "from_waypoints", lambda *a, **k: calls.append(a) or made(*a, **k)
    )
    ready, plain = Flyer(PROFILE), Flyer(PROFILE)
    position = TASK.start_position + np.array([0.7, -0.4, 0.2])
    elsewhere = from_waypoints([[0.0, 0.5, 1.2], [1.0, 0.5, 1.2]], 2.0, periodic=False)
    for flyer in (ready, plain):
        flyer.begin(100.0, position)
        flyer.offer(leg(0, path=elsewhere))
        if flyer is ready:
            flyer.prepare()
        flyer.offer(leg(1))
    state = State(position, np.zeros(3), np.eye(3), np.zeros(3))
    now, stages = 100.0, set()
    for _ in range(1000):
        now += 0.02
        ready.prepare()
        before = len(calls)
        a = ready.tick(now, state, now - 0.005, slow=False, baseline=False)
        assert len(calls) == before, "in the tick nothing is made"
        b = plain.tick(now, state, now - 0.005, slow=False, baseline=False)
        assert np.allclose(a.position, b.position, atol=1e-6), now
        stages.add(ready.stage)
        state = State(a.position, np.zeros(3), np.eye(3), np.zeros(3))
        ready.sent(a.command), plain.sent(b.command)
        if ready.stage == "track":
            break
    assert stages == {"transfer", "hold", "track"} and ready.leg.number == 1
    assert np.allclose(ready._hold, TASK.start_position, atol=1e-9)
    assert len(calls) == 3, "two that were prepared, one that was not"


def test_from_one_reference_to_the_next_nothing_jumps():
    """Laps along the first, rest, the way to the second's start, and from rest along it."""
    coefficients = np.array(TASK.path.coefficients)
    coefficients[:, :3, 0] += [0.1, -0.15, 0.1]
    planned = TASK.path._replace(coefficients=coefficients)
    flyer = Flyer(PROFILE)
    flyer.begin(100.0, TASK.start_position)
    flyer.offer(leg(0, seconds=2.0, lap_on=True))
    asked, stages, velocity = [], [], np.zeros(3)
    for k in range(1500):
        position = asked[-1][0] if asked else TASK.start_position
        state = State(np.asarray(position), velocity, np.eye(3), np.zeros(3))
        now = 100.0 + 0.02 * k
        flyer.prepare()
        flyer.sent(flyer.tick(now, state, now, slow=False, baseline=False).command)
        reference = flyer.asked().reference
        velocity = np.asarray(reference.velocity)
        asked.append((reference.position, velocity))
        stages.append((flyer.stage, flyer.leg.number if flyer.leg else None))
        if k == 500:
            assert flyer.stage == "lap"
            flyer.offer(leg(1, path=planned, seconds=2.0))
        if flyer.finished == [0, 1]:
            break
    position, velocity = (np.array(column) for column in zip(*asked, strict=True))
    # By less than 20 m/s² would do in a tick: at rest they are 5 cm/s and less.
    assert np.abs(np.diff(velocity, axis=0)).max() < 0.02 * 20.0
    assert np.abs(np.diff(position, axis=0) - 0.02 * velocity[1:]).max() < 0.01
    assert [stage for stage, _ in groupby(stages)] == [
        ("hold", None), ("track", 0), ("lap", 0), ("brake", 0), ("hold", None),
        ("transfer", None), ("hold", None), ("track", 1), ("brake", 1),
    ]  # fmt: skip
    begins = stages.index(("track", 1))
    assert np.allclose(position[begins], planned.coefficients[0, :3] @ (-1.0) ** np.arange(8))


def test_baseline_is_the_geometric_controller():
    flyer = Flyer(PROFILE)
    start = begin(flyer, TASK.start_position, leg(with_policy=False))
    state = State(TASK.start_position + 0.1, np.zeros(3), np.eye(3), np.zeros(3))
    wanted = flyer.tick(start + 0.02, state, start + 0.02, slow=False, baseline=False)
    clock = clocks.advance(clocks.start(0.5, TASK.ramp_s), 0.02)
    reference = reference_at(TASK.path, clock)
    both = Reference(*(np.stack([field, field]) for field in reference))
    controller = geometric_controller(PROFILE.command.limits)
    _, expected = controller(flyer._memory - 0.02 * (reference.position - state.position),
                             Sensed(state, np.asarray(0.0), np.asarray(0.0)), both)  # fmt: skip
    assert np.allclose(wanted.command, expected, atol=1e-9)
    assert wanted.controller == "baseline"


@settings(deadline=None)
@given(
    st.lists(st.floats(-1e6, 1e6), min_size=4, max_size=4),
    st.lists(st.floats(-6, 6), min_size=4, max_size=4),
)
def test_bounded_commands_are_within_range_and_slew(command, last):
    limits = PROFILE.command.limits
    last = np.clip(np.array(last), limits.low, limits.high)
    sent, changed = bounded(np.array(command), last, PROFILE)
    assert np.all(sent >= limits.low - 1e-9) and np.all(sent <= limits.high + 1e-9)
    assert np.all(np.abs(sent - last) <= PROFILE.command.slew + 1e-9)
    assert changed == bool(np.any(np.abs(sent - command) > 1e-6))
    within = np.clip(command, limits.low, limits.high)
    slew = PROFILE.command.slew
    assert np.array_equal(sent, np.clip(within, last - slew, last + slew))


def test_what_a_learner_flies_is_turned_into_files():
    flown, dither, guard = as_flown(geometric_controller(PROFILE.command.limits))
    assert flown is None and not dither.any() and guard is None
    flown, dither, guard = as_flown(policy())
    assert flown is not None and not dither.any() and guard is None
    with pytest.raises(InputError, match="cannot be flown"):
        as_flown(object())
