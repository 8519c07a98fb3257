"""The phase clock against a fine integration, and its continuity."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lafr_mjx.reference import clock as clocks

DT = 0.02


def fly(changes, ramp_s=1.5, seconds=6.0, dt=DT, time_scale=1.0):
    """Clocks of a flight in which the time scale changes at the given ticks."""
    clock = clocks.start(time_scale, ramp_s)
    history = [clock]
    for tick in range(round(seconds / dt)):
        if tick in changes:
            clock = clocks.with_time_scale(clock, changes[tick])
        clock = clocks.advance(clock, dt)
        history.append(clock)
    return history


def fine_phase(changes, ramp_s, seconds, time_scale=1.0, parts=200):
    """The same by Runge-Kutta on (phase, tempo, tempo rate), with tiny steps."""
    target, smoothing = 1.0 / time_scale, clocks.SMOOTHING_S

    def slope(t, y):
        x = np.clip(t / ramp_s, 0.0, 1.0) if ramp_s > 0.0 else 1.0
        ramp = x**3 * (10.0 - 15.0 * x + 6.0 * x * x)
        pull = -(2.0 * y[2] + (y[1] - target) / smoothing) / smoothing
        return np.array([ramp * y[1], y[2], pull])

    y, step = np.array([0.0, target, 0.0]), DT / parts
    for tick in range(round(seconds / DT)):
        target = 1.0 / changes.get(tick, 1.0 / target)
        for part in range(parts):
            t = tick * DT + part * step
            k1 = slope(t, y)
            k2 = slope(t + step / 2, y + step / 2 * k1)
            k3 = slope(t + step / 2, y + step / 2 * k2)
            k4 = slope(t + step, y + step * k3)
            y = y + step / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return y[0]


@pytest.mark.parametrize("ramp_s", [0.0, 1.5])
def test_phase_agrees_with_a_fine_integration(ramp_s):
    # The second change falls into the ramp, the third beyond it.
    changes = {10: 0.7, 55: 1.4, 90: 0.5}
    exact = fine_phase(changes, ramp_s, 2.4, parts=20)
    assert fly(changes, ramp_s, 2.4)[-1].phase == pytest.approx(exact, abs=1e-6)


def test_constant_time_scale_is_exact():
    last = fly({}, 1.5, 6.0, time_scale=0.8)[-1]
    # The smooth ramp covers half of what the full rate would.
    assert last.phase == pytest.approx((6.0 - 0.75) / 0.8, abs=1e-12)
    assert clocks.rates(last) == pytest.approx((1.25, 0.0, 0.0), abs=1e-12)
    rest_to_rest = clocks.advance(clocks.start(2.0, 0.0), 3.0)
    assert rest_to_rest.phase == pytest.approx(1.5, abs=1e-12)
    assert clocks.rates(clocks.start(2.0, 0.0))[0] == 0.5


def test_a_flight_starts_at_rest():
    assert clocks.rates(clocks.start(0.5)) == pytest.approx((0.0, 0.0, 0.0))


def test_large_and_small_steps_agree():
    clock = clocks.with_time_scale(fly({40: 0.6}, seconds=1.2)[-1], 1.5)
    small = clock
    for _ in range(100):
        small = clocks.advance(small, 0.002)
    large = clocks.advance(clock, 0.2)
    for one, other in zip(small, large, strict=True):
        assert one == pytest.approx(other, abs=2e-6)


def test_rates_are_derivatives_and_do_not_jump():
    step = 1e-4
    for clock in fly({30: 0.6, 120: 1.3}, seconds=4.0)[2::7]:
        ahead, behind = clocks.shifted(clock, step), clocks.shifted(clock, -step)
        now = (clock.phase, *clocks.rates(clock))
        for order in range(3):
            slope = (ahead[order] - behind[order]) / (2 * step)
            assert slope == pytest.approx(now[order + 1], abs=2e-5)
    before = fly({}, seconds=1.0)[-1]
    after = clocks.with_time_scale(before, 0.5)
    assert clocks.rates(after)[:2] == clocks.rates(before)[:2]
    assert after.phase == before.phase


def test_tempo_reaches_its_target_without_overshoot():
    tempo = np.array([clock.tempo for clock in fly({100: 2.0}, seconds=8.0)])
    assert np.all(np.diff(tempo) <= 0.0)
    assert tempo[-1] == pytest.approx(0.5, abs=1e-5)
    # A critically damped filter has gone 26 % of the way after one time constant.
    assert tempo[120] == pytest.approx(0.5 + 0.5 * 2.0 / np.e, abs=1e-9)


def test_tempo_stays_between_its_targets():
    rng = np.random.default_rng(0)
    changes = {int(tick): rng.uniform(0.3, 2.0) for tick in rng.integers(0, 400, 60)}
    tempo = np.array([clock.tempo for clock in fly(changes, seconds=8.0)])
    assert tempo.min() >= 0.5
    assert tempo.max() <= 1.0 / 0.3


def test_shifts_agree_with_advances_and_stop_at_the_start():
    clock = fly({20: 0.7}, seconds=1.4)[-1]
    for offset in (-0.03, 0.0, 0.02, 0.2):
        moved = clocks.advance(clock, offset)
        expected = (moved.phase, *clocks.rates(moved))
        assert clocks.shifted(clock, offset) == pytest.approx(expected, abs=1e-12)
    offsets = np.array([-0.03, 0.0, 0.2])
    together = np.array(clocks.shifted(clock, offsets))
    alone = np.array([clocks.shifted(clock, offset) for offset in offsets]).T
    np.testing.assert_allclose(together, alone, atol=1e-12)
    early = clocks.advance(clocks.start(1.0), 0.01)
    at_start = clocks.shifted(early, -0.03)
    assert at_start == pytest.approx((0.0, 0.0, 0.0, 1e-3), abs=1e-2)
    assert at_start[0] == pytest.approx(0.0, abs=1e-9)
    assert clocks.shifted(clocks.start(1.0, 0.0), -1.0)[0] == 0.0


def test_back_and_forth_is_the_identity():
    clock = fly({20: 0.7, 60: 1.2}, seconds=1.5)[-1]
    back = clocks.advance(clocks.advance(clock, 0.1), -0.1)
    for one, other in zip(clock, back, strict=True):
        assert one == pytest.approx(other, abs=1e-6)


def test_jax_face_in_a_compiled_batch_with_gradients():
    scales = jnp.array([0.5, 1.0, 2.0])

    @jax.jit
    def final_phase(time_scale):
        def tick(clock, i):
            clock = clocks.with_time_scale(clock, jnp.where(i < 100, time_scale, 0.8))
            return clocks.advance(clock, DT), clock.phase

        return jax.lax.scan(tick, clocks.start(time_scale), jnp.arange(300))[0].phase

    found = final_phase(scales)
    assert found.dtype == jnp.float32
    for scale, phase in zip(scales, found, strict=True):
        exact = fly({100: 0.8}, time_scale=float(scale))[-1].phase
        assert phase == pytest.approx(exact, abs=2e-5)
    slope = jax.grad(lambda a: final_phase(a).sum())(scales)
    difference = (final_phase(scales + 1e-2) - final_phase(scales - 1e-2)) / 2e-2
    np.testing.assert_allclose(slope, difference, rtol=2e-3)
    with_no_ramp = jax.grad(lambda a: clocks.advance(clocks.start(a, 0.0), 1.0).phase)(0.5)
    assert with_no_ramp == pytest.approx(-4.0, rel=1e-5)


def random_clocks(count):
    """Clocks in the middle of flights, some without a ramp, some at their very start."""
    rng = np.random.default_rng(7)
    for k in range(count):
        ramp_s = 0.0 if k % 3 == 0 else rng.uniform(0.1, 3.0)
        clock = clocks.start(rng.uniform(0.2, 3.0), ramp_s, rng.uniform(0.1, 1.0))
        for _ in range(k % 5):
            clock = clocks.with_time_scale(clock, rng.uniform(0.2, 50.0))
            clock = clocks.advance(clock, rng.uniform(0.0, 1.0))
        yield clock, rng.uniform(-0.5, 0.5)


def test_plain_numbers_give_the_same_bits():
    for clock, offset in random_clocks(300):
        plain = clocks.plain(clock)
        assert all(type(field) is float for field in plain)
        for moved in (
            offset,
            0.0,
            -100.0,
            -float(clock.elapsed),
            float(clock.ramp_s - clock.elapsed),
        ):
            there = clocks.advance(plain, moved)
            assert all(type(field) is float for field in there)
            np.testing.assert_array_equal(there, clocks.advance(clock, moved))
            # Among others, as in one array.
            offsets = np.array([moved, 0.06, -0.03])
            together = np.array(clocks.shifted(clock, offsets))[:, 0]
            np.testing.assert_array_equal(clocks.shifted(plain, moved), together)
        np.testing.assert_array_equal(clocks.rates(plain), clocks.rates(clock))
        changed = clocks.with_time_scale(plain, 0.7)
        assert all(type(field) is float for field in changed)
        np.testing.assert_array_equal(changed, clocks.with_time_scale(clock, 0.7))


@pytest.mark.parametrize("field", ["phase", "elapsed", "tempo", "time_scale", "ramp_s"])
def test_plain_numbers_pass_nan_on_like_arrays(field):
    clock = clocks.advance(clocks.start(0.8), 0.4)._replace(**{field: np.asarray(np.nan)})
    np.testing.assert_array_equal(
        clocks.shifted(clocks.plain(clock), 0.02), clocks.shifted(clock, 0.02)
    )
    sound = clocks.start(0.8)
    np.testing.assert_array_equal(
        clocks.advance(clocks.plain(sound), float("nan")), clocks.advance(sound, np.nan)
    )
