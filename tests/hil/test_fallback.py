# pyright: reportOptionalMemberAccess=false, reportArgumentType=false
"""The guard behind a policy: the control process' twin of the learner's, and legs that carry it."""

import subprocess
import sys

import numpy as np
import pytest

from lafr_mjx.control.departure import DITHER, WINDOWS
from lafr_mjx.control.network_mlp import Mlp
from lafr_mjx.control.observation import PREVIEW_S, SIZE
from lafr_mjx.control.policy import create_policy
from lafr_mjx.errors import InputError
from lafr_mjx.hil.control.fallback import Fallback, Trouble
from lafr_mjx.hil.control.flyer import Flyer
from lafr_mjx.hil.control.legs import Leg, fastest_time_scale, load_leg, save_leg, try_leg
from lafr_mjx.hil.safety.drone_profile import load_profile
from lafr_mjx.tasks import load_task
from lafr_mjx.types import CONTROL_DT, Reference, Sensed, State

PROFILE = load_profile("sim")
TASK = load_task("figure8")


def policy(seed=0):
    return create_policy(np.random.default_rng(seed), PROFILE.command.limits)


def guarded_leg(number=0, slow_from=0.2, error_limit=0.5, lap_on=True, **changes):
    guard = Fallback(policy(1), np.full(WINDOWS, slow_from), error_limit)
    given = Leg(number, TASK.path, 0.6, TASK.ramp_s, 2.0, policy(0), 0.3 * DITHER, 5, lap_on, guard)
    return given._replace(**changes)


def test_it_is_the_learners_guard():
    import jax
    import jax.numpy as jnp

    from lafr_mjx.learner import guarded

    limits = np.linspace(0.1, 0.4, WINDOWS)
    ours = Fallback(policy(), limits, 0.5)
    its = guarded.Guarded(
        policy(), policy(), 0.0, jnp.asarray(limits), 0.5, jax.random.key_data(jax.random.key(0))
    )
    trouble, memory, rng = Trouble(), its.start(), np.random.default_rng(0)
    shapes = [(3,)] * 4 + [(3, 3), (3,), ()]
    wanted = Reference(*(np.zeros((len(PREVIEW_S), *shape), np.float32) for shape in shapes))
    for k, (error, velocity) in enumerate(rng.normal(size=(150, 2, 3)) * [[[0.1], [0.3]]]):
        trouble = ours.seen(trouble, k * CONTROL_DT, error, velocity)
        seen = State(error, velocity, np.eye(3), np.zeros(3))
        memory, _ = its(memory, Sensed(seen, np.float32(0.0), np.float32(0.0)), wanted)
        expected = float(its.time_scale_factor(memory))
        assert trouble.time_scale_factor == pytest.approx(expected, abs=1e-4)
        assert ours.takes_over(trouble) == bool(its.fallback(memory))
    assert trouble.time_scale_factor > 1.0 and trouble.worst > 0.2
    lost = ours.seen(Trouble(), 0.0, np.full(3, np.nan), np.zeros(3))
    assert ours.takes_over(lost), "what is not a number is the worst"
    assert lost.time_scale_factor == 3.0


def test_legs_carry_it_through_files(tmp_path):
    given = guarded_leg()
    found = load_leg(save_leg(tmp_path, given))
    assert np.all(found.fallback.slow_from == 0.2) and found.fallback.error_limit == 0.5
    ours, its = found.fallback.last_good, given.fallback.last_good
    layers = zip(ours.network.layers, its.network.layers, strict=True)
    assert all(np.array_equal(a.weight, b.weight) for a, b in layers)
    assert load_leg(save_leg(tmp_path, given._replace(number=1, fallback=None))).fallback is None
    for bad in (float("nan"), -1.0, 0.0, 5.0):
        with pytest.raises(InputError, match="not a leg"):
            load_leg(save_leg(tmp_path, guarded_leg(2, error_limit=bad)))


def test_a_last_good_policy_that_is_not_good_is_refused():
    last = policy(1).network.layers[-1]
    wild = policy(1)._replace(
        network=Mlp((*policy(1).network.layers[:-1], last._replace(bias=last.bias * 0 + 50)))
    )
    seen = np.random.default_rng(0).normal(size=(50, SIZE))
    assert try_leg(guarded_leg(), seen) == ""
    assert "last good" in try_leg(
        guarded_leg(fallback=Fallback(wild, np.full(WINDOWS, 0.2), 0.5)), seen
    )


