"""Predictions of whole flights."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lafr_mjx import mlp
from lafr_mjx.control.network_mlp import Mlp
from lafr_mjx.control.observation import SIZE
from lafr_mjx.control.policy import Policy
from lafr_mjx.learner import verify
from lafr_mjx.learner.model_rollout import SensorNoise, StressScale
from lafr_mjx.model import residual
from lafr_mjx.model.residual import Switches
from lafr_mjx.reference import splines
from lafr_mjx.types import CommandLimits

LIMITS = CommandLimits(
    np.array([0.0, -6, -6, -6], np.float32), np.array([25.0, 6, 6, 6], np.float32)
)
RNG = np.random.default_rng(0)
# Compile fast rather than well: these programs run for milliseconds.
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def floats(tree):
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), tree)


NOMINAL = floats(Switches(acceleration=0.0, rates=0.0))
MEMBER = floats(residual.create(RNG, hidden=8))
ENSEMBLE = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), MEMBER)
HOVERING = floats(Policy(Mlp(mlp.create(RNG, (SIZE, 8, 8, 4), last_scale=0.0)), LIMITS))


def always(bias):
    *layers, last = HOVERING.network.layers
    return HOVERING._replace(network=Mlp((*layers, last._replace(bias=bias))))


def circle(radius, lap_s=4.0):
    zero = np.zeros((1, 3))
    sine, cosine = zero.copy(), zero.copy()
    sine[0, 0], cosine[0, 1] = radius, radius
    return floats(splines.from_harmonics([0, 0, 1.0], sine, cosine, lap_s))


QUIET = floats(StressScale(0.0, 0.0, 0.0, 0.0, SensorNoise(0.0, 0.0, 0.0)))
SCALES = jnp.array([1.0, 1.5])


@pytest.fixture(scope="module")
def predict():
    function = jax.jit(verify.predict, compiler_options=QUICK)
    return lambda policy, ensemble, path, scale=QUIET, scales=SCALES: function(
        policy, ensemble, NOMINAL, path, scales, jnp.float32(0.2), scale, jax.random.key(0)
    )


def test_hover_on_a_point_has_no_error(predict):
    found = predict(HOVERING, ENSEMBLE, circle(1e-6))
    np.testing.assert_array_equal(found.time_scale, SCALES)
    for field in (found.nominal_error, found.disagreement, found.stressed_error):
        np.testing.assert_allclose(field, 0.0, atol=1e-4)
    np.testing.assert_array_equal(found.saturation, 0.0)


def test_hover_on_a_circle_is_left_behind_by_its_diameter(predict):
    found = predict(HOVERING, ENSEMBLE, circle(1.0))
    np.testing.assert_allclose(found.nominal_error, 2.0, rtol=1e-3)
    np.testing.assert_allclose(found.stressed_error, found.nominal_error, rtol=1e-5)


def test_a_slow_lap_is_flown_to_its_end(predict):
    """The far side of the circle comes after 10 s, and after 15 s."""
    found = predict(HOVERING, ENSEMBLE, circle(1.0, lap_s=20.0))
    np.testing.assert_allclose(found.nominal_error, 2.0, rtol=1e-3)


def test_a_fast_flight_is_not_longer_beside_a_slow_one(predict):
    """It climbs for its own eight seconds, not for the thirty of its neighbour."""
    climbing = always(jnp.array([0.005, 0.0, 0.0, 0.0]))
    beside = predict(climbing, ENSEMBLE, circle(1e-6, lap_s=20.0), scales=jnp.array([0.1, 1.5]))
    alone = predict(climbing, ENSEMBLE, circle(1e-6, lap_s=20.0), scales=jnp.array([0.1, 0.1]))
    assert 0.1 < alone.nominal_error[0] < 10.0
    assert beside.nominal_error[0] == pytest.approx(float(alone.nominal_error[0]), rel=1e-4)
    assert beside.nominal_error[1] > 2.0 * beside.nominal_error[0]


def test_the_probe_is_faster_by_the_reserve(predict):
    climbing = always(jnp.array([0.005, 0.0, 0.0, 0.0]))
    scales = jnp.array([1.0, 1.0 - verify.RESERVE])
    found = predict(climbing, ENSEMBLE, circle(1.0, lap_s=12.0), scales=scales)
    assert found.probe_error[0] == pytest.approx(float(found.nominal_error[1]), rel=1e-4)
    assert abs(float(found.probe_error[0] / found.nominal_error[0]) - 1.0) > 1e-3


def test_members_fly_in_noise_of_their_own(predict):
    """Two that are the same would agree to the last digit in the same noise."""
    reacting = floats(Policy(Mlp(mlp.create(RNG, (SIZE, 8, 8, 4), last_scale=3e-4)), LIMITS))
    noisy = QUIET._replace(noise=floats(SensorNoise()))
    found = predict(reacting, ENSEMBLE, circle(1e-6), noisy)
    assert np.all(found.nominal_error < 10.0)
    assert np.all(found.disagreement > 1e-6)


def test_stress_makes_it_worse(predict):
    found = predict(HOVERING, ENSEMBLE, circle(1e-6), floats(StressScale()))
    np.testing.assert_allclose(found.nominal_error, 0.0, atol=1e-4)
    assert np.all(found.stressed_error > 0.1)


def test_what_the_model_cannot_explain_moves_it(predict):
    wandering = QUIET._replace(wander=jnp.float32(0.3))
    found = predict(HOVERING, ENSEMBLE, circle(1e-6), wandering)
    assert np.all(found.nominal_error > 0.1)
    assert np.all(found.disagreement > 0.0)


def test_not_a_number_is_ten_metres(predict):
    broken = always(jnp.full(4, jnp.nan, jnp.float32))
    found = predict(broken, ENSEMBLE, circle(1.0))
    np.testing.assert_array_equal(found.nominal_error, 10.0)
    np.testing.assert_array_equal(found.stressed_error, 10.0)


def test_far_away_is_ten_metres_at_most(predict):
    climbing = always(jnp.full(4, 50.0, jnp.float32))
    found = predict(climbing, ENSEMBLE, circle(1.0))
    assert np.all(found.nominal_error <= 10.0)
    np.testing.assert_allclose(found.saturation, 1.0, atol=1e-6)
