"""Gates of a task: read and checked, where a path passes them, and the room that they leave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lafr_mjx.errors import InputError
from lafr_mjx.reference.path import Path, derivatives, lap_s

if TYPE_CHECKING:
    from pathlib import Path as FilePath

    from lafr_mjx.toml_table import Table

MAX_GATES = 64

_MAX_COORDINATE_M = 1000.0
_GROUND_M = 0.05  # below, the plant counts a crash
_SAME_DIRECTION = 0.5  # cosine; gates that overlap must differ more in their direction
_POINTS = 20_000
_FLAT_M = 0.3  # before and behind a gate the room is as narrow as the gate
_GRACE = 15  # ticks by which a vehicle may be behind its reference at the end
_NEAR = 2.0  # radii within which a reference must cross a gate's plane to be at the gate
_FAR_M = 1000.0
_WIDENING = 0.6  # m of room for each metre from there


@dataclass(frozen=True, eq=False)
class Gate:
    """A round opening to be flown through, in its place of the order and along its normal."""

    position: np.ndarray  # [3] m, centre
    normal: np.ndarray  # [3] unit vector, the direction of flight
    radius: float  # m, of the opening


def read_gates(table: Table, lowest_m: float) -> tuple[Gate, ...]:
    """Read and check the `[[gates]]` of a task file; none if it has none.

    Args:
        table: of the whole file.
        lowest_m: where a path may be at the lowest.
    """
    tables = table.tables("gates")
    gates = tuple(_read_gate(each, lowest_m) for each in tables)
    if "gates" in table and not 2 <= len(gates) <= MAX_GATES:
        raise table.fail("gates", f"2 to {MAX_GATES} gates, not {len(gates)}")
    for i, gate in enumerate(gates):
        for j, other in enumerate(gates[:i]):
            if _same_opening(gate, other):
                raise tables[i].fail(
                    "position", f"clear of gates[{j}], or in another direction: they overlap"
                )
    return gates


def _read_gate(table: Table, lowest_m: float) -> Gate:
    most = _MAX_COORDINATE_M
    position = table.vector("position", 3, at_least=-most, at_most=most)
    normal = table.vector("normal", 3, at_least=-1e6, at_most=1e6)
    radius = table.number("radius_m", 0.5, above=0.0, at_most=5.0)
    length = np.linalg.norm(normal)
    if length < 1e-6:
        raise table.fail("normal", "a vector that is not zero")
    normal = normal / length
    edge = radius * np.hypot(*normal[:2])  # how far the opening reaches below its centre
    lowest = max(lowest_m, edge + _GROUND_M)
    if position[2] < lowest:
        raise table.fail("position", f"at {lowest:.3g} m of altitude or more: above the floor")
    return Gate(position, normal, radius)


def _same_opening(one: Gate, other: Gate) -> bool:
    """Whether two gates overlap and are passed in much the same direction."""
    gap = other.position - one.position
    reach = one.radius + other.radius
    # Those that stand one behind the other are two.
    return bool(
        np.linalg.norm(gap) < reach
        and one.normal @ other.normal > _SAME_DIRECTION
        and max(abs(gap @ one.normal), abs(gap @ other.normal)) < 0.25 * reach
    )


def crossings(positions: np.ndarray, gate: Gate) -> tuple[np.ndarray, np.ndarray]:
    """Where a track [T, 3] crosses a gate's plane in the direction of flight.

    Returns:
        Fractional samples [C], and distances [C] from the gate's centre [m].
    """
    ahead = (positions - gate.position) @ gate.normal
    index = np.flatnonzero((ahead[:-1] < 0.0) & (ahead[1:] >= 0.0))
    share = ahead[index] / (ahead[index] - ahead[index + 1])
    there = positions[index] + share[:, None] * (positions[index + 1] - positions[index])
    return index + share, np.linalg.norm(there - gate.position, axis=1)


def passed_at(path: Path, gates: tuple[Gate, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Phases [G] at which a path first passes the gates in their order, and how far from centre.

    NaN from the first gate on that it does not pass.
    """
    lap = float(lap_s(path))
    track = np.asarray(derivatives(path, np.linspace(0.0, lap, _POINTS)))[:, 0, :3]
    phases, offsets = np.full((2, len(gates)), np.nan)
    last = -1.0
    for i, gate in enumerate(gates):
        where, away = crossings(track, gate)
        inside = (away <= gate.radius) & (where > last)
        if not inside.any():
            break
        first = int(np.argmax(inside))
        last = where[first]
        phases[i], offsets[i] = last * lap / (_POINTS - 1), away[first]
    return phases, offsets


