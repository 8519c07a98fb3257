"""The environments: their interfaces' own checkers, and the plant behind them."""

from __future__ import annotations

import re
import subprocess
import sys
import unittest
import warnings
from pathlib import Path

import jax
import numpy as np
import pytest
from dm_env import test_utils
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from needs import require_module
from view_runs import require_rendering, virtual_screen

from lafr_mjx.control.geometric import geometric_controller
from lafr_mjx.envs import episode as episodes
from lafr_mjx.envs.dm import QuadrotorEnvironment
from lafr_mjx.envs.episode import action_of, command_of, load_setup
from lafr_mjx.errors import InputError
from lafr_mjx.plant.plant import Plant
from lafr_mjx.plant.vehicle import load_vehicle
from lafr_mjx.types import Reference, Sensed

gymnasium = require_module("gymnasium", "gym")
from lafr_mjx.envs import gym as gyms  # noqa: E402

ROOT = Path(__file__).parents[2]
LIMITS = load_vehicle("lafr192").limits


# ---------------------------------------------------------------- actions


@given(hnp.arrays(np.float32, 4, elements=st.floats(-1.0, 1.0, width=32)))
def test_actions_and_commands_are_inverse(action):
    np.testing.assert_allclose(action_of(command_of(action, LIMITS), LIMITS), action, atol=1e-5)


def test_the_middle_is_hover_and_the_ends_are_the_limits():
    np.testing.assert_allclose(command_of(np.zeros(4), LIMITS), [9.81, 0, 0, 0], rtol=1e-6)
    np.testing.assert_allclose(command_of(np.ones(4), LIMITS), LIMITS.high)
    np.testing.assert_allclose(command_of(np.full(4, -3.0), LIMITS), LIMITS.low)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"task": "nowhere"}, "unknown task"),
        ({"vehicle": "ufo"}, "unknown vehicle"),
        ({"time_scale": 0.0}, "time_scale 0"),
        ({"engine": "warp"}, "unknown engine"),
    ],
)
def test_bad_settings_are_refused(options, words):
    with pytest.raises(InputError, match=words):
        load_setup(**options)


# ---------------------------------------------------------------- the plant behind them


@pytest.fixture(scope="module")
def setup():
    return load_setup("figure8", "still")


def test_an_episode_is_the_flight_that_the_plant_flies(setup):
    """The classical controller through `step`, against `Plant.fly` with the same controller.

    The scenario `still` draws nothing, so that both fly the same; they differ by rounding.
    """
    plant = Plant(setup.vehicle, setup.scenario, engine="freebody")
    controller = geometric_controller(LIMITS)
    clock = setup.task.start_clock()
    _, expected = plant.fly(plant.start(0), controller, setup.task.path, clock, 4.0)
    ready = jax.tree.map(jax.numpy.asarray, controller)

    @jax.jit
    def control(memory, sensed, reference):
        twice = Reference(*(jax.numpy.stack([x, x]) for x in reference))
        return ready(memory, Sensed(sensed, np.zeros(()), np.zeros(())), twice)

    params, key = setup.params(0), jax.random.key(0)
    episode, outcome = episodes.reset(setup.engine, setup.course, params, key)
    memory, positions, rewards = ready.start(), [], []
    for _ in range(200):
        positions.append(np.asarray(outcome.truth.position))
        memory, command = control(memory, outcome.sensed, outcome.reference)
        episode, outcome = episodes.step(setup.engine, setup.course, params, episode, command)
        rewards.append(float(outcome.reward))
    np.testing.assert_allclose(positions, expected.truth.position[:200], atol=2e-4)
    error = np.linalg.norm(expected.truth.position - expected.reference.position, axis=-1)
    np.testing.assert_allclose(rewards[:199], np.exp(-((error[1:200] / 0.35) ** 2)), atol=2e-3)
    assert not outcome.terminated


def test_what_is_not_finite_is_never_sent(setup):
    params = setup.params(0)
    episode, _ = episodes.reset(setup.engine, setup.course, params, jax.random.key(0))
    command = np.array([np.nan, 0.0, 0.0, 0.0], np.float32)
    _, outcome = episodes.step(setup.engine, setup.course, params, episode, command)
    np.testing.assert_allclose(outcome.command, [9.81, 0, 0, 0], rtol=1e-6)


# ---------------------------------------------------------------- dm_env


class TestDmEnv(test_utils.EnvironmentTestMixin, unittest.TestCase):
    """DeepMind's own tests of the interface."""

    def make_object_under_test(self):
        return QuadrotorEnvironment("figure8", "wind5")

    def make_action_sequence(self):
        spec = self.environment.action_spec()
        for _ in range(20):
            yield spec.generate_value()


def test_falling_ends_the_episode_with_discount_0_and_the_next_one_follows():
    env = QuadrotorEnvironment("figure8", "still")
    steps, timestep = 0, env.reset()
    while not timestep.last():
        steps += 1
        timestep = env.step(np.array([-1.0, 0.0, 0.0, 0.0]))
    # From 1.5 m down to 0.05 m: t = sqrt(2 · 1.45 / 9.81) = 0.54 s, and the rotors must stop first.
    assert 27 <= steps <= 40
    assert timestep.discount == 0.0
    assert timestep.reward == 0.0
    assert env.outcome.crash == 1
    assert env.step(np.zeros(4)).first()


