"""What the policy sees, built in one place for training, simulation and the drone.

The observation is invariant where the task is: positions enter only as errors, so that a
policy learned here flies anywhere. Velocity and attitude stay absolute in the world, because
wind acts in the world and drag with the velocity. References are given at the moment of the
sample and a little ahead, so that the policy can act before a delayed command would be late.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

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
_HOVER, _SCALE = COMMAND_HOVER.tolist(), COMMAND_SCALE.tolist()


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


def observe_one(
    position: np.ndarray,
    velocity: np.ndarray,
    rotation: np.ndarray,
    references: Reference,
    history: np.ndarray,
) -> np.ndarray:
    """`observe` in float32 for one vehicle, by plain numbers: the control loop's case.

    The same to the last bit, in a fifth of the time.
    """
    v = velocity.tolist()
    asked = zip(
        references.velocity.tolist(),
        references.acceleration.tolist(),
        references.rates.tolist(),
        strict=True,
    )
    first = references.position[0].tolist()
    away = [r - x for r, x in zip(first, position.tolist(), strict=True)]
    values = [min(max(x, -_ERROR_LIMIT), _ERROR_LIMIT) / 0.3 for x in away]
    values += [(r - x) / 2.0 for r, x in zip(references.velocity[0].tolist(), v, strict=True)]
    values += [x / 5.0 for x in v]
    for row in rotation.tolist():
        values += row
    for speed, acceleration, rates in asked:
        values += [x / 5.0 for x in speed]
        values += [x / 10.0 for x in acceleration]
        values += [x / 6.0 for x in rates]
    for command in history.tolist():
        values += [(u - h) / s for u, h, s in zip(command, _HOVER, _SCALE, strict=True)]
    return np.array(values, np.float32)
