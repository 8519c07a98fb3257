"""What is drawn into a scene beside the model: paths, corridor, gates, trails, wind, jets."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

import matplotlib as mpl
import mujoco
import numpy as np

from lafr_mjx.view.course_shapes import AHEAD, MISSED, PASSED, across, arrow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lafr_mjx.tasks import Fan
    from lafr_mjx.view.scene import Shape, Stage
    from lafr_mjx.view.shown_flight import Moment

REFERENCE_RGBA = (0.95, 0.97, 1.0, 1.0)  # opaque, to be seen within the corridor
TASK_RGBA = (0.40, 0.43, 0.48, 1.0)
CORRIDOR_RGBA = (0.50, 0.75, 1.0, 0.12)
GATE_RGBA = {
    AHEAD: (0.95, 0.97, 1.0, 1.0),
    PASSED: (0.10, 0.80, 0.35, 1.0),
    MISSED: (1.0, 0.20, 0.15, 1.0),
}
WIND_RGBA = (0.25, 0.70, 1.0, 0.85)
JET_RGBA = (0.70, 0.90, 1.0, 0.05)
TRAIL_S = 4.0
"""How much of the flown path is drawn [s]."""
TRAIL_WIDTH = 0.014
"""Radius of the trail [m], to be seen from afar."""

_WIND_WIDTH = 0.035  # m
_PATH_PIXELS = 2.0
_TRAIL_STEP = 3  # ticks per piece of the trail: each piece costs time
ARROW_SCALE = 0.14  # m of arrow per m/s of wind
LEAST_WIND = 0.3  # m/s; less is not drawn
# Lines shine more than they are lit, so that their colour means the same everywhere.
_EMISSION, _DIMMED = 0.9, 0.6
_COLOURS = mpl.colormaps["plasma"]

Legend = list[tuple[str, tuple[float, float, float, float]]]
"""Names and their colours."""


class Trail(Protocol):
    """A flight that knows where it has been, and along what."""

    @property
    def planned(self) -> np.ndarray | None:
        """Points [N, 3] of its reference, if that is not the task's path."""
        ...

    def trail(self, time: float, seconds: float) -> tuple[np.ndarray, np.ndarray]:
        """Points [N, 3] and speeds [N] of the last seconds up to a moment."""
        ...


def speed_colour(speed: float | np.ndarray, top_speed: float) -> np.ndarray:
    """Colour [..., 4] of a speed, on a scale from 0 to the top speed."""
    share = np.clip(np.asarray(speed) / top_speed, 0.0, 1.0)
    # The darkest end of the map would vanish before the floor.
    return np.asarray(_COLOURS(0.15 + 0.85 * share))


def draw_stage(
    scene: mujoco.MjvScene,
    stage: Stage,
    flight: Trail,
    moment: Moment,
    top_speed: float,
    width: float = TRAIL_WIDTH,
    *,
    corridor: bool = True,
) -> None:
    """All decorations of one stage at one moment.

    Args:
        scene: what is drawn into.
        stage: what stands there.
        flight: its reference and its trail are drawn.
        moment: now.
        top_speed: upper end of the colours [m/s].
        width: radius of the trail [m].
        corridor: whether the room around the path is drawn where the reference leaves it.
    """
    draw_course(scene, stage, flight.planned, moment.gates, corridor=corridor)
    points, speeds = flight.trail(moment.time, TRAIL_S)
    kept = slice((len(points) - 1) % _TRAIL_STEP, None, _TRAIL_STEP)  # the last one, too
    colours = speed_colour(speeds[kept], top_speed)
    draw_line(scene, points[kept] + stage.offset, colours, width)
    draw_wind(scene, stage.path, moment.wind)
    for fan in stage.task.fans:
        draw_jet(scene, fan, stage.offset, moment.fan_scale)


def draw_course(
    scene: mujoco.MjvScene, stage: Stage, planned: np.ndarray | None, gates: Sequence[int],
    *, corridor: bool = True,
) -> None:  # fmt: skip
    """What is asked: the reference; the task's path and its room if they differ; the gates."""
    for gate, shape, state in zip(stage.task.gates, stage.gates, gates, strict=True):
        rgba = GATE_RGBA[int(state)]
        _mesh(scene, shape, rgba)
        start, end = arrow(gate) + stage.offset
        _connector(scene, mujoco.mjtGeom.mjGEOM_ARROW, _WIND_WIDTH, start, end, rgba)
    if planned is None:
        draw_path(scene, stage.path)
        return
    draw_path(scene, stage.path, TASK_RGBA, every=2)
    draw_path(scene, planned + stage.offset)
    if corridor:
        _mesh(scene, stage.corridor, CORRIDOR_RGBA)


def draw_path(
    scene: mujoco.MjvScene,
    path: np.ndarray,
    rgba: Sequence[float] = REFERENCE_RGBA,
    every: int = 1,
) -> None:
    """A path as a thin line of constant width on screen (cheap to draw); dashed if not `every`."""
    for start, end in list(pairwise(path))[::every]:
        _connector(scene, mujoco.mjtGeom.mjGEOM_LINE, _PATH_PIXELS, start, end, rgba)


def legend(flights: Sequence[Trail], moments: Sequence[Moment]) -> Legend:
    """Names and colours of what is drawn; empty where there is nothing but the task's path."""
    rows = []
    if any(flight.planned is not None for flight in flights):
        rows = [("reference", REFERENCE_RGBA), ("task's path, dashed", TASK_RGBA),
                ("corridor", CORRIDOR_RGBA)]  # fmt: skip
    names = {AHEAD: "gate", PASSED: "gate passed", MISSED: "gate missed"}
    states = {int(state) for moment in moments for state in moment.gates}
    return rows + [(names[state], GATE_RGBA[state]) for state in names if state in states]


