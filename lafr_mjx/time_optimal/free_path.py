"""Fastest motion of the whole vehicle: the path itself is free within a tube or through gates.

Direct multiple shooting: position, velocity and the angles roll, pitch, yaw (for rotors also
their derivatives) at the nodes; the collective thrust and the angles' highest derivatives are
constant on each interval, and two Runge-Kutta steps of order 4 join two nodes. Angles instead
of a quaternion make it one bound to hold the heading: R = Rz(yaw) Ry(pitch) Rx(roll) is the
attitude of the flatness map, and with a held yaw its angles have no singularity, even in
inverted flight. Limits hold at both ends and in the middle of each interval. A tube
holds at the nodes and half-way between them: each node has a phase of its own, which never
goes back.

Passing gates in a known order splits the motion into segments; each has a duration of its own,
and its nodes are spread evenly over it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lafr_mjx.reference.path import derivatives, lap_s
from lafr_mjx.time_optimal.free_model import (
    input_function,
    limits_function,
    path_function,
    step_function,
)
from lafr_mjx.time_optimal.geometry import Gates, Tube
from lafr_mjx.time_optimal.motion import Motion, Solution
from lafr_mjx.time_optimal.solver import Program, casadi

if TYPE_CHECKING:
    from lafr_mjx.reference.path import Path
    from lafr_mjx.time_optimal.ideal_vehicle import Ideal, ModelName

_SAMPLES = 9  # of each interval in a motion
_FEWEST = 8  # intervals of a segment
_MAX_PHASE_STEP = 5.0  # largest step of the phase from node to node, in mean steps
_GROUND_M = 0.05  # below, the plant counts a crash
_LOOSE_YAW = math.radians(3.0)  # a heading that changes along the path is held within this


def solve_free(
    path: Path,
    geometry: Tube | Gates,
    ideal: Ideal,
    model: ModelName,
    nodes: int,
    guess: Motion,
    what: str,
    yaw_band: float = 0.0,
) -> Solution:
    """The fastest motion within a geometry.

    Args:
        path: the task's path; it gives the tube, the ends and the heading.
        geometry: what the motion must keep to.
        ideal: the vehicle.
        model: which of its limits hold.
        nodes: intervals in all.
        guess: a motion to start from, e.g. the one on the exact path.
        what: name of the problem in messages.
        yaw_band: how far the heading may deviate from the path's [rad].
    """
    ca = casadi()
    closed = bool(path.periodic > 0.5)
    segments, times, counts = _segments(geometry, guess, nodes, closed)
    total = sum(counts)
    starts = _start_values(guess, times, model, closed)
    scale_x, scale_u = _scales(model)
    low, high = _state_bounds(path, model, total, starts, geometry, counts, closed, yaw_band)

    program = Program(what)
    states = program.variable(starts.states / scale_x, low / scale_x, high / scale_x) * ca.DM(
        scale_x
    )
    limit = np.array([[ideal.thrust_high], [np.inf], [np.inf], [np.inf]])
    floor = np.array([[max(0.0, ideal.thrust_low) if model == "ctbr" else 0.0], *[[-np.inf]] * 3])
    if yaw_band == 0.0 and _yaw_is_constant(path):
        limit[3], floor[3] = 0.0, 0.0
    inputs = program.variable(starts.inputs / scale_u, floor / scale_u, limit / scale_u)
    inputs = inputs * ca.DM(scale_u)
    durations = program.variable(segments[None], 0.02, 200.0)
    share = np.zeros((len(counts), total))
    for segment, (end, count) in enumerate(zip(np.cumsum(counts), counts, strict=True)):
        share[segment, end - count : end] = 1.0 / count
    steps = durations @ ca.DM(share)

    step = step_function(model)
    middle = step.map(total)(states[:, :-1], inputs, 0.5 * steps)
    arrived = step.map(total)(middle, inputs, 0.5 * steps)
    program.require((arrived - states[:, 1:]) / ca.DM(scale_x))
    limits = limits_function(ideal, model)
    for moment in (states[:, :-1], middle, states[:, 1:]):
        program.require(limits.map(total)(moment, inputs), -1.0, 1.0)
    if closed:
        program.require((states[:, -1] - states[:, 0]) / ca.DM(scale_x))
    lap = float(lap_s(path))
    if isinstance(geometry, Tube):
        moments = states, middle
        phase = lap * _keep_to_tube(program, path, geometry, moments, starts.phase, yaw_band)
    else:
        _pass_gates(program, path, geometry, states, counts, yaw_band)
        marks = [*geometry.phase, geometry.phase[0] + lap] if closed else geometry.phase
        phase = ca.MX(np.interp(np.arange(total + 1), [0, *np.cumsum(counts)], marks)[None])
    optimum = program.minimise(ca.sum2(durations), tolerance=1e-6)
    x, u, dt, beside = program.values(optimum, states, inputs, steps, phase)
    motion = _motion(ideal, model, x, u, dt.ravel(), beside.ravel())
    return Solution(optimum.value, optimum, motion)


class _Start(NamedTuple):
    states: np.ndarray  # [9 or 12, N + 1]
    inputs: np.ndarray  # [4, N]
    phase: np.ndarray  # [N + 1] s


def _segments(
    geometry: Tube | Gates, guess: Motion, nodes: int, closed: bool
) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Durations of the segments in the guess, the nodes' times in it, and intervals per segment."""
    total = guess.duration
    marks = np.array([0.0, total])
    if isinstance(geometry, Gates):
        marks = np.interp(geometry.phase, guess.phase.ravel(), guess.time.ravel())
        if closed:
            marks = np.append(marks, marks[0] + total)
    segments = np.diff(marks)
    counts = [max(_FEWEST, round(nodes * segment / segments.sum())) for segment in segments]
    times = np.concatenate(
        [np.linspace(a, b, n, endpoint=False)
         for a, b, n in zip(marks, marks[1:], counts, strict=False)] + [marks[-1:]]
    )  # fmt: skip
    return segments, times, counts


