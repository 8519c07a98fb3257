"""What a task asks for, as shapes that all views share: its path, the room around it, its gates."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from lafr_mjx.gates import crossings
from lafr_mjx.reference.path import derivatives, lap_s

if TYPE_CHECKING:
    from lafr_mjx.reference.path import Path
    from lafr_mjx.tasks import Gate, Task

PASSED, AHEAD, MISSED = 1, 0, -1
"""What became of a gate so far."""

_ON_PATH_M = 0.01  # a reference this near to the task's path is the task's path
PIECES = 120
"""Of a path in a picture."""
_SIDES = 16  # of a tube
_RING_POINTS = 32
_RING_M = 0.035  # radius of a gate's frame
_NEAR_GATE = 3.0  # radii; who crosses a gate's plane farther off is elsewhere on the course


def path_points(path: Path, pieces: int = PIECES) -> np.ndarray:
    """Points along a path, [pieces + 1, 3] m."""
    phases = np.linspace(0.0, lap_s(path), pieces + 1)
    return np.asarray(derivatives(path, phases), float)[:, 0, :3]


def leaves_path(task: Task, reference: np.ndarray) -> bool:
    """Whether points [N, 3] of a reference are off the task's path."""
    return bool(task.distance(reference).max() > _ON_PATH_M)


def room_beside(task: Task, pieces: int = PIECES) -> np.ndarray:
    """How far from each of the points of the task's path a vehicle may be, [pieces + 1] m."""
    room = task.room()
    shares = (np.arange(len(room)) + 0.5) / len(room)
    return np.interp(np.linspace(0.0, 1.0, pieces + 1), shares, room, period=1.0)


def ring(gate: Gate) -> np.ndarray:
    """Points around a gate's opening, the first one again at the end, [N, 3] m."""
    side, up = across(gate.normal)
    angle = np.linspace(0.0, 2.0 * np.pi, _RING_POINTS + 1)[:, None]
    around = np.cos(angle) * side + np.sin(angle) * up
    return gate.position + (gate.radius + _RING_M) * around


def arrow(gate: Gate) -> np.ndarray:
    """Start and end [2, 3] m of a gate's arrow, on its upper edge, along the flight."""
    top = gate.position + (gate.radius + _RING_M) * across(gate.normal)[1]
    return np.stack([top, top + max(gate.radius, 0.4) * gate.normal])


def outline(task: Task) -> np.ndarray:
    """Points that a picture of the whole course must have, [N, 3] m."""
    return np.concatenate([path_points(task.path), *(ring(gate) for gate in task.gates)])


def gate_frame(gate: Gate) -> tuple[np.ndarray, np.ndarray]:
    """A gate as a mesh; see `tube`."""
    return tube(ring(gate), np.full(_RING_POINTS + 1, _RING_M))


def corridor(task: Task) -> tuple[np.ndarray, np.ndarray]:
    """The room around the task's path as a mesh; see `tube`."""
    return tube(path_points(task.path), np.maximum(room_beside(task), 0.01))


def tube(centre: np.ndarray, radius: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A tube around a line: its corners [V, 3] m and triangles [F, 3], seen from outside.

    Args:
        centre: [N, 3] m, points of the line.
        radius: [N] m.
    """
    along = np.gradient(centre, axis=0)
    if np.allclose(centre[0], centre[-1]):  # closed
        along[0] = along[-1] = along[0] + along[-1]
    along /= np.maximum(np.linalg.norm(along, axis=1, keepdims=True), 1e-9)
    side = across(along[0])[0]
    sides = []
    for direction in along:  # turned no more than the line turns, so that nothing is twisted
        side = side - (side @ direction) * direction
        side = side / np.linalg.norm(side)
        sides.append(side)
    angle = np.linspace(0.0, 2.0 * np.pi, _SIDES, endpoint=False)[:, None]
    first, second = np.stack(sides)[:, None], np.cross(along, sides)[:, None]
    rings = np.cos(angle) * first + np.sin(angle) * second
    corners = centre[:, None] + radius[:, None, None] * rings
    here = np.arange(len(centre) - 1)[:, None] * _SIDES + np.arange(_SIDES)
    beside = np.roll(here.reshape(-1, _SIDES), -1, axis=1)
    faces = [[here, beside, here + _SIDES], [beside, beside + _SIDES, here + _SIDES]]
    return corners.reshape(-1, 3), np.concatenate([np.stack(f, -1).reshape(-1, 3) for f in faces])


def across(direction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two unit vectors at right angles to one [3] and to each other; the second leans upwards."""
    helper = np.array([1.0, 0.0, 0.0]) if abs(direction[2]) > 0.9 else np.array([0.0, 0.0, 1.0])
    side = np.cross(direction, helper)
    side /= np.linalg.norm(side)
    return side, np.cross(side, direction)


def gate_states(gates: tuple[Gate, ...], position: np.ndarray) -> np.ndarray:
    """What became of the gates up to each of the positions [T, 3] of a flight, [T, G].

    A gate is as the last crossing of its plane near it was: within the opening, or beside it.
    """
    states = np.full((len(position), len(gates)), AHEAD)
    for j, gate in enumerate(gates):
        for where, away in zip(*crossings(position, gate), strict=True):
            if away <= _NEAR_GATE * gate.radius:
                states[math.ceil(where) :, j] = PASSED if away <= gate.radius else MISSED
    return states
