"""Transitions from recorded flights, and the sliding window of them that is fitted."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp

from lafr_mjx.model import state as states
from lafr_mjx.model.residual import COMMANDS
from lafr_mjx.types import COMMAND_HOVER, CONTROL_DT

if TYPE_CHECKING:
    from lafr_mjx.model.state import ModelState
    from lafr_mjx.types import Rollout


class Transitions(NamedTuple):
    """Rows (x_{k-1}, x_k, x_{k+1}) with the commands in force; leading axes: any."""

    before: ModelState  # x_{k-1}
    before_commands: jax.Array  # [N, COMMANDS, 4] newest first, at k-1
    now: ModelState  # x_k
    commands: jax.Array  # [N, COMMANDS, 4] newest first, at k
    after: ModelState  # x_{k+1}
    usable: jax.Array  # [N] bool


def command_windows(commands: jax.Array) -> jax.Array:
    """[T, 4] commands to [T, COMMANDS, 4]: at each tick the last ones, newest first.

    Before the flight the vehicle hovered.
    """
    ticks = commands.shape[0]
    padded = jnp.concatenate([jnp.tile(COMMAND_HOVER, (COMMANDS - 1, 1)), commands])
    columns = [padded[COMMANDS - 1 - j : COMMANDS - 1 - j + ticks] for j in range(COMMANDS)]
    return jnp.stack(columns, axis=1)


def transitions(rollout: Rollout) -> Transitions:
    """All rows of one flight, T of them; those across a gap or a crash are not usable."""
    sensed = states.of(rollout.sensed)
    windows = command_windows(jnp.asarray(rollout.command))
    flying = jnp.asarray(rollout.valid) & ~jnp.asarray(rollout.crashed)
    stamp = jnp.asarray(rollout.stamp)
    # Samples that came late or not at all leave a step that is not one control interval long.
    regular = jnp.abs(jnp.diff(stamp) - CONTROL_DT) < 0.25 * CONTROL_DT
    finite = jnp.all(jnp.isfinite(sensed.position + sensed.velocity), axis=-1)
    good = flying & finite
    middle = good[1:-1] & good[:-2] & good[2:] & regular[:-1] & regular[1:]

    def around(offset: int) -> ModelState:
        size = stamp.shape[0] - 2
        return jax.tree.map(lambda leaf: jnp.asarray(leaf)[1 + offset : 1 + offset + size], sensed)

    return Transitions(
        before=around(-1),
        before_commands=windows[:-2],
        now=around(0),
        commands=windows[1:-1],
        after=around(1),
        usable=middle,
    )
