"""Where the camera is: over the whole path, or behind the drone, without a jerk."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Literal

import numpy as np

from lafr_mjx.view.decorations import TRAIL_WIDTH
from lafr_mjx.view.offscreen import camera_at

if TYPE_CHECKING:
    import mujoco

    from lafr_mjx.view.scene import Scene
    from lafr_mjx.view.shown_flight import Flight

CameraName = Literal["wide", "follow"]

FOLLOW_M = 1.5  # m, distance of the follow camera
CLOSE_M = 0.34  # m, of the close-up
_HIGH = np.tan(0.5 * np.radians(45.0))  # of MuJoCo's free camera
_AZIMUTH, _ELEVATION, _LOWERED = 90.0, -28.0, 0.05
_ROOM_M = 0.2  # around the path, for the drone beside it
NEAREST_M = 2.0  # of the wide camera: a small course must not fill the picture
_SMOOTHING_S = 0.5
_NEAR_M = 6.0  # from so far a trail is drawn as it is


def wide_camera(
    scene: Scene, aspect: float, elevation: float = _ELEVATION, lowered: float = _LOWERED
) -> mujoco.MjvCamera:
    """A camera that sees all of all stages, looking along the arena's shorter side.

    It looks below the middle, by the share `lowered` of its distance: the floor with the shadow
    is worth seeing.
    """
    points = np.concatenate([stage.outline for stage in scene.stages])
    low, high = points.min(axis=0) - _ROOM_M, points.max(axis=0) + _ROOM_M
    azimuth = _AZIMUTH if high[0] - low[0] >= high[1] - low[1] else 0.0
    middle = 0.5 * (low + high)
    corners = np.array(list(itertools.product(*zip(low, high, strict=True)))) - middle
    distance = max(nearest(corners, _HIGH, aspect, (azimuth, elevation), lowered), NEAREST_M)
    middle[2] -= lowered * distance
    return camera_at(middle, distance, azimuth, elevation)


def trail_width(camera: mujoco.MjvCamera) -> float:
    """Radius of a trail [m] that is seen from this camera, however large the course is."""
    return TRAIL_WIDTH * max(1.0, camera.distance / _NEAR_M)


def looking(azimuth: float, elevation: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Unit vectors to the right, up and forward of a camera with these angles [degrees]."""
    a, e = np.radians([azimuth, elevation])
    forward = np.array([np.cos(e) * np.cos(a), np.cos(e) * np.sin(a), np.sin(e)])
    right = np.array([np.sin(a), -np.cos(a), 0.0])
    return right, np.cross(right, forward), forward


def nearest(
    points: np.ndarray, high: float, aspect: float, angles: tuple[float, float], lowered: float
) -> float:
    """The smallest distance d [m] from which all points [N, 3] around their middle are seen.

    A point at r is seen if its sides x and y, as r + (0, 0, lowered · d) has them, are within
    the picture at its depth z: |x| ≤ w (d + z) and |y| ≤ h (d + z). All of this is linear in d.
    `high` is h: half of the picture's height over the distance; w is h times the aspect.
    """
    right, up, forward = looking(*angles)
    x, y, z = points @ right, points @ up, points @ forward
    deeper, higher = 1.0 + lowered * forward[2], lowered * up[2]
    beside = (np.abs(x) / (high * aspect) - z) / deeper
    above = (y - high * z) / (high * deeper - higher)
    below = (-y - high * z) / (high * deeper + higher)
    return float(max(beside.max(), above.max(), below.max()))


def follow_camera(flight: Flight, time: float, offset: np.ndarray) -> mujoco.MjvCamera:
    """A camera that goes with the drone, smoothly: it looks at a mean around the moment."""
    return camera_at(_smoothed(flight, time) + offset, FOLLOW_M, _AZIMUTH - 15.0, -16.0)


def close_camera(flight: Flight, time: float, offset: np.ndarray, size: float) -> mujoco.MjvCamera:
    """A close-up of the drone, from behind and above."""
    target = flight.at(time).position + offset
    return camera_at(target, CLOSE_M * size, 40.0, -28.0)


def _smoothed(flight: Flight, time: float) -> np.ndarray:
    """Mean of the position around a moment, weighted like a bell: no delay, no jerk."""
    weights = np.exp(-0.5 * ((flight.time - time) / (0.5 * _SMOOTHING_S)) ** 2)
    return weights @ flight.position / weights.sum()
