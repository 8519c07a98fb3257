"""Where the camera is: over the whole path, or behind the drone, without a jerk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from lafr_mjx.view.offscreen import camera_at

if TYPE_CHECKING:
    import mujoco

    from lafr_mjx.view.flights import Flight
    from lafr_mjx.view.scene import Scene

CameraName = Literal["wide", "follow"]

FOLLOW_M = 1.5  # m, distance of the follow camera
CLOSE_M = 0.34  # m, of the close-up
_FOVY = np.radians(45.0)  # of MuJoCo's free camera
_AZIMUTH, _ELEVATION = 90.0, -28.0
_SMOOTHING_S = 0.5


def wide_camera(scene: Scene, aspect: float, elevation: float = _ELEVATION) -> mujoco.MjvCamera:
    """A camera that sees the paths of all stages, looking along the arena's shorter side."""
    points = np.concatenate([stage.path for stage in scene.stages])
    low, high = points.min(axis=0), points.max(axis=0)
    azimuth = _AZIMUTH if high[0] - low[0] >= high[1] - low[1] else 0.0
    across = max(float((high - low)[:2].max()), 2.0)
    deep = float((high - low)[:2].min())
    half_width = np.tan(0.5 * _FOVY) * aspect
    distance = (0.5 * across + 0.45) / half_width + 0.45 * deep
    target = 0.5 * (low + high)
    # The path a little above the middle: the floor with the shadow is worth seeing.
    target[2] -= 0.05 * distance
    return camera_at(target, distance, azimuth, elevation)


def follow_camera(
    flight: Flight, time: float, offset: np.ndarray, distance: float = FOLLOW_M
) -> mujoco.MjvCamera:
    """A camera that goes with the drone, smoothly: it looks at a mean around the moment."""
    return camera_at(_smoothed(flight, time) + offset, distance, _AZIMUTH - 15.0, -16.0)


def close_camera(flight: Flight, time: float, offset: np.ndarray, size: float) -> mujoco.MjvCamera:
    """A close-up of the drone, from behind and above."""
    target = flight.at(time).position + offset
    return camera_at(target, CLOSE_M * size, 40.0, -28.0)


def _smoothed(flight: Flight, time: float) -> np.ndarray:
    """Mean of the position around a moment, weighted like a bell: no delay, no jerk."""
    weights = np.exp(-0.5 * ((flight.time - time) / (0.5 * _SMOOTHING_S)) ** 2)
    return weights @ flight.position / weights.sum()
