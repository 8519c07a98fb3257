"""The wide camera sees the whole course, whatever its shape and the picture's."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from view_runs import seen_by

from lafr_mjx.tasks import load_task
from lafr_mjx.view.camera import NEAREST_M, wide_camera
from lafr_mjx.view.course_shapes import path_points


def box(*size):
    return 0.5 * np.array(list(itertools.product((-1, 1), repeat=3))) * size + [0.0, 0.0, 1.5]


def camera_over(points, *angles) -> Any:
    scene: Any = SimpleNamespace(stages=[SimpleNamespace(outline=points)])
    return wide_camera(scene, *angles)


def in_picture(camera, points, aspect):
    """How far to the sides and up each point is; 1 is the edge."""
    return np.abs(seen_by(camera, points, np.radians(45.0), aspect))


@pytest.mark.parametrize(("aspect", "angles"), [(16 / 9, ()), (1.0, ()), (2.8, (-38.0, 0.01))])
@pytest.mark.parametrize("size", [(6, 4.5, 0), (4.5, 6, 0), (10, 0, 0), (1, 1, 4), (10, 8, 3)])
def test_every_corner_of_a_course_is_in_the_picture(size, aspect, angles):
    camera = camera_over(box(*size), aspect, *angles)
    seen = in_picture(camera, box(*size), aspect)
    assert seen.max() < 1.0
    assert seen.max() > 0.75  # and the course fills it


@pytest.mark.parametrize("task", ["figure8", "shuttle", "dash", "inspection"])
def test_shipped_courses(task):
    points = path_points(load_task(task).path)
    assert in_picture(camera_over(points, 16 / 9), points, 16 / 9).max() < 1.0


def test_a_small_course_does_not_fill_the_picture():
    assert camera_over(box(0.1, 0.1, 0.1), 16 / 9).distance == NEAREST_M
