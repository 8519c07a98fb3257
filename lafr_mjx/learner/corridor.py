"""How much of the task's room an error takes, where the reference is off the task's path itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp

from lafr_mjx.reference.path import Path, derivatives, lap_s

if TYPE_CHECKING:
    from lafr_mjx.arrays import Array

_POINTS = 512
_LEAST_LEFT_M = 0.05


class Beside(NamedTuple):
    """The task's path beside points of a reference, [...]."""

    centre: Any  # [..., 3] m, nearest point of the task's path
    along: Any  # [..., 3] unit vector
    deviation: Any  # [...] m, how far the reference is from there


class Corridor(NamedTuple):
    """The task's path beside a reference, at equal shares of its lap."""

    beside: Beside  # [_POINTS, ...]
    path: Path  # the reference
    threshold: Any  # m, how far from the task's path a vehicle may be

    @staticmethod
    def around(path: Path, task: Path, threshold: Any) -> Corridor:
        """Of a reference of a task."""
        shares = (jnp.arange(_POINTS) + 0.5) / _POINTS
        position = derivatives(path, lap_s(path) * shares)[:, 0, :3]
        # The points of the same path are among these.
        there = derivatives(task, lap_s(task) * jnp.linspace(0.0, 1.0, 2 * _POINTS + 1))
        squared = jnp.sum((position[:, None] - there[:, 0, :3]) ** 2, axis=-1)
        nearest = there[jnp.argmin(squared, axis=1)]
        speed = jnp.linalg.norm(nearest[:, 1, :3], axis=-1, keepdims=True)
        along = nearest[:, 1, :3] / jnp.maximum(speed, 1e-3)
        away = _across(position - nearest[:, 0, :3], along)
        return Corridor(Beside(nearest[:, 0, :3], along, away), path, threshold)

    def at(self, phase: Array) -> Beside:
        """The task's path beside the reference at phases [...]."""
        share = phase / lap_s(self.path)
        share = jnp.where(self.path.periodic > 0.5, share - jnp.floor(share), share)
        index = jnp.clip(jnp.floor(share * _POINTS), 0, _POINTS - 1).astype(int)
        return jax.tree.map(lambda leaf: leaf[index], self.beside)

    def judged(self, position: Array, reference: Array, beside: Beside) -> jax.Array:
        """The error [...] as if the reference were on the task's path [m].

        What leads away from the task's path counts by the share that it takes of what is left of
        the threshold; what leads back to it, or along it, as it is.
        """
        error = jnp.linalg.norm(position - reference, axis=-1)
        away = _across(position - beside.centre, beside.along) - beside.deviation
        left = jnp.maximum(self.threshold - beside.deviation, _LEAST_LEFT_M)
        return jnp.maximum(error, away * self.threshold / left)


def _across(gap: Array, along: Array) -> Array:
    """Length of what is at right angles to a direction, [...]."""
    along_it = jnp.sum(gap * along, axis=-1, keepdims=True) * along
    return jnp.linalg.norm(gap - along_it, axis=-1)
