"""Estimates of delay, mass and drag, on flights of plain integration with known truth."""

from __future__ import annotations

import numpy as np
import pytest
from log_flights import fly

from lafr_mjx import so3
from lafr_mjx.model import identify

DRAG = np.array([0.3, 0.3, 0.15])
VEHICLE = identify.Vehicle(mass=0.2, motor_lag=0.03, rotor_drag=DRAG, body_drag=0.0)


def flight_of(made, noise=0.0, seed=0):
    rng = np.random.default_rng(seed)
    turned = so3.quaternion_to_matrix(made.quaternion)
    shaken = turned @ so3.exp(0.1 * noise * rng.normal(size=made.velocity.shape))
    return identify.Flight(
        time=made.time,
        velocity=made.velocity + noise * rng.normal(size=made.velocity.shape),
        rotation=np.asarray(shaken),
        usable=np.ones(len(made.time), bool),
        thrust_time=made.time,
        thrust=made.thrust,
        held=True,
    )


def estimate(noise=0.0, seed=0, **truth):
    made = fly(20.0, seed=seed, motor_lag=0.03, **truth)
    found = identify.identify([flight_of(made, noise, seed)], VEHICLE, search_delay=True)
    assert found is not None and found.delay_s is not None
    return found


def test_exact_data_gives_the_truth():
    found = estimate(drag=1.5 * DRAG, mass_scale=1.2, delay=0.025)
    assert found.delay_s is not None
    assert found.delay_s.value == pytest.approx(0.025, abs=0.0015)
    assert found.mass_offset_kg.value == pytest.approx(0.04, rel=0.01)
    assert found.drag_scale.value == pytest.approx(1.5, rel=0.02)
    np.testing.assert_allclose([e.value for e in found.drag_per_s], 1.5 * DRAG, rtol=0.03)
    assert all(abs(e.value) < 0.1 for e in found.wind_mps)


def test_wind_is_seen_by_its_drag():
    found = estimate(drag=DRAG, wind=(3.0, -1.0))
    np.testing.assert_allclose([e.value for e in found.wind_mps], [3.0, -1.0], atol=0.2)
    assert found.drag_scale.value == pytest.approx(1.0, rel=0.05)


def test_intervals_cover_the_truth_under_noise():
    """Random truths, noise of motion capture: at most one miss in ten on each figure."""
    rng = np.random.default_rng(7)
    covered = np.zeros(3)
    for seed in range(10):
        delay, scale, mass = rng.uniform(0.0, 0.05), rng.uniform(0.5, 2.0), rng.uniform(0.9, 1.3)
        # The integration's clock is 1 ms.
        delay = round(delay, 3)
        found = estimate(0.02, seed + 20, drag=scale * DRAG, mass_scale=mass, delay=delay)
        assert found.delay_s is not None
        pairs = ((found.delay_s, delay), (found.drag_scale, scale), (found.mass_scale, mass))
        covered += [e.low <= true <= e.high for e, true in pairs]
        # An interval that covers everything would be no answer.
        assert found.delay_s.high - found.delay_s.low < 0.015
        assert found.drag_scale.high - found.drag_scale.low < 0.25
        assert found.mass_scale.high - found.mass_scale.low < 0.02
    assert np.all(covered >= 9), covered


def test_more_noise_gives_wider_intervals():
    truth = {"drag": DRAG, "delay": 0.02}
    quiet, loud = estimate(0.02, 1, **truth), estimate(0.2, 1, **truth)
    ratio = (loud.mass_scale.high - loud.mass_scale.low) / (
        quiet.mass_scale.high - quiet.mass_scale.low
    )
    assert 3.0 < ratio < 30.0


def test_gaps_are_left_out_and_short_logs_say_nothing():
    made = fly(20.0, drag=DRAG, motor_lag=0.03, delay=0.02)
    torn = flight_of(made)
    usable = np.ones(len(made.time), bool)
    usable[700:760] = False
    velocity = torn.velocity.copy()
    velocity[700:760] = 1e6
    found = identify.identify(
        [torn._replace(usable=usable, velocity=velocity)], VEHICLE, search_delay=True
    )
    assert found is not None
    assert found.mass_scale.value == pytest.approx(1.0, abs=0.005)
    short = torn._replace(usable=np.arange(len(made.time)) < 500)
    assert identify.identify([short], VEHICLE, search_delay=True) is None