def _start_values(guess: Motion, times: np.ndarray, model: ModelName, closed: bool) -> _Start:
    """The guess at the nodes; derivatives of its angles by differences."""
    own = guess.time.ravel()
    wrapped = times % guess.duration if closed else times
    # The last node of a lap is its end, not the next one's start.
    wrapped = np.where((times > 0.0) & (wrapped == 0.0), guess.duration, wrapped)

    def at(values: np.ndarray) -> np.ndarray:
        columns = values.reshape(len(own), -1).T
        return np.stack([np.interp(wrapped, own, column) for column in columns])

    step = np.diff(times)
    angles = at(guess.angles)
    rates = np.diff(angles, axis=1) / step
    thrust = at(guess.command[..., :1])
    thrust = 0.5 * (thrust[:, 1:] + thrust[:, :-1])
    states = [at(guess.position), at(guess.velocity), angles]
    highest = rates
    if model == "rotor":
        nodal = np.concatenate([rates[:, :1], 0.5 * (rates[:, 1:] + rates[:, :-1]),
                                rates[:, -1:]], axis=1)  # fmt: skip
        states.append(nodal)
        highest = np.diff(nodal, axis=1) / step
    inputs = np.concatenate([thrust, highest])
    return _Start(np.concatenate(states), inputs, at(guess.phase)[0])


def _scales(model: ModelName) -> tuple[np.ndarray, np.ndarray]:
    """Typical sizes of states and inputs, as columns."""
    states = [1.0] * 3 + [5.0] * 3 + [1.0] * 3
    if model == "ctbr":
        return np.array(states)[:, None], np.array([[10.0], [6.0], [6.0], [6.0]])
    return np.array(states + [10.0] * 3)[:, None], np.array([[10.0], [300.0], [300.0], [30.0]])


