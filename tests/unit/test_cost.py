"""What a policy is trained for."""

from __future__ import annotations

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lafr_mjx import compilation_cache
from lafr_mjx.control.policy import create_policy
from lafr_mjx.learner import cost_tracking, pretrain, rash_bptt
from lafr_mjx.learner.cost_tracking import BASE_COST, Tracking
from lafr_mjx.model.state import ModelState
from lafr_mjx.tasks import load_task
from lafr_mjx.types import COMMAND_HOVER, CommandLimits, Reference

WEIGHTS = Tracking()
AT_REST = ModelState(jnp.zeros(3), jnp.zeros(3), jnp.eye(3))


def cost_of_turning(reference_rate, commanded_rate, weights=WEIGHTS):
    """Cost on the reference, with a roll rate asked and one commanded."""
    rates = jnp.array([reference_rate, 0.0, 0.0])
    blank = {name: jnp.zeros(3) for name in Reference._fields}
    reference = Reference(**(blank | {"rotation": jnp.eye(3), "rates": rates}))
    command = jnp.asarray(COMMAND_HOVER).at[1].set(commanded_rate)
    return float(weights(AT_REST, reference, command, command))


def test_nothing_is_paid_on_the_reference():
    assert cost_of_turning(0.0, 0.0) == pytest.approx(0.0, abs=1e-6)
    assert cost_of_turning(5.0, 5.0) == pytest.approx(0.0, abs=1e-6)


def test_hard_turns_are_to_be_flown_hard():
    # Half a rad/s short of a gentle turn is feedback; short of a hard one it is a corner cut.
    assert cost_of_turning(4.0, 3.5) == pytest.approx(0.25 * WEIGHTS.rates, rel=1e-4)
    assert cost_of_turning(5.5, 5.0) == pytest.approx(0.25 * WEIGHTS.rates, rel=1e-4)
    hard = 0.25 * (WEIGHTS.rates + WEIGHTS.hard_turn)
    assert cost_of_turning(6.0, 5.5) == pytest.approx(hard, rel=1e-4)
    assert cost_of_turning(-9.0, -8.5) == pytest.approx(hard, rel=1e-4)
    # Beyond the limit, more is always better, up to the limit itself.
    assert cost_of_turning(9.0, 6.0) < cost_of_turning(9.0, 5.0)


def test_the_base_policy_stays_timid():
    assert cost_of_turning(9.0, 6.0, BASE_COST) == pytest.approx(9.0 * BASE_COST.rates)


def test_far_errors_count_linearly():
    def cost(distance):
        blank = {name: jnp.zeros(3) for name in Reference._fields}
        reference = Reference(**(blank | {"rotation": jnp.eye(3)}))
        state = AT_REST._replace(position=jnp.array([distance, 0.0, 0.0]))
        hover = jnp.asarray(COMMAND_HOVER)
        return WEIGHTS(state, reference, hover, hover)

    slopes = [float(jax.grad(cost)(x)) for x in (0.01, 50.0, 100.0)]
    assert slopes[0] == pytest.approx(2.0 * WEIGHTS.position * 0.01, rel=1e-2)
    np.testing.assert_allclose(slopes[1:], WEIGHTS.position, rtol=1e-2)


@pytest.mark.parametrize("edited", [cost_tracking, rash_bptt])
def test_a_base_policy_of_another_formula_is_not_taken_from_the_cache(monkeypatch, edited):
    limits = CommandLimits(np.array([0.0, -6, -6, -6]), np.array([25.0, 6, 6, 6]))
    given = (load_task("figure8").path, limits, 1.0, 0, pretrain.BaseSizes(), "mlp")
    given = (*given, pretrain.Priors())
    before = pretrain._hash(*given)
    assert pretrain._hash(*given) == before
    read = inspect.getsource
    monkeypatch.setattr(inspect, "getsource", lambda m: read(m) + "#" * (m is edited))
    assert pretrain._hash(*given) != before


def test_a_base_policy_of_another_prior_is_not_taken_from_the_cache():
    limits = CommandLimits(np.array([0.0, -6, -6, -6]), np.array([25.0, 6, 6, 6]))
    given = (load_task("figure8").path, limits, 1.0, 0, pretrain.BaseSizes(), "mlp")
    scaled = pretrain.Priors.scaled
    priors = [pretrain.Priors(), scaled(1.0, 1.0), scaled(2.0, 1.0), scaled(1.0, 2.0)]
    usual, same, *others = (pretrain._hash(*given, prior) for prior in priors)
    assert usual == same and len({usual, *others}) == 3


def test_a_base_policy_that_another_process_trained_meanwhile_stays(monkeypatch, tmp_path):
    limits = CommandLimits(np.array([0.0, -6, -6, -6]), np.array([25.0, 6, 6, 6]))
    given = (load_task("figure8").path, limits, 1.0, 0)
    theirs, ours = (
        pretrain._leaves(create_policy(np.random.default_rng(seed), limits)) for seed in (0, 1)
    )
    monkeypatch.setattr(compilation_cache, "cache_folder", lambda: tmp_path)

    def trained_meanwhile(*_):
        with monkeypatch.context() as inner:
            inner.setattr(pretrain, "train_base", lambda *_: theirs)
            pretrain.base_policy(*given)
        return ours

    monkeypatch.setattr(pretrain, "train_base", trained_meanwhile)
    for cached in (False, True):
        policy, found = pretrain.base_policy(*given)
        assert found is cached
        jax.tree.map(np.testing.assert_array_equal, policy, theirs)
