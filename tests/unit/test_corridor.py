"""Errors are judged by what they take of the task's room."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lafr_mjx import batching
from lafr_mjx.learner.corridor import Beside, Corridor
from lafr_mjx.reference import splines
from lafr_mjx.reference.path import derivatives
from lafr_mjx.tasks import load_task

THRESHOLD = 0.35


def circle(radius: float):
    """Closed path at an altitude of 1 m, a lap in 6 s."""
    made = splines.from_harmonics([0, 0, 1.0], [[0, radius, 0]], [[radius, 0, 0]], 6.0, segments=16)
    return batching.single(made)


TASK, INSIDE = circle(2.0), circle(1.8)
CORRIDOR = Corridor.around(INSIDE, TASK, [THRESHOLD], THRESHOLD)
coordinates = st.floats(-0.5, 0.5)


def judged(corridor: Corridor, reference, phase: float, off) -> float:
    asked = jnp.asarray(derivatives(reference, jnp.float32(phase)))[0, :3]
    beside = corridor.at(jnp.float32(phase))
    return float(corridor.judged(asked + jnp.asarray(off, jnp.float32), asked, beside))


@settings(max_examples=60, deadline=None)
@given(st.floats(0.0, 6.0), coordinates, coordinates, coordinates)
def test_on_the_tasks_own_path_an_error_is_an_error(phase, x, y, z):
    own = Corridor.around(TASK, TASK, [THRESHOLD], THRESHOLD)
    assert judged(own, TASK, phase, (x, y, z)) == pytest.approx(
        np.hypot(np.hypot(x, y), z), abs=1e-3
    )


def test_away_from_the_path_counts_more_and_towards_it_as_it_is():
    # At phase 0 the reference is at (1.8, 0), 0.2 m inside: 0.15 m are left.
    assert judged(CORRIDOR, INSIDE, 0.0, (-0.15, 0, 0)) == pytest.approx(THRESHOLD, rel=0.01)
    assert judged(CORRIDOR, INSIDE, 0.0, (0.15, 0, 0)) == pytest.approx(0.15, rel=0.01)
    assert judged(CORRIDOR, INSIDE, 0.0, (0, 0.15, 0)) == pytest.approx(0.15, rel=0.05)


@settings(max_examples=100, deadline=None)
@given(st.floats(0.0, 6.0), coordinates, coordinates, coordinates)
def test_who_is_judged_within_the_threshold_is_within_it_of_the_path(phase, x, y, z):
    asked = np.asarray(derivatives(INSIDE, jnp.float32(phase)))[0, :3]
    position = asked + np.array([x, y, z])
    distance = np.hypot(np.hypot(position[0], position[1]) - 2.0, position[2] - 1.0)
    if judged(CORRIDOR, INSIDE, phase, (x, y, z)) <= THRESHOLD:
        assert distance <= THRESHOLD + 0.032  # the path bends away from its tangent


def test_beyond_the_ends_of_a_path_it_is_beside_them():
    task = load_task("dash")
    path = batching.single(task.path)
    corridor = Corridor.around(path, path, [THRESHOLD], THRESHOLD)
    beside: Beside = corridor.at(jnp.array([-1.0, task.lap_s + 1.0]))
    np.testing.assert_allclose(beside.centre[0], task.start_position, atol=1e-3)
    np.testing.assert_allclose(beside.centre[1], task.goal_position, atol=1e-3)


def test_where_a_path_crosses_itself_its_own_branch_counts():
    task = load_task("figure8")
    path = batching.single(task.path)
    corridor = Corridor.around(path, path, task.room(), THRESHOLD)
    middle = corridor.at(jnp.float32(0.5 * task.lap_s))  # where the lap begins, too
    velocity = np.asarray(derivatives(task.path, 0.5 * task.lap_s))[1, :3]
    np.testing.assert_allclose(middle.along, velocity / np.linalg.norm(velocity), atol=0.02)


def test_where_the_room_is_narrow_less_error_uses_it_up():
    half = Corridor.around(TASK, TASK, [THRESHOLD, 0.5 * THRESHOLD], THRESHOLD)
    assert judged(half, TASK, 1.5, (0, 0, 0.1)) == pytest.approx(0.1, rel=0.01)
    assert judged(half, TASK, 4.5, (0, 0, 0.1)) == pytest.approx(0.2, rel=0.01)