def _state_bounds(
    path: Path,
    model: ModelName,
    total: int,
    starts: _Start,
    geometry: Tube | Gates,
    counts: list[int],
    closed: bool,
    yaw_band: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Bounds of every state at every node."""
    rows = 9 if model == "ctbr" else 12
    high = np.full((rows, total + 1), np.inf)
    high[6], high[7] = 0.5 * math.pi, math.pi  # all attitudes, but no somersaults
    low = -high
    low[2] = _GROUND_M
    if _yaw_is_constant(path):
        yaw = float(np.asarray(derivatives(path, 0.0))[0, 3])
        low[8], high[8] = yaw - yaw_band, yaw + yaw_band
    if not closed:
        for node, phase in ((0, 0.0), (-1, float(lap_s(path)))):
            low[:3, node] = high[:3, node] = np.asarray(derivatives(path, phase))[0, :3]
            still = [3, 4, 5, 6, 7, *range(9, rows)]
            low[still, node] = high[still, node] = 0.0
    if isinstance(geometry, Gates):
        nodes = np.array(_gate_nodes(counts, closed))[geometry.radii == 0.0]
        low[:3, nodes] = high[:3, nodes] = geometry.points[geometry.radii == 0.0].T
    return low, high


def _gate_nodes(counts: list[int], closed: bool) -> list[int]:
    nodes = [0, *np.cumsum(counts).tolist()]
    return nodes[:-1] if closed else nodes


def _yaw_is_constant(path: Path) -> bool:
    heading = np.asarray(path.coefficients)[:, 3]
    return bool(np.ptp(heading[:, 0]) < 1e-9 and np.abs(heading[:, 1:]).max() < 1e-9)


def _pass_gates(
    program: Program, path: Path, gates: Gates, states: Any, counts: list[int], yaw_band: float
) -> None:
    closed = bool(path.periodic > 0.5)
    for i, node in enumerate(_gate_nodes(counts, closed)):
        radius, phase = gates.radii[i], gates.phase[i]
        end = not closed and node in (0, sum(counts))
        if radius > 0.0 and not end:
            away = (states[:3, node] - gates.points[i]) / radius
            program.require(casadi().sumsqr(away), 0.0, 1.0)
            if gates.normals is not None:
                program.require(casadi().dot(away, gates.normals[i]))
                program.require(casadi().dot(states[3:6, node], gates.normals[i]), 0.0, np.inf)
        if not _yaw_is_constant(path):
            yaw = float(np.asarray(derivatives(path, phase))[0, 3])
            band = max(yaw_band, _LOOSE_YAW)
            program.require(states[8, node], yaw - band, yaw + band)


def _keep_to_tube(
    program: Program,
    path: Path,
    tube: Tube,
    moments: tuple[Any, Any],
    start: np.ndarray,
    yaw_band: float,
) -> Any:
    """Each node has a phase (as a share of the lap) at which the path is near.

    Where two stretches of the path are near each other, the phase could skip what lies
    between. So its steps are limited, and half-way between nodes the path must be near, too.
    """
    ca = casadi()
    low, high = np.zeros((1, len(start))), np.ones((1, len(start)))
    high[0, 0], low[0, -1] = 0.0, 1.0
    phase = program.variable(np.clip(start / float(lap_s(path)), 0.0, 1.0)[None], low, high)
    step = phase[0, 1:] - phase[0, :-1]
    program.require(step * (len(start) - 1), 0.0, _MAX_PHASE_STEP)
    for state, beside in zip(moments, (phase, phase[0, :-1] + 0.5 * step), strict=True):
        there = path_function(path).map(beside.shape[1])(beside)
        away = (state[:3, :] - there[:3, :]) / tube.radius
        program.require(ca.sum1(away**2), 0.0, 1.0)
        if not _yaw_is_constant(path):
            band = max(yaw_band, _LOOSE_YAW)
            program.require(state[8, :] - there[3, :], -band, band)
    return phase


def _motion(
    ideal: Ideal,
    model: ModelName,
    states: np.ndarray,
    inputs: np.ndarray,
    steps: np.ndarray,
    phase: np.ndarray,
) -> Motion:
    """Dense samples of the solution: each interval anew from the state at its left node."""
    total = len(steps)
    fraction = np.linspace(0.0, 1.0, _SAMPLES)
    spread = np.repeat(np.arange(total), _SAMPLES)
    part = np.tile(fraction, total) * steps[spread]
    dense = np.array(
        step_function(model).map(total * _SAMPLES)(states[:, spread], inputs[:, spread], part[None])
    )
    result = input_function(ideal, model).map(total * _SAMPLES)(dense, inputs[:, spread])
    command, rotors = (result, None) if model == "ctbr" else result

    def shaped(values: Any) -> np.ndarray:
        return np.array(values).T.reshape(total, _SAMPLES, -1)

    return Motion(
        width=steps,
        slowness=np.ones((total, _SAMPLES)),
        command=shaped(command),
        rotors=None if rotors is None else shaped(rotors),
        position=shaped(dense[:3]),
        velocity=shaped(dense[3:6]),
        angles=shaped(dense[6:9]),
        phase=phase[:-1, None] + fraction * np.diff(phase)[:, None],
    )
