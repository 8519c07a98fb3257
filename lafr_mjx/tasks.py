"""Tasks: which path is flown, how fast it starts, and what counts. One TOML file each.

The shipped files explain the format by their comments. A user's file is given by its path.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from lafr_mjx import resources, toml_table
from lafr_mjx.errors import InputError
from lafr_mjx.gates import Gate, check_passed, passed_at, read_gates, room_between
from lafr_mjx.reference import clock as clocks
from lafr_mjx.reference.course import through_gates
from lafr_mjx.reference.flatness import reference_state, yaw_axis_sine
from lafr_mjx.reference.path import Path, derivatives, lap_s
from lafr_mjx.reference.path_table import read_path, shareable

if TYPE_CHECKING:
    from pathlib import Path as FilePath

    from lafr_mjx.types import CommandLimits

MIN_ALTITUDE_M = 0.3
MIN_THRUST = 1.0
"""Below this specific force [m/s²] the attitude that a path asks for is ill defined."""
MIN_SINGULARITY_DEG = 5.0

_CHECK_STEP_S = 0.002
_MAX_CHECKS = 20_000
_NEAREST_POINTS = 10_000
_GATES_APART_M = 0.3
"""Least distance of two gates that follow each other, where a path is to be found."""
_ROOM_POINTS = 256


@dataclass(frozen=True, eq=False)
class Fan:
    """A jet of air: a cone that widens from a round outlet."""

    position: np.ndarray  # [3] m, centre of the outlet
    direction: np.ndarray  # [3] unit vector, where it blows to
    speed: float  # m/s at the outlet
    half_angle: float  # rad, of the cone
    outlet_radius: float  # m


@dataclass(frozen=True, eq=False)
class Task:
    """A path with the rules of its flights; made by `load_task`."""

    name: str
    description: str
    path: Path
    path_kind: str  # harmonics, waypoints or samples; gates if it was found through them
    start_time_scale: float  # α of the first flight
    error_threshold_m: float  # E_th: the error that the time scale must respect
    ramp_s: float  # time in which the phase rate comes up at the start of a flight
    landmarks: np.ndarray  # [L, 3] m
    landmark_radius_m: float  # how near the path passes each landmark
    fans: tuple[Fan, ...]
    scenario: str  # the scenario that is flown if none is asked for
    gates: tuple[Gate, ...] = ()  # in their order; one lap passes each once
    room_m: float | None = None  # how far from the path a vehicle may be between gates

    @property
    def periodic(self) -> bool:
        """Whether the path closes on itself; otherwise it goes from rest to rest."""
        return bool(self.path.periodic > 0.5)

    @property
    def lap_s(self) -> float:
        """Duration of one lap, or from rest to rest, at time scale 1 [s]."""
        return float(lap_s(self.path))

    @property
    def start_position(self) -> np.ndarray:
        """Where every flight starts in hover, [3] m."""
        return np.asarray(derivatives(self.path, 0.0))[0, :3]

    @property
    def goal_position(self) -> np.ndarray:
        """Where a rest-to-rest path ends, [3] m; on a closed path the start."""
        return np.asarray(derivatives(self.path, self.lap_s))[0, :3]

    @property
    def start_normal(self) -> np.ndarray:
        """Unit vector along the path at its start: laps are counted across this plane, [3]."""
        velocity = np.asarray(derivatives(self.path, 0.0))[1, :3]
        if np.linalg.norm(velocity) < 1e-3:  # the path starts at rest
            ahead = np.asarray(derivatives(self.path, 0.01 * self.lap_s))[0, :3]
            velocity = ahead - self.start_position
        return velocity / np.linalg.norm(velocity)

    def distance(self, positions: np.ndarray) -> np.ndarray:
        """Distance [N] of positions [N, 3] from the path, wherever along it [m]; inf for NaN."""
        distance = np.full(len(positions), np.inf)
        known = np.isfinite(positions).all(axis=1)
        distance[known] = self._tree.query(positions[known])[0]
        return distance

    def room(self) -> np.ndarray:
        """How far from the path a vehicle may be, at equal shares of the lap, [K] m.

        By the task's threshold, and around its landmarks so that each is still passed. Between
        gates there is `room_m`, but none below the lowest altitude.
        """
        shares = (np.arange(_ROOM_POINTS) + 0.5) / _ROOM_POINTS
        room = np.full(_ROOM_POINTS, self.error_threshold_m)
        positions = np.asarray(derivatives(self.path, shares * self.lap_s))[:, 0, :3]
        if self.room_m is not None:
            room = room_between(self.path, self.gates, shares, self.room_m)
            room = np.minimum(room, positions[:, 2] - MIN_ALTITUDE_M)
        for landmark in self.landmarks:
            away = np.linalg.norm(positions - landmark, axis=1)
            near = away < max(self.landmark_radius_m, 1.5 * away.min())
            room[near] = np.minimum(room[near], self.landmark_radius_m - away.min())
        return np.maximum(room, 0.0)

    @cached_property
    def gate_phases(self) -> np.ndarray:
        """Phases at which the path passes the gates, in their order, [G] s."""
        return passed_at(self.path, self.gates)[0]

    @cached_property
    def _tree(self) -> Any:
        from scipy.spatial import cKDTree

        phases = np.linspace(0.0, self.lap_s, _NEAREST_POINTS)
        return cKDTree(np.asarray(derivatives(self.path, phases))[:, 0, :3])

    def flight_s(self, time_scale: float) -> float:
        """Duration of a flight at a time scale: the ramp and one lap, 8 s at least."""
        return float(clocks.flight_s(time_scale, self.lap_s, self.ramp_s))

    def start_clock(self, time_scale: float | None = None) -> clocks.Clock:
        """Clock at the start of a flight, by default at the task's first time scale."""
        return clocks.start(
            self.start_time_scale if time_scale is None else time_scale, self.ramp_s
        )


