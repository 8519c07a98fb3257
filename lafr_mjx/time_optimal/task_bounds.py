"""All bounds of a task, one after the other, each refined and checked."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from lafr_mjx.errors import RunError
from lafr_mjx.time_optimal.exact_path import solve_exact
from lafr_mjx.time_optimal.free_path import solve_free
from lafr_mjx.time_optimal.solution_check import Check, check, require_sound

if TYPE_CHECKING:
    from lafr_mjx.reference.path import Path
    from lafr_mjx.time_optimal.geometry import Gates, Tube
    from lafr_mjx.time_optimal.ideal_vehicle import Ideal, ModelName
    from lafr_mjx.time_optimal.motion import Solution

YAW_BAND = math.radians(60.0)
"""How far the rotor bound's heading may leave the task's."""

EXACT_FACTOR = 4
"""The exact path is cheap: its grid is that much finer than a free path's."""

_MAX_REFINEMENT = 0.02  # largest change from half the grid to the whole


class Bound(NamedTuple):
    """The duration of the fastest motion that was found and checked."""

    seconds: float
    refinement: tuple[tuple[int, float], ...]  # intervals and seconds, coarse to fine
    status: str  # IPOPT's
    iterations: int
    wall_s: float
    check: Check
    on_exact_path: bool  # a free path on which nothing faster than the exact path was found


def exact_bound(
    path: Path, ideal: Ideal, model: ModelName, nodes: int, slow_s: float, yaw_band: float
) -> tuple[Bound, Solution]:
    """Bound on the exact path, on half the grid and on the whole."""
    name, counts = f"{model} bound on the exact path", (nodes // 2, nodes)
    solutions = [
        solve_exact(path, ideal, model, count, slow_s, f"{name}, {count} intervals", yaw_band)
        for count in counts
    ]
    return _bound(path, None, ideal, solutions, counts, name), solutions[-1]


def free_bound(
    path: Path,
    geometry: Tube | Gates,
    ideal: Ideal,
    model: ModelName,
    nodes: int,
    exact: tuple[Bound, Solution],
    yaw_band: float,
) -> Bound:
    """Bound within a tube or through gates; it starts from the motion on the exact path.

    The motion on the exact path is one of those that are allowed. Where the search on its
    coarser grid ends with a slower one, the exact path's figure counts.
    """
    guess, solutions = exact[1].motion, []
    name = f"{model} bound, {geometry.words}"
    for count in (nodes // 2, nodes):
        what = f"{name}, {count} intervals"
        solution = solve_free(path, geometry, ideal, model, count, guess, what, yaw_band)
        solutions.append(solution)
        guess = solution.motion
    bound = _bound(path, geometry, ideal, solutions, (nodes // 2, nodes), name)
    if bound.seconds > exact[0].seconds:
        return exact[0]._replace(
            refinement=bound.refinement, status=bound.status, on_exact_path=True
        )
    return bound


def _bound(
    path: Path,
    geometry: Tube | Gates | None,
    ideal: Ideal,
    solutions: list[Solution],
    counts: tuple[int, ...],
    what: str,
) -> Bound:
    coarse, fine = solutions
    change = abs(fine.seconds - coarse.seconds) / fine.seconds
    if change > _MAX_REFINEMENT:
        raise RunError(
            f"{what}: {coarse.seconds:.3f} s with {counts[0]} intervals but {fine.seconds:.3f} s "
            f"with {counts[1]}: the grid is too coarse, or one of them is only a local optimum; "
            f"use more --nodes"
        )
    found = check(path, geometry, ideal, fine.motion)
    require_sound(found, fine.seconds, what)
    return Bound(
        seconds=fine.seconds,
        refinement=tuple(zip(counts, (s.seconds for s in solutions), strict=True)),
        status=fine.optimum.status,
        iterations=sum(s.optimum.iterations for s in solutions),
        wall_s=sum(s.optimum.wall_s for s in solutions),
        check=found,
        on_exact_path=False,
    )
