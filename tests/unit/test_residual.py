"""The residual: lag, switches, features."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lafr_mjx import so3
from lafr_mjx.model import residual
from lafr_mjx.model.residual import COMMANDS, LAG_PRIOR, NO_LAG, Switches
from lafr_mjx.model.residual_default import Default
from lafr_mjx.model.state import ModelState
from lafr_mjx.types import COMMAND_HOVER

N = 5
RNG = np.random.default_rng(1)
STATE = ModelState(
    RNG.normal(0.0, 1.0, (N, 3)).astype(np.float32),
    RNG.normal(0.0, 3.0, (N, 3)).astype(np.float32),
    so3.exp(RNG.normal(0.0, 0.5, (N, 3))).astype(np.float32),
)
WINDOWS = (COMMAND_HOVER + RNG.normal(0.0, 2.0, (N, COMMANDS, 4))).astype(np.float32)
MADE = residual.create(np.random.default_rng(2), hidden=16)
*LAYERS, LAST = MADE.network.layers
MEMBER = MADE._replace(
    network=Default((*LAYERS, LAST._replace(weight=100.0 * LAST.weight))),
    lag=RNG.normal(0.0, 1.0, (3, COMMANDS)).astype(np.float32),
)


@jax.jit
def outcome(member, switches, state, windows):
    weights = residual.lag_weights(member, switches)
    effective = residual.effective_command(weights, windows)
    return effective, *residual.evaluate(member, switches, state, effective, windows)


def leaves(switches):
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), switches)


def test_lag_weights_sum_to_one_without_the_newest():
    for switches in (Switches(), Switches(learned_lag=(0.0, 1.0, 0.0))):
        weights = np.asarray(residual.lag_weights(MEMBER, switches))
        np.testing.assert_allclose(weights.sum(axis=-1), 1.0, atol=1e-6)
        np.testing.assert_array_equal(weights[:, 0], 0.0)
        assert np.all(weights >= 0.0)


def test_fixed_lag_is_taken_as_given():
    off = (0.0, 0.0, 0.0)
    prior = residual.lag_weights(MEMBER, Switches(learned_lag=off))
    np.testing.assert_array_equal(prior, LAG_PRIOR)
    none = Switches(learned_lag=off, fixed_lag=NO_LAG)
    effective = residual.effective_command(residual.lag_weights(MEMBER, none), jnp.array(WINDOWS))
    np.testing.assert_allclose(effective, WINDOWS[:, 0], atol=1e-6)


def test_fresh_residual_starts_at_the_prior():
    weights = residual.lag_weights(MADE, Switches())
    np.testing.assert_allclose(weights, LAG_PRIOR, atol=1e-3)


def test_constant_history_has_itself_as_effective_command():
    constant = np.array([12.0, 1.0, -2.0, 3.0], np.float32)
    effective = residual.effective_command(
        residual.lag_weights(MEMBER, Switches()), jnp.tile(constant, (COMMANDS, 1))
    )
    np.testing.assert_allclose(effective, constant, rtol=1e-6)


def test_lag_is_separate_for_thrust_tilt_and_yaw():
    weights = np.stack([np.eye(COMMANDS)[i] for i in (1, 2, 3)]).astype(np.float32)
    effective = residual.effective_command(jnp.array(weights), jnp.array(WINDOWS))
    expected = [WINDOWS[:, 1, 0], WINDOWS[:, 2, 1], WINDOWS[:, 2, 2], WINDOWS[:, 3, 3]]
    np.testing.assert_allclose(effective, np.stack(expected, axis=-1), rtol=1e-6)


def test_one_program_serves_all_variants():
    outcome.clear_cache()
    for acceleration in (0.0, 1.0):
        for rates in (0.0, 1.0):
            for history in (0.0, 1.0):
                switches = Switches(
                    acceleration=acceleration, rates=rates, position=history, history=history,
                    learned_lag=(rates, 1.0, 0.0), fixed_lag=NO_LAG if history else LAG_PRIOR,
                )  # fmt: skip
                outcome(MEMBER, leaves(switches), STATE, WINDOWS)
    assert outcome._cache_size() == 1


@pytest.mark.parametrize(("acceleration", "rates"), [(0.0, 1.0), (1.0, 0.0), (0.0, 0.0)])
def test_what_is_off_is_zero(acceleration, rates):
    switches = leaves(Switches(acceleration=acceleration, rates=rates))
    _, a_res, w_res = outcome(MEMBER, switches, STATE, WINDOWS)
    for value, on in ((a_res, acceleration), (w_res, rates)):
        if on:
            assert np.abs(value).min() > 0.0
        else:
            np.testing.assert_array_equal(value, 0.0)


def test_position_and_history_matter_only_when_they_are_on():
    moved = STATE._replace(position=STATE.position + np.float32(1.0))
    # Commands that change while the effective command does not: the newest has no weight.
    other = WINDOWS.copy()
    other[:, 0] += 3.0
    off, on = leaves(Switches()), leaves(Switches(position=1.0, history=1.0))
    plain = outcome(MEMBER, off, STATE, WINDOWS)
    for state, windows in ((moved, WINDOWS), (STATE, other)):
        for one, two in zip(plain, outcome(MEMBER, off, state, windows), strict=True):
            np.testing.assert_allclose(one, two, atol=1e-6)
        changed = outcome(MEMBER, on, state, windows)[1] - outcome(MEMBER, on, STATE, WINDOWS)[1]
        assert np.abs(changed).max() > 1e-3