def flown(leg, offset, seconds=3.0):
    """The flyer with a vehicle that stays `offset` metres beside the reference from 0.5 s on."""
    flyer = Flyer(PROFILE)
    start = np.asarray(TASK.start_position, float)
    flyer.begin(0.0, start)
    flyer.offer(leg)
    commands, scales, stages, where, going = [], [], [], start, np.zeros(3)
    for k in range(round(seconds / 0.02) + 50):
        now = 0.02 * k
        away = offset if flyer.stage != "hold" and now > 1.2 else 0.0
        state = State(where + np.array([0.0, 0.0, away]), going, np.eye(3), np.zeros(3))
        wanted = flyer.tick(now, state, now, slow=False, baseline=False)
        flyer.sent(wanted.command)
        flyer.prepare()
        asked = flyer.asked().reference
        where, going = np.asarray(asked.position), np.asarray(asked.velocity)
        commands.append(wanted.command)
        scales.append(float(flyer._clock.time_scale))
        # Who flies is told, for the recording.
        far = offset > leg.fallback.error_limit if leg.fallback else False
        if flyer.stage == "track":
            assert wanted.controller == ("fallback" if far and away else "policy")
        stages.append(flyer.stage)
    return flyer, np.array(commands), np.array(scales), stages


def test_a_surprise_slows_the_clock_for_the_rest_of_the_leg():
    flyer, _, scales, stages = flown(guarded_leg(), 0.0)
    track = np.array([s == "track" for s in stages])
    assert np.allclose(scales[track], 0.6)
    _, _, scales, stages = flown(guarded_leg(), 0.26)
    track = np.array([s == "track" for s in stages])
    assert scales[track][-1] == pytest.approx(0.6 * 2.0, rel=0.3)
    assert flyer.stage == "lap", "and it laps on at that"
    _, _, scales, stages = flown(guarded_leg(fallback=None), 0.26)
    track = np.array([s == "track" for s in stages])
    assert np.allclose(scales[track], 0.6), "without a guard nothing slows down here"


def test_far_off_the_last_good_policy_has_it():
    same = guarded_leg(dither=np.zeros(4))
    _, good, _, _ = flown(same._replace(policy=policy(1), fallback=None), 0.7, 1.0)
    late = np.full(WINDOWS, 1.9)
    behind = Fallback(policy(1), late, 0.5), Fallback(policy(1), late, 1.9)
    _, guarded, _, stages = flown(same._replace(fallback=behind[0]), 0.7, 1.0)
    assert stages[-1] in ("track", "lap")
    assert np.allclose(good[-5:], guarded[-5:])
    _, before, _, _ = flown(same._replace(fallback=behind[1]), 0.7, 1.0)
    assert not np.allclose(before[-5:], guarded[-5:])


def test_nobody_learns_from_laps_so_they_have_no_dither():
    _, one, _, stages = flown(guarded_leg(seed=1), 0.0, 4.0)
    _, two, _, _ = flown(guarded_leg(seed=2), 0.0, 4.0)
    lap = stages.index("lap")
    track = stages.index("track")
    assert np.abs(one[track + 5 : lap] - two[track + 5 : lap]).max() > 0.1
    # The history of commands still differs a little, and fades.
    assert np.abs(one[lap + 20 :] - two[lap + 20 :]).max() < 1e-3


def test_it_comes_to_rest_when_asked():
    flyer = Flyer(PROFILE)
    start = np.asarray(TASK.start_position, float)
    flyer.begin(0.0, start)
    flyer.offer(guarded_leg(seconds=1.0))
    where = start
    for k in range(500):
        state = State(where, np.zeros(3), np.eye(3), np.zeros(3))
        flyer.sent(flyer.tick(0.02 * k, state, 0.02 * k, slow=False, baseline=False).command)
        where = np.asarray(flyer.asked().reference.position)
        if k == 150:
            assert flyer.stage == "lap"
            flyer.rest()
    assert flyer.stage == "hold" and flyer.leg is None


def test_learners_plan_with_room_for_errors():
    leg = guarded_leg()
    fastest = fastest_time_scale(leg, PROFILE, 1.0)
    peak = 2.24 / fastest
    assert 8.3 < peak < 0.9 * PROFILE.limits.speed_mps + 0.1
    assert fastest_time_scale(leg, load_profile("agilicious192"), 1.0) > fastest


def test_the_guard_needs_no_jax():
    code = "import sys, lafr_mjx.hil.control.control_process; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
