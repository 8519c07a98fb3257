"""Inputs of the online learner's residual: each choice learns, and the default is what it was."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from log_flights import fly, raw_log

from lafr_mjx import mlp, so3
from lafr_mjx.control.policy import create_policy
from lafr_mjx.errors import InputError
from lafr_mjx.fitting import state_models
from lafr_mjx.learner import loop, methods
from lafr_mjx.learner.improve import LearnerSettings
from lafr_mjx.learner.model_rollout import SensorNoise
from lafr_mjx.logs.resample import uniform
from lafr_mjx.model import body, open_loop, residual, steps
from lafr_mjx.model.residual import COMMANDS, NO_LAG, Switches
from lafr_mjx.model.state import ModelState
from lafr_mjx.plant.vehicle import load_vehicle
from lafr_mjx.run_spec import RunSpec
from lafr_mjx.tasks import load_task
from lafr_mjx.types import COMMAND_HOVER, COMMAND_SCALE

DRAG = (0.5, 0.3, 0.2)
RNG = np.random.default_rng(104)
POLICY = create_policy(RNG, load_vehicle("lafr192").limits)
TASK = load_task("figure8")


def record_of(made):
    return state_models.record_of(uniform(raw_log(made, commanded=True)))


@pytest.fixture(scope="module")
def record():
    """A heavy vehicle with drag in a steady wind; its commands act at once."""
    made = fly(16.0, seed=101, drag=DRAG, mass_scale=1.15, wind=(3.0, -1.0))
    return record_of(made)


@pytest.mark.parametrize("features", ["default", "paper", "body"])
def test_each_choice_learns_from_a_simulated_log(record, features):
    """Eight seconds of flight, tested on the next eight."""
    rows = steps.transitions(record, 0, 800)
    # Its commands act at once, as measured inputs do: the lag has its own tests.
    model = state_models.fit_online(rows, False, features, 100)
    unseen = steps.windows(record, 800, 1600, 25)
    nominal = body.create(np.random.default_rng(0))
    before = open_loop.errors(open_loop.body_step, nominal, unseen)[24]
    after = open_loop.errors(*model, unseen)[24]
    # Wind, drag and weight together: position and velocity.
    assert np.all(after[:2] < 0.35 * before[:2]), (before, after)


def test_the_default_is_the_plain_formula_and_has_no_other_parameters():
    """ζ = [0, v, R, u_eff, 0] in the world, two hidden layers, nothing beside the network."""
    made = residual.create(np.random.default_rng([100, 10]))
    assert len(jax.tree.leaves(made)) == 7
    wide = mlp.create(np.random.default_rng([100, 10]), (55, 64, 64, 6), last_scale=0.01)
    jax.tree.map(np.testing.assert_array_equal, made.network.layers, wide)
    position, velocity, turn = RNG.normal(size=(3, 7, 3)).astype(np.float32)
    state = ModelState(position, velocity, np.asarray(so3.exp(turn)))
    commands = (COMMAND_HOVER + RNG.normal(size=(7, COMMANDS, 4))).astype(np.float32)
    effective = commands[:, 2]
    columns = np.swapaxes(state.rotation, -1, -2).reshape(7, 9)
    given = np.concatenate(
        [np.zeros((7, 3)), state.velocity / 5.0, columns,
         (effective - COMMAND_HOVER) / COMMAND_SCALE, np.zeros((7, 4 * COMMANDS))], axis=1,
    ).astype(np.float32)  # fmt: skip
    expected = np.asarray(mlp.apply(made.network.layers, jnp.asarray(given)))
    device = jax.tree.map(jnp.asarray, state)
    found = residual.evaluate(
        made, Switches(), device, jnp.asarray(effective), jnp.asarray(commands)
    )
    np.testing.assert_allclose(found[0], 5.0 * expected[:, :3], rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(found[1], 4.0 * expected[:, 3:], rtol=1e-5, atol=1e-7)


def test_the_default_is_what_is_asked_for_by_default():
    assert methods.settings_of("ours") == methods.settings_of("ours", "default")
    assert methods.settings_of("ours").switches == LearnerSettings().switches == Switches()
    one, other = loop.start(TASK, POLICY, 100), loop.start(TASK, POLICY, 100, features="default")
    assert jax.tree.structure(one.ensemble) == jax.tree.structure(other.ensemble)
    jax.tree.map(np.testing.assert_array_equal, one.ensemble, other.ensemble)
    paper = loop.start(TASK, POLICY, 100, features="paper")
    # The paper's inputs share the default's program: only switches differ.
    assert jax.tree.structure(paper.ensemble) == jax.tree.structure(one.ensemble)
    given = methods.settings_of("ours", "paper").switches
    assert given.position == 1.0 and given.learned_lag == (0.0, 0.0, 0.0)
    np.testing.assert_array_equal(given.fixed_lag, NO_LAG)


@pytest.mark.parametrize("factor", [0.5, 1.0, 2.0])
def test_a_run_expects_what_its_priors_say(factor):
    settings = methods.settings_for(RunSpec(noise_prior=factor, lag_prior=factor))
    np.testing.assert_allclose(settings.train.stress.noise, factor * np.array(SensorNoise()))
    state = loop.start(TASK, POLICY, 100, settings)
    weights = np.asarray(residual.lag_weights(state.ensemble, Switches()))
    ticks = np.sum(weights * np.arange(weights.shape[-1]), axis=-1)
    np.testing.assert_allclose(ticks, 2.5 * factor, rtol=0.05)
    np.testing.assert_allclose(weights[0], settings.switches.fixed_lag, atol=2e-3)


def test_body_inputs_know_neither_place_nor_heading():
    """Turned about the vertical and moved elsewhere, the vehicle feels the same."""
    made = residual.create(np.random.default_rng(105), "body")
    linear = RNG.normal(size=made.network.linear.shape).astype(np.float32)
    part = made.network._replace(linear=linear)
    made = made._replace(network=part)
    turn = np.asarray(so3.exp(np.array([0.0, 0.0, 2.0])), np.float32)
    state = ModelState(np.ones((1, 3), np.float32), RNG.normal(size=(1, 3)).astype(np.float32),
                       so3.exp(RNG.normal(size=(1, 3))).astype(np.float32))  # fmt: skip
    turned = ModelState(
        state.position + 5.0, (turn @ state.velocity[..., None])[..., 0], turn @ state.rotation
    )
    commands = np.tile(np.array([12.0, 1.0, -1.0, 0.5], np.float32), (1, COMMANDS, 1))

    def at(where):
        device = jax.tree.map(jnp.asarray, where)
        return residual.evaluate(
            made, Switches(), device, jnp.asarray(commands[:, 0]), jnp.asarray(commands)
        )

    (force, rates), (force_turned, rates_turned) = at(state), at(turned)
    np.testing.assert_allclose(rates, rates_turned, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose((turn @ force[..., None])[..., 0], force_turned, rtol=1e-3,
                               atol=1e-3)  # fmt: skip
    # A steady wind belongs to the world.
    blown = made._replace(network=part._replace(wind=np.array([1.0, 0.0, 0.0])))
    more = residual.evaluate(
        blown, Switches(), jax.tree.map(jnp.asarray, turned), jnp.asarray(commands[:, 0]),
        jnp.asarray(commands),
    )[0]  # fmt: skip
    difference = np.asarray(more - force_turned)[0]
    assert difference[0] > 1.0 and np.abs(difference[1:]).max() < 1e-3


def test_features_need_a_residual_and_a_known_name():
    with pytest.raises(InputError, match="method 'baseline' has none"):
        methods.settings_of("baseline", "body")
    with pytest.raises(InputError, match="one of body, default, paper"):
        methods.settings_of("ours", "absolute")
