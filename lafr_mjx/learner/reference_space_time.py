"""Path and timing planned together: the fastest motion within a corridor around the task's path.

After each calibration the whole reference is planned anew in the learned model: with the thrust
that is really there, the drag and the wind as the residual knows them, and a margin of thrust and
rates for feedback. The time scale remains the last, verified word: it flies the plan at its own
pace, or slower. The plan is found by the interior-point method of `time_optimal_plan.py`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lafr_mjx.errors import InputError
from lafr_mjx.learner import time_optimal_plan as plans
from lafr_mjx.model import residual
from lafr_mjx.model.residual import COMMANDS
from lafr_mjx.model.state import ModelState
from lafr_mjx.reference import path as paths
from lafr_mjx.reference.flatness import reference_state
from lafr_mjx.reference.path import Path, lap_s

if TYPE_CHECKING:
    from lafr_mjx.learner.references import Known
    from lafr_mjx.tasks import Task
    from lafr_mjx.types import Reference

_PASSES = 2
"""Plans per flight: each with the forces that act along the one before."""

_LARGEST_FORCE = 8.0
"""m/s², of what the residual may say about motions that it has not seen."""

_AHEAD = 0.9
"""Forces are asked for at this share of the time scale that was flown, not at the plan's own."""

_NEAR = 0.02
"""m from the task's path, where the room is that of tracking errors."""


class SpaceTime(NamedTuple):
    """Room and margins of the plan."""

    corridor: Any = jnp.inf  # m from the task's path, at most; 0: the path itself
    tracking: Any = 0.15  # m, of the task's room that is left to tracking errors
    share: Any = 0.95  # of thrust and rates; the rest is for feedback

    def check(self, task: Task) -> None:
        """Refuse what leaves the task's room; where that is narrow, plans keep near its path."""
        room = float(task.room().max())
        ranges = {"tracking": (0.02, max(room, SpaceTime().tracking)), "share": (0.3, 1.0)}
        if self.corridor != jnp.inf:  # all of the room
            ranges["corridor"] = (0.0, max(room - self.tracking, _NEAR) + 1e-9)
        for name, (low, high) in ranges.items():
            if not low <= getattr(self, name) <= high:
                raise InputError(
                    f"{name} = {getattr(self, name):g}: must be at least {low:g}, and at most "
                    f"{high:.3g} on the task '{task.name}', which leaves room of {room:.3g} m"
                )

    def start(self, task: Path) -> Path:
        """The task's path itself, by the knots of later plans."""
        knots = np.linspace(0.0, float(lap_s(task)), plans.SEGMENTS + 1)
        values = np.asarray(paths.derivatives(task, knots))[:, 0]
        # The end of a closed path is its start, but for full turns of the heading.
        values[-1, :3] = np.where(task.periodic > 0.5, values[0, :3], values[-1, :3])
        closed, opened = plans.basis()
        basis = closed if task.periodic > 0.5 else opened
        coefficients = np.einsum("snk,nd->sdk", basis.coefficients, values)
        return Path(coefficients, knots, np.asarray(task.periodic))

    def plan(self, known: Known) -> Path:
        """The fastest motion in the model as it is now; the last reference if there is none."""
        radius = jnp.minimum(self.corridor, jnp.maximum(known.room - self.tracking, _NEAR))
        limits = plans.Limits(
            thrust=self.share * known.limits.high[0],
            rates=self.share * known.limits.high[1:],
            radius=radius,
        )
        seconds = _AHEAD * known.last.pace.time_scale * lap_s(known.task)
        path = known.flown
        for _ in range(_PASSES):
            force = _forces(known, path, seconds)
            plan = plans.fastest(known.task, limits, force)
            take = plan.feasible & (self.corridor > 0.0)
            path = jax.tree.map(partial(jnp.where, take), plan.path, path)
            seconds = jnp.maximum(plan.seconds, _AHEAD * known.last.pace.time_scale * lap_s(path))
        return path


def _forces(known: Known, path: Path, seconds: Any) -> jax.Array:
    """Acceleration [samples, 3] beside thrust and gravity along a path that takes `seconds`."""
    phases = lap_s(path) * plans.sample_shares(path.periodic)
    rate = jnp.full_like(phases, lap_s(path) / seconds)
    asked = reference_state(path, phases, rate)

    def one(member: Any) -> jax.Array:
        force = jnp.zeros_like(asked.position)
        for _ in range(2):  # what must be commanded depends on what is missing
            state, command = _flown(asked, force)
            commands = jnp.broadcast_to(command[:, None], (*command.shape[:1], COMMANDS, 4))
            force, _ = residual.evaluate(member, known.switches, state, command, commands)
        return force

    force = jnp.mean(jax.vmap(one)(known.ensemble), axis=0)
    return jnp.clip(force, -_LARGEST_FORCE, _LARGEST_FORCE)


def _flown(asked: Reference, force: jax.Array) -> tuple[ModelState, jax.Array]:
    """State and command [samples, 4] of a vehicle that is exactly on the reference."""
    thrust = asked.thrust[:, None] * asked.rotation[..., 2] - force
    command = jnp.concatenate([jnp.linalg.norm(thrust, axis=-1)[:, None], asked.rates], axis=-1)
    return ModelState(asked.position, asked.velocity, asked.rotation), command