def test_the_drawn_vehicle_is_where_the_plant_is():
    env = QuadrotorEnvironment("figure8", "wind5")
    env.reset()
    physics = env.physics
    for _ in range(40):
        env.step(np.array([0.1, 0.05, 0.0, 0.0]))
    true = env.outcome.truth
    np.testing.assert_allclose(physics.data.qpos[:3], true.position, atol=1e-6)
    np.testing.assert_allclose(
        physics.named.data.xmat["drone0/quad"].reshape(3, 3), true.rotation, atol=1e-5
    )
    np.testing.assert_allclose(physics.data.qvel[:3], true.velocity, atol=1e-6)
    assert physics.data.time == pytest.approx(0.8)


_VIEWER = """
import sys
sys.argv = ["dm_control_flight.py", "--viewer"]
sys.path.insert(0, "examples")
import dm_control_flight as example
count = 0
class Controller(example.TrackingController):
    def __call__(self, timestep):
        global count
        count += 1
        if count == 30:
            print("steps seen in the viewer:", count, flush=True)
            import os
            os._exit(0)
        return super().__call__(timestep)
example.TrackingController = Controller
from dm_control.viewer import application
launch = application.Application.launch
def launch_playing(self, *arguments, **options):
    self._pause_subject.value = False  # it starts paused, until Space is pressed
    launch(self, *arguments, **options)
application.Application.launch = launch_playing
example.main()
"""


def test_dm_controls_viewer_flies_it():
    with virtual_screen() as environment:
        done = subprocess.run(
            [sys.executable, "-c", _VIEWER], capture_output=True, text=True, check=False,
            timeout=900, cwd=ROOT, env=environment | {"MUJOCO_GL": "glfw"},
        )  # fmt: skip
    assert "steps seen in the viewer: 30" in done.stdout, done.stderr


# ---------------------------------------------------------------- gymnasium


def test_gymnasiums_checker_has_nothing_to_say():
    from gymnasium.utils.env_checker import check_env

    require_rendering()
    env = gymnasium.make(gyms.ID, scenario="wind5", render_mode="rgb_array").unwrapped
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env)
    env.reset(seed=0)
    picture = env.render()
    assert picture.shape == (270, 480, 3)
    assert picture.std() > 10.0
    env.close()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_an_action_that_is_not_finite_is_refused(bad, fleet):
    action = np.array([0.0, bad, 0.0, 0.0])
    env = gymnasium.make(gyms.ID).unwrapped
    env.reset(seed=0)
    with pytest.raises(gymnasium.error.InvalidAction, match="must be finite"):
        env.step(action)
    fleet.reset(seed=0)
    with pytest.raises(gymnasium.error.InvalidAction, match="must be finite"):
        fleet.step(np.stack([np.zeros(4), np.zeros(4), action, np.zeros(4)]))
    by_dm = QuadrotorEnvironment()
    by_dm.reset()
    with pytest.raises(ValueError, match="is not finite"):
        by_dm.step(action)


@pytest.fixture(scope="module")
def fleet():
    return gymnasium.make_vec(
        gyms.ID, num_envs=4, vectorization_mode="vector_entry_point", scenario="randomised"
    )


def test_vehicles_of_a_fleet_differ_and_a_seed_repeats_them(fleet):
    actions = np.tile(np.array([0.2, 0.1, 0.0, 0.0], np.float32), (4, 1))

    def fly(seed):
        observations, _ = fleet.reset(seed=seed)
        for _ in range(25):
            observations, *_, info = fleet.step(actions)
        return observations, info["error_m"]

    one, again, other = fly(3), fly(3), fly(4)
    assert one[0].shape == (4, episodes.OBSERVATION_SIZE)
    assert fleet.observation_space.contains(one[0])
    np.testing.assert_array_equal(one[0], again[0])
    assert not np.allclose(one[0], other[0])
    assert len(np.unique(np.round(one[1], 4))) == 4


def test_a_fleet_restarts_those_that_are_lost_one_step_later(fleet):
    fleet.reset(seed=0)
    actions = np.zeros((4, 4), np.float32)
    actions[1, 0] = -1.0  # this one falls
    for _ in range(80):
        observation, reward, lost, over, info = fleet.step(actions)
        if lost[1]:
            break
    assert lost.tolist() == [False, True, False, False]
    assert reward[1] == 0.0
    actions[1, 0] = 0.0
    observation, reward, lost, over, info = fleet.step(actions)
    assert not (lost | over)[1]
    assert reward[1] == 0.0  # the action was ignored: this step was its reset
    assert info["error_m"][1] == pytest.approx(0.0, abs=1e-6)
    assert info["speed_mps"][1] == 0.0
    _, reward, *_ = fleet.step(actions)
    assert reward[1] > 0.9
    assert observation.dtype == np.float32


# ---------------------------------------------------------------- examples


def run(script):
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / script],
        capture_output=True, text=True, check=False, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


def test_dm_control_example():
    printed = run("dm_control_flight.py")
    assert "492 steps of 20 ms, crashed: no" in printed
    reward, error = map(float, re.findall(r"(\d+\.\d+)", printed))
    assert reward == pytest.approx(0.67, abs=0.05)
    assert error < 0.5


def test_gym_example_learns():
    rewards = [float(x) for x in re.findall(r"mean reward (\d+\.\d+)", run("gym_search.py"))]
    assert len(rewards) == 4
    assert rewards[-1] > rewards[0] + 0.05