def load_task(name_or_path: str, limits: CommandLimits | None = None) -> Task:
    """Read and check a task.

    Examples:
        >>> import lafr_mjx as lm
        >>> lm.load_task("figure8").lap_s

    Args:
        name_or_path: name of a shipped task or path of a TOML file.
        limits: if given, the path must stay within them at the task's first time scale.
    """
    file = resources.find_toml("tasks", str(name_or_path), "task")
    table = toml_table.read_toml(file)
    start_time_scale = table.number("start_time_scale", 1.0, at_least=0.05, at_most=20.0)
    error_threshold_m = table.number("error_threshold_m", 0.35, above=0.0, at_most=2.0)
    ramp_s = table.number("ramp_s", None, at_least=0.0, at_most=60.0)
    landmarks = table.matrix("landmarks", 3, np.zeros((0, 3)))
    landmark_radius_m = table.number("landmark_radius_m", 0.25, above=0.0)
    scenario = table.string("scenario", "nominal")
    fans = tuple(_read_fan(fan) for fan in table.tables("fans"))
    gates = read_gates(table, MIN_ALTITUDE_M)
    description = table.string("description", f"Course of {len(gates)} gates")
    room_m = table.number("room_m", 1.5, above=0.0, at_most=20.0) if gates else None
    path, kind = _read_path_or_course(table, gates)
    if ramp_s is None:
        ramp_s = clocks.RAMP_S if path.periodic > 0.5 else 0.0
    if ramp_s == 0.0 and path.periodic > 0.5:
        raise table.fail("ramp_s", "> 0 on a closed path, where every flight starts at rest")
    task = Task(
        name=file.stem,
        description=description,
        path=path,
        path_kind=kind,
        start_time_scale=start_time_scale,
        error_threshold_m=error_threshold_m,
        ramp_s=ramp_s,
        landmarks=landmarks,
        landmark_radius_m=landmark_radius_m,
        fans=fans,
        scenario=scenario,
        gates=gates,
        room_m=room_m,
    )
    _check_path(task, file, limits)
    check_passed(path, gates, file)
    return task


def _read_path_or_course(table: toml_table.Table, gates: tuple[Gate, ...]) -> tuple[Path, str]:
    """The path that is given, or else one through the gates."""
    given = table.table("path")
    found = read_path(given) if "path" in table else None
    periodic = table.boolean("periodic", True) if gates and found is None else True
    table.finish()  # a misspelt key is named before its consequences are
    needed = {"description": "a string", "path": "a table, if there are no [[gates]]"}
    for key, allowed in needed.items():
        if key not in table and not gates:
            raise table.fail(key, allowed)
    if found is not None:
        return found
    centres, normals = (
        np.array([getattr(g, key) for g in gates]) for key in ("position", "normal")
    )
    before = np.roll(centres, 1, axis=0)
    for i in np.flatnonzero(np.linalg.norm(centres - before, axis=1) < _GATES_APART_M):
        last = (i - 1) % len(gates)
        if i > 0 or periodic:
            raise InputError(
                f"{table.path}: 'gates[{i}].position' is {centres[i].tolist()}; it must be "
                f"{_GATES_APART_M:g} m or more from the gate before it, gates[{last}]"
            )
    return shareable(through_gates(centres, normals, periodic=periodic)), "gates"


