"""Parts of one iteration of learning that can be checked by hand."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from test_guarded import policy
from test_metrics import moved, perfect

from lafr_mjx.learner import loop, model_rollout
from lafr_mjx.learner.improve import (
    Calibrated,
    LearnerSettings,
    TaskRoom,
    accelerate,
    anchors_of,
    noise_seen,
    sensed_peak_error,
)
from lafr_mjx.learner.time_scaling import Choice, LastFlight
from lafr_mjx.learner.verify import Prediction
from lafr_mjx.tasks import load_task
from lafr_mjx.types import CONTROL_DT


@pytest.mark.parametrize("scale", [0.6, 1.0, 2.0, 3.5])
def test_noise_is_recovered_from_the_loss_of_a_perfect_model(scale):
    """The loss of a vehicle at rest, of which only noise is seen, over many pairs of samples."""
    rng = np.random.default_rng(0)
    loss = sum(
        np.mean(np.sum((rng.normal(0.0, scale * sigma, (2, 20_000, 3))[0]
                        - rng.normal(0.0, scale * sigma, (20_000, 3))) ** 2, axis=-1))
        for sigma in model_rollout.SENSOR_NOISE
    ) / CONTROL_DT**2  # fmt: skip
    assert float(noise_seen(loss)) == pytest.approx(scale, rel=0.02)


def test_noise_is_never_taken_for_nothing_nor_for_everything():
    assert float(noise_seen(0.0)) == pytest.approx(0.5)
    assert float(noise_seen(1e6)) == pytest.approx(4.0)


@pytest.fixture(scope="module")
def calm():
    """0.02 m off after the ramp, 0.3 m off in it."""
    task = load_task("figure8")
    flight = perfect(task, 0.5)
    off = np.where(np.abs(flight.time - 0.8) < 0.1, 0.3, 0.02)
    flight = moved(flight, off[:, None] * [0.0, 0.0, 1.0])
    return flight._replace(sensed=flight.truth), task.ramp_s


def test_a_flight_that_was_helped_does_not_look_calm(calm):
    flight, ramp_s = calm
    assert float(sensed_peak_error(flight, ramp_s)) == pytest.approx(0.02, rel=0.01)
    late = flight.time > 0.9
    for helped in (
        flight._replace(time_scale=np.where(late, 2.0, 1.0) * flight.time_scale),
        flight._replace(fallback=late),
    ):
        assert float(sensed_peak_error(helped, ramp_s)) == pytest.approx(0.3, rel=0.01)
        np.testing.assert_array_equal(helped.assisted, late)


def test_training_starts_nowhere_where_the_guard_had_helped(calm):
    flight, ramp_s = calm
    np.testing.assert_array_equal(anchors_of(flight, ramp_s).usable, flight.time >= 0.5 * ramp_s)
    late = flight.time > 4.0
    helped = flight._replace(time_scale=np.where(late, 1.3, 1.0) * flight.time_scale)
    usable = np.asarray(anchors_of(helped, ramp_s).usable)
    np.testing.assert_array_equal(usable, (flight.time >= 0.5 * ramp_s) & ~late)
    taken_over = flight._replace(fallback=late)
    np.testing.assert_array_equal(anchors_of(taken_over, ramp_s).usable, usable)


class Again(NamedTuple):
    """The same pace again, with the new policy."""

    outcomes = ("again",)

    def start(self):
        return ()

    def choose(self, memory, fastest, evidence):
        del fastest
        nothing = Prediction(*[np.zeros(8)] * len(Prediction._fields))
        return Choice(memory, evidence.last.pace, True, True, 0, nothing, {})


@pytest.mark.parametrize(
    ("error", "event", "good"),
    [(0.1, False, True), (0.5, False, False), (0.1, True, False), (np.nan, False, False)],
)
def test_the_last_good_policy_is_one_that_flew_well_without_help(error, event, good):
    settings = LearnerSettings(time_scaling=Again())
    before, flew, new = policy(-0.5), policy(0.5), policy(0.8)
    task = load_task("figure8")
    state = loop.start(task, before, 0, settings)._replace(policy=flew)
    last = LastFlight(state.pace, np.float32(error), 0.35, 1.7, np.bool_(event))
    flown: Any = None  # nothing asks the model here
    done = Calibrated(last, state.ensemble, state.window, 1.0, 1.0, (), 1.0)
    room = TaskRoom(state.path, task.room(), 1.5)
    learned, _ = accelerate(state, done, new, flown, state.path, room, settings)

    def thrust(of):
        return float(np.asarray(of.network.layers[-1].bias)[0])

    assert thrust(learned.policy) == pytest.approx(0.8)
    assert thrust(learned.last_good) == pytest.approx(0.5 if good else -0.5)
