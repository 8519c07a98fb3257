"""What a free path must keep to: a tube around the task's path, or points to pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from lafr_mjx.reference.path import derivatives

if TYPE_CHECKING:
    from lafr_mjx.tasks import Task

_SCAN = 4001
_STANDSTILL = 1e-6  # of the largest speed: there the path turns back


class Tube(NamedTuple):
    """Within a distance of the path, passed along from start to end."""

    radius: float  # m

    @property
    def words(self) -> str:
        """For tables and messages."""
        return f"tube of {self.radius:g} m"


class Gates(NamedTuple):
    """Points to pass in this order, or openings; in between the path is free."""

    points: np.ndarray  # [W, 3] m
    phase: np.ndarray  # [W] s, where the task's path passes them; increasing
    radius: Any  # m, how near each must be passed; one for all, or [W]
    kind: str  # for tables and messages
    normals: np.ndarray | None = None  # [W, 3] of openings, passed in their plane, along these

    @property
    def radii(self) -> np.ndarray:
        """Of each, [W] m."""
        return np.broadcast_to(self.radius, len(self.points))

    @property
    def words(self) -> str:
        """For tables and messages."""
        balls = self.normals is None and self.radii.max() > 0.0
        near = f", {self.radii.max():g} m near" if balls else ""
        return f"{self.kind}{near}"


def default_geometry(task: Task) -> Tube | Gates:
    """What matters in a task besides its path.

    Its gates or else its landmarks, if it has some. From rest to rest: start and end. On a
    closed path that turns back: the points where it does. Otherwise a tube as wide as the
    task's error threshold.
    """
    if task.gates:
        return _gates(task)
    if len(task.landmarks):
        return _landmarks(task)
    if not task.periodic:
        ends = np.stack([task.start_position, task.goal_position])
        return Gates(ends, np.array([0.0, task.lap_s]), 0.0, "from start to goal")
    phase = _turning_points(task)
    if len(phase) >= 2:
        points = np.asarray(derivatives(task.path, phase))[:, 0, :3]
        return Gates(points, phase, 0.0, "through the turning points")
    return Tube(task.error_threshold_m)


def evenly_spaced(task: Task, count: int, radius: float) -> Gates:
    """Points of the path at equal steps of its phase; both ends count from rest to rest."""
    phase = np.linspace(0.0, task.lap_s, count, endpoint=not task.periodic)
    points = np.asarray(derivatives(task.path, phase))[:, 0, :3]
    return Gates(points, phase, radius, f"through {count} points of the path")


def _gates(task: Task) -> Gates:
    points, normals = (
        np.array([getattr(g, k) for g in task.gates]) for k in ("position", "normal")
    )
    radii, phase = np.array([gate.radius for gate in task.gates]), task.gate_phases
    if not task.periodic:  # in hover at the ends, where nothing has a direction
        points = np.vstack([task.start_position, points, task.goal_position])
        normals, radii = np.pad(normals, ((1, 1), (0, 0))), np.pad(radii, 1)
        phase = np.concatenate([[0.0], phase, [task.lap_s]])
    return Gates(points, phase, radii, "through the gates", normals)


def _landmarks(task: Task) -> Gates:
    phase = np.linspace(0.0, task.lap_s, _SCAN, endpoint=not task.periodic)
    positions = np.asarray(derivatives(task.path, phase))[:, 0, :3]
    distances = np.linalg.norm(positions[:, None] - task.landmarks, axis=2)
    passed = phase[distances.argmin(axis=0)]
    order = np.argsort(passed)
    points, passed = task.landmarks[order], passed[order]
    if not task.periodic:
        points = np.concatenate([[task.start_position], points, [task.goal_position]])
        passed = np.concatenate([[0.0], passed, [task.lap_s]])
    return Gates(points, passed, task.landmark_radius_m, "past the landmarks")


def _turning_points(task: Task) -> np.ndarray:
    """Phases [W] at which a closed path stands still."""
    phase = np.linspace(0.0, task.lap_s, _SCAN, endpoint=False)
    speed = np.linalg.norm(np.asarray(derivatives(task.path, phase))[:, 1, :3], axis=1)
    lowest = np.flatnonzero((speed <= np.roll(speed, 1)) & (speed < np.roll(speed, -1)))
    found = []
    for i in lowest:
        step = task.lap_s / _SCAN
        near = minimize_scalar(
            lambda at: np.linalg.norm(np.asarray(derivatives(task.path, at))[1, :3]),
            bounds=(phase[i] - step, phase[i] + step), options={"xatol": 1e-12},
        )  # fmt: skip
        if near.fun < _STANDSTILL * speed.max():
            found.append(near.x % task.lap_s)
    return np.sort(np.array(found))
