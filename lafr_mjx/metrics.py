"""Figures of a flight, as the project defines them (docs/architecture.md, definitions)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lafr_mjx.gates import Passes, passes
from lafr_mjx.types import SLOWED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lafr_mjx.tasks import Task
    from lafr_mjx.types import CommandLimits, Rollout

_GOAL_DISTANCE_M = 0.10
_GOAL_SPEED_MPS = 0.2
_GOAL_HOLD_S = 0.3
_RAMP_SHARES = (0.95, 0.9, 0.8)  # the later the more exact, but a late vehicle needs room
_NEAR_LIMIT = 0.98  # of the limit counts as saturated


@dataclass(frozen=True)
class FlightMetrics:
    """What is said about one flight; errors and speeds count after the ramp."""

    flight_time_s: float
    lap_time_s: float | None
    reference_lap_s: float
    peak_speed_mps: float
    rmse_m: float
    peak_error_m: float
    peak_path_distance_m: float  # from the task's own path, wherever along it; with the ramp
    rate_saturation: float  # share of commands with a body rate at its limit
    thrust_saturation: float  # share of commands with the thrust at its limit
    crashed: bool
    landmark_miss_m: float | None = None  # None if the task has no landmarks
    slow_down_factor: float = 1.0  # largest, by which the guard slowed the clock down
    fallback: bool = False  # another policy than the asked one had to take over
    gates_passed: int | None = None  # in order and direction; None if the task has no gates
    gates_due: int | None = None  # that the reference passed
    gate_clearance_m: float | None = None  # smallest distance from a gate's edge; < 0: missed


def missed_gates(figures: Mapping[str, Any]) -> bool:
    """Whether a flight missed a gate, of its figures."""
    return (figures.get("gates_passed") or 0) < (figures.get("gates_due") or 0)


def event_in(figures: Mapping[str, Any]) -> str:
    """What did not go as planned in a flight, of its figures; empty if all was well."""
    factor = figures.get("slow_down_factor") or 1.0  # what earlier versions do not say
    if figures.get("crashed"):
        return "crash"
    if figures.get("fallback"):
        return "fallback"
    return f"slowed {factor:.2g}" if factor > SLOWED else ""


def assisted(figures: Mapping[str, Any]) -> bool:
    """Whether a flight went without a crash, but only with the guard's help."""
    return event_in(figures) not in ("", "crash")


def flight_metrics(rollout: Rollout, task: Task, limits: CommandLimits) -> FlightMetrics:
    """Figures of one flight; a crash counts from the first moment on."""
    valid = np.asarray(rollout.valid)
    time = np.asarray(rollout.time)
    crashed = np.asarray(rollout.crashed)
    codes = getattr(rollout.diagnostics, "crash", None)
    any_crash = bool(crashed[valid].any())
    if codes is not None:
        any_crash = any_crash or bool((np.asarray(codes)[valid] != 0).any())
    counted = valid & ~crashed & (time >= task.ramp_s - 1e-6)
    if not counted.any():
        # Crashed during the ramp: there is nothing else to speak of.
        counted = valid & ~crashed
    position = np.asarray(rollout.truth.position, float)
    error = np.linalg.norm(position - np.asarray(rollout.reference.position), axis=-1)
    speed = np.linalg.norm(np.asarray(rollout.truth.velocity), axis=-1)
    command = np.asarray(rollout.command)[counted]
    at_rate = np.abs(command[:, 1:]) >= _NEAR_LIMIT * np.asarray(limits.high)[1:]
    at_thrust = command[:, 0] >= _NEAR_LIMIT * np.asarray(limits.high)[0]
    scale = float(np.asarray(rollout.time_scale)[valid][-1])
    flying = valid & ~crashed
    gates = gate_passes(rollout, task)
    return FlightMetrics(
        flight_time_s=float(valid.sum() * (time[1] - time[0])),
        lap_time_s=lap_time(rollout, task),
        reference_lap_s=scale * task.lap_s,
        peak_speed_mps=float(speed[counted].max()),
        rmse_m=float(np.sqrt(np.mean(error[counted] ** 2))),
        peak_error_m=float(error[counted].max()),
        peak_path_distance_m=float(task.distance(position[valid & ~crashed]).max()),
        rate_saturation=float(at_rate.any(axis=-1).mean()),
        thrust_saturation=float(at_thrust.mean()),
        crashed=any_crash,
        landmark_miss_m=landmark_miss(rollout, task),
        slow_down_factor=float(np.asarray(rollout.slow_down)[flying].max(initial=1.0)),
        fallback=rollout.fallback is not None and bool(np.asarray(rollout.fallback)[flying].any()),
        gates_passed=gates.passed if gates else None,
        gates_due=gates.due if gates else None,
        gate_clearance_m=gates.clearance_m if gates else None,
    )


def gate_passes(rollout: Rollout, task: Task) -> Passes | None:
    """How the true flight passed the task's gates, from its start; None without gates."""
    valid = np.asarray(rollout.valid)
    if not task.gates:
        return None
    position = np.array(rollout.truth.position, float)
    position[np.logical_or.accumulate(np.asarray(rollout.crashed))] = np.nan
    asked = np.asarray(rollout.reference.position, float)[valid]
    laps = float(np.asarray(rollout.phase, float)[valid][-1]) / task.lap_s
    return passes(position[valid], asked, laps, task.gates, task.periodic)


