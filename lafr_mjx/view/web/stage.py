"""One flight in the browser: drone, ghost, path, corridor, gates, trail, wind and fans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lafr_mjx.view.course_shapes import AHEAD, arrow, corridor, gate_frame, tube
from lafr_mjx.view.decorations import (
    ARROW_SCALE,
    CORRIDOR_RGBA,
    GATE_RGBA,
    LEAST_WIND,
    REFERENCE_RGBA,
    TASK_RGBA,
    TRAIL_S,
    speed_colour,
    wind_arrows,
)
from lafr_mjx.view.meshes import linear_rgb, merged, parts_of_body
from lafr_mjx.view.shown_flight import jets
from lafr_mjx.view.web.drone import DroneInBrowser

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lafr_mjx.view.scene import Scene, Stage
    from lafr_mjx.view.shown_flight import Flight, Moment

_TRAIL_PIECES = 90
_TRAIL_M, _PATH_PIXELS = 0.03, 2.0  # width of the lines
_GHOST_TINT = ((90, 190, 255), 0.30)
_WIND_RGB = np.array([0.25, 0.70, 1.0])
_JET_AHEAD_M = (0.15, 0.8, 1.6)


class StageInBrowser:
    """One flight's drone, ghost, path, corridor, gates, trail, wind and fans."""

    def __init__(self, server: Any, scene: Scene, stage: Stage, index: int) -> None:
        self._stage = stage
        self._root = root = f"/stage{index}"
        self._server = server
        self._drone = DroneInBrowser(server, scene.model, stage.drone, f"{root}/drone")
        assert stage.ghost is not None
        self._ghost = DroneInBrowser(server, scene.model, stage.ghost, f"{root}/ghost", _GHOST_TINT)
        self._reference, self._path = (
            server.scene.add_line_segments(
                f"{root}/{name}", _pieces(stage.path)[::every], _bytes(rgba),
                thickness=_PATH_PIXELS, thickness_units="screen",
            )
            for name, rgba, every in (("reference", REFERENCE_RGBA, 1), ("path", TASK_RGBA, 2))
        )  # fmt: skip
        self._corridor = self._add_shape("corridor", corridor(stage.task), CORRIDOR_RGBA)
        self._gates = [
            (self._add_shape(f"gate{j}", gate_frame(gate), GATE_RGBA[AHEAD]),
             self._add_shape(f"gate{j}_arrow", _pointer(*arrow(gate)), GATE_RGBA[AHEAD]))
            for j, gate in enumerate(stage.task.gates)
        ]  # fmt: skip
        self._planned: Any = False  # of the flight that is shown; False before the first
        self._gates_shown: tuple[int, ...] = ()
        here = np.tile(stage.path[0], (_TRAIL_PIECES, 2, 1))
        self._trail = server.scene.add_line_segments(
            f"{root}/trail", here, np.zeros((_TRAIL_PIECES, 2, 3), np.uint8), thickness=_TRAIL_M
        )
        _add_props(server, scene, root, index)
        self._wind: Any = None
        self._wind_shown = np.full(3, np.nan)

    def update(
        self, flight: Flight, moment: Moment, top_speed: float, *, ghost: bool, corridor: bool
    ) -> None:
        """Move everything to a moment."""
        self._update_course(flight.planned, moment.gates, corridor=corridor)
        offset = self._stage.offset
        self._drone.move(moment.position + offset, moment.quaternion, moment.blade_angle)
        self._ghost.move(
            moment.reference_position + offset, moment.reference_quaternion, moment.blade_angle
        )
        self._ghost.show(ghost)
        times = np.linspace(max(moment.time - TRAIL_S, 0.0), moment.time, _TRAIL_PIECES + 1)
        points = _along(flight.time, flight.position, times) + offset
        colours = speed_colour(np.interp(times, flight.time, flight.speed), top_speed)[:, :3]
        self._trail.points = _pieces(points)
        self._trail.colors = _pieces(linear_rgb(colours))
        self._update_wind(moment)

    def _update_course(
        self, planned: np.ndarray | None, gates: Sequence[int], *, corridor: bool
    ) -> None:
        self._corridor.visible = corridor and planned is not None
        if planned is not self._planned:
            self._planned = planned
            self._path.visible = planned is not None
            line = self._stage.path if planned is None else planned + self._stage.offset
            self._reference.points = _pieces(line)
        states = tuple(int(state) for state in gates)
        if states != self._gates_shown:
            self._gates_shown = states
            for shapes, state in zip(self._gates, states, strict=True):
                for shape in shapes:
                    shape.color = _bytes(GATE_RGBA[state])

    def _add_shape(
        self, name: str, shape: tuple[np.ndarray, np.ndarray], rgba: Sequence[float]
    ) -> Any:
        corners, faces = shape
        return self._server.scene.add_mesh_simple(
            f"{self._root}/{name}", (corners + self._stage.offset).astype(np.float32), faces,
            color=_bytes(rgba), opacity=None if rgba[3] == 1.0 else rgba[3], cast_shadow=False,
        )  # fmt: skip

    def _update_wind(self, moment: Moment) -> None:
        wind = np.round(moment.wind, 1)
        if np.allclose(wind, self._wind_shown, atol=0.25):
            return  # arrows are sent anew only when it is seen
        self._wind_shown = wind
        arrows = self._arrows(wind, moment.fan_scale)
        long = np.linalg.norm(arrows[:, 1] - arrows[:, 0], axis=-1) > LEAST_WIND * ARROW_SCALE
        if self._wind is not None:
            self._wind.remove()
            self._wind = None
        if long.any():
            self._wind = self._server.scene.add_arrows(
                f"{self._root}/wind", arrows[long].astype(np.float32), linear_rgb(_WIND_RGB),
                shaft_radius=0.03, head_radius=0.075, head_length=0.16,
            )  # fmt: skip

    def _arrows(self, wind: np.ndarray, fan_scale: float) -> np.ndarray:
        """Start and end [N, 2, 3] of the arrows over the path and in the fans' jets."""
        arrows = [wind_arrows(self._stage.path, wind)]
        for fan in self._stage.task.fans:
            ahead = np.array(_JET_AHEAD_M)[:, None] * fan.direction + fan.position
            shafts = ARROW_SCALE * jets([fan], np.full(len(ahead), fan_scale), ahead)
            starts = ahead + self._stage.offset
            arrows.append(np.stack([starts, starts + shafts], axis=1))
        return np.concatenate(arrows)


