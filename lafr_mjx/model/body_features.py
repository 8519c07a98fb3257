"""What a vehicle feels, seen from its own body: the features b that need no place or heading."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp

from lafr_mjx.types import COMMAND_HOVER, COMMAND_SCALE

if TYPE_CHECKING:
    import jax

    from lafr_mjx.model.state import ModelState

BASE = ("thrust", "vx", "vy", "vz", "wx", "wy", "wz", "upx", "upy", "upz")
"""Names of b."""


def base(state: ModelState, effective: jax.Array) -> jax.Array:
    """Features b [..., 10], scaled to order one."""
    forward = jnp.swapaxes(state.rotation, -1, -2)  # world to body
    velocity = (forward @ state.velocity[..., None])[..., 0]
    command = (effective - COMMAND_HOVER) / COMMAND_SCALE
    up = state.rotation[..., 2, :]
    return jnp.concatenate([command[..., :1], velocity / 5.0, command[..., 1:], up], axis=-1)


def speed(state: ModelState) -> jax.Array:
    """|v| [..., 1] in the units of b; smooth at rest."""
    return jnp.sqrt(jnp.sum(state.velocity**2, axis=-1, keepdims=True) + 1e-12) / 5.0