def check_passed(path: Path, gates: tuple[Gate, ...], file: FilePath) -> None:
    """Refuse a path that does not pass its gates in their order and direction."""
    missed = np.flatnonzero(np.isnan(passed_at(path, gates)[0]))
    if not missed.size:
        return
    i = int(missed[0])
    gate = gates[i]
    track = np.asarray(derivatives(path, np.linspace(0.0, lap_s(path), _POINTS)))[:, 0, :3]
    forwards, backwards = (
        (crossings(way, gate)[1] <= gate.radius).any() for way in (track, track[::-1])
    )
    how = "not at all"
    if forwards:
        how = f"only before gates[{i - 1}]"
    elif backwards:
        how = "from behind"
    raise InputError(
        f"{file}: the path passes 'gates[{i}]' at {gate.position.tolist()} {how}; it must pass "
        f"all gates in their order, within their radius and along their normal"
    )


def room_between(
    path: Path, gates: tuple[Gate, ...], shares: np.ndarray, room_m: float
) -> np.ndarray:
    """How far from a path [m] its gates let a vehicle be at shares [K] of the lap.

    The narrower the nearer to a gate, along the path: where it crosses itself, only the branch that
    passes the gate is narrow.
    """
    phases, offsets = passed_at(path, gates)
    lap = float(lap_s(path))
    fine = np.linspace(0.0, lap, _POINTS)
    track = np.asarray(derivatives(path, fine))[:, 0, :3]
    way = np.append(0.0, np.cumsum(np.linalg.norm(np.diff(track, axis=0), axis=1)))
    room = np.full(len(shares), room_m)
    for gate, phase, offset in zip(gates, phases, offsets, strict=True):
        along = np.abs(np.interp(shares * lap, fine, way) - np.interp(phase, fine, way))
        if path.periodic > 0.5:
            along = np.minimum(along, way[-1] - along)
        widening = _WIDENING * np.maximum(along - _FLAT_M, 0.0)
        room = np.minimum(room, gate.radius - offset + widening)
    return room


class Passes(NamedTuple):
    """How a flight passed its gates."""

    passed: int  # inside, along the normal, in their order
    due: int
    clearance_m: float | None  # smallest distance from the edge; < 0 if one was missed


def passes(
    flown: np.ndarray, asked: np.ndarray, laps: float, gates: tuple[Gate, ...], periodic: bool
) -> Passes:
    """Judge a flight by the gates that its reference passed.

    Each is looked for between the reference's passes of its neighbours, and after the vehicle's
    own pass of the gate before. What the reference passes at the very end is not due if the
    vehicle does not come there any more.

    Args:
        flown: [T, 3] m, true positions at the control ticks; NaN from a crash on.
        asked: [T, 3] m, the reference beside it.
        laps: of the reference. In each of the complete ones, all gates are due.
        gates: in their order.
        periodic: whether they are passed again in a next lap.
    """
    moments = _visits(asked, gates, periodic)
    complete = len(gates) * int(laps if periodic else min(laps, 1.0))
    due = max(len(moments), complete)
    never = due - len(moments)  # gates that the reference itself did not come near to
    bounds = [0.0, *moments, float(len(flown)), *[0.0] * never]
    passed, last, clearances = 0, 0.0, []
    for k in range(due):
        gate = gates[k % len(gates)]
        where, away = crossings(flown, gate)
        there = np.flatnonzero((where > max(last, bounds[k])) & (where < bounds[k + 2]))
        if there.size:
            nearest = there[np.argmin(away[there])]
            clearances.append(gate.radius - away[nearest])
            if clearances[-1] >= 0.0:
                passed, last = passed + 1, where[nearest]
        elif k < len(moments) and moments[k] > len(flown) - _GRACE:
            due -= 1
        else:  # not at all, or from behind
            distance = np.linalg.norm(flown - gate.position, axis=1)
            distance = distance[np.isfinite(distance)]
            clearances.append(-distance.min(initial=_FAR_M).clip(gate.radius))
    return Passes(passed, due, float(min(clearances)) if clearances else None)


def _visits(asked: np.ndarray, gates: tuple[Gate, ...], periodic: bool) -> list[float]:
    """Fractional ticks at which a reference passes gate after gate."""
    found = [crossings(asked, gate) for gate in gates]
    visits: list[float] = []
    while periodic or len(visits) < len(gates):
        i = len(visits) % len(gates)
        where, away = found[i]
        near = away <= _NEAR * gates[i].radius
        later = where[near & (where > (visits[-1] if visits else -1.0))]
        if not later.size:
            break
        visits.append(float(later[0]))
    return visits
