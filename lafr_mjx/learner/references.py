"""What is flown next: what a planner of references is. The planners: a file each, `reference_*.py`.

A reference is a path over the phase, and so holds its own timing: where to be when, at time
scale 1. The time scale, which verification chooses last, slows down or speeds up all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from lafr_mjx import parts
from lafr_mjx.errors import InputError
from lafr_mjx.reference.path import Path, lap_s

if TYPE_CHECKING:
    from lafr_mjx.learner.time_scaling import LastFlight
    from lafr_mjx.model.residual import Residual, Switches
    from lafr_mjx.types import CommandLimits


class Known(NamedTuple):
    """All that a plan can be based on."""

    task: Path  # the task's own path
    room: Any  # [K] m, how far from it a vehicle may be, at K equal shares of its lap
    flown: Path  # the reference of the last flight
    last: LastFlight
    ensemble: Residual  # the model, with what that flight taught
    switches: Switches
    limits: CommandLimits


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


def planned(planner: ReferencePlanner, known: Known) -> Path:
    """The next reference, with the task's lap; one that is not finite is not flown."""
    path = planner.plan(known)
    if jax.tree.map(jnp.shape, path) != jax.tree.map(jnp.shape, known.flown):
        raise InputError(
            f"plans a path of the shapes {tuple(jax.tree.map(jnp.shape, path))}; those of the "
            f"first are {tuple(jax.tree.map(jnp.shape, known.flown))}"
        )
    path = path._replace(breaks=path.breaks * (lap_s(known.task) / lap_s(path)))
    good = jnp.all(jnp.array([jnp.all(jnp.isfinite(leaf)) for leaf in path]))
    return jax.tree.map(lambda new, old: jnp.where(good, new, old), path, known.flown)
