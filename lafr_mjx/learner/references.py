"""What is flown next: what a planner of references is. The planners: a file each, `reference_*.py`.

A reference is a path over the phase, and so holds its own timing: where to be when, at time
scale 1. The time scale, which verification chooses last, slows down or speeds up all of it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from lafr_mjx import parts
from lafr_mjx.errors import InputError
from lafr_mjx.reference.path import Path, derivatives, lap_s

if TYPE_CHECKING:
    from lafr_mjx.learner.time_scaling import LastFlight
    from lafr_mjx.model.residual import Residual, Switches
    from lafr_mjx.tasks import Task
    from lafr_mjx.types import CommandLimits

NOT_ALLOWED = 3
REFUSALS = (
    "", "not finite", "leaves the task's room",
    "what flies does not allow it at the present time scale",
)  # fmt: skip
"""Why a plan is not flown."""

_POINTS = 512
_TOLERANCE_M = 0.05
"""A planner may look at other points than are looked at here."""


class Known(NamedTuple):
    """All that a plan can be based on."""

    task: Path  # the task's own path
    room: Any  # [K] m, how far from it a vehicle may be, at K equal shares of its lap
    flown: Path  # the reference of the last flight
    last: LastFlight
    ensemble: Residual  # the model, with what that flight taught
    switches: Switches
    limits: CommandLimits


class Planned(NamedTuple):
    """What is flown next."""

    path: Path
    refused: Any  # index into `REFUSALS`; if not 0, the last reference stays


class ReferencePlanner(Protocol):
    """A pytree whose settings are leaves; every method is pure and has no branches on values.

    It may also have `check(task)`, which raises an `InputError` where its settings do not suit.
    """

    def start(self, task: Path) -> Path:
        """The reference of the first flight; all later ones have its number of segments."""
        ...

    def plan(self, known: Known) -> Path:
        """The reference of the next flight; its lap counts as the task's, whatever it says."""
        ...


def planner_of(text: str) -> Any:
    """The planner that a text names, see `parts`.

    Raises:
        InputError: there is none, or it is no planner.
    """
    return parts.checked(parts.REFERENCE, text, ("start", "plan"), "no planner of references")


def planned(planner: ReferencePlanner, known: Known) -> Planned:
    """The next reference, with the task's lap; the last one stays if it cannot be flown."""
    path = _path("plan", planner.plan(known))
    if jax.tree.map(jnp.shape, path) != jax.tree.map(jnp.shape, known.flown):
        raise InputError(
            f"plans a path of the shapes {tuple(jax.tree.map(jnp.shape, path))}; those of the "
            f"first are {tuple(jax.tree.map(jnp.shape, known.flown))}"
        )
    path = path._replace(breaks=path.breaks * (lap_s(known.task) / lap_s(path)))
    finite = jnp.all(jnp.array([jnp.all(jnp.isfinite(leaf)) for leaf in path]))
    within = excess_m(path, known.task, known.room) <= _TOLERANCE_M
    path = jax.tree.map(partial(jnp.where, finite & within), path, known.flown)
    return Planned(path, jnp.where(finite, jnp.where(within, 0, 2), 1))


def check_first(planner: ReferencePlanner, task: Task) -> None:
    """Refuse a planner whose first reference cannot be flown.

    Raises:
        InputError: says what is wrong with it.
    """
    path = _path("start", planner.start(task.path))
    if not all(np.all(np.isfinite(leaf)) for leaf in path):
        raise InputError("'start' gives a path that is not finite")
    excess = float(excess_m(path, task.path, task.room()))
    if not excess <= _TOLERANCE_M:
        raise InputError(
            f"'start' gives a path that leaves the room of the task '{task.name}' by {excess:.2f} m"
        )


def excess_m(path: Path, task: Path, room: Any) -> jax.Array:
    """How far a reference leaves the room around the task's path [m]; negative within."""
    # The points of the same path are among the task's.
    share, shares = (jnp.arange(_POINTS) + 0.5) / _POINTS, jnp.linspace(0.0, 1.0, 2 * _POINTS + 1)
    position = derivatives(path, lap_s(path) * share)[:, 0, :3]
    there = derivatives(task, lap_s(task) * shares)[:, 0, :3]
    here = jnp.minimum((shares * len(room)).astype(int), len(room) - 1)
    away = jnp.linalg.norm(position[:, None] - there, axis=-1) - jnp.asarray(room)[here]
    return jnp.max(jnp.min(away, axis=1))


def _path(method: str, given: Any) -> Path:
    if not isinstance(given, Path):
        raise InputError(f"'{method}' gives {parts.shown(given)}; it must be a path")
    return parts.numbers(f"'{method}'", given)
