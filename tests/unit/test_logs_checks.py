"""What is said about frames, signs and units; and the offset between rates and attitude."""

from __future__ import annotations

import numpy as np
import pytest
from log_flights import fly, raw_log

from lafr_mjx import so3
from lafr_mjx.logs import log_checks, time_offset
from lafr_mjx.logs.raw_log import Signal
from lafr_mjx.logs.resample import uniform

MADE = fly(12.0, drag=(0.3, 0.3, 0.1), delay=0.02, motor_lag=0.03, rate_lag=0.04)


def findings(**changes):
    return log_checks.check(uniform(raw_log(MADE, **changes)))


def signal(values, held=False):
    return Signal(MADE.time, np.asarray(values, float), "x", held)


def test_nothing_is_said_about_a_good_log():
    assert findings() == []


NED = np.diag([1.0, -1.0, -1.0])
ROTATION = so3.quaternion_to_matrix(MADE.quaternion)


def turned(left, right):
    return signal(so3.matrix_to_quaternion(left @ ROTATION @ right))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (lambda: {"rates": signal(np.degrees(MADE.rates))}, "in °/s"),
        (lambda: {"rates": signal(MADE.rates * [1, -1, -1])}, "forward-right-down"),
        (lambda: {"rates": signal(-MADE.rates)}, "x, y and z axes"),
        (lambda: {"velocity": signal(-MADE.velocity)}, "opposite sign"),
        (lambda: {"position": signal(1e3 * MADE.position)}, "positions are in millimetres"),
        (lambda: {"velocity": signal((np.swapaxes(ROTATION, 1, 2)
                                      @ MADE.velocity[..., None])[..., 0])}, "in the body frame"),
        (lambda: {"quaternion": signal(MADE.quaternion * [1, -1, -1, -1])}, "world to body"),
        (lambda: {"quaternion": signal(MADE.quaternion[:, [1, 2, 3, 0]])}, "x, y, z, w"),
        (lambda: {"position": signal(MADE.position @ NED), "velocity": signal(MADE.velocity @ NED),
                  "rates": signal(MADE.rates @ NED), "quaternion": turned(NED, NED),
                  "rate_command": signal(MADE.rate_command @ NED, True)}, "z axis points down"),
        (lambda: {"thrust": signal(0.192 * MADE.thrust[:, None], True), "mass": 0.192},
         "in newtons"),
        (lambda: {"thrust": signal(MADE.thrust[:, None] / 25.0, True)}, "share of full thrust"),
    ],
)  # fmt: skip
def test_the_usual_mistakes_are_named(changes, words):
    found = findings(**changes())
    assert any(words in finding.text and finding.serious for finding in found), found


def test_offset_of_commanded_rates():
    """A pure delay of 40 ms on held commands."""
    log = uniform(raw_log(MADE))
    assert time_offset.rates_offset(log, 0, len(log.time)) == pytest.approx(0.04, abs=0.002)


@pytest.mark.parametrize("shift", [-0.012, 0.0, 0.0045])
def test_offset_of_a_gyroscope(shift):
    """Stamps of the gyroscope that are off, found to a millisecond."""
    made = fly(10.0, seed=3)
    log = uniform(raw_log(made, commanded=False, rates=Signal(made.time + shift, made.rates, "w")))
    found = time_offset.rates_offset(log, 0, len(log.time))
    # Held rates are taken as straight lines between samples: half a sample, the wrong way.
    assert found == pytest.approx(-shift + 0.005, abs=0.0015)


def test_no_offset_where_nothing_turns():
    still = np.zeros_like(MADE.rates)
    flat = np.tile([1.0, 0.0, 0.0, 0.0], (len(MADE.time), 1))
    log = uniform(raw_log(MADE, rates=signal(still), rate_command=signal(still, True),
                          quaternion=signal(flat)))  # fmt: skip
    assert time_offset.rates_offset(log, 0, len(log.time)) is None
