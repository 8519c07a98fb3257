"""The learned policy: a network from observation to command, 2 × 256 as in the paper.

Its output lies in the admissible set by construction: tanh maps onto the range of each axis,
with zero at hover. It needs no JAX; under JAX the same code is traced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lafr_mjx import mlp
from lafr_mjx.arrays import clip, namespace
from lafr_mjx.control.observation import HISTORY, PREVIEW_S, SIZE, observe
from lafr_mjx.types import COMMAND_HOVER, CommandLimits, Reference, Sensed

if TYPE_CHECKING:
    from lafr_mjx.arrays import Array


_REACH = 1.3
"""Of tanh, before it is clipped: without it the limits could be approached, never used."""


class Policy(NamedTuple):
    """Parameters φ and the limits of its commands; implements the `Controller` protocol."""

    layers: tuple[mlp.Layer, ...]
    limits: CommandLimits

    def preview_s(self) -> Array:
        """Moments at which it wants the reference."""
        return namespace(self.limits.low).asarray(PREVIEW_S)

    def start(self) -> Array:
        """Last commands [HISTORY, 4]: hover."""
        xp = namespace(self.limits.low)
        return xp.asarray(np.tile(COMMAND_HOVER, (HISTORY, 1)))

    def __call__(self, memory: Array, sensed: Sensed, references: Reference) -> tuple[Array, Array]:
        """One command [4] from one sensed state."""
        xp = namespace(sensed.state.position, self.limits.low)
        state = sensed.state
        seen = observe(state.position, state.velocity, state.rotation, references, memory)
        command = act(self, seen)
        return xp.concatenate([command[None], memory[:-1]]), command


def act(policy: Policy, observation: Array) -> Array:
    """Command [..., 4] for an observation [..., SIZE]."""
    xp = namespace(observation, policy.limits.low)
    output = mlp.apply(policy.layers, observation)
    low, high = policy.limits.low, policy.limits.high
    # Each side of hover is scaled by its own range, so that zero output is hover. The kink in
    # the thrust's slope there is mild (9.81 below, 15.19 above).
    squashed = clip(xp, _REACH * xp.tanh(output), -1.0, 1.0)
    hover = COMMAND_HOVER
    command = hover + xp.where(squashed >= 0.0, squashed * (high - hover), squashed * (hover - low))
    # Rounding may pass a limit by its last digit.
    return clip(xp, command, low, high)


def create_policy(rng: np.random.Generator, limits: CommandLimits, hidden: int = 256) -> Policy:
    """An untrained policy: hovers, whatever it sees."""
    layers = mlp.create(rng, (SIZE, hidden, hidden, 4), last_scale=0.01)
    low, high = np.asarray(limits.low, np.float32), np.asarray(limits.high, np.float32)
    return Policy(layers, CommandLimits(low, high))
