"""Inputs in the body: thrust, velocity, rates and "up" as the vehicle feels them.

Beside the network there is a linear part, and a steady wind of the world; a few seconds then say
what absolute inputs need a minute for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from lafr_mjx import mlp
from lafr_mjx.model.body_features import BASE, base, speed

if TYPE_CHECKING:
    import jax

    from lafr_mjx.model.residual import Switches
    from lafr_mjx.model.state import ModelState

_LINEAR_SCALE = 2.0
"""Output per unit of the linear part's parameters: Adam moves each parameter by little more than
its learning rate in a step, and one flight must be enough."""


class Body(NamedTuple):
    """Network, linear part and wind."""

    layers: tuple[mlp.Layer, ...]
    linear: Any  # [1 + b + |v|v, 6] coefficients / `_LINEAR_SCALE`, body frame
    wind: Any  # [3] constant acceleration / `_LINEAR_SCALE`, world: drag of a steady wind

    @classmethod
    def create(cls, rng: np.random.Generator, hidden: int = 64) -> Body:
        """Nearly zero."""
        layers = mlp.create(rng, (len(BASE), hidden, hidden, 6), last_scale=0.01)
        return cls(layers, np.zeros((1 + len(BASE) + 3, 6), np.float32), np.zeros(3, np.float32))

    def __call__(
        self, state: ModelState, effective: jax.Array, commands: jax.Array, switches: Switches
    ) -> tuple[jax.Array, jax.Array]:
        """Acceleration and rates, see `residual.ResidualNetwork`."""
        del commands, switches
        b = base(state, effective)
        one = jnp.ones((*b.shape[:-1], 1))
        known = jnp.concatenate([one, b, speed(state) * b[..., 1:4]], axis=-1)
        output = mlp.apply(self.layers, b) + _LINEAR_SCALE * (known @ self.linear)
        felt = (state.rotation @ output[..., :3, None])[..., 0] + _LINEAR_SCALE * self.wind
        return felt, output[..., 3:]
