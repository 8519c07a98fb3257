"""Inputs in the world: velocity, attitude and effective command.

By switches also the position, as in the paper, and the last commands themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp

from lafr_mjx import mlp
from lafr_mjx.model.residual import COMMANDS
from lafr_mjx.types import COMMAND_HOVER, COMMAND_SCALE

if TYPE_CHECKING:
    import jax
    import numpy as np

    from lafr_mjx.model.residual import Switches
    from lafr_mjx.model.state import ModelState

_FEATURES = 3 + 3 + 9 + 4 + 4 * COMMANDS


class Default(NamedTuple):
    """A network on features ζ of the world frame."""

    layers: tuple[mlp.Layer, ...]

    @classmethod
    def create(cls, rng: np.random.Generator, hidden: int = 64) -> Default:
        """Nearly zero."""
        return cls(mlp.create(rng, (_FEATURES, hidden, hidden, 6), last_scale=0.01))

    def __call__(
        self, state: ModelState, effective: jax.Array, commands: jax.Array, switches: Switches
    ) -> tuple[jax.Array, jax.Array]:
        """Acceleration and rates, see `residual.ResidualNetwork`."""
        output: Any = mlp.apply(self.layers, features(state, effective, commands, switches))
        return output[..., :3], output[..., 3:]


def features(
    state: ModelState, effective: jax.Array, commands: jax.Array, switches: Switches
) -> jax.Array:
    """ζ [..., features], scaled to order one."""
    shape = effective.shape[:-1]
    history = switches.history * ((commands - COMMAND_HOVER) / COMMAND_SCALE)
    return jnp.concatenate(
        [
            switches.position * state.position / 3.0,
            state.velocity / 5.0,
            jnp.swapaxes(state.rotation, -1, -2).reshape((*shape, 9)),
            (effective - COMMAND_HOVER) / COMMAND_SCALE,
            history.reshape((*shape, 4 * COMMANDS)),
        ],
        axis=-1,
    )
