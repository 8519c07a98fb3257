"""A flight on a simulator that makes steps is recorded as one on our own plant."""

import importlib.util
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import lafr_mjx as lm
from lafr_mjx.control.departure import WINDOWS, departure
from lafr_mjx.control.geometric import geometric_controller
from lafr_mjx.learner.guarded import Guarded

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "point_mass.py"
VEHICLE = lm.load_vehicle("lafr192")
TASK = lm.load_task("figure8", VEHICLE.limits)


@pytest.fixture(scope="module")
def plant():
    found = importlib.util.spec_from_file_location("point_mass", EXAMPLE)
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module.PointMass()


CONTROLLER = geometric_controller(VEHICLE.limits)


def flown(plant, *, step=None, controller: Any = CONTROLLER, **more):
    return lm.fly_steps(
        controller, TASK.path, TASK.start_clock(0.8), 4.0, plant.hover_at, step or plant.step,
        **more,
    )  # fmt: skip


def test_the_record_is_consistent(plant):
    flight = flown(plant)
    assert flight.time.shape == (200,) and flight.sample_time.shape == (400,)
    assert flight.valid.all() and not flight.crashed.any()
    # What is sampled at a tick is what is true then; the controller sees it at once.
    np.testing.assert_allclose(flight.sample.position[1:-1:2], flight.truth.position[1:], atol=1e-6)
    np.testing.assert_array_equal(flight.sensed.position, flight.truth.position)
    np.testing.assert_allclose(flight.sample_time[1:-1:2], flight.time[1:], atol=1e-6)
    error = np.linalg.norm(flight.truth.position - flight.reference.position, axis=1)
    assert error.max() < 0.2
    assert (np.diff(flight.phase) >= 0.0).all() and flight.phase_rate[-1] == pytest.approx(1.25)


def test_a_late_sample_has_its_own_stamp(plant):
    flight = flown(plant, sensing_delay=2)
    np.testing.assert_allclose(flight.time[5:] - flight.stamp[5:], 0.02, atol=1e-6)
    np.testing.assert_array_equal(flight.sensed.position[1:], flight.truth.position[:-1])


def test_a_flight_that_leaves_its_path_is_over(plant):
    def falling(command):
        return plant.step(np.zeros(4))

    flight = flown(plant, step=falling)
    assert flight.crashed[-1] and not flight.crashed[10]
    first = int(np.argmax(flight.crashed))
    assert (flight.crashed[first:]).all()
    np.testing.assert_array_equal(flight.truth.position[first], flight.truth.position[-1])
    assert not flight.sample_received[2 * first :].any()


def test_what_the_guard_does_is_recorded(plant):
    assert not flown(plant).fallback.any()
    key = jax.random.key_data(jax.random.key(0))
    guarded = Guarded(CONTROLLER, CONTROLLER, 0.0, np.full(WINDOWS, 0.03), 0.05, key)
    flight = flown(plant, controller=guarded)
    seen, asked = flight.sensed, flight.reference
    error = seen.position - asked.position
    worst = np.maximum.accumulate(np.linalg.norm(error, axis=1))
    gone = np.maximum.accumulate(departure(error, seen.velocity - asked.velocity))
    np.testing.assert_array_equal(flight.fallback, worst > 0.05)
    factor = 1.0 + 2.0 * np.clip((gone - 0.03) / 0.12, 0.0, 1.0)
    np.testing.assert_allclose(flight.slow_down[1:], factor[:-1], rtol=1e-4)
    assert flight.fallback.any() and flight.assisted.any()
