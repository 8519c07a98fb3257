"""The negative reward of the paper's objective: stay on the reference, change commands little."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp

from lafr_mjx.errors import InputError
from lafr_mjx.types import COMMAND_SCALE

if TYPE_CHECKING:
    import jax

    from lafr_mjx.model.state import ModelState
    from lafr_mjx.types import Reference


_HARD_TURN = (5.5, 0.5)
"""Rates of the reference [rad/s] from which a turn is hard, and how much more makes it fully so."""


class Tracking(NamedTuple):
    """Weights of the squared terms; a heavy action-rate cost is what survives delay."""

    position: Any = 30.0  # 1/m²
    velocity: Any = 0.3  # s²/m²
    yaw: Any = 1.0
    rates: Any = 0.01  # s²/rad², of what is commanded beyond the reference's
    hard_turn: Any = 0.1  # s²/rad², the same where the reference itself is near its limit
    change: Any = 0.2  # of the scaled command from tick to tick

    def check(self) -> None:
        """Refuse weights that would reward errors."""
        for name, weight in self._asdict().items():
            if not 0.0 <= weight < math.inf:
                raise InputError(f"{name} = {weight}: must be a number of 0 or more")

    def __call__(
        self, state: ModelState, reference: Reference, command: jax.Array, previous: jax.Array
    ) -> jax.Array:
        """Cost [...] of one control interval; far errors count linearly: none dominates."""
        error = jnp.sum((state.position - reference.position) ** 2, axis=-1)
        velocity = jnp.sum((state.velocity - reference.velocity) ** 2, axis=-1)
        # Sine of the yaw error: the reference's left axis seen along our forward axis.
        yaw = jnp.sum(reference.rotation[..., :, 1] * state.rotation[..., :, 0], axis=-1)
        change = jnp.sum(((command - previous) / COMMAND_SCALE) ** 2, axis=-1)
        # Where the reference turns as hard as is allowed or harder, so shall the vehicle: there a
        # smooth policy would cut the corner and leave some of its rates unused.
        hard = jnp.clip((jnp.abs(reference.rates) - _HARD_TURN[0]) / _HARD_TURN[1], 0.0, 1.0)
        rate_weights = self.rates + self.hard_turn * hard
        rates = jnp.sum(rate_weights * (command[..., 1:] - reference.rates) ** 2, axis=-1)
        return (
            self.position * _soft(error, 0.5)
            + self.velocity * _soft(velocity, 3.0)
            + self.yaw * yaw**2
            + rates
            + self.change * change
        )


BASE_COST = Tracking(position=3.0, change=1.0, hard_turn=0.0)
"""For the timid base policy."""


def _soft(squared: jax.Array, scale: float) -> jax.Array:
    """Pseudo-Huber: x² near zero, 2 · scale · |x| far away."""
    return 2.0 * scale**2 * (jnp.sqrt(1.0 + squared / scale**2) - 1.0)
