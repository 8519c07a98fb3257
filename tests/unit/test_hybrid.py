"""The hybrid dynamics: order of the integration, the manifold, closed forms, gradients."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lafr_mjx import so3
from lafr_mjx.model import hybrid
from lafr_mjx.model.state import ModelState
from lafr_mjx.types import CONTROL_DT, GRAVITY

COMMAND = np.array([13.0, 2.5, -3.0, 1.5])
DRAG = np.array([0.6, 0.9, 0.4])
START = ModelState(
    np.array([0.3, -0.2, 1.0]), np.array([1.5, -2.0, 0.7]), so3.exp(np.array([0.4, -0.3, 0.8]))
)
# Compile fast rather than well: these programs run for milliseconds.
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def a_start(dtype: Any = np.float64):
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), START)


def smooth(state):
    """A residual that depends on all of the state: drag in the body, and a twist with it."""
    body = jnp.einsum("...ji,...j->...i", state.rotation, state.velocity)
    drag = -jnp.einsum("...ij,...j->...i", state.rotation, DRAG * body)
    return drag + 0.3 * jnp.sin(state.position), 0.8 * jnp.cos(body) + 0.2 * state.position


def fine_solution(duration, steps):
    """The same equations in NumPy, with the rotation as nine numbers and tiny steps."""
    y = np.concatenate([leaf.ravel() for leaf in START])

    def slope(y):
        p, v, r = y[:3], y[3:6], y[6:].reshape(3, 3)
        body = r.T @ v
        acceleration = COMMAND[0] * r[:, 2] - r @ (DRAG * body) + 0.3 * np.sin(p)
        acceleration[2] -= GRAVITY
        spin = COMMAND[1:] + 0.8 * np.cos(body) + 0.2 * p
        return np.concatenate([v, acceleration, (r @ so3.hat(spin)).ravel()])

    h = duration / steps
    for _ in range(steps):
        k1 = slope(y)
        k2 = slope(y + 0.5 * h * k1)
        k3 = slope(y + 0.5 * h * k2)
        y = y + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + slope(y + h * k3))
    return y


def test_convergence_is_of_fourth_order():
    """In double precision, without touching the switch for the other tests."""
    exact = fine_solution(0.4, 2000)
    with jax.enable_x64():
        command = jnp.asarray(COMMAND)

        @partial(jax.jit, compiler_options=QUICK)
        def fly(state, steps):
            def advance(_, states):
                staged, held = states
                return (
                    hybrid.step(staged, command, smooth, 0.4 / steps),
                    hybrid.step(held, command, smooth, 0.4 / steps, hold=True),
                )

            return jax.lax.fori_loop(0, steps, advance, (state, state))

        ends = [jax.tree.map(np.asarray, fly(a_start(), steps)) for steps in (8, 16, 32, 64)]
    flat = np.array([[np.concatenate([x.ravel() for x in end]) for end in both] for both in ends])
    errors = np.linalg.norm(flat - exact, axis=-1)  # [steps, staged or held]
    staged, held = np.log2(errors[:-1] / errors[1:]).T
    assert 3.8 < staged[-1] < 4.2, staged
    assert errors[-1, 0] < 1e-7
    # Held over a step, the residual is of first order, and so is the flight.
    assert 0.8 < held[-1] < 1.3, held


def test_held_differs_from_staged_by_the_square_of_the_step():
    with jax.enable_x64():
        command = jnp.asarray(COMMAND)
        gaps = []
        for dt in (0.04, 0.02, 0.01, 0.005):
            staged = hybrid.step(a_start(), command, smooth, dt)
            held = hybrid.step(a_start(), command, smooth, dt, hold=True)
            gaps.append(np.linalg.norm(staged.velocity - held.velocity))
    orders = np.log2(np.array(gaps[:-1]) / np.array(gaps[1:]))
    np.testing.assert_allclose(orders, 2.0, atol=0.15)


@pytest.mark.parametrize(
    ("double", "steps", "allowed"),
    # Each step is straightened: rounding does not add up, not even in single precision.
    [(True, 10_000, 1e-12), (False, 400, 1e-6), (False, 10_000, 1e-6)],
)
def test_rotation_stays_a_rotation(double, steps, allowed):
    with jax.enable_x64(double):
        start = a_start(np.float64 if double else np.float32)
        command = jnp.asarray(COMMAND, start.position.dtype)

        @partial(jax.jit, compiler_options=QUICK)
        def fly(state, steps):
            def advance(_, state):
                new = hybrid.step(state, command, smooth, CONTROL_DT)
                # Only the attitude is watched: the rest would fly away.
                return ModelState(state.position, state.velocity, new.rotation)

            return jax.lax.fori_loop(0, steps, advance, state)

        rotation = np.asarray(fly(start, steps).rotation, np.float64)
    assert np.abs(rotation.T @ rotation - np.eye(3)).max() < allowed
    assert np.linalg.det(rotation) == pytest.approx(1.0, abs=allowed)


def test_held_step_equals_step_with_hold():
    rng = np.random.default_rng(0)
    count = 64
    state = ModelState(
        rng.normal(0.0, 2.0, (count, 3)),
        rng.normal(0.0, 4.0, (count, 3)),
        so3.exp(rng.normal(0.0, 1.0, (count, 3))),
    )
    state = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), state)
    command = jnp.asarray(np.array([9.81, 0, 0, 0]) + rng.normal(0.0, 4.0, (count, 4)), jnp.float32)

    @partial(jax.jit, compiler_options=QUICK)
    def both(state, command):
        staged = hybrid.step(state, command, smooth, CONTROL_DT, hold=True)
        return staged, hybrid.held_step(state, command, smooth(state), CONTROL_DT)

    staged, held = both(state, command)
    for one, other in zip(staged, held, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5)


@pytest.mark.parametrize("form", ["staged", "held"])
def test_free_fall_and_hover(form):
    def advance(state, command):
        if form == "staged":
            return hybrid.step(state, command, lambda state: (0.0, 0.0), CONTROL_DT)
        return hybrid.held_step(state, command, (jnp.zeros(3), jnp.zeros(3)), CONTROL_DT)

    start = ModelState(jnp.array([1.0, 2.0, 3.0]), jnp.array([0.5, 0.0, 2.0]), jnp.eye(3))
    fly = jax.jit(
        lambda state, command: jax.lax.fori_loop(0, 50, lambda _, s: advance(s, command), state)
    )
    fallen = fly(start, jnp.zeros(4))
    np.testing.assert_allclose(fallen.position, [1.5, 2.0, 3.0 + 2.0 - 0.5 * GRAVITY], atol=1e-4)
    np.testing.assert_allclose(fallen.velocity, [0.5, 0.0, 2.0 - GRAVITY], atol=1e-4)
    still = start._replace(velocity=jnp.zeros(3))
    hovering = fly(still, jnp.array([GRAVITY, 0.0, 0.0, 0.0]))
    for one, other in zip(hovering, still, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    # A constant rate turns by its integral.
    turned = fly(still, jnp.array([GRAVITY, 0.0, 0.0, 1.2]))
    np.testing.assert_allclose(turned.rotation, so3.exp(np.array([0.0, 0.0, 1.2])), atol=1e-5)
    np.testing.assert_allclose(turned.position, still.position, atol=1e-5)


def test_gradients_of_a_flight_against_differences():
    with jax.enable_x64():

        def distance(command, push):
            def residual(state):
                acceleration, rates = smooth(state)
                return acceleration + push, rates

            def advance(state, _):
                return hybrid.step(state, command, residual, CONTROL_DT), None

            end = jax.lax.scan(advance, a_start(), None, length=12)[0]
            weights = jnp.arange(9.0).reshape(3, 3)
            return (
                jnp.sum(end.position**2)
                + end.velocity @ end.position
                + jnp.sum(weights * end.rotation)
            )

        arguments = (jnp.asarray(COMMAND), jnp.array([0.1, -0.2, 0.3]))
        both = jax.jit(jax.value_and_grad(distance, (0, 1)), compiler_options=QUICK)
        gradients = both(*arguments)[1]
        step = 1e-5
        for which, gradient in enumerate(gradients):
            for i in range(len(gradient)):
                ends = []
                for sign in (1.0, -1.0):
                    moved = list(arguments)
                    moved[which] = moved[which].at[i].add(sign * step)
                    ends.append(float(both(*moved)[0]))
                slope = (ends[0] - ends[1]) / (2.0 * step)
                assert float(gradient[i]) == pytest.approx(slope, rel=1e-5, abs=1e-7)
