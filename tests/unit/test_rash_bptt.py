"""Policy learning on the hybrid model: starts, gradients, progress, repeatability."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lafr_mjx import mlp, so3
from lafr_mjx.control.network_mlp import Mlp
from lafr_mjx.control.observation import SIZE
from lafr_mjx.control.policy import create_policy
from lafr_mjx.learner import model_rollout, rash_bptt
from lafr_mjx.learner.backward import cost_and_slope
from lafr_mjx.learner.rash_bptt import Anchors, TrainSettings
from lafr_mjx.model import residual
from lafr_mjx.model.residual import COMMANDS, Switches
from lafr_mjx.model.state import ModelState
from lafr_mjx.reference import splines
from lafr_mjx.reference.flatness import reference_state
from lafr_mjx.types import CommandLimits

MEMBERS, BATCH, HORIZON, STEPS = 2, 8, 20, 100
LIMITS = CommandLimits(np.array([0.0, -6, -6, -6]), np.array([25.0, 6, 6, 6]))
RNG = np.random.default_rng(0)


def floats(tree):
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), tree)


PATH = floats(splines.from_harmonics([0, 0, 1.0], [[1.5, 0, 0]], [[0, 1.5, 0]], 6.0, segments=8))
SWITCHES = floats(Switches())
POLICY = floats(create_policy(RNG, LIMITS, "mlp(hidden=[16, 16])"))
ENSEMBLE = jax.tree.map(
    lambda *leaves: jnp.stack(leaves),
    *[floats(residual.create(RNG, hidden=8)) for _ in range(MEMBERS)],
)
KEY = jax.random.key(4)
MOMENTS = 0.02 * jnp.arange(HORIZON)[:, None] + POLICY.preview_s()[None]
# Compile fast rather than well: these programs run for milliseconds.
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def make_anchors(count=6, unusable=()):
    """Far from the path, so that they can be told from it; NaN where they are not usable."""
    offset = ModelState(
        np.array([100.0, 0.0, 0.0]) + np.arange(count)[:, None] * np.ones(3),
        RNG.normal(0.0, 1.0, (count, 3)),
        so3.exp(RNG.normal(0.0, 0.2, (count, 3))),
    )
    commands = RNG.normal(0.0, 1.0, (count, COMMANDS + 1, 4))
    anchors = Anchors(*floats((offset, commands, np.linspace(0.0, 5.0, count), np.ones(count))))
    usable = ~np.isin(np.arange(count), unusable)

    def spoil(leaf):
        return leaf.at[np.array(unusable, int)].set(jnp.nan)

    spoiled = jax.tree.map(spoil, anchors) if unusable else anchors
    return spoiled._replace(usable=jnp.asarray(usable))


def make_settings(**changes):
    calm = {"position_spread": 0.0, "velocity_spread": 0.0, "tilt_spread": 0.0}
    given = {"learning_rate": 3e-3, "fastest": 0.9, "slowest": 1.1}
    return floats(TrainSettings()._replace(**(given | calm | changes)))


@pytest.fixture(scope="module")
def flights():
    @partial(jax.jit, compiler_options=QUICK)
    def function(anchors, settings):
        draws = rash_bptt._drawn(anchors, settings, MEMBERS * 16, HORIZON, KEY)
        return rash_bptt._flights(PATH, anchors, settings, draws, MEMBERS, MOMENTS)

    return lambda anchors, **changes: function(anchors, make_settings(**changes))


@pytest.fixture(scope="module")
def train():
    function = jax.jit(
        partial(rash_bptt.train, steps=STEPS, batch=BATCH, horizon=HORIZON), compiler_options=QUICK
    )
    return lambda anchors, key=KEY, **changes: function(
        POLICY, ENSEMBLE, SWITCHES, PATH, anchors, make_settings(**changes), key
    )


def test_anchored_flights_start_as_far_from_the_reference_as_the_drone_was(flights):
    """At the time scale that is drawn, whatever the one that was recorded."""
    anchors = make_anchors(unusable=(1, 4))
    start = flights(anchors, anchored_share=1.0, fastest=0.5, slowest=2.0)
    asked = jax.tree.map(lambda leaf: np.asarray(leaf)[0, :, :, 0], start.references)
    offset = np.asarray(start.state.position) - asked.position
    index = np.round(offset[..., 0] - 100.0).astype(int)
    assert set(index.ravel()) <= {0, 2, 3, 5}
    assert len(set(index.ravel())) > 1
    np.testing.assert_allclose(offset, np.asarray(anchors.offset.position)[index], atol=1e-4)
    velocity = np.asarray(start.state.velocity) - asked.velocity
    np.testing.assert_allclose(velocity, np.asarray(anchors.offset.velocity)[index], atol=1e-4)
    turn = np.swapaxes(asked.rotation, -1, -2) @ np.asarray(start.state.rotation)
    np.testing.assert_allclose(turn, np.asarray(anchors.offset.rotation)[index], atol=1e-4)
    # The reference starts at the anchor's phase, [members, horizon, flights, previews].
    expected = reference_state(PATH, anchors.phase[index]).position
    np.testing.assert_allclose(asked.position, expected, atol=1e-4)
    # On the circle an ideal vehicle's thrust does not change: commands differ by the offset alone.
    ideal = np.asarray(start.references.thrust)[0, :, :, 0][..., None]
    thrust = np.asarray(start.commands)[..., 0] - ideal
    np.testing.assert_allclose(thrust, np.asarray(anchors.commands)[index][..., 0], atol=1e-3)


@pytest.mark.parametrize("nothing_usable", [False, True])
def test_other_flights_start_at_the_reference(flights, nothing_usable):
    anchors = make_anchors(unusable=range(6) if nothing_usable else ())
    start = flights(anchors, anchored_share=1.0 if nothing_usable else 0.0)
    for mine, asked in (
        (start.state.position, start.references.position),
        (start.state.velocity, start.references.velocity),
        (start.state.rotation, start.references.rotation),
    ):
        np.testing.assert_allclose(mine, asked[0, :, :, 0], atol=1e-4)
    assert np.isfinite(start.commands).all()


def test_half_of_the_flights_are_anchored(flights):
    start = flights(make_anchors(), anchored_share=0.5)
    share = np.mean(np.asarray(start.state.position)[..., 0] > 50.0)
    assert 0.2 < share < 0.8


def test_time_scales_are_drawn_between_the_two(flights):
    references = flights(make_anchors(), anchored_share=0.0, fastest=0.5, slowest=2.0).references
    speed = np.linalg.norm(np.asarray(references.velocity)[0, :, :, 0], axis=-1)
    natural = 1.5 * 2.0 * np.pi / 6.0
    assert natural / 2.0 * 0.98 < speed.min() < speed.max() < natural / 0.5 * 1.02
    assert speed.max() > 1.5 * speed.min()


def test_steps_that_are_not_finite_are_not_taken_and_said(train):
    bad = TrainSettings().cost._replace(position=np.nan)
    policy, costs = train(make_anchors(), cost=bad)
    assert np.isnan(costs).all()
    jax.tree.map(np.testing.assert_array_equal, policy.network, floats(POLICY.network))


def test_training_lowers_the_cost(train):
    """Against the same flights without learning."""
    spread = {"position_spread": 0.1, "velocity_spread": 0.3}
    trained, costs = train(rash_bptt.no_anchors(6), learning_rate=1e-2, **spread)
    untrained, without = train(rash_bptt.no_anchors(6), learning_rate=0.0, **spread)
    jax.tree.map(np.testing.assert_array_equal, untrained, POLICY)
    assert np.isfinite(costs).all()
    assert costs[0] == pytest.approx(float(without[0]), rel=1e-5)
    ratio = float(np.mean(costs[-10:]) / np.mean(without[-10:]))
    assert ratio < 0.9, ratio
    np.testing.assert_array_equal(trained.limits.high, POLICY.limits.high)


def test_same_key_same_policy(train):
    one, costs = train(rash_bptt.no_anchors(6))
    again, _ = train(rash_bptt.no_anchors(6))
    jax.tree.map(np.testing.assert_array_equal, one, again)
    _, other = train(rash_bptt.no_anchors(6), key=jax.random.key(5))
    assert not np.array_equal(costs, other)


def test_anchors_that_are_not_usable_do_not_matter(train):
    near = make_anchors()
    near = near._replace(offset=near.offset._replace(position=near.offset.position - 100.0))
    usable = jnp.array([True, False, True, True, False, True])

    def spoil(leaf):
        return leaf.at[jnp.array([1, 4])].set(jnp.nan)

    spoiled = jax.tree.map(spoil, near._replace(usable=jnp.ones(6)))._replace(usable=usable)
    one, _ = train(near._replace(usable=usable))
    other, costs = train(spoiled)
    assert np.isfinite(costs).all()
    jax.tree.map(np.testing.assert_array_equal, one, other)


class TwoWays(NamedTuple):
    """A network of the user's, of which nothing is known."""

    straight: Any
    around: Any

    def __call__(self, inputs):
        return inputs @ self.straight + jnp.tanh(inputs) @ self.around


