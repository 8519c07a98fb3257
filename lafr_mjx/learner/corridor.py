"""How much of the task's room an error takes, where the reference is off the task's path itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lafr_mjx.reference.path import Path, derivatives, lap_s

if TYPE_CHECKING:
    from lafr_mjx.arrays import Array

_POINTS = 512
_FINER = 2
"""Points of the task's path for each of a reference's: those of the same path are among them."""
_LEAST_LEFT_M = 0.05
_WINDOW = np.arange(-_POINTS * _FINER // 5, _POINTS * _FINER // 5 + 1)
"""Where a reference's nearest point is looked for: paths cross themselves, but not so soon."""
_LATE_M = 0.5
"""Distance that counts as much as being a lap too early or late, where a path meets itself."""


class Beside(NamedTuple):
    """The task's path beside points of a reference, [...]."""

    centre: Any  # [..., 3] m, nearest point of the task's path
    along: Any  # [..., 3] unit vector
    deviation: Any  # [...] m, how far the reference is from there
    room: Any  # [...] m, how far a vehicle may be


class Corridor(NamedTuple):
    """The task's path beside a reference, at equal shares of its lap."""

    beside: Beside  # [_POINTS, ...]
    path: Path  # the reference
    threshold: Any  # m, error at which the room is used up

    @staticmethod
    def around(path: Path, task: Path, room: Any, threshold: Any) -> Corridor:
        """Of a reference of a task, which leaves room [K] m at K equal shares of its lap."""
        shares = (jnp.arange(_POINTS) + 0.5) / _POINTS
        position = derivatives(path, lap_s(path) * shares)[:, 0, :3]
        last = _FINER * _POINTS
        there = derivatives(task, lap_s(task) * jnp.linspace(0.0, 1.0, last + 1))

        around = _FINER * jnp.arange(_POINTS)[:, None] + _FINER // 2 + _WINDOW
        around = jnp.where(task.periodic > 0.5, around % last, jnp.clip(around, 0, last))
        squared = jnp.sum((position[:, None] - there[around, 0, :3]) ** 2, axis=-1)
        best = jnp.argmin(squared + (_LATE_M * _WINDOW / last) ** 2, axis=1)
        index = jnp.take_along_axis(around, best[:, None], axis=1)[:, 0]
        nearest = there[index]
        speed = jnp.linalg.norm(nearest[:, 1, :3], axis=-1, keepdims=True)
        along = nearest[:, 1, :3] / jnp.maximum(speed, 1e-3)
        away = _across(position - nearest[:, 0, :3], along)
        room = jnp.asarray(room)
        room = room[jnp.minimum(index * room.shape[0] // last, room.shape[0] - 1)]
        return Corridor(Beside(nearest[:, 0, :3], along, away, room), path, threshold)

    def at(self, phase: Array) -> Beside:
        """The task's path beside the reference at phases [...]."""
        share = phase / lap_s(self.path)
        share = jnp.where(self.path.periodic > 0.5, share - jnp.floor(share), share)
        index = jnp.clip(jnp.floor(share * _POINTS), 0, _POINTS - 1).astype(int)
        return jax.tree.map(lambda leaf: leaf[index], self.beside)

    def judged(self, position: Array, reference: Array, beside: Beside) -> jax.Array:
        """The error [...] as if the reference were on the task's path [m].

        What leads away from the task's path counts by the share that it takes of what is left of
        the room; what leads back to it, or along it, as it is.
        """
        error = jnp.linalg.norm(position - reference, axis=-1)
        away = _across(position - beside.centre, beside.along) - beside.deviation
        left = jnp.maximum(beside.room - beside.deviation, _LEAST_LEFT_M)
        return jnp.maximum(error, away * self.threshold / left)


def _across(gap: Array, along: Array) -> Array:
    """Length of what is at right angles to a direction, [...]."""
    along_it = jnp.sum(gap * along, axis=-1, keepdims=True) * along
    return jnp.linalg.norm(gap - along_it, axis=-1)
