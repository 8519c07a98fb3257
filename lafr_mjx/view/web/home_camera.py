"""Where a visitor's camera starts: so that all paths are in the picture beside the panel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lafr_mjx.view.camera import looking, nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

_ELEVATION = -27.0  # degrees
_FILLED = 0.8  # of the picture, in the direction that binds
_LEAST_M = 1.5  # m, even from a path that is a point
_SAME_M = 0.02  # m; a camera this near to where it was put was not moved


def home_camera(
    points: np.ndarray, vertical_fov: float, aspect: float
) -> tuple[np.ndarray, np.ndarray]:
    """Position and target of a camera that has all points in its picture.

    It looks along the narrower horizontal side of the points.

    Args:
        points: [N, 3] m.
        vertical_fov: angle from the lower to the upper edge of the picture [rad].
        aspect: width of the picture over its height.
    """
    low, high = points.min(axis=0), points.max(axis=0)
    angles = (90.0 if high[0] - low[0] >= high[1] - low[1] else 180.0, _ELEVATION)
    target = 0.5 * (low + high)
    filled = _FILLED * np.tan(0.5 * vertical_fov)
    distance = max(nearest(points - target, filled, aspect, angles, lowered=0.0), _LEAST_M)
    return target - distance * looking(*angles)[2], target


class HomeCameras:
    """Puts the cameras of visitors home, and again when the picture changes its shape.

    The page docks its panel after a visitor has arrived, and windows are resized. A camera that
    the visitor has moved is left alone.
    """

    def __init__(self, points: np.ndarray) -> None:
        self._points = points
        self._aspects: dict[int, float] = {}
        self._places: dict[int, list[np.ndarray]] = {}

    def welcome(self, client: Any) -> None:
        """Take over the camera of a visitor who has just arrived."""
        self._places[client.client_id] = [np.array(client.camera.position)]
        client.camera.up_direction = (0.0, 0.0, 1.0)
        self._put_home(client)
        client.camera.on_update(lambda _: self._reshaped(client))

    def forget(self, client: Any) -> None:
        """A visitor has left."""
        self._aspects.pop(client.client_id, None)
        self._places.pop(client.client_id, None)

    def _reshaped(self, client: Any) -> None:
        before = self._aspects.get(client.client_id)
        if before is None or abs(client.camera.aspect / before - 1.0) < 0.01:
            return
        # A message that was under way when we moved the camera still tells the place before.
        if _is_one_of(np.asarray(client.camera.position), self._places[client.client_id]):
            self._put_home(client)

    def _put_home(self, client: Any) -> None:
        camera = client.camera
        aspect = float(camera.aspect)
        position, target = home_camera(self._points, float(camera.fov), aspect)
        self._aspects[client.client_id] = aspect
        self._places[client.client_id] = [*self._places[client.client_id][-2:], position]
        with client.atomic():
            camera.position, camera.look_at = position, target


def _is_one_of(place: np.ndarray, places: Sequence[np.ndarray]) -> bool:
    return any(np.linalg.norm(place - other) < _SAME_M for other in places)
