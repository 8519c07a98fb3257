"""A limit on the speed: what is predicted is of what will be flown."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest

from lafr_mjx.learner.improve import Calibrated, LearnerSettings
from lafr_mjx.learner.references import NOT_ALLOWED, REFUSALS, Planned
from lafr_mjx.learner.speed_limit import SpeedLimit, keep_to
from lafr_mjx.learner.time_scaling import Choice, LastFlight, Pace
from lafr_mjx.learner.verify import Prediction
from lafr_mjx.reference.path import Path

LAST = LastFlight(Pace(*map(jnp.float32, (0.5, 0.1, 0.1))), 0.1, 0.35, 1.7, 2.0)


class Eager(NamedTuple):
    """Wants always the same, and believes that errors are `1 / α`."""

    wanted: Any
    outcomes = ("eager",)

    def start(self):
        return ()

    def propose(self, memory, last):
        del last
        return memory, jnp.float32(self.wanted)

    def choose(self, memory, fastest, evidence):
        del fastest
        pace = predicted(evidence.trained, jnp.float32(self.wanted)[None], 1.0)
        pace = Pace(pace.time_scale[0], pace.nominal_error[0], pace.departure[0])
        return Choice(memory, pace, jnp.bool_(True), jnp.bool_(True), jnp.int32(0), None, {})  # pyright: ignore[reportArgumentType]


def predicted(policy, scales, stress):
    assert stress == 1.0
    error = policy / scales
    others = {"disagreement": 0.0 * error, "departure": 2.0 * error}
    return Prediction(scales, *[error] * 8)._replace(**others)


@pytest.mark.parametrize(
    ("wanted", "flown", "bound"),
    [(0.3, 0.4, "profile"), (0.4, 0.4, "profile"), (0.6, 0.6, "eager")],
)
def test_predictions_are_of_what_will_be_flown(wanted, flown, bound):
    rule = SpeedLimit(Eager(wanted), 0.4)
    evidence: Any = SimpleNamespace(
        last=LAST, flown=jnp.float32(5.0), trained=jnp.float32(0.02), predict=predicted
    )
    memory, fastest = rule.propose(rule.start(), LAST)
    assert float(fastest) == pytest.approx(wanted), "nothing is planned yet"
    choice = rule.choose(memory, fastest, evidence)
    assert float(choice.pace.time_scale) == pytest.approx(flown)
    assert float(choice.pace.predicted) == pytest.approx(0.02 / flown)
    assert float(choice.pace.expected) == pytest.approx(0.04 / flown)
    assert rule.outcomes[int(choice.bound_by)] == bound


def paths(*lifts: float) -> Path:
    """A batch of paths, each at a height of its own."""
    coefficients = np.zeros((len(lifts), 1, 4, 8), np.float32)
    coefficients[:, 0, 2, 0] = lifts
    ends = np.tile(np.array([0.0, 8.0], np.float32), (len(lifts), 1))
    return Path(jnp.asarray(coefficients), jnp.asarray(ends), jnp.zeros(len(lifts)))


def proposing(*fastest: float) -> Calibrated:
    """What a flight taught, of which nothing else matters here."""
    nothing: Any = [None] * 7
    return Calibrated(*nothing, fastest=jnp.array(fastest, jnp.float32))


@pytest.mark.parametrize(
    ("planned", "refused", "height", "why", "limit"),
    [
        (2.0, 0, 2.0, 0, 0.25),  # allowed, and faster than now
        (3.0, 0, 3.0, 0, 0.38),
        (4.0, 0, 1.0, NOT_ALLOWED, 0.3),  # only slower than now: the last one stays, at its limit
        (9.0, 0, 1.0, NOT_ALLOWED, 0.3),  # at no pace
        (1.0, 2, 1.0, 2, 0.3),  # its planner was refused already, for a reason of its own
        (math.nan, 0, 1.0, NOT_ALLOWED, 0.3),
    ],
)
def test_a_plan_is_flown_as_fast_as_is_allowed_or_not_at_all(planned, refused, height, why, limit):
    def fastest_on(path: Path, slowest: float) -> float:
        """Of each height; infinite if slower than asked."""
        lift = float(path.coefficients[0, 2, 0])
        fastest = {1.0: 0.3, 2.0: 0.25, 3.0: 0.38, 4.0: 0.42}.get(lift, math.inf)
        return fastest if fastest <= slowest else math.inf

    state: Any = SimpleNamespace(
        path=paths(1.0, 1.0), pace=Pace(jnp.array([0.4, 0.4]), jnp.zeros(2), jnp.zeros((2, 1)))
    )
    settings = LearnerSettings(time_scaling=SpeedLimit(Eager(0.2), np.zeros(2, np.float32)))
    calibrated = proposing(0.36, 0.36)
    plan = Planned(paths(2.0, planned), jnp.array([0, refused]))
    settings, calibrated, plan = keep_to(fastest_on, state, settings, calibrated, plan)
    assert plan.path.coefficients[:, 0, 2, 0] == pytest.approx([2.0, height])
    assert plan.refused.tolist() == [0, why] and plan.refused.dtype == np.int32
    assert REFUSALS[why] or not why
    assert settings.time_scaling.fastest == pytest.approx([0.25, limit])
    assert settings.time_scaling.fastest.dtype == np.float32
    assert np.asarray(calibrated.fastest) == pytest.approx([0.36, max(0.36, limit)])


def test_what_just_flew_may_fly_again_however_it_is_judged():
    """The task's path at its first pace, with less room for errors than a plan must have."""
    state: Any = SimpleNamespace(
        path=paths(1.0), pace=Pace(jnp.array([0.4]), jnp.zeros(1), jnp.zeros((1, 1)))
    )
    settings = LearnerSettings(time_scaling=SpeedLimit(Eager(0.2), np.zeros(1, np.float32)))
    calibrated = proposing(0.3)
    plan = Planned(paths(1.0), jnp.array([0]))
    settings, calibrated, plan = keep_to(
        lambda path, slowest: math.inf, state, settings, calibrated, plan
    )
    assert plan.refused.tolist() == [0], "nothing else was planned"
    assert settings.time_scaling.fastest == pytest.approx([0.4], rel=1e-3)
    assert np.asarray(calibrated.fastest) == pytest.approx([0.4], rel=1e-3)