def _add_props(server: Any, scene: Scene, root: str, index: int) -> None:
    """Landmarks and fans, which do not move."""
    for body in range(1, scene.model.nbody):
        name = scene.model.body(body).name
        if name.startswith(f"stage{index}/"):
            mesh = merged(parts_of_body(scene.model, body))
            if mesh is not None:
                server.scene.add_mesh_trimesh(
                    f"{root}/{name.replace('/', '_')}", mesh, position=scene.data.xpos[body],
                    wxyz=scene.data.xquat[body],
                )  # fmt: skip


def _pointer(start: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An arrow as a mesh."""
    neck = start + 0.5 * (end - start)
    return tube(np.stack([start, neck, neck, end]), np.array([0.02, 0.02, 0.06, 0.0]))


def _bytes(rgba: Sequence[float]) -> tuple[int, ...]:
    return tuple(round(255.0 * share) for share in rgba[:3])


def _pieces(points: np.ndarray) -> np.ndarray:
    """The pieces [N - 1, 2, 3] of a line through points [N, 3]."""
    kind = points.dtype if points.dtype == np.uint8 else np.float32
    return np.stack([points[:-1], points[1:]], axis=1).astype(kind)


def _along(time: np.ndarray, values: np.ndarray, times: np.ndarray) -> np.ndarray:
    return np.stack([np.interp(times, time, values[:, k]) for k in range(values.shape[1])], axis=-1)
