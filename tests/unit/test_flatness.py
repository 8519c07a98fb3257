"""The reference state against finite differences in float64."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lafr_mjx import so3
from lafr_mjx.reference import clock as clocks
from lafr_mjx.reference import flatness, splines
from lafr_mjx.reference.path import derivatives
from lafr_mjx.types import GRAVITY

POINTS = np.array([[0, 0, 1], [1.5, 0.4, 1.6], [1.0, 2.0, 1.2], [-1.0, 1.2, 2.0], [-1.4, -0.5, 1]])
YAW = np.array([0.0, 1.2, 2.4, 3.9, 5.2])
WINDING = splines.from_waypoints(POINTS, 6.0, periodic=True, yaw=YAW)
LINE = splines.from_waypoints(POINTS, 6.0, periodic=False)
PHASES = np.linspace(0.01, 6.0, 60)

FIELDS = ("position", "velocity", "acceleration", "jerk", "rotation", "rates", "thrust")


def test_hover_is_level_and_still():
    reference = flatness.reference_state(LINE, 0.0)
    np.testing.assert_allclose(reference.rotation, np.eye(3), atol=1e-15)
    np.testing.assert_array_equal(reference.rates, 0.0)
    assert reference.thrust == pytest.approx(GRAVITY)


def test_attitude_carries_the_acceleration_and_the_yaw():
    reference = flatness.reference_state(WINDING, PHASES, 1.5)
    rotation = reference.rotation
    eye = np.broadcast_to(np.eye(3), rotation.shape)
    np.testing.assert_allclose(rotation.swapaxes(-1, -2) @ rotation, eye, atol=1e-12)
    np.testing.assert_allclose(np.linalg.det(rotation), 1.0, atol=1e-12)
    force = reference.thrust[:, None] * rotation[..., 2] - np.array([0.0, 0.0, GRAVITY])
    np.testing.assert_allclose(force, reference.acceleration, atol=1e-12)
    # The body's x axis has no part along the horizontal axis left of the heading.
    yaw = derivatives(WINDING, PHASES)[:, 0, 3]
    left = np.column_stack([-np.sin(yaw), np.cos(yaw), np.zeros_like(yaw)])
    np.testing.assert_allclose(np.sum(rotation[..., 0] * left, axis=1), 0.0, atol=1e-12)
    ahead = np.column_stack([np.cos(yaw), np.sin(yaw), np.zeros_like(yaw)])
    assert np.all(np.sum(rotation[..., 0] * ahead, axis=1) > 0.0)


@pytest.mark.parametrize("rate", [0.5, 1.0, 2.0])
def test_rates_agree_with_differences_of_the_attitude(rate):
    step = 1e-5
    ahead = flatness.reference_state(WINDING, PHASES + rate * step, rate).rotation
    behind = flatness.reference_state(WINDING, PHASES - rate * step, rate).rotation
    turned = so3.log(behind.swapaxes(-1, -2) @ ahead) / (2.0 * step)
    found = flatness.reference_state(WINDING, PHASES, rate).rates
    np.testing.assert_allclose(found, turned, atol=1e-6 * np.abs(found).max())


@pytest.mark.parametrize(("path", "ramp_s"), [(WINDING, 1.5), (LINE, 0.0)])
def test_derivatives_in_time_while_the_time_scale_changes(path, ramp_s):
    """Velocity, acceleration, jerk and rates are those of the motion that the clock makes."""
    clock, step = clocks.start(1.2, ramp_s), 1e-4
    for tick in range(200):
        clock = clocks.with_time_scale(clock, {0: 1.2, 1: 0.6, 2: 1.0}[tick // 70])
        clock = clocks.advance(clock, 0.02)
        if tick % 9 or tick % 70 == 69:
            continue
        now = flatness.reference_at(path, clock)
        ahead = flatness.reference_at(path, clock, step)
        behind = flatness.reference_at(path, clock, -step)
        for lower, higher in (("position", 1), ("velocity", 2), ("acceleration", 3)):
            slope = (getattr(ahead, lower) - getattr(behind, lower)) / (2.0 * step)
            np.testing.assert_allclose(slope, now[higher], rtol=2e-5, atol=2e-5)
        turned = so3.log(behind.rotation.T @ ahead.rotation) / (2.0 * step)
        np.testing.assert_allclose(turned, now.rates, atol=1e-5)


@pytest.mark.parametrize("path", [WINDING, LINE])
def test_time_scale_derivative_agrees_with_differences(path):
    elapsed, start, step = np.linspace(0.0, 2.5, 26), 0.7, 1e-5
    for time_scale in (0.6, 1.0, 1.7):

        def reference(scale, elapsed=elapsed):
            return flatness.reference_state(path, start + elapsed / scale, 1.0 / scale)

        found = flatness.time_scale_derivative(path, start, elapsed, time_scale)
        ahead, behind = reference(time_scale + step), reference(time_scale - step)
        for name in FIELDS:
            difference = (getattr(ahead, name) - getattr(behind, name)) / (2.0 * step)
            size = np.abs(difference).max()
            np.testing.assert_allclose(
                getattr(found, name) / size, difference / size, atol=1e-6, err_msg=name
            )
        # dR/dα is a tangent: Rᵀ dR is skew-symmetric.
        turn = reference(time_scale).rotation.swapaxes(-1, -2) @ found.rotation
        np.testing.assert_allclose(turn, -turn.swapaxes(-1, -2), atol=1e-11)


def test_time_scale_derivative_beyond_the_end_is_zero():
    for field in flatness.time_scale_derivative(LINE, 5.0, 3.0, 1.0):
        np.testing.assert_array_equal(field, 0.0)


def test_compiled_batches_agree_with_numpy_and_with_forward_mode():
    start, elapsed = np.linspace(0.0, 5.0, 8), np.linspace(0.0, 2.0, 8)
    scale = np.linspace(0.6, 1.4, 8)
    exact = flatness.time_scale_derivative(WINDING, start, elapsed, scale)

    @jax.jit
    def both(start, elapsed, scale):
        closed = flatness.time_scale_derivative(WINDING, start, elapsed, scale)
        forward = jax.jvp(
            lambda a: flatness.reference_state(WINDING, start + elapsed / a, 1.0 / a),
            (scale,),
            (jnp.ones_like(scale),),
        )[1]
        return closed, forward

    for found in both(*(x.astype(np.float32) for x in (start, elapsed, scale))):
        for name in FIELDS:
            expected = getattr(exact, name)
            assert getattr(found, name).shape == expected.shape
            size = np.abs(expected).max()
            np.testing.assert_allclose(
                getattr(found, name) / size, expected / size, atol=1e-4, err_msg=name
            )


def test_reference_of_a_batch_of_clocks():
    scale = np.linspace(0.5, 2.0, 5)
    clock = clocks.advance(clocks.start(scale), 2.0)
    exact = flatness.reference_at(WINDING, clock, 0.05)
    assert exact.rotation.shape == (5, 3, 3)
    on_jax = jax.jit(flatness.reference_at)(WINDING, clock, 0.05)
    for name in FIELDS:
        assert getattr(on_jax, name).dtype == jnp.float32
        np.testing.assert_allclose(
            getattr(on_jax, name), getattr(exact, name), rtol=2e-4, atol=2e-4, err_msg=name
        )
