"""References by plain numbers against those by arrays."""

from __future__ import annotations

import numpy as np
import pytest

from lafr_mjx.reference import clock as clocks
from lafr_mjx.reference import splines
from lafr_mjx.reference.flatness import reference_at
from lafr_mjx.reference.plain_reference import plain_path, references_at
from lafr_mjx.tasks import load_task

TURNING = splines.from_waypoints(
    [[0, 0, 1], [1, 0, 1.5], [1, 2, 1], [0, 1, 2]], 6.0, periodic=True, yaw=[0.0, 1.0, 2.0, 1.0]
)
THERE = splines.from_waypoints([[0, 0, 1], [1, 0, 1.5], [3, 1, 1]], 2.0, periodic=False)
PATHS = {"figure8": load_task("figure8").path, "turning": TURNING, "rest to rest": THERE}


@pytest.mark.parametrize("name", PATHS)
def test_the_same_references(name):
    path, rng = PATHS[name], np.random.default_rng(3)
    plain = plain_path(path)
    for k in range(200):
        clock = clocks.start(rng.uniform(0.3, 2.0), 0.0 if k % 2 else 1.5)
        for _ in range(k % 4):
            clock = clocks.with_time_scale(clock, rng.uniform(0.3, 2.0))
            clock = clocks.advance(clock, rng.uniform(0.0, 3.0))
        offsets = [*rng.uniform(-0.2, 0.3, 3), 0.0]
        expected = reference_at(path, clock, np.array(offsets))
        found = references_at(plain, clocks.plain(clock), offsets)
        for field, one, other in zip(found._fields, found, expected, strict=True):
            assert one.dtype == other.dtype and one.shape == other.shape
            # Sines and powers of the two libraries may differ in the last digit.
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13, err_msg=field)


@pytest.mark.parametrize("phase", [-1.0, 0.0, 1e-9, 1.0, 2.0, 2.0 - 1e-12, 3.0, 6.0, 12.0, 1e6])
@pytest.mark.parametrize("name", PATHS)
def test_ends_and_breaks(name, phase):
    path = PATHS[name]
    for at in (phase, *np.asarray(path.breaks).tolist()):
        clock = clocks.start(1.0, 0.0, phase=at)
        expected = reference_at(path, clock, np.array([0.0]))
        found = references_at(plain_path(path), clocks.plain(clock), [0.0])
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_has_no_attitude_is_not_a_number_either_way():
    """Free fall: Python divides by no zero, arrays do; the flyer wants the arrays' NaN."""
    path = TURNING._replace(coefficients=np.zeros_like(TURNING.coefficients))
    falling = path.coefficients.copy()
    per_second = 2.0 / (path.breaks[1] - path.breaks[0])
    falling[:, 2, 2] = -0.5 * 9.81 / per_second**2
    for scale in (1.0, np.inf, np.nan):
        broken = path._replace(coefficients=falling * scale)
        clock = clocks.start(1.0, 0.0)
        expected = reference_at(broken, clock, np.array([0.0, 0.1]))
        found = references_at(plain_path(broken), clocks.plain(clock), [0.0, 0.1])
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
