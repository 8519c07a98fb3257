"""The policy: one source for NumPy and JAX, its limits, its invariances."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lafr_mjx import mlp, so3
from lafr_mjx.arrays import clip
from lafr_mjx.control.network_mlp import Mlp
from lafr_mjx.control.observation import (
    COMMAND_HOVER,
    HISTORY,
    PREVIEW_S,
    SIZE,
    observe,
    observe_one,
)
from lafr_mjx.control.policy import Policy, act, create_policy
from lafr_mjx.types import CommandLimits, Reference, Sensed, State

LIMITS = CommandLimits(np.array([0.0, -6, -6, -6]), np.array([25.0, 6, 6, 6]))
MADE = create_policy(np.random.default_rng(0), LIMITS, "mlp(hidden=[32, 32])")
*LAYERS, LAST = MADE.network.layers
# Large weights in the last layer, so that it does something.
POLICY = MADE._replace(network=Mlp((*LAYERS, LAST._replace(weight=80.0 * LAST.weight))))
ON_JAX = jax.tree.map(jnp.asarray, POLICY)
jax_act = jax.jit(act)


def numbers(rng, *shape):
    return rng.normal(0.0, 1.0, shape).astype(np.float32)


def make_reference(rng, count=len(PREVIEW_S)):
    rotation = so3.exp(numbers(rng, count, 3))
    position, velocity, acceleration, jerk, rates = numbers(rng, 5, count, 3)
    thrust = numbers(rng, count)
    return Reference(position, velocity, acceleration, jerk, rotation, rates, thrust)


def make_sensed(rng):
    state = State(numbers(rng, 3), numbers(rng, 3), so3.exp(numbers(rng, 3)), numbers(rng, 3))
    return Sensed(state, np.zeros(()), np.zeros(()))


def test_numpy_and_jax_agree():
    observations = 2.0 * numbers(np.random.default_rng(1), 200, SIZE)
    on_host = act(POLICY, observations)
    assert isinstance(on_host, np.ndarray)
    np.testing.assert_allclose(on_host, jax_act(ON_JAX, observations), atol=1e-5, rtol=1e-5)
    assert np.std(on_host, axis=0).min() > 0.5


def test_numpy_and_jax_agree_in_the_loop():
    rng = np.random.default_rng(2)
    memory, traced = POLICY.start(), ON_JAX.start()
    call = jax.jit(lambda policy, memory, sensed, wanted: policy(memory, sensed, wanted))
    for _ in range(6):
        sensed, wanted = make_sensed(rng), make_reference(rng)
        memory, command = POLICY(memory, sensed, wanted)
        traced, other = call(ON_JAX, traced, sensed, wanted)
        assert isinstance(command, np.ndarray)
        np.testing.assert_allclose(command, other, atol=1e-5, rtol=1e-5)
        np.testing.assert_allclose(memory, traced, atol=1e-5, rtol=1e-5)
        np.testing.assert_array_equal(memory[0], command)
    assert memory.shape == (HISTORY, 4)


huge = st.floats(-1e30, 1e30)


@settings(max_examples=200, deadline=None)
@given(
    values=st.lists(huge, min_size=8, max_size=8),
    seed=st.integers(0, 10_000),
    low=st.floats(-20.0, -0.1),
    high=st.floats(0.1, 20.0),
)
def test_commands_stay_within_the_limits(values, seed, low, high):
    rng = np.random.default_rng(seed)
    observation = rng.choice(np.array(values, np.float32), SIZE)
    limits = CommandLimits(
        np.array([0.0, low, low, low], np.float32),
        np.array([9.81 + high, high, high, high], np.float32),
    )
    for given_limits in (POLICY.limits, limits):
        command = act(POLICY._replace(limits=given_limits), observation)
        assert np.isfinite(command).all()
        assert np.all(command >= given_limits.low)
        assert np.all(command <= given_limits.high)


def test_no_output_is_hover():
    layers = mlp.create(np.random.default_rng(0), (SIZE, 16, 16, 4), last_scale=0.0)
    silent = Policy(Mlp(layers), POLICY.limits)
    observations = 10.0 * numbers(np.random.default_rng(3), 20, SIZE)
    np.testing.assert_array_equal(act(silent, observations), np.tile(COMMAND_HOVER, (20, 1)))
    untrained = act(MADE, numbers(np.random.default_rng(3), 20, SIZE))
    np.testing.assert_allclose(untrained, np.tile(COMMAND_HOVER, (20, 1)), atol=1.5)


@pytest.mark.parametrize("shift", [(1.0, -2.0, 0.5), (64.0, 32.0, -16.0)])
def test_observation_does_not_know_where_it_is(shift):
    rng = np.random.default_rng(4)
    state, wanted = make_sensed(rng).state, make_reference(rng)
    history = numbers(rng, HISTORY, 4)
    here = observe(state.position, state.velocity, state.rotation, wanted, history)
    moved = wanted._replace(position=wanted.position + np.float32(shift))
    there = observe(
        state.position + np.float32(shift), state.velocity, state.rotation, moved, history
    )
    assert here.shape == (SIZE,)
    np.testing.assert_allclose(there, here, atol=1e-4)


def test_one_observation_by_plain_numbers_has_the_same_bits():
    rng = np.random.default_rng(5)
    for k in range(300):
        spread = 10.0 ** (k % 3 - 1)  # errors within the limit and beyond it
        count = len(PREVIEW_S)
        vectors = [spread * rng.normal(size=(count, 3)) for _ in range(5)]
        position, velocity, acceleration, jerk, rates = vectors
        rotations = so3.exp(rng.normal(size=(count, 3)))
        references = Reference(
            position, velocity, acceleration, jerk, rotations, rates, rng.normal(size=count)
        )
        rotation = np.asarray(so3.exp(rng.normal(size=3)))
        state = rng.normal(size=3), rng.normal(size=3), rotation
        history = COMMAND_HOVER + rng.normal(size=(HISTORY, 4))
        if k % 7 == 0:  # as at the beginning of a flight
            history = np.tile(COMMAND_HOVER, (HISTORY, 1))
        if k % 11 == 0:
            state[0][k % 3] = np.nan
        expected = observe(*state, references, history).astype(np.float32)
        found = observe_one(*state, references, history)
        assert found.dtype == np.float32 and found.shape == (SIZE,)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_clip_is_that_of_the_array_modules(kind):
    rng = np.random.default_rng(6)
    for _ in range(50):
        values = (10.0 * rng.normal(size=(3, 4))).astype(kind)
        values[0, 0], values[1, 1], values[2, 2] = np.nan, np.inf, -np.inf
        for low, high in ((-1.0, 1.0), LIMITS, MADE.limits):
            found, expected = clip(np, values, low, high), np.clip(values, low, high)
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)
