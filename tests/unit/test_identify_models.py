"""The models of `lafr-mjx fit`: what they recover, and what cross-validation may see."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from log_flights import fly, raw_log

from lafr_mjx import so3
from lafr_mjx.fitting import state_models
from lafr_mjx.logs.resample import uniform
from lafr_mjx.model import body, body_fit, lag, open_loop, rate_response, selection, steps
from lafr_mjx.model.body import NAMES, OUTPUTS
from lafr_mjx.model.body_sets import ACCELERATION, RATES, with_history
from lafr_mjx.model.residual import COMMANDS, NO_LAG
from lafr_mjx.model.state import ModelState

DRAG = (0.5, 0.3, 0.2)


def record_of(made):
    return state_models.record_of(uniform(raw_log(made, commanded=True)))


# The commands act at once here: the lag is tested by itself.
RECORD = record_of(fly(12.0, drag=DRAG))


def coefficient(linear, feature, output):
    return linear[NAMES.index(feature), OUTPUTS.index(output)]


def test_open_loop_of_the_nominal_model_in_free_flight():
    """Thrust 10 m/s², level, no rates: a parabola. Against the closed form."""
    size = 200
    time = 0.01 * np.arange(size)
    climb = 0.5 * (10.0 - 9.81) * time**2
    position = np.stack([2.0 * time, 0.0 * time, climb], axis=1)
    velocity = np.stack([0.0 * time + 2.0, 0.0 * time, (10.0 - 9.81) * time], axis=1)
    command = np.tile([10.0, 0.0, 0.0, 0.0], (size, 1))
    rotation = np.tile(np.eye(3), (size, 1, 1))
    record = steps.recording(position, velocity, rotation, command, np.ones(size, bool))
    given = steps.windows(record, 0, size, 25)
    nominal = body.create(np.random.default_rng(0))
    found = open_loop.errors(open_loop.body_step, nominal, given)
    assert found.shape == (25, 3) and found[24, 0] < 0.01
    # A thrust that is too small by 1 m/s² falls behind by t²/2 and t.
    weak = nominal._replace(linear=nominal.linear.copy())
    weak.linear[NAMES.index("one"), OUTPUTS.index("az")] = -1.0
    at_end = open_loop.errors(open_loop.body_step, weak, given)[24]
    np.testing.assert_allclose(at_end, [125.0, 50.0, 0.0], atol=0.05)


def test_library_against_plain_arithmetic():
    rng = np.random.default_rng(3)
    rotation = so3.exp(rng.normal(size=3))
    velocity, commands = rng.normal(size=3), rng.normal(size=(COMMANDS, 4))
    state = ModelState(np.zeros(3), velocity, rotation)
    given = jnp.asarray(commands)
    found = np.asarray(body.library(jax.tree.map(np.float32, state), given[0], given))
    in_body = rotation.T @ velocity / 5.0
    named = dict(zip(NAMES, found, strict=True))
    assert len(found) == len(NAMES) == len(set(NAMES))
    assert named["one"] == 1.0
    assert named["vy"] == pytest.approx(in_body[1], abs=1e-6)
    assert named["upz"] == pytest.approx(rotation[2, 2], abs=1e-6)
    assert named["thrust"] == pytest.approx((commands[0, 0] - 9.81) / 10.0, abs=1e-6)
    assert named["vx*wz"] == pytest.approx(in_body[0] * commands[0, 3] / 6.0, abs=1e-6)
    speed = np.linalg.norm(velocity) / 5.0
    assert named["|v|vz"] == pytest.approx(speed * in_body[2], abs=1e-6)
    expected = (commands[2, 1] - commands[0, 1]) / 6.0
    assert named["past2.wx"] == pytest.approx(expected, abs=1e-6)


def test_ridge_recovers_drag_in_the_body_frame():
    rows = steps.transitions(RECORD)
    given = body_fit.design(rows, NO_LAG)
    found = body_fit.solve(given, given.usable, ACCELERATION["drag"] | RATES["cross rates"], 1e-6)
    # Coefficients are for v/5; at hover speed the drag is -D v, and grows with the rotors' speed.
    for axis, value in zip("xyz", DRAG, strict=True):
        assert coefficient(found, f"v{axis}", f"a{axis}") == pytest.approx(-5.0 * value, rel=0.06)
    assert np.abs(found[:, 3:]).max() < 0.02


def test_noise_does_not_look_like_damping():
    """On axes that hardly move, noise of the velocity must not become drag."""
    still = RECORD._replace(
        state=RECORD.state._replace(
            velocity=np.zeros_like(RECORD.state.velocity),
            position=np.zeros_like(RECORD.state.position),
            rotation=np.tile(np.eye(3, dtype=np.float32), (len(RECORD.usable), 1, 1)),
        ),
        command=np.tile(np.array([9.81, 0, 0, 0], np.float32), (len(RECORD.usable), 1)),
    )
    noise = 0.05 * np.random.default_rng(0).normal(size=still.state.velocity.shape)
    shaken = still._replace(state=still.state._replace(velocity=np.float32(noise)))
    rows = steps.transitions(shaken)
    given = body_fit.design(rows, NO_LAG)
    cured = body_fit.solve(given, given.usable, ACCELERATION["drag"], 1e-6)
    plain = np.sum(noise[:-2] * (noise[2:] - noise[:-2]) / 0.02) / np.sum(noise[:-2] ** 2)
    assert plain < -40.0  # the trap
    assert abs(coefficient(cured, "vx", "ax")) / 5.0 < 4.0


@pytest.mark.parametrize("ticks", [1, 2, 4])
def test_lag_of_the_commands(ticks):
    made = fly(12.0, drag=DRAG, delay=0.02 * ticks, rate_lag=0.02 * ticks)
    weights = lag.estimate(steps.transitions(record_of(made)))
    assert weights.shape == (3, COMMANDS)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-6)
    assert np.all(weights >= 0.0) and np.all(weights[:, 0] == 0.0)
    # The commands of both interleaved clocks are within half a tick.
    np.testing.assert_allclose(weights[:2] @ np.arange(COMMANDS), ticks, atol=0.4)


def test_folds_do_not_share_rows_with_what_they_predict():
    parts = [selection.Part(RECORD, 0, 1000)]
    rows = selection.rows_of(parts)
    folds = selection.folds_of(parts)
    assert len(folds) == 5
    sample = np.arange(steps.STRIDE, 1000 - steps.STRIDE)
    assert len(sample) == len(rows.usable)
    for fold in folds:
        used = sample[fold.used]
        for start in fold.windows.index:
            touched = range(start, start + selection.HORIZON * steps.STRIDE + 1)
            assert not np.isin(used, touched).any()
        assert max(fold.windows.index) + selection.HORIZON * steps.STRIDE < 1000


def test_whole_logs_are_left_out_if_there_are_three():
    parts = [selection.Part(RECORD, 0, 400) for _ in range(3)]
    folds = selection.folds_of(parts)
    assert len(folds) == 3
    size = 400 - 2 * steps.STRIDE
    for i, fold in enumerate(folds):
        expected = np.ones(3 * size, bool)
        expected[i * size : (i + 1) * size] = False
        np.testing.assert_array_equal(fold.used, expected)


def test_gaps_are_in_no_row_and_no_window():
    usable = RECORD.usable.copy()
    usable[500] = False
    torn = RECORD._replace(usable=usable)
    rows = steps.transitions(torn)
    sample = np.arange(steps.STRIDE, len(usable) - steps.STRIDE)[np.asarray(rows.usable)]
    reach = steps.REACH + steps.STRIDE
    assert not np.isin(sample, np.arange(500 - steps.STRIDE, 500 + reach + 1)).any()
    given = steps.windows(torn, 0, len(usable), 25, every=1)
    lost = np.arange(500 - 25 * steps.STRIDE, 500 + steps.REACH + 1)
    assert not np.isin(given.index, lost).any()
    assert {lost[0] - 1, lost[-1] + 1} <= set(given.index)


def test_history_only_widens_what_is_used():
    for mask in (*ACCELERATION.values(), *RATES.values()):
        wide = with_history(mask)
        assert (wide >= mask).all() and wide.sum() > mask.sum()
        np.testing.assert_array_equal(wide.any(axis=0), mask.any(axis=0))


def test_rate_response_recovers_a_filter():
    rng = np.random.default_rng(5)
    size, delay = 3000, 4
    command = np.cumsum(rng.normal(size=(size, 3)), axis=0) * 0.05
    rates = np.zeros_like(command)
    for k in range(1, size):
        late = command[max(k - delay, 0)]
        rates[k] = rates[k - 1] + 0.3 * (late - rates[k - 1])
    parts = [rate_response.RatePart(command, rates, np.ones(size, bool), 0, 1500)]
    test = [rate_response.RatePart(command, rates, np.ones(size, bool), 1500, size)]
    model = rate_response.fit(parts)
    errors = {
        "nominal": rate_response.roll_pitch_dps(rate_response.errors(None, test)),
        "none": rate_response.roll_pitch_dps(
            rate_response.errors(rate_response.fit(parts, taps=(1,)), test)
        ),
        "history": rate_response.roll_pitch_dps(rate_response.errors(model, test)),
    }
    assert model.taps >= 10
    assert errors["history"] < 0.1 * errors["none"]
    impulse = model.weights[1:].reshape(model.taps, 3, 3)[:, 0, 0]
    exact = np.where(np.arange(model.taps) < delay, 0.0, 0.3 * 0.7 ** (np.arange(model.taps) - 4.0))
    np.testing.assert_allclose(impulse[:-1], exact[:-1], atol=0.03)


def test_rate_error_is_the_length_of_roll_and_pitch():
    squares = np.radians([[3.0, 4.0, 100.0]]) ** 2
    assert rate_response.roll_pitch_dps(squares) == pytest.approx(5.0)
