"""Where a visitor's camera starts, and the colours that the browser is sent."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from view_runs import projected

from lafr_mjx.tasks import load_task
from lafr_mjx.view.course_shapes import path_points
from lafr_mjx.view.meshes import linear_rgb
from lafr_mjx.view.web.home_camera import HomeCameras, home_camera

FOV = np.radians(75.0)


@pytest.mark.parametrize("aspect", [0.5, 1.1, 1.8, 3.0])
@pytest.mark.parametrize("name", ["figure8", "shuttle", "dash", "inspection"])
def test_the_whole_path_fills_the_picture(name, aspect):
    points = path_points(load_task(name).path)
    position, target = home_camera(points, FOV, aspect)
    across, up = projected(points, position, target, FOV, aspect)
    assert position[2] > points[:, 2].min()
    largest = max(np.abs(across).max(), np.abs(up).max())
    assert 0.75 < largest < 0.85


def test_a_path_along_y_is_seen_from_its_side():
    points = np.array([[0.0, -3.0, 1.0], [0.2, 3.0, 1.0]])
    across, _ = projected(points, *home_camera(points, FOV, 1.5), FOV, 1.5)
    assert np.ptp(across) > 1.4


def test_a_path_that_is_a_point_is_seen_from_a_distance():
    position, target = home_camera(np.ones((5, 3)), FOV, 1.5)
    assert np.linalg.norm(position - target) > 1.0


class Visitor:
    """A client as the server shows it."""

    client_id = 7

    def __init__(self):
        self.told = []
        self.camera = SimpleNamespace(
            position=np.array([3.0, 3.0, 3.0]), look_at=np.zeros(3), fov=FOV, aspect=1.6,
            on_update=self.told.append,
        )  # fmt: skip

    def atomic(self):
        import contextlib

        return contextlib.nullcontext()

    def reshaped(self, aspect):
        self.camera.aspect = aspect
        self.told[0](self.camera)


def test_the_camera_goes_home_again_when_the_panel_takes_its_place():
    points = path_points(load_task("figure8").path)
    visitor = Visitor()
    HomeCameras(points).welcome(visitor)
    stale = np.array([3.0, 3.0, 3.0])  # told before the first of ours had arrived
    for aspect, told in ((1.1, None), (0.8, stale)):
        visitor.camera.position = visitor.camera.position if told is None else told
        visitor.reshaped(aspect)
        camera = visitor.camera
        across, _ = projected(points, camera.position, camera.look_at, FOV, aspect)
        assert 0.75 < np.abs(across).max() < 0.85


def test_a_camera_that_the_visitor_moved_is_left_alone():
    visitor = Visitor()
    cameras = HomeCameras(path_points(load_task("figure8").path))
    cameras.welcome(visitor)
    visitor.camera.position = mine = visitor.camera.position + np.array([0.0, 0.5, 0.0])
    visitor.reshaped(1.1)
    assert visitor.camera.position is mine
    cameras.forget(visitor)
    visitor.reshaped(0.9)  # a last message of one who has left
    assert visitor.camera.position is mine


def test_colours_of_corners_are_linear_light():
    # The standard's own example: half of the light looks like 0.735.
    assert list(linear_rgb(np.array([0.0, 0.7354, 1.0]))) == [0, 128, 255]
    assert linear_rgb(np.array([-0.5, 0.03, 2.0])).tolist() == [0, 1, 255]
