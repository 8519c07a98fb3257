"""Parts of one iteration of learning that can be checked by hand."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_guarded import policy
from test_metrics import moved, perfect

from lafr_mjx import batching, so3
from lafr_mjx.errors import InputError
from lafr_mjx.learner import loop
from lafr_mjx.learner.corridor import Corridor
from lafr_mjx.learner.improve import (
    Calibrated,
    LearnerSettings,
    TaskRoom,
    accelerate,
    calibrate,
)
from lafr_mjx.learner.model_rollout import SensorNoise
from lafr_mjx.learner.observed import (
    LEAST_NOISE,
    MOST_NOISE,
    MOST_WANDER,
    anchors_of,
    noise_seen,
    on_time,
    sensed_peak_errors,
    unexplained,
    velocity_lag_seen,
)
from lafr_mjx.learner.references import Planned
from lafr_mjx.learner.time_scaling import Choice, LastFlight
from lafr_mjx.learner.verify import Prediction
from lafr_mjx.model import data, fit_residual, residual
from lafr_mjx.model.residual import COMMANDS, Switches
from lafr_mjx.model.state import ModelState
from lafr_mjx.reference import clock as clocks
from lafr_mjx.reference import splines
from lafr_mjx.reference.flatness import reference_state
from lafr_mjx.tasks import load_task
from lafr_mjx.types import COMMAND_HOVER, CONTROL_DT, Rollout, State

KNOWS_NOTHING = batching.single(Switches(acceleration=0.0, rates=0.0))
ENSEMBLE = jax.tree.map(
    lambda leaf: leaf[None],
    batching.single(residual.create(np.random.default_rng(0), hidden=8)),
)


def hovering(noise, rows=748):
    """Rows of a vehicle at rest of which only noise [position, velocity, attitude] is seen."""
    rng = np.random.default_rng(1)
    position, velocity, turn = (rng.normal(0.0, sigma, (rows + 1, 3)) for sigma in noise)
    seen = ModelState(position, velocity, so3.exp(turn))
    seen = jax.tree.map(lambda leaf: np.asarray(leaf, np.float32), seen)
    now, after = (jax.tree.map(lambda leaf, i=i: leaf[i : rows + i], seen) for i in (0, 1))
    hover = jnp.tile(COMMAND_HOVER, (rows, COMMANDS, 1))
    return data.Transitions(now, hover, now, hover, after, jnp.ones(rows, bool))


@pytest.mark.parametrize("noise", [(0.001, 0.02, 0.002), (0.004, 0.03, 0.001), (0.001, 0.1, 0.01)])
def test_noise_of_each_kind_is_seen_in_hover(noise):
    found = noise_seen(ENSEMBLE, KNOWS_NOTHING, hovering(noise), SensorNoise())
    np.testing.assert_allclose(found[:3], noise, rtol=0.25)


def test_noise_is_never_taken_for_nothing_nor_for_everything():
    prior = np.array(SensorNoise()[:3])
    for share, seen in ((1e-3, LEAST_NOISE), (100.0, MOST_NOISE)):
        found = noise_seen(ENSEMBLE, KNOWS_NOTHING, hovering(share * prior), SensorNoise())
        np.testing.assert_allclose(found[:3], seen * prior, rtol=1e-5)
    # Nothing was flown that could tell.
    none = hovering((0.001, 0.02, 0.002))._replace(usable=jnp.zeros(748, bool))
    none = none._replace(after=jax.tree.map(lambda leaf: leaf * np.nan, none.after))
    found = noise_seen(ENSEMBLE, KNOWS_NOTHING, none, SensorNoise())
    np.testing.assert_allclose(found[:3], prior)


@pytest.mark.parametrize("lag", [0.0, 0.012, 0.028])
def test_a_velocity_that_is_late_is_noticed_and_set_right(lag):
    rng, flight = np.random.default_rng(2), perfect(load_task("figure8"), 0.35)
    time, true = flight.time, np.asarray(flight.truth.velocity)
    late = np.stack([np.interp(time - lag, time, v) for v in true.T], axis=1)
    noise = [sigma * rng.normal(size=true.shape) for sigma in (1e-3, 0.02)]
    sensed = flight.truth._replace(
        position=flight.truth.position + noise[0], velocity=late + noise[1]
    )
    seen = flight._replace(sensed=sensed)
    assert float(velocity_lag_seen(seen, 0.0)) == pytest.approx(lag, abs=2e-3)
    for known in (0.0, 0.05):  # a flight tells more than a guess
        assert float(velocity_lag_seen(seen, known)) == pytest.approx(lag, abs=4e-3)
    right = on_time(seen._replace(sensed=sensed._replace(velocity=late)), lag).sensed.velocity
    inside = slice(5, -5)
    np.testing.assert_allclose(np.asarray(right)[inside], true[inside], atol=0.02)
    nothing = seen._replace(valid=np.zeros_like(flight.valid))
    assert float(velocity_lag_seen(nothing, 0.01)) == pytest.approx(0.01)


@pytest.fixture(scope="module")
def calm():
    """0.02 m off after the ramp, 0.3 m off in it."""
    task = load_task("figure8")
    flight = perfect(task, 0.5)
    off = np.where(np.abs(flight.time - 0.8) < 0.1, 0.3, 0.02)
    flight = moved(flight, off[:, None] * [0.0, 0.0, 1.0])
    return flight._replace(sensed=flight.truth), task


def test_the_ramp_counts_as_room_and_as_departure(calm):
    flight, ramp_s = calm[0], calm[1].ramp_s
    path = batching.single(calm[1].path)
    corridor = Corridor.around(path, path, [0.35], 0.35)
    judged, tracked, departed = sensed_peak_errors(flight, ramp_s, corridor)
    assert (float(judged), float(tracked)) == pytest.approx((0.3, 0.02), rel=0.01)
    # Nothing before the windows of the moments that are 0.3 m off, and that from then on.
    np.testing.assert_allclose(departed[:4], 0.02, rtol=0.01)
    np.testing.assert_allclose(departed[4:], 0.3, rtol=0.01)


def test_help_is_an_event_whether_the_clock_or_the_policy(calm):
    flight = calm[0]
    late = flight.time > 0.9
    for helped in (
        flight._replace(time_scale=np.where(late, 2.0, 1.0) * flight.time_scale),
        flight._replace(fallback=late),
    ):
        np.testing.assert_array_equal(helped.assisted, late)


def test_training_starts_nowhere_where_the_guard_had_helped(calm):
    flight, (path, ramp_s) = calm[0], (calm[1].path, calm[1].ramp_s)
    all_of_it = np.asarray(anchors_of(flight, path, ramp_s).usable)
    np.testing.assert_array_equal(all_of_it, flight.time >= 0.5 * ramp_s)
    late = flight.time > 4.0
    helped = flight._replace(time_scale=np.where(late, 1.3, 1.0) * flight.time_scale)
    usable = np.asarray(anchors_of(helped, path, ramp_s).usable)
    np.testing.assert_array_equal(usable, (flight.time >= 0.5 * ramp_s) & ~late)
    taken_over = flight._replace(fallback=late)
    np.testing.assert_array_equal(anchors_of(taken_over, path, ramp_s).usable, usable)


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
    last = LastFlight(state.pace, np.float32(error), 0.35, 1.7, 2.0, event=np.bool_(event))
    flown: Any = None  # nothing asks the model here
    done = Calibrated(last, state.ensemble, state.window, 1.0, SensorNoise(), 0.0, (), 1.0)
    room = TaskRoom(state.path, task.room(), 1.5, 0.35, 2.0)
    learned, progress = accelerate(
        state, done, (new, 7), flown, Planned(state.path, 2), room, settings
    )

    def thrust(of):
        return float(np.asarray(of.network.layers[-1].bias)[0])

    assert thrust(learned.policy) == pytest.approx(0.8)
    assert (progress.plan_refused, progress.steps_not_taken) == (2, 7)
    assert thrust(learned.last_good) == pytest.approx(0.5 if good else -0.5)


def test_gusts_are_seen_through_the_noise_of_the_sensors():
    """A hovering vehicle, pushed by 0.3 m/s² to and fro each second, in twice the usual noise."""
    rng, rows = np.random.default_rng(1), 748
    push = (
        0.3 * np.sign(np.sin(2.0 * np.pi * np.arange(rows + 1) * CONTROL_DT))[:, None] * np.ones(3)
    )
    velocity = np.cumsum(push, axis=0) * CONTROL_DT + rng.normal(0.0, 0.04, (rows + 1, 3))
    still = hovering((0.0, 0.0, 0.0), rows)
    now, after = (
        still.now._replace(velocity=v.astype(np.float32)) for v in (velocity[:-1], velocity[1:])
    )
    flight = still._replace(before=now, now=now, after=after)
    assert float(unexplained(ENSEMBLE, KNOWS_NOTHING, flight)) == pytest.approx(0.3, rel=0.2)
    windy = flight._replace(after=after._replace(velocity=after.velocity + 1.0))
    assert float(unexplained(ENSEMBLE, KNOWS_NOTHING, windy)) == pytest.approx(MOST_WANDER)
    nothing = flight._replace(usable=jnp.zeros(rows, bool))
    assert float(unexplained(ENSEMBLE, KNOWS_NOTHING, nothing)) == 0.0


@pytest.mark.parametrize(("predicted", "wander"), [(0.1, 0.3), (np.nan, 0.0)])
def test_gusts_are_what_the_model_did_not_know_before_its_fit(calm, monkeypatch, predicted, wander):
    """It hovers where the model believed in a push of 0.3 m/s²; the fit explains all of it."""
    flight, task = calm
    settings = LearnerSettings()
    state = loop.start(task, policy(0.0), 0, settings)
    *hidden, last = (jax.tree.map(jnp.zeros_like, layer) for layer in state.ensemble.network.layers)
    fitted = state.ensemble._replace(
        network=state.ensemble.network._replace(layers=(*hidden, last))
    )
    pushed = last._replace(bias=last.bias.at[:, :3].set(0.3 / residual.ACCELERATION_SCALE))
    network = fitted.network._replace(layers=(*hidden, pushed))
    state = state._replace(
        ensemble=fitted._replace(network=network), pace=state.pace._replace(predicted=predicted)
    )
    knows_all = jax.tree.map(lambda leaf: leaf[0], fitted)
    monkeypatch.setattr(fit_residual, "fit", lambda *_, **__: (knows_all, jnp.float32(1.0)))
    level = np.tile(np.eye(3, dtype=np.float32), (len(flight.time), 1, 1))
    nowhere = np.zeros_like(flight.truth.position)
    still = State(nowhere, nowhere, level, nowhere)
    hover = np.tile(COMMAND_HOVER, (len(flight.time), 1))
    room = TaskRoom(state.path, task.room(), 1.5, 0.35, 2.0)
    flight = loop._seen(flight._replace(sensed=still, command=hover))
    found = calibrate(state, flight, room, settings)
    assert float(found.wander) == pytest.approx(wander, abs=0.01)


def test_a_drone_on_its_reference_is_no_way_off():
    """Also while the ramp goes on, and with samples that are late."""
    path = splines.from_harmonics([0, 0, 1.0], [[1.5, 0, 0]], [[0, 1.5, 0]], 6.0, segments=8)
    time = CONTROL_DT * np.arange(150)
    stamp = time - 0.01
    clock = clocks.start(0.6, 1.5)
    asked = reference_state(path, *clocks.shifted(clock, time))
    then = reference_state(path, *clocks.shifted(clock, stamp))
    sensed = State(then.position, then.velocity, then.rotation, then.rates)
    phase, rate, *_ = clocks.shifted(clock, time)
    own = np.concatenate([asked.thrust[:, None], asked.rates], axis=-1)
    flags = np.ones(150, bool)
    flight = Rollout(
        time, flags, sensed, stamp, own, asked, phase, rate, 0.6 * flags, sensed, ~flags, stamp,
        sensed, flags, None,
    )  # fmt: skip
    found = anchors_of(jax.tree.map(np.float32, flight)._replace(valid=flags, crashed=~flags),
                       jax.tree.map(np.float32, path), 1.5)  # fmt: skip
    usable = np.asarray(found.usable)
    np.testing.assert_array_equal(usable, time >= 0.749)
    off = jax.tree.map(lambda leaf: np.asarray(leaf)[usable], found.offset)
    np.testing.assert_allclose(off.position, 0.0, atol=2e-3)
    np.testing.assert_allclose(off.velocity, 0.0, atol=2e-2)
    np.testing.assert_allclose(
        off.rotation, np.tile(np.eye(3), (len(off.position), 1, 1)), atol=2e-2
    )
    np.testing.assert_allclose(np.asarray(found.commands)[usable], 0.0, atol=1e-5)


def test_a_flight_is_never_cut():
    task = load_task("figure8")
    assert loop.flight_seconds(task, 1.5) == pytest.approx(1.5 + 1.5 * task.lap_s)
    with pytest.raises(InputError, match=r"time scale 1.8 lasts 16.5 s.* 15 s at most"):
        loop.flight_seconds(task, 1.8)
