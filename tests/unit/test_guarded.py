"""The policy as it flies: dither, the slower clock, the last good policy."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lafr_mjx import mlp
from lafr_mjx.control.departure import DITHER, WINDOW_S, WINDOWS, window
from lafr_mjx.control.geometric import geometric_controller
from lafr_mjx.control.network_mlp import Mlp
from lafr_mjx.control.observation import PREVIEW_S, SIZE
from lafr_mjx.control.policy import Policy
from lafr_mjx.learner import loop
from lafr_mjx.learner.ats_hold import Hold
from lafr_mjx.learner.ats_paper import Paper
from lafr_mjx.learner.ats_verified import Verified
from lafr_mjx.learner.guarded import Guarded, surprising_departure
from lafr_mjx.learner.speed_limit import SpeedLimit
from lafr_mjx.learner.time_scaling import Pace
from lafr_mjx.tasks import load_task
from lafr_mjx.types import COMMAND_HOVER, CommandLimits, Reference, Sensed, State

LIMITS = CommandLimits(
    np.array([0.0, -6, -6, -6], np.float32), np.array([25.0, 6, 6, 6], np.float32)
)
RNG = np.random.default_rng(0)
KEY = jax.random.key_data(jax.random.key(3))


def policy(thrust: float) -> Policy:
    """One that always asks for the same."""
    layers = mlp.create(RNG, (SIZE, 4, 4, 4), last_scale=0.0)
    layers[-1].bias[0] = thrust
    return Policy(Mlp(layers), LIMITS)


def guarded(dither=0.0, slow_from=0.15):
    return Guarded(
        policy=policy(0.5), last_good=policy(-0.5), dither=jnp.float32(dither),
        slow_from=jnp.broadcast_to(jnp.float32(slow_from), WINDOWS),
        error_limit=jnp.float32(0.5), key=KEY,
    )  # fmt: skip


def references(count):
    zero = np.zeros((count, 3), np.float32)
    rotation = np.tile(np.eye(3, dtype=np.float32), (count, 1, 1))
    thrust = np.full(count, 9.81, np.float32)
    return Reference(zero, zero, zero, zero, rotation, zero, thrust)


def sensed(error, velocity=0.0):
    position, velocity = (np.array([x, 0.0, 0.0], np.float32) for x in (error, velocity))
    state = State(position, velocity, np.eye(3, dtype=np.float32), np.zeros(3))
    return Sensed(state, np.zeros((), np.float32), np.zeros((), np.float32))


def fly(controller, errors):
    memory, commands, factors, taken = controller.start(), [], [], []
    for error in errors:
        memory, command = controller(memory, sensed(error), references(len(PREVIEW_S)))
        commands.append(np.asarray(command))
        factors.append(float(controller.time_scale_factor(memory)))
        taken.append(bool(controller.fallback(memory)))
    # What is said is what is done.
    assert np.array_equal(taken, np.maximum.accumulate(errors) > controller.error_limit)
    return np.array(commands), np.array(factors)


def test_clock_slows_down_with_the_error_and_stays_slow():
    commands, factors = fly(guarded(), [0.05, 0.14, 0.21, 0.10, 0.40, 0.0])
    assert factors[0] == factors[1] == 1.0
    assert 1.0 < factors[2] < factors[4]
    assert factors[3] == factors[2]  # latched
    assert factors[5] == factors[4] > 2.0
    # The last good policy takes over only beyond its own limit.
    assert np.all(commands[:, 0] > COMMAND_HOVER[0])


def test_last_good_policy_takes_over_for_the_rest_of_the_flight():
    commands, _ = fly(guarded(), [0.1, 0.6, 0.1])
    assert commands[0, 0] > COMMAND_HOVER[0]
    assert np.all(commands[1:, 0] < COMMAND_HOVER[0])


def test_dither_has_the_stated_size_and_keeps_to_the_limits():
    commands, _ = fly(guarded(dither=1.0), [0.0] * 400)
    clean, _ = fly(guarded(), [0.0])
    spread = (commands - clean).std(axis=0)
    np.testing.assert_allclose(spread, DITHER, rtol=0.15)
    wild, _ = fly(guarded(dither=100.0), [0.0] * 50)
    assert np.all(wild >= LIMITS.low) and np.all(wild <= LIMITS.high)
    assert np.any(wild == LIMITS.high)


def test_what_counts_as_a_surprise_follows_the_prediction():
    for predicted, limit in ((0.0, 0.15), (0.1, 0.17), (0.5, 0.40), (np.nan, 0.40)):
        assert float(surprising_departure(jnp.float32(predicted))) == pytest.approx(limit)


def test_where_the_vehicle_is_going_counts_and_not_only_where_it_is():
    factors = []
    for velocity in (0.0, 2.0, -2.0):
        controller = guarded(slow_from=0.25)
        there, wanted = sensed(0.1, velocity), references(len(PREVIEW_S))
        memory, _ = controller(controller.start(), there, wanted)
        factors.append(float(controller.time_scale_factor(memory)))
    assert factors[0] == factors[2] == 1.0  # coming back: 0.1 - 0.15 s x 2 m/s is near
    assert factors[1] > 2.0  # 0.4 m in a moment


def test_each_moment_of_the_start_has_its_own_limit():
    assert [int(window(x * WINDOW_S)) for x in (0.0, 1.01, 9.5, 10.5, 99.0)] == [0, 1, 9, 10, 10]
    limits = jnp.linspace(0.1, 0.4, WINDOWS)
    controller = guarded()._replace(slow_from=limits)
    for tick, slow in ((0, True), (40, True), (100, False)):
        memory = controller.start()._replace(tick=jnp.int32(tick))
        memory, _ = controller(memory, sensed(0.3), references(len(PREVIEW_S)))
        assert (float(controller.time_scale_factor(memory)) > 1.0) == slow


def test_any_controller_can_be_guarded():
    classical = jax.tree.map(jnp.asarray, geometric_controller(LIMITS))
    controller = Guarded(
        classical, classical, jnp.float32(0.0), jnp.full(WINDOWS, 0.15), jnp.float32(0.5), KEY
    )
    memory = controller.start()
    plain = classical.start()
    for error in (0.05, 0.3, 0.0):
        memory, command = controller(memory, sensed(error), references(2))
        plain, expected = classical(plain, sensed(error), references(2))
        np.testing.assert_allclose(command, expected, atol=1e-6)
    assert float(controller.time_scale_factor(memory)) > 2.0


@pytest.mark.parametrize(
    ("rule", "on"),
    [(Verified(), True), (Hold(), True), (Paper(), False), (Paper(guarded=1.0), True),
     (SpeedLimit(Paper(), 0.4), True)],
)  # fmt: skip
def test_a_rule_may_do_without_the_guard_but_on_a_drone(rule, on):
    """Of `Verified` and `Hold`, too: a rule that says nothing is guarded."""
    state = loop.start(load_task("figure8"), policy(0.5), 0)
    state = state._replace(last_good=policy(-0.5), pace=Pace(0.5, 0.02, jnp.full(WINDOWS, 0.02)))
    controller = loop._guarded(jnp.float32(0.0), (state, rule))
    memory, thrusts = controller.start(), []
    for error in (0.1, 0.45, 1.9, 0.1):
        memory, command = controller(memory, sensed(error), references(len(PREVIEW_S)))
        thrusts.append(float(command[0]))
    assert bool(controller.fallback(memory)) == on
    assert (thrusts[-1] < COMMAND_HOVER[0]) == on
    assert float(controller.time_scale_factor(memory)) == (3.0 if on else 1.0)


def test_one_program_serves_guarded_and_free_flights():
    state = loop.start(load_task("figure8"), policy(0.5), 0)
    rules = jax.tree.map(lambda *x: jnp.stack(x), Paper(), Paper(guarded=1.0))
    made = jax.vmap(lambda rule: loop._guarded(jnp.float32(0.0), (state, rule)))(rules)
    np.testing.assert_array_equal(np.isfinite(made.slow_from).all(axis=1), [False, True])
    np.testing.assert_array_equal(np.isfinite(made.error_limit), [False, True])