def draw_label(scene: mujoco.MjvScene, place: np.ndarray, text: str) -> None:
    """A text at a place, always facing the camera."""
    size, upright = (0.1, 0.1, 0.1), np.eye(3).flatten()
    geom = _geom(scene, mujoco.mjtGeom.mjGEOM_LABEL, size, place, upright, (1.0, 1.0, 1.0, 1.0))
    if geom is not None:
        geom.label = text


def draw_line(
    scene: mujoco.MjvScene, points: np.ndarray, colours: np.ndarray, width: float
) -> None:
    """A line through points [N, 3] with colours [N, 4], of a width [m]."""
    for start, end, rgba in zip(points[:-1], points[1:], colours[1:], strict=True):
        _connector(scene, mujoco.mjtGeom.mjGEOM_CAPSULE, width, start, end, rgba)


def wind_arrows(path: np.ndarray, wind: np.ndarray, first: float = 0.0) -> np.ndarray:
    """Starts and ends [4, 2, 3] of arrows over the path, along the wind, as long as it is strong.

    The first stands at that share of the path's extent.
    """
    low, high = path.min(axis=0), path.max(axis=0)
    shaft = ARROW_SCALE * wind
    x = np.linspace(low[0] + first * (high[0] - low[0]), high[0], 4)
    beside = np.broadcast_to([high[1] + 0.7, high[2] + 0.35], (len(x), 2))
    starts = np.column_stack([x, beside]) - 0.5 * shaft
    return np.stack([starts, starts + shaft], axis=1)


def draw_wind(
    scene: mujoco.MjvScene, path: np.ndarray, wind: np.ndarray, first: float = 0.0
) -> None:
    """Arrows over the path, if there is a wind."""
    if np.linalg.norm(wind) >= LEAST_WIND:
        for start, end in wind_arrows(path, wind, first):
            _connector(scene, mujoco.mjtGeom.mjGEOM_ARROW, _WIND_WIDTH, start, end, WIND_RGBA)


def draw_jet(scene: mujoco.MjvScene, fan: Fan, offset: np.ndarray, scale: float) -> None:
    """The fan's jet: rings that widen with it and fade with its speed."""
    if scale <= 0.0:
        return
    side, up = across(fan.direction)
    rotation = np.column_stack([up, side, fan.direction]).flatten()
    for ahead in np.arange(0.1, 2.6, 0.25):
        width = fan.outlet_radius + np.tan(fan.half_angle) * ahead
        share = min(scale, 1.5) * fan.outlet_radius / width
        rgba = (*JET_RGBA[:3], min(0.9, 2.2 * JET_RGBA[3] * share))
        place = fan.position + offset + ahead * fan.direction
        _geom(scene, mujoco.mjtGeom.mjGEOM_CYLINDER, (width, width, 0.01), place, rotation, rgba)
    for angle in np.linspace(0.0, 2.0 * np.pi, 5)[:-1]:
        radial = np.cos(angle) * side + np.sin(angle) * up
        start = fan.position + offset + 0.15 * fan.direction + 0.5 * fan.outlet_radius * radial
        along = fan.direction + 0.5 * np.tan(fan.half_angle) * radial
        end = start + ARROW_SCALE * scale * fan.speed * along
        _connector(scene, mujoco.mjtGeom.mjGEOM_ARROW, 0.6 * _WIND_WIDTH, start, end, WIND_RGBA)


def _geom(
    scene: mujoco.MjvScene,
    kind: int,
    size: Sequence[float],
    place: np.ndarray,
    rotation: np.ndarray,
    rgba: Sequence[float] | np.ndarray,
) -> mujoco.MjvGeom | None:
    """One more shape; None if the scene is full."""
    if scene.ngeom >= scene.maxgeom:
        return None
    geom = scene.geoms[scene.ngeom]
    colour = np.asarray(rgba, np.float32)
    mujoco.mjv_initGeom(geom, kind, np.asarray(size, float), place, rotation, colour)
    if kind != mujoco.mjtGeom.mjGEOM_LINE:  # what light makes of a line is left to chance
        geom.rgba[:3] *= _DIMMED
    geom.emission, geom.specular = _EMISSION, 0.0
    geom.category = mujoco.mjtCatBit.mjCAT_DECOR  # casts no shadow
    scene.ngeom += 1
    return geom


def _mesh(scene: mujoco.MjvScene, shape: Shape, rgba: Sequence[float]) -> None:
    kind, size = mujoco.mjtGeom.mjGEOM_MESH, (1.0, 1.0, 1.0)
    geom = _geom(scene, kind, size, shape.position, shape.rotation, rgba)
    if geom is not None:
        geom.dataid = 2 * shape.mesh  # the odd ones are the convex hulls


def _connector(
    scene: mujoco.MjvScene,
    kind: int,
    width: float,
    start: np.ndarray,
    end: np.ndarray,
    rgba: Sequence[float] | np.ndarray,
) -> None:
    geom = _geom(scene, kind, (0.0, 0.0, 0.0), np.zeros(3), np.eye(3).flatten(), rgba)
    if geom is not None:
        mujoco.mjv_connector(geom, kind, width, np.asarray(start, float), np.asarray(end, float))
