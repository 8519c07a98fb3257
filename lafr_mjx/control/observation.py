"""What the policy sees, built in one place for training, simulation and the drone.

The observation is invariant where the task is: positions enter only as errors, so that a
policy learned here flies anywhere. Velocity and attitude stay absolute in the world, because
wind acts in the world and drag with the velocity. References are given at the moment of the
sample and a little ahead, so that the policy can act before a delayed command would be late.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lafr_mjx.arrays import namespace
from lafr_mjx.types import COMMAND_HOVER, COMMAND_SCALE

if TYPE_CHECKING:
    from lafr_mjx.arrays import Array
    from lafr_mjx.types import Reference

PREVIEW_S = (0.0, 0.06, 0.12)
"""Moments of the references, relative to the sample's stamp [s]."""

HISTORY = 4
"""Last commands that the policy sees, newest first."""

SIZE = 3 + 3 + 3 + 9 + len(PREVIEW_S) * 9 + 4 * HISTORY
"""Length of the observation."""

ERROR = slice(0, 3)
"""Where the position error is in it."""

_ERROR_LIMIT = 1.0  # m; further away the direction is what matters


def observe(
    position: Array, velocity: Array, rotation: Array, references: Reference, history: Array
) -> Array:
    """Observation [..., SIZE].

    Args:
        position: [..., 3].
        velocity: [..., 3].
        rotation: [..., 3, 3].
        references: fields [..., P, ...], P as in `PREVIEW_S`.
        history: [..., HISTORY, 4] last commands, newest first.
    """
    xp = namespace(position, velocity, rotation, history)
    shape = position.shape[:-1]
    error = references.position[..., 0, :] - position
    error = xp.clip(error, -_ERROR_LIMIT, _ERROR_LIMIT)
    asked = xp.concatenate(
        [references.velocity / 5.0, references.acceleration / 10.0, references.rates / 6.0],
        axis=-1,
    )
    return xp.concatenate(
        [
            error / 0.3,
            (references.velocity[..., 0, :] - velocity) / 2.0,
            velocity / 5.0,
            rotation.reshape((*shape, 9)),
            asked.reshape((*shape, 9 * len(PREVIEW_S))),
            ((history - COMMAND_HOVER) / COMMAND_SCALE).reshape((*shape, 4 * HISTORY)),
        ],
        axis=-1,
    )
