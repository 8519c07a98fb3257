"""The fit of the residual: which rows it uses, what it recovers, and the trap of the noise."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lafr_mjx import mlp
from lafr_mjx.model import data, fit_residual, hybrid, residual
from lafr_mjx.model.fit_residual import FitSettings
from lafr_mjx.model.residual import COMMANDS, Switches
from lafr_mjx.model.state import ModelState
from lafr_mjx.types import COMMAND_HOVER, CONTROL_DT, Reference, Rollout, State

TICKS = 600
DRAG = 0.6
DELAY = 2
SWITCHES = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), Switches())
START = jax.tree.map(jnp.asarray, residual.create(np.random.default_rng(5), hidden=24))


def make_rollout(state, commands, **changes):
    ticks = len(commands)
    time = CONTROL_DT * np.arange(ticks)
    zeros = np.zeros((ticks, 3))
    reference = Reference(zeros, zeros, zeros, zeros, state.rotation, zeros, time)
    sensed = State(state.position, state.velocity, state.rotation, zeros)
    everything = {
        "time": time, "valid": np.ones(ticks, bool), "sensed": sensed, "stamp": time - 0.01,
        "command": commands, "reference": reference, "phase": time, "phase_rate": 0.0 * time,
        "time_scale": 0.0 * time + 1.0, "truth": sensed, "crashed": np.zeros(ticks, bool),
        "sample_time": time, "sample": sensed, "sample_received": time > 0.0, "diagnostics": None,
    }  # fmt: skip
    return jax.tree.map(jnp.asarray, Rollout(**(everything | changes)))


@partial(jax.jit, static_argnames="ticks")
def fly(key, excited, ticks=TICKS):
    """A vehicle with linear drag and a delay, flown by a simple law on the model's equations.

    `excited` [3]: amplitude of the demanded acceleration in each direction.
    """
    keys = jax.random.split(key, 2)
    phases = 2.0 * jnp.pi * jax.random.uniform(keys[0], (3, 3))
    tones = jnp.array([1.1, 2.3, 3.7])

    def advance(carry, k):
        state, past = carry
        time = CONTROL_DT * k
        wanted = excited * jnp.mean(jnp.sin(tones * time + phases), axis=1)
        # Come back to the origin, point the thrust where it is wanted.
        wanted = wanted - 1.0 * state.position - 1.2 * state.velocity
        lift = wanted + jnp.array([0.0, 0.0, 9.81])
        body = state.rotation.T @ lift
        rates = 5.0 * jnp.array([-body[1], body[0], 0.0]) / 9.81
        rates = rates.at[2].set(-2.0 * state.rotation[1, 0])
        noise = jax.random.normal(jax.random.fold_in(keys[1], k), (4,))
        dither = jnp.array([0.6, 0.4, 0.4, 0.4]) * jnp.append(excited[2:], excited).clip(0.0, 1.0)
        command = jnp.append(body[2], rates) + dither * noise
        past = jnp.concatenate([command[None], past[:-1]])
        extra = (-DRAG * state.velocity, jnp.zeros(3))
        new = hybrid.held_step(state, past[DELAY], extra, CONTROL_DT)
        return (new, past), (state, command)

    state = ModelState(jnp.zeros(3), jnp.zeros(3), jnp.eye(3))
    past = jnp.tile(COMMAND_HOVER, (COMMANDS, 1))
    return jax.lax.scan(advance, (state, past), jnp.arange(ticks))[1]


# Compile fast rather than well: these programs run for milliseconds.
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}

fit_it = jax.jit(partial(fit_residual.fit, steps=1000, batch=64), compiler_options=QUICK)
LONG = FitSettings(learning_rate=jnp.float32(5e-3), instrumental=jnp.float32(1.0))


def rows_of(excited, velocity_noise=0.0):
    state, commands = fly(jax.random.key(1), jnp.asarray(excited))
    noise = velocity_noise * jax.random.normal(jax.random.key(2), state.velocity.shape)
    return data.transitions(make_rollout(state._replace(velocity=state.velocity + noise), commands))


def damping(member, velocity=(0.0, 0.0, 0.0)):
    """∂a_res/∂v [3, 3] in hover, 1/s."""
    hover = jnp.tile(COMMAND_HOVER, (COMMANDS, 1))

    def acceleration(velocity):
        state = ModelState(jnp.zeros(3), velocity, jnp.eye(3))
        return residual.evaluate(member, SWITCHES, state, hover[0], hover)[0]

    return np.asarray(jax.jacfwd(acceleration)(jnp.asarray(velocity)))


def test_command_windows_are_newest_first():
    commands = jnp.asarray(100.0 + np.arange(10.0)[:, None] * np.ones(4))
    windows = np.asarray(data.command_windows(commands))
    assert windows.shape == (10, COMMANDS, 4)
    np.testing.assert_array_equal(windows[8, :, 2], 108.0 - np.arange(COMMANDS))
    np.testing.assert_array_equal(windows[1, :2, 0], [101.0, 100.0])
    np.testing.assert_array_equal(windows[1, 2:], np.tile(COMMAND_HOVER, (COMMANDS - 2, 1)))


def test_transitions_mark_gaps_and_crashes():
    ticks = 20
    position = np.tile(np.arange(ticks, dtype=float)[:, None], (1, 3))
    state = ModelState(position, 0.1 * position, np.tile(np.eye(3), (ticks, 1, 1)))
    time = CONTROL_DT * np.arange(ticks)
    stamp = time - 0.01
    stamp[6] = stamp[5]  # nothing new had arrived
    position[10] = np.nan
    rollout = make_rollout(
        state, np.arange(ticks)[:, None] * np.ones(4), stamp=stamp, crashed=np.arange(ticks) >= 15,
        valid=np.arange(ticks) < 18,
    )  # fmt: skip
    rows = data.transitions(rollout)
    np.testing.assert_allclose(rows.before.velocity[:, 0], 0.1 * np.arange(18), rtol=1e-6)
    np.testing.assert_allclose(rows.after.velocity[:, 0], 0.1 * np.arange(2, 20), rtol=1e-6)
    np.testing.assert_array_equal(rows.commands[:, 0, 0], np.arange(1, 19))
    np.testing.assert_array_equal(rows.before_commands[:, 0, 0], np.arange(18))
    middle = set(np.flatnonzero(rows.usable) + 1)
    # The samples 5, 6 and 6, 7 are not one interval apart; 10 is not a number; 15 is down.
    assert middle == {1, 2, 3, 4, 8, 12, 13}


def test_what_is_not_usable_never_reaches_the_parameters():
    rows = rows_of((3.0, 3.0, 2.0))
    usable = jnp.arange(rows.usable.shape[0]) % 3 > 0
    clean = rows._replace(usable=usable)

    def spoil(leaf):
        mask = usable.reshape((-1,) + (1,) * (leaf.ndim - 1))
        return jnp.where(mask, leaf, jnp.nan)

    broken = jax.tree.map(spoil, rows._replace(usable=1.0 * usable))._replace(usable=usable)
    given = (START, SWITCHES, LONG)
    one, _ = fit_it(*given, broken, jax.random.key(0))
    other, _ = fit_it(*given, clean, jax.random.key(0))
    jax.tree.map(np.testing.assert_array_equal, one, other)
    # Rows of NaN in every batch: what is left is the penalty, which makes the weights smaller.
    all_broken = jax.tree.map(lambda leaf: jnp.full_like(leaf, jnp.nan), rows)
    none = all_broken._replace(usable=jnp.zeros_like(usable))
    nothing, _ = fit_it(*given, none, jax.random.key(0))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(nothing))
    before, after = START.network.layers[0].weight, nothing.network.layers[0].weight
    assert np.linalg.norm(after, 2) < 0.9 * np.linalg.norm(before, 2)
    np.testing.assert_array_equal(nothing.lag, START.lag)


def test_recovers_drag_and_delay():
    rows = rows_of((4.0, 4.0, 3.0))
    member, _ = fit_it(START, SWITCHES, LONG, rows, jax.random.key(0))
    weights = np.asarray(residual.lag_weights(member, SWITCHES))
    # Measured: within 0.07 1/s and 0.13 ticks.
    np.testing.assert_allclose(np.diag(damping(member)), -DRAG, atol=0.15)
    np.testing.assert_allclose(weights @ np.arange(COMMANDS), DELAY, atol=0.25)
    assert np.all(weights.argmax(axis=1) == DELAY)


def test_noise_trap_and_its_cure():
    """On an axis that does not move, the noise of the velocity looks like damping."""
    rows = rows_of((4.0, 0.0, 0.0), velocity_noise=0.05)
    plain, _ = fit_it(
        START, SWITCHES, LONG._replace(instrumental=jnp.float32(0.0)), rows, jax.random.key(0)
    )
    cured, _ = fit_it(START, SWITCHES, LONG, rows, jax.random.key(0))
    false, true = np.diag(damping(plain)), np.diag(damping(cured))
    # Measured: -26 and -46 1/s without the cure, within 0.2 of the truth, 0, with it.
    assert np.all(false[1:] < -5.0), false
    assert np.all(np.abs(true[1:]) < 1.0), true
    # The axis that moves is found either way, by the cured fit better.
    assert true[0] == pytest.approx(-DRAG, abs=0.15)
    assert abs(true[0] + DRAG) < abs(false[0] + DRAG)


def test_spectral_norms():
    layers = mlp.create(np.random.default_rng(7), (50, 64, 64, 6), last_scale=1.0)
    expected = sum(np.linalg.norm(layer.weight, 2) for layer in layers)
    layers = jax.tree.map(jnp.asarray, layers)
    norms = jax.jit(
        fit_residual.spectral_norms, static_argnames="iterations", compiler_options=QUICK
    )
    assert norms(layers, iterations=30) == pytest.approx(expected, rel=0.01)
    # With few iterations it is a lower bound.
    assert 0.8 * expected < norms(layers) <= expected * 1.0001


def test_members_disagree_where_few_rows_speak():
    """On rows that contradict each other, bootstrapped members weigh them differently."""
    rows = rows_of((3.0, 3.0, 2.0))
    # Every second half second another wind blows.
    gust = jnp.where((jnp.arange(rows.usable.shape[0]) // 25) % 2 == 0, 1.0, -1.0)[:, None]
    push = CONTROL_DT * gust * jnp.array([2.0, 0.0, 0.0])
    rows = rows._replace(after=rows.after._replace(velocity=rows.after.velocity + push))
    short = jax.jit(
        jax.vmap(
            partial(fit_residual.fit, steps=200, batch=64), in_axes=(None, None, None, None, 0)
        ),
        compiler_options=QUICK,
    )

    def spread(bootstrap):
        settings = LONG._replace(bootstrap=jnp.float32(bootstrap))
        members, _ = short(START, SWITCHES, settings, rows, jax.random.split(jax.random.key(3), 6))
        hover = jnp.tile(COMMAND_HOVER, (COMMANDS, 1))
        still = ModelState(jnp.zeros(3), jnp.zeros(3), jnp.eye(3))
        pushed = [
            residual.evaluate(
                jax.tree.map(lambda leaf, i=i: leaf[i], members), SWITCHES, still, hover[0], hover
            )[0][0]
            for i in range(6)
        ]
        return float(np.std(pushed))

    assert spread(1.0) > 1.5 * spread(0.0)
