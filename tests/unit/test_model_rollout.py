"""Flights in the learner's own model."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lafr_mjx import mlp, so3
from lafr_mjx.control.network_mlp import Mlp
from lafr_mjx.control.observation import PREVIEW_S, SIZE
from lafr_mjx.control.policy import Policy
from lafr_mjx.learner import model_rollout
from lafr_mjx.learner.model_rollout import SensorNoise, Stress, StressScale
from lafr_mjx.model import fit_residual, residual
from lafr_mjx.model.residual import COMMANDS, Switches
from lafr_mjx.model.state import ModelState
from lafr_mjx.types import COMMAND_HOVER, GRAVITY, CommandLimits, Reference

LIMITS = CommandLimits(
    np.array([0.0, -6, -6, -6], np.float32), np.array([25.0, 6, 6, 6], np.float32)
)
N = 4
RNG = np.random.default_rng(0)


def floats(tree):
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), tree)


SWITCHES = floats(Switches())
NOMINAL = floats(Switches(acceleration=0.0, rates=0.0))
MEMBER = floats(residual.create(RNG, hidden=16))
HOVERING = floats(Policy(Mlp(mlp.create(RNG, (SIZE, 8, 8, 4), last_scale=0.0)), LIMITS))
ACTING = floats(Policy(Mlp(mlp.create(RNG, (SIZE, 8, 8, 4), last_scale=2.0)), LIMITS))

# Compile fast rather than well: these programs run for milliseconds.
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}

tick = jax.jit(model_rollout.tick, compiler_options=QUICK)


@partial(jax.jit, compiler_options=QUICK)
def model_step(state, window):
    return fit_residual.one_step(MEMBER, SWITCHES, state, window)


def still(count=N):
    shape = (count, len(PREVIEW_S))
    zeros = jnp.zeros((*shape, 3))
    eye = jnp.tile(jnp.eye(3), (*shape, 1, 1))
    wanted = Reference(zeros, zeros, zeros, zeros, eye, zeros, jnp.full(shape, GRAVITY))
    state = ModelState(jnp.zeros((count, 3)), jnp.zeros((count, 3)), eye[:, 0])
    commands = jnp.tile(COMMAND_HOVER, (count, COMMANDS + 1, 1))
    return model_rollout.midflight(HOVERING, state, commands), wanted


def moving():
    flying, wanted = still()
    state = ModelState(
        RNG.normal(0.0, 0.3, (N, 3)), RNG.normal(0.0, 1.0, (N, 3)),
        so3.exp(RNG.normal(0.0, 0.3, (N, 3))),
    )  # fmt: skip
    commands = flying.commands + RNG.normal(0.0, 1.0, (N, COMMANDS + 1, 4))
    return model_rollout.midflight(HOVERING, floats(state), floats(commands)), wanted


QUIET = jnp.zeros((N, 9))


def test_hover_stays_put():
    flying, wanted = still()
    start = flying.state
    for _ in range(100):
        flying, command = tick(MEMBER, NOMINAL, HOVERING, flying, wanted, Stress.none((N,)), QUIET)
        np.testing.assert_allclose(command, np.tile(COMMAND_HOVER, (N, 1)), atol=1e-6)
    for before, after in zip(start, flying.state, strict=True):
        np.testing.assert_allclose(before, after, atol=1e-4)


def test_command_enters_its_window_as_the_newest():
    flying, wanted = moving()
    new, command = tick(MEMBER, SWITCHES, ACTING, flying, wanted, Stress.none((N,)), QUIET)
    np.testing.assert_array_equal(new.commands[:, 0], command)
    np.testing.assert_array_equal(new.commands[:, 1:], flying.commands[:, :-1])


def test_newest_command_acts_only_later():
    """The learned lag leaves it out: two policies move alike for one tick, then not."""
    flying, wanted = moving()
    plain = Stress.none((N,))
    one, _ = tick(MEMBER, SWITCHES, ACTING, flying, wanted, plain, QUIET)
    other, _ = tick(MEMBER, SWITCHES, HOVERING, flying, wanted, plain, QUIET)
    np.testing.assert_array_equal(one.state.rotation, other.state.rotation)
    one, _ = tick(MEMBER, SWITCHES, ACTING, one, wanted, plain, QUIET)
    other, _ = tick(MEMBER, SWITCHES, HOVERING, other, wanted, plain, QUIET)
    assert np.abs(one.state.rotation - other.state.rotation).max() > 1e-4


@pytest.mark.parametrize("late", [0.0, 1.0])
def test_extra_delay_of_one_is_a_shift_by_one_tick(late):
    flying, wanted = moving()
    stress = Stress.none((N,))._replace(extra_delay=jnp.full(N, late))
    new, command = tick(MEMBER, SWITCHES, ACTING, flying, wanted, stress, QUIET)
    past = jnp.concatenate([command[:, None], flying.commands], axis=1)
    expected = model_step(flying.state, past[:, int(late) : int(late) + COMMANDS])
    for one, two in zip(new.state, expected, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-5)


def test_stress_acts_as_it_says():
    flying, wanted = still()
    stress = Stress.none((N,))._replace(
        bias=jnp.tile(jnp.array([0.5, 0.0, 0.0]), (N, 1)), thrust_gain=jnp.full(N, 1.1)
    )
    new, _ = tick(MEMBER, NOMINAL, HOVERING, flying, wanted, stress, QUIET)
    expected = np.tile(0.02 * np.array([0.5, 0.0, 0.1 * GRAVITY]), (N, 1))
    np.testing.assert_allclose(new.state.velocity, expected, atol=1e-5)


def test_noise_changes_what_is_seen_not_where_it_is():
    flying, wanted = moving()
    noise = SensorNoise(*3 * [jnp.full(N, 0.01)], velocity_lag=jnp.zeros(N))
    noisy = Stress.none((N,))._replace(noise=noise)
    draws = jnp.asarray(RNG.normal(0.0, 1.0, (N, 9)), jnp.float32)
    one, command = tick(MEMBER, SWITCHES, ACTING, flying, wanted, noisy, draws)
    other, quiet = tick(MEMBER, SWITCHES, ACTING, flying, wanted, noisy, QUIET)
    assert np.abs(command - quiet).max() > 1e-3
    np.testing.assert_array_equal(one.state.position, other.state.position)


def test_a_late_velocity_is_that_of_a_moment_ago():
    flying, wanted = moving()
    late = Stress.none((N,)).noise._replace(velocity_lag=jnp.full(N, 0.03))
    acceleration = np.asarray(wanted.acceleration[:, 0])
    sensed = model_rollout.sense(
        flying.state, Stress.none((N,))._replace(noise=late), QUIET, acceleration
    )
    expected = np.asarray(flying.state.velocity) - 0.03 * acceleration
    np.testing.assert_allclose(sensed.velocity, expected, atol=1e-6)
    np.testing.assert_array_equal(sensed.position, flying.state.position)


def test_drawn_stress_has_the_spread_it_was_given():
    draw = jax.jit(partial(model_rollout.draw_stress, count=4000), compiler_options=QUICK)
    drawn = draw(jax.random.key(0), StressScale())
    assert np.std(drawn.bias) == pytest.approx(0.5, rel=0.05)
    assert np.std(drawn.thrust_gain) == pytest.approx(0.04, rel=0.1)
    np.testing.assert_allclose(drawn.noise, np.tile(np.array(SensorNoise())[:, None], 4000))
    assert 0.0 <= np.min(drawn.extra_delay) < np.max(drawn.extra_delay) <= 1.0
