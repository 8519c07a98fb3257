"""Rotations: round trips, an independent oracle, gradients, and both array libraries."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import jaxlie
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lafr_mjx import so3

RNG = np.random.default_rng(7)
SCALES = (0.0, 1e-9, 1e-5, 0.009, 0.0101, 0.5, 2.0, 3.0, np.pi - 1e-3, np.pi - 1e-6)


def directions(count):
    return so3.normalise(RNG.normal(size=(count, 3)))


def rotation_vectors():
    """All angles of interest along axes and random directions."""
    axes = np.vstack([np.eye(3), -np.eye(3), directions(40)])
    return np.concatenate([scale * axes for scale in SCALES])


angles = st.floats(0.0, np.pi - 1e-4)
components = st.floats(-1.0, 1.0)
vectors = st.tuples(components, components, components).filter(lambda v: np.linalg.norm(v) > 1e-3)


def test_exp_and_log_agree_with_jaxlie():
    vectors = rotation_vectors().astype(np.float32)
    oracle = jax.vmap(jaxlie.SO3.exp)(vectors)
    np.testing.assert_allclose(
        so3.exp(vectors), jax.vmap(lambda q: q.as_matrix())(oracle), atol=1e-6
    )
    np.testing.assert_allclose(so3.exp_quaternion(vectors), oracle.wxyz, atol=1e-6)
    # Near half a turn a float32 matrix cannot tell an axis from its opposite.
    clear = np.linalg.norm(vectors, axis=-1) < np.pi - 1e-2
    expected = jax.vmap(lambda q: q.log())(oracle)[clear]
    found = so3.log(jax.vmap(lambda q: q.as_matrix())(oracle))[clear]
    np.testing.assert_allclose(found, expected, atol=2e-5)


def test_log_inverts_exp_everywhere():
    vectors = rotation_vectors()
    np.testing.assert_allclose(so3.log(so3.exp(vectors)), vectors, atol=1e-8)


def test_a_single_matrix_has_the_logarithm_of_a_batch():
    """One matrix of NumPy's goes by plain numbers."""
    vectors = np.vstack([rotation_vectors(), np.pi * directions(100)])
    rotations = so3.exp(vectors)
    single = np.array([so3.log(rotation) for rotation in rotations])
    # At half a turn the axis may point either way: compare the rotations there.
    np.testing.assert_allclose(so3.exp(single), rotations, atol=1e-7)
    clear = np.linalg.norm(vectors, axis=-1) < np.pi - 1e-4
    np.testing.assert_allclose(single[clear], so3.log(rotations)[clear], atol=1e-8)


def test_half_turns_keep_their_angle():
    rotation = so3.exp(np.pi * directions(200))
    vector = so3.log(rotation)
    np.testing.assert_allclose(np.linalg.norm(vector, axis=-1), np.pi, atol=1e-7)
    np.testing.assert_allclose(so3.exp(vector), rotation, atol=1e-7)


@settings(max_examples=200, deadline=None)
@given(vectors, angles)
def test_exp_is_a_rotation_and_round_trips(direction, angle):
    vector = angle * so3.normalise(np.array(direction))
    rotation = so3.exp(vector)
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(3), atol=1e-12)
    assert np.linalg.det(rotation) == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(so3.log(rotation), vector, atol=1e-8)
    quaternion = so3.matrix_to_quaternion(rotation)
    assert quaternion[0] >= 0.0
    assert np.linalg.norm(quaternion) == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(so3.quaternion_to_matrix(quaternion), rotation, atol=1e-12)
    np.testing.assert_allclose(so3.exp(-vector), rotation.T, atol=1e-12)


@settings(max_examples=100, deadline=None)
@given(vectors, angles, vectors, angles)
def test_product_of_quaternions_is_product_of_matrices(first, angle, second, other_angle):
    left = so3.exp_quaternion(angle * so3.normalise(np.array(first)))
    right = so3.exp_quaternion(other_angle * so3.normalise(np.array(second)))
    product = so3.quaternion_to_matrix(so3.multiply(left, right))
    expected = so3.quaternion_to_matrix(left) @ so3.quaternion_to_matrix(right)
    np.testing.assert_allclose(product, expected, atol=1e-12)


@settings(max_examples=50, deadline=None)
@given(vectors, vectors)
def test_hat_is_the_cross_product_and_vee_its_inverse(a, b):
    a, b = np.array(a), np.array(b)
    np.testing.assert_allclose(so3.hat(a) @ b, np.cross(a, b), atol=1e-14)
    np.testing.assert_array_equal(so3.vee(so3.hat(a)), a)


def test_quaternions_with_every_sign_give_the_same_rotation_vector():
    quaternion = so3.exp_quaternion(rotation_vectors())
    np.testing.assert_allclose(
        so3.log_quaternion(-quaternion), so3.log_quaternion(quaternion), atol=1e-12
    )


def test_gradients_are_finite_and_right():
    vectors = jnp.asarray(rotation_vectors(), dtype=jnp.float32)
    exp_jacobian = jax.jit(jax.vmap(jax.jacfwd(so3.exp)))(vectors)
    assert jnp.isfinite(exp_jacobian).all()
    round_trip = jax.jit(jax.vmap(jax.jacrev(lambda v: so3.log(so3.exp(v)))))(vectors)
    assert jnp.isfinite(round_trip).all()
    clear = jnp.linalg.norm(vectors, axis=-1) < 3.05
    np.testing.assert_allclose(
        round_trip[clear], np.broadcast_to(np.eye(3), round_trip[clear].shape), atol=2e-4
    )
    # At the identity the differential of exp is the hat map.
    generators = np.stack([so3.hat(axis) for axis in np.eye(3)], axis=-1)
    np.testing.assert_allclose(exp_jacobian[0], generators, atol=1e-6)
    assert jnp.isfinite(jax.jacrev(so3.log)(jnp.eye(3))).all()
    half_turn = jnp.diag(jnp.array([1.0, -1.0, -1.0]))
    assert jnp.isfinite(jax.jacrev(so3.log)(half_turn)).all()


def test_numpy_and_jax_faces_agree_and_batch():
    vectors = RNG.normal(size=(2, 5, 3))
    rotation = so3.exp(vectors)
    assert isinstance(rotation, np.ndarray)
    assert rotation.dtype == np.float64
    assert rotation.shape == (2, 5, 3, 3)
    on_jax = jax.jit(so3.exp)(vectors)
    assert on_jax.dtype == jnp.float32
    np.testing.assert_allclose(on_jax, rotation, atol=1e-6)
    np.testing.assert_allclose(jax.jit(so3.log)(rotation), so3.log(rotation), atol=2e-6)
    for i in np.ndindex(2, 5):
        np.testing.assert_allclose(so3.log(rotation[i]), so3.log(rotation)[i], atol=1e-15)
