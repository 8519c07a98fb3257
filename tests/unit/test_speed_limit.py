"""A limit on the speed: what is predicted is of what will be flown."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import jax.numpy as jnp
import pytest

from lafr_mjx.learner.speed_limit import SpeedLimit
from lafr_mjx.learner.time_scaling import Choice, LastFlight, Pace
from lafr_mjx.learner.verify import Prediction

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
    assert float(fastest) == pytest.approx(flown)
    choice = rule.choose(memory, fastest, evidence)
    assert float(choice.pace.time_scale) == pytest.approx(flown)
    assert float(choice.pace.predicted) == pytest.approx(0.02 / flown)
    assert float(choice.pace.expected) == pytest.approx(0.04 / flown)
    assert rule.outcomes[int(choice.bound_by)] == bound
