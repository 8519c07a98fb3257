"""The printed ATS: its gradient against differences of the linearised counterfactual."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lafr_mjx import mlp, so3
from lafr_mjx.control.network_mlp import Mlp
from lafr_mjx.control.observation import HISTORY, PREVIEW_S, SIZE, observe
from lafr_mjx.control.policy import Policy, act
from lafr_mjx.learner import ats_paper
from lafr_mjx.learner.ats_paper import Paper, Windows
from lafr_mjx.learner.time_scaling import LastFlight, Pace
from lafr_mjx.model import fit_residual, residual
from lafr_mjx.model.residual import COMMANDS, Residual, Switches
from lafr_mjx.model.residual_default import Default
from lafr_mjx.model.state import ModelState
from lafr_mjx.reference import splines
from lafr_mjx.reference.flatness import reference_state
from lafr_mjx.types import COMMAND_HOVER, CONTROL_DT, CommandLimits, Reference, Rollout, State

PATH = splines.from_harmonics([0, 0, 1.5], [[2.0, 0, 0], [0, 1.0, 0.2]], np.zeros((2, 3)), 4.0)
SCALE = 0.8
WINDOWS, H = 3, 10
SETTINGS, THRESHOLD = Paper(safe_weight=0.4, sharpness=12.0), 0.3
SWITCHES = Switches(position=1.0, history=1.0)
# Compile fast rather than well: these programs run for milliseconds.
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def floats(tree):
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), tree)


@pytest.fixture(scope="module")
def setup():
    rng = np.random.default_rng(3)
    low, high = np.array([0.0, -6, -6, -6]), np.array([25.0, 6, 6, 6])
    policy = Policy(
        Mlp(mlp.create(rng, (SIZE, 24, 24, 4), last_scale=0.6)), CommandLimits(low, high)
    )
    made = residual.create(rng, hidden=16)
    *layers, last = made.network.layers
    layers = (*layers, last._replace(weight=60.0 * last.weight))
    member = Residual(Default(layers), made.lag + rng.normal(0.0, 0.5, made.lag.shape))
    elapsed = np.tile(CONTROL_DT * np.arange(H), (WINDOWS, 1))
    phase = np.array([0.3, 1.7, 3.9])[:, None] + elapsed / SCALE
    ideal = reference_state(PATH, phase, 1.0 / SCALE + 0.0 * phase)
    state = ModelState(
        ideal.position + rng.normal(0.0, 0.15, (WINDOWS, H, 3)),
        ideal.velocity + rng.normal(0.0, 0.3, (WINDOWS, H, 3)),
        ideal.rotation @ so3.exp(rng.normal(0.0, 0.1, (WINDOWS, H, 3))),
    )
    commands = COMMAND_HOVER + rng.normal(0.0, 1.0, (WINDOWS, H, COMMANDS, 4))
    flown = Windows(state, commands, phase, elapsed, np.ones((WINDOWS, H), bool))
    given = floats((policy, member, SWITCHES, PATH, flown._replace(usable=0.0)))
    return (*given[:4], given[4]._replace(usable=jnp.ones((WINDOWS, H), bool)))


@pytest.fixture(scope="module")
def potential_gradient():
    return jax.jit(ats_paper.potential_gradient, compiler_options=QUICK)


@pytest.fixture(scope="module")
def jacobians(setup):
    """A and B of the model and ∂u of the policy in minimal coordinates, by `jacfwd`."""
    policy, member, switches, _, _ = setup

    def raised(state, move):
        return ModelState(
            state.position + move[:3],
            state.velocity + move[3:6],
            state.rotation @ so3.exp(move[6:]),
        )

    def model(state, commands):
        base = fit_residual.one_step(member, switches, state, commands)

        def local(move, change):
            new = fit_residual.one_step(member, switches, raised(state, move), commands + change)
            turn = so3.log(base.rotation.T @ new.rotation)
            return jnp.concatenate([new.position, new.velocity, turn])

        return jax.jacfwd(local, (0, 1))(jnp.zeros(9), jnp.zeros((COMMANDS, 4)))

    def control(state, commands, wanted, d_wanted):
        def local(move, history, share):
            references = jax.tree.map(lambda a, b: a + share * b, wanted, d_wanted)
            return act(policy, observe(*raised(state, move), references, history))

        return jax.jacfwd(local, (0, 1, 2))(jnp.zeros(9), commands[1 : HISTORY + 1], 0.0)

    def both(state, commands, wanted, d_wanted):
        return model(state, commands), control(state, commands, wanted, d_wanted)

    return jax.jit(jax.vmap(both), compiler_options=QUICK)


def references_at(flown, scale):
    """References [..., P] of a whole window at a time scale, in float64."""
    start = flown.phase - flown.elapsed / SCALE
    moments = flown.elapsed[..., None] + np.asarray(PREVIEW_S)
    phase = start[..., None] + moments / scale
    return reference_state(PATH, phase, np.full(phase.shape, 1.0 / scale))


def counterfactual(setup, jacobians, window):
    """Sensitivity [H, 3] of the position, propagated with explicit matrices in float64."""
    flown = setup[4]
    one = jax.tree.map(lambda leaf: np.asarray(leaf[window], np.float64), flown)
    step = 1e-5
    ends = references_at(one, SCALE + step), references_at(one, SCALE - step)
    d_wanted = jax.tree.map(lambda a, b: (a - b) / (2.0 * step), *ends)
    given = (one.state, one.commands, references_at(one, SCALE), d_wanted)
    (a, b), (pi_x, pi_h, pi_scale) = jax.tree.map(np.float64, jacobians(*floats(given)))
    sensitivity, past = np.zeros(9), np.zeros((COMMANDS, 4))
    rows = []
    for k in range(H):
        rows.append(sensitivity[:3])
        change = pi_x[k] @ sensitivity + pi_scale[k]
        change = change + np.einsum("ijk,jk->i", pi_h[k], past[:HISTORY])
        past = np.vstack([change, past[:-1]])
        sensitivity = a[k] @ sensitivity + np.einsum("ijk,jk->i", b[k], past)
    return np.array(rows)


def test_gradient_is_that_of_the_linearised_counterfactual(setup, potential_gradient, jacobians):
    found = potential_gradient(*setup, SCALE, THRESHOLD, SETTINGS)
    flown = jax.tree.map(np.float64, setup[4])
    slopes = np.stack([counterfactual(setup, jacobians, w) for w in range(WINDOWS)])

    def errors(scale):
        position = flown.state.position + slopes * (scale - SCALE)
        asked = references_at(flown, scale).position[..., 0, :]
        return np.linalg.norm(position - asked, axis=-1)

    def value(scale):
        excess = SETTINGS.sharpness * (errors(scale) - THRESHOLD)
        barrier = np.logaddexp(0.0, excess).sum() / SETTINGS.sharpness
        return SETTINGS.speed_weight * scale + SETTINGS.safe_weight * barrier

    step = 1e-4
    expected = (value(SCALE + step) - value(SCALE - step)) / (2.0 * step)
    expected_slopes = (errors(SCALE + step) - errors(SCALE - step)) / (2.0 * step)
    np.testing.assert_allclose(found.errors, errors(SCALE), atol=1e-5)
    np.testing.assert_allclose(
        found.error_slopes, expected_slopes, atol=1e-3 * np.abs(expected_slopes).max()
    )
    assert found.value == pytest.approx(value(SCALE), rel=1e-5)
    assert abs(expected - SETTINGS.speed_weight) > 0.1  # the barrier has its say
    assert found.gradient == pytest.approx(expected, rel=1e-3)
    # The vehicle's own response is part of it, not only the reference's.
    assert np.abs(slopes).max() > 0.01


def test_first_tick_moves_with_nothing(setup, potential_gradient):
    found = potential_gradient(*setup, SCALE, THRESHOLD, SETTINGS)
    np.testing.assert_allclose(found.error_slopes[:, 0], 0.0, atol=1e-6)


def test_ticks_that_are_not_usable_count_for_nothing(setup, potential_gradient):
    *model, flown = setup
    usable = jnp.ones((WINDOWS, H), bool).at[1].set(False).at[2, 4:].set(False)
    broken = flown._replace(
        state=jax.tree.map(
            lambda leaf: leaf.at[1].set(jnp.nan).at[2, 4:].set(jnp.nan), flown.state
        ),
        usable=usable,
    )
    found = potential_gradient(*model, broken, SCALE, THRESHOLD, SETTINGS)
    whole = potential_gradient(*model, flown._replace(usable=usable), SCALE, THRESHOLD, SETTINGS)
    assert np.isfinite(found.gradient)
    jax.tree.map(np.testing.assert_array_equal, found, whole)
    # What came before still counts.
    full = potential_gradient(*model, flown, SCALE, THRESHOLD, SETTINGS)
    np.testing.assert_allclose(found.error_slopes[2, :4], full.error_slopes[2, :4], atol=1e-5)
    none = potential_gradient(
        *model, flown._replace(usable=jnp.zeros_like(usable)), SCALE, THRESHOLD, SETTINGS
    )
    assert none.gradient == SETTINGS.speed_weight


def flight(time_scale, **changes):
    return LastFlight(Pace(time_scale, 0.1, 0.1), 0.1, 0.35, 1.7, 2.0)._replace(**changes)


def test_update_descends_and_stays_between_the_limits():
    settings = Paper(learning_rate=0.05, fastest=0.2, slowest=1.5)
    assert settings.update(1.0, 1.0) == pytest.approx(0.95)
    assert settings.update(0.21, 1.0) == pytest.approx(0.2)
    assert settings.update(1.0, -1e6) == pytest.approx(1.5)
    assert settings.update(1.0, jnp.nan) == pytest.approx(1.0)


def test_trains_for_one_step_of_its_own():
    rule = Paper(learning_rate=0.1, speed_weight=2.0, fastest=0.25)
    for present, fastest in ((1.0, 0.8), (0.6, 0.4), (0.4, 0.25)):
        # Whatever came of the flight: only the barrier speaks about errors.
        for last in (flight(present), flight(present, error=0.8), flight(present, error=2.0)):
            assert rule.propose(rule.start(), last)[1] == pytest.approx(fastest)


def test_twelve_harmless_flights_reach_the_papers_lap():
    rule, scale = Paper(), jnp.float32(1.0)
    for _ in range(11):  # each flight but the last is followed by a step
        scale = rule.update(scale, rule.speed_weight)
    assert scale <= 2.60 / 8.34


def test_a_flight_with_an_event_makes_it_step_back():
    rule, last = Paper(learning_rate=0.05), flight(1.0)
    assert rule.believed(1.0, last) == pytest.approx(1.0)
    helped = last._replace(event=jnp.bool_(True))
    assert rule.update(1.0, rule.believed(1.0, helped)) == pytest.approx(1.05)
    assert rule.believed(-3.0, helped) == pytest.approx(-3.0)


def make_rollout(ticks):
    k = np.arange(ticks, dtype=np.float32)
    time = CONTROL_DT * k
    eye = np.tile(np.eye(3, dtype=np.float32), (ticks, 1, 1))
    vector = np.tile(k[:, None], (1, 3))
    state = State(vector, 0.0 * vector, eye, 0.0 * vector)
    reference = Reference(vector, vector, vector, vector, eye, vector, k)
    rollout = Rollout(
        time=time, valid=k < ticks - 3, sensed=state, stamp=time - 0.01,
        command=np.tile(k[:, None], (1, 4)), reference=reference, phase=2.0 * time,
        phase_rate=0.0 * k + 2.0, time_scale=0.0 * k + 0.5, truth=state, crashed=k >= 22,
        sample_time=time, sample=state, sample_received=k > 0, diagnostics=None,
    )  # fmt: skip
    return jax.tree.map(jnp.asarray, rollout)


def test_windows_are_cut_in_order_and_marked():
    found = ats_paper.windows(make_rollout(34), 5, ramp_s=0.07)
    assert found.phase.shape == (6, 5)
    np.testing.assert_array_equal(found.state.position[2, :, 0], [10, 11, 12, 13, 14])
    np.testing.assert_array_equal(found.commands[2, 0, :, 1], 10 - np.arange(COMMANDS))
    np.testing.assert_allclose(found.phase[1, 0], 2.0 * (0.1 - 0.01), rtol=1e-5)
    np.testing.assert_allclose(found.elapsed[3], CONTROL_DT * np.arange(5), atol=1e-6)
    # The ramp lies in the first window, the crash in the fifth: what led to it counts.
    all_of, none = [True] * 5, [False] * 5
    crash = [True, True, False, False, False]
    np.testing.assert_array_equal(found.usable, [none, all_of, all_of, all_of, crash, none])
    # What is slower than α₀, or another policy's, is no evidence about it.
    flight = make_rollout(34)
    slowed = flight._replace(time_scale=jnp.where(jnp.arange(34) > 12, 0.8, 0.5))
    taken_over = flight._replace(fallback=jnp.arange(34) > 12)
    before = [True, True, True, False, False]
    for helped in (slowed, taken_over):
        found = ats_paper.windows(helped, 5, ramp_s=0.07)
        np.testing.assert_array_equal(found.usable, [none, all_of, before, none, none, none])