def _read_fan(table: toml_table.Table) -> Fan:
    direction = table.vector("direction", 3)
    length = np.linalg.norm(direction)
    if length < 1e-6:
        raise table.fail("direction", "a vector that is not zero")
    return Fan(
        position=table.vector("position", 3),
        direction=direction / length,
        speed=table.number("speed_m_s", above=0.0, at_most=50.0),
        half_angle=math.radians(table.number("half_angle_deg", above=0.0, at_most=80.0)),
        outlet_radius=table.number("outlet_radius_m", 0.2, above=0.0, at_most=5.0),
    )


def _check_path(task: Task, file: FilePath, limits: CommandLimits | None) -> None:
    """Reject a path that cannot be flown, with the phase at which it fails.

    The first lap at the first time scale is checked, and the ramp that leads to it.
    """
    path, time_scale = task.path, task.start_time_scale
    count = int(min(_MAX_CHECKS, 1 + math.ceil(task.lap_s / _CHECK_STEP_S)))
    lap = np.linspace(0.0, task.lap_s, count)
    ramp = clocks.shifted(task.start_clock(), np.linspace(0.0, task.ramp_s, 500))
    cruise = (lap, np.full_like(lap, 1.0 / time_scale), 0.0 * lap, 0.0 * lap)
    phase, *rates = (np.concatenate(pair) for pair in zip(cruise, ramp, strict=True))
    with np.errstate(divide="ignore", invalid="ignore"):  # free fall has no attitude
        reference = reference_state(path, phase, *rates)
        sine = yaw_axis_sine(reference, derivatives(path, phase)[..., 0, 3])
        angle = np.degrees(np.arcsin(np.minimum(sine, 1.0)))

    def refuse(excess: np.ndarray, value: np.ndarray, what: str, unit: str, rule: str) -> None:
        if not np.all(excess <= 0.0):
            worst = int(np.argmax(excess))
            tau = phase[worst] % task.lap_s if task.periodic else phase[worst]
            raise InputError(
                f"{file}: the path cannot be flown at time scale {time_scale:g}: {what} is "
                f"{value[worst]:.3g} {unit} at phase τ = {tau:.3f} s; {rule}"
            )

    altitude, thrust = np.asarray(reference.position)[..., 2], np.asarray(reference.thrust)
    for lowest, value, what, unit in (
        (MIN_ALTITUDE_M, altitude, "the altitude", "m"),
        (MIN_THRUST, thrust, "the specific force |a + g|", "m/s²"),
        (MIN_SINGULARITY_DEG, angle, "the thrust axis' angle to the yaw singularity", "degrees"),
    ):
        refuse(lowest - value, value, what, unit, f"it must be >= {lowest:g}")
    if limits is not None:
        command = np.column_stack([thrust, reference.rates])
        units = ("m/s²", "rad/s", "rad/s", "rad/s")
        for i, what in enumerate(("the thrust", "the x rate", "the y rate", "the z rate")):
            value, low, high = command[:, i], float(limits.low[i]), float(limits.high[i])
            excess = np.maximum(low - value, value - high)
            refuse(excess, value, what, units[i], f"the vehicle allows {low:g} to {high:g}")
    _check_landmarks(task, file, np.asarray(derivatives(path, lap))[:, 0, :3])


def _check_landmarks(task: Task, file: FilePath, positions: np.ndarray) -> None:
    for i, landmark in enumerate(task.landmarks):
        nearest = np.linalg.norm(positions - landmark, axis=1).min()
        if nearest > task.landmark_radius_m:
            raise InputError(
                f"{file}: the path passes 'landmarks[{i}]' at {nearest:.3g} m; "
                f"it must come within {task.landmark_radius_m:g} m"
            )