def landmark_miss(rollout: Rollout, task: Task) -> float | None:
    """Largest distance at which a landmark was passed, in the worst lap after the ramp.

    A lap is one of the reference, counted from the end of the ramp; a flight that does not
    complete its first one is judged by what it flew. None without landmarks, and if there is
    no flight after the ramp.
    """
    flying = np.asarray(rollout.valid) & ~np.asarray(rollout.crashed)
    flying &= np.asarray(rollout.time) >= task.ramp_s - 1e-6
    if not len(task.landmarks) or not flying.any():
        return None
    position = np.asarray(rollout.truth.position, float)[flying]
    phase = np.asarray(rollout.phase, float)[flying]
    lap = np.floor((phase - phase[0]) / task.lap_s).astype(int)
    # The last sample is a tick short of the lap's end.
    tick = float(np.median(np.diff(phase))) if len(phase) > 1 else 0.0
    complete = max(int((phase[-1] - phase[0] + 2.0 * tick) // task.lap_s), 1)
    distance = _passing_distance(position, task.landmarks)
    return float(max(distance[lap == k].min(axis=0).max() for k in range(complete)))


def _passing_distance(position: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Distance [T, L] from the points [L, 3] to the straight way from each position to the next.

    A fast vehicle passes a point between two samples, which are 0.1 m and more apart.
    """
    step = np.diff(position, axis=0, append=position[-1:])[:, None]  # [T, 1, 3]
    to_point = points - position[:, None]  # [T, L, 3]
    length = np.maximum(np.sum(step**2, axis=-1), 1e-12)
    share = np.clip(np.sum(to_point * step, axis=-1) / length, 0.0, 1.0)
    return np.linalg.norm(to_point - share[..., None] * step, axis=-1)


def lap_time(rollout: Rollout, task: Task) -> float | None:
    """Mean time between crossings of the start plane, or from start to goal; None if none.

    A slow flight crosses the start plane only once after its ramp. Then the plane is taken
    where the reference was shortly before the end of the ramp: the flight is just long enough
    to come there again. The rest of the ramp makes such a lap too long by at most 10 ms.
    """
    flying = np.asarray(rollout.valid) & ~np.asarray(rollout.crashed)
    time = np.asarray(rollout.time, float)[flying]
    position = np.asarray(rollout.truth.position, float)[flying]
    if len(time) < 2:
        return None
    laps_flown = np.asarray(rollout.phase, float)[flying] / task.lap_s
    if not task.periodic:
        speed = np.linalg.norm(np.asarray(rollout.truth.velocity)[flying], axis=-1)
        # A course may end where it begins.
        speed[laps_flown < 0.5] = np.inf
        return _time_to_goal(time, position, speed, task.goal_position)
    after_ramp = time >= task.ramp_s
    moments = _crossings(
        time, (position - task.start_position) @ task.start_normal, laps_flown, after_ramp
    )
    for share in _RAMP_SHARES:
        if len(moments) >= 2:
            break
        index = int(np.searchsorted(time, share * task.ramp_s))
        if index >= len(time):
            return None
        point = np.asarray(rollout.reference.position, float)[flying][index]
        direction = np.asarray(rollout.reference.velocity, float)[flying][index]
        ahead = (position - point) @ direction
        after = time >= 0.5 * task.ramp_s
        moments = _crossings(time, ahead, laps_flown - laps_flown[index], after)
    return float(np.mean(np.diff(moments))) if len(moments) > 1 else None


def _crossings(
    time: np.ndarray, ahead: np.ndarray, laps_flown: np.ndarray, counted: np.ndarray
) -> np.ndarray:
    """Moments at which the vehicle passes a plane forwards.

    The plane is infinite and a path may cross it elsewhere: only passes near a whole number
    of laps of the reference count, and only the first of several in a row (noise at the plane).
    """
    near = np.abs(laps_flown - np.round(laps_flown)) < 0.2
    passes = (ahead[:-1] < 0.0) & (ahead[1:] >= 0.0) & near[1:] & counted[:-1]
    index = np.flatnonzero(passes)
    _, first = np.unique(np.round(laps_flown[index]), return_index=True)
    index = index[first]
    share = -ahead[index] / (ahead[index + 1] - ahead[index])
    return time[index] + share * (time[index + 1] - time[index])


def _time_to_goal(
    time: np.ndarray, position: np.ndarray, speed: np.ndarray, goal: np.ndarray
) -> float | None:
    """First moment from which on the vehicle stays at the goal for long enough."""
    there = (np.linalg.norm(position - goal, axis=-1) < _GOAL_DISTANCE_M) & (
        speed < _GOAL_SPEED_MPS
    )
    since: float | None = None
    for moment, arrived in zip(time, there, strict=True):
        if not arrived:
            since = None
        elif since is None:
            since = float(moment)
        elif moment - since >= _GOAL_HOLD_S - 1e-9:
            return since - float(time[0])
    return None