def network_of(name):
    rng = np.random.default_rng(1)
    if name == "mlp":
        return floats(Mlp(mlp.create(rng, (SIZE, 16, 16, 4), last_scale=1.0)))
    return floats(TwoWays(*(0.05 * rng.standard_normal((2, SIZE, 4)))))


@pytest.fixture(scope="module", params=["mlp", "own"])
def slopes(flights, request):
    """In double precision, the network and what gives cost and slope for it, by hand and by JAX.

    The flights are drawn in single precision before.
    """
    drawn = flights(make_anchors(), anchored_share=0.0, position_spread=0.1)
    settings = make_settings(discount=0.97)
    with jax.enable_x64():

        def double(tree):
            return jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf), jnp.float64), tree)

        policy, flown = double(POLICY), double(drawn)
        ensemble, switches = double((ENSEMBLE, SWITCHES))

        def by_hand(network):
            return cost_and_slope(
                policy.with_trained(network), ensemble, switches, settings.cost, settings.discount,
                flown,
            )  # fmt: skip

        def cost(network):
            """The same flights, plainly."""
            acting = policy.with_trained(network)

            def fly(member, state, commands, references, stress, noise):
                def tick(flying, now):
                    wanted, draws = now
                    moved, command = model_rollout.tick(
                        member, switches, acting, flying, wanted, stress, draws
                    )
                    present = jax.tree.map(lambda leaf: leaf[:, 0], wanted)
                    previous = flying.commands[:, 0]
                    return moved, settings.cost(flying.state, present, command, previous)

                first = model_rollout.midflight(acting, state, commands)
                return jax.lax.scan(tick, first, (references, noise))[1]

            costs = jax.vmap(fly, in_axes=(0, 0, 0, 1, 0, 1))(ensemble, *flown)
            return jnp.mean(settings.discount ** jnp.arange(HORIZON)[:, None] * costs)

        by_jax = jax.value_and_grad(cost)
        both = [jax.jit(function, compiler_options=QUICK) for function in (by_hand, by_jax)]
        yield double(network_of(request.param)), *both


def test_slope_is_that_of_jax(slopes):
    network, by_hand, by_jax = slopes
    with jax.enable_x64():
        found, wanted = by_hand(network), by_jax(network)
    assert min(np.abs(leaf).max() for leaf in jax.tree.leaves(wanted[1])) > 1e-3
    # Costs weigh a few numbers in single precision.
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-7), found, wanted)


def test_slope_against_differences(slopes):
    network, by_hand, _ = slopes
    with jax.enable_x64():
        _, slope = by_hand(network)
        rng = np.random.default_rng(2)
        way = jax.tree.map(lambda leaf: rng.standard_normal(leaf.shape), network)
        step = 1e-6

        def cost(share):
            return by_hand(jax.tree.map(lambda x, d: x + share * d, network, way))[0]

        difference = float(cost(step) - cost(-step)) / (2.0 * step)
        along = sum(jax.tree.leaves(jax.tree.map(lambda x, d: float(jnp.sum(x * d)), slope, way)))
    assert abs(along) > 1e-2
    assert along == pytest.approx(difference, rel=1e-4)
