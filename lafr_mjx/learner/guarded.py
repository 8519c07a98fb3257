"""The policy as it flies: with a little dither to learn from, and a guard behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lafr_mjx.control.observation import HISTORY, PREVIEW_S, observe
from lafr_mjx.control.policy import Policy, act
from lafr_mjx.types import COMMAND_HOVER

if TYPE_CHECKING:
    from lafr_mjx.types import Reference, Sensed

DITHER = np.array([0.6, 0.4, 0.4, 0.4], np.float32)
"""Standard deviation of the dither at full strength: m/s², rad/s."""


class Memory(NamedTuple):
    """What goes on from tick to tick."""

    history: Any  # [HISTORY, 4] commands as they were sent
    tick: Any
    tripped: Any  # bool, latched for the rest of the flight


class GuardedPolicy(NamedTuple):
    """A policy with dither; beyond an error limit the last good one takes over."""

    policy: Policy
    last_good: Policy
    dither: Any  # strength, 0 to 1
    error_limit: Any  # m
    key: Any  # uint32 [2]

    def preview_s(self) -> Any:
        """Moments at which the policies want the reference."""
        return jnp.asarray(PREVIEW_S)

    def start(self) -> Memory:
        """At the start of a flight."""
        hover = jnp.tile(jnp.asarray(COMMAND_HOVER), (HISTORY, 1))
        return Memory(hover, jnp.int32(0), jnp.bool_(False))

    def __call__(self, memory: Memory, sensed: Sensed, references: Reference) -> tuple[Memory, Any]:
        """One command [4]."""
        state = sensed.state
        error = jnp.linalg.norm(references.position[0] - state.position)
        tripped = memory.tripped | (error > self.error_limit)
        seen = observe(state.position, state.velocity, state.rotation, references, memory.history)
        command = jnp.where(tripped, act(self.last_good, seen), act(self.policy, seen))
        key = jax.random.fold_in(jax.random.wrap_key_data(self.key), memory.tick)
        command = command + self.dither * DITHER * jax.random.normal(key, (4,))
        limits = self.policy.limits
        command = jnp.clip(command, limits.low, limits.high)
        history = jnp.concatenate([command[None], memory.history[:-1]])
        return Memory(history, memory.tick + 1, tripped), command

    def time_scale_factor(self, memory: Memory) -> Any:
        """By how much the reference's clock is to slow down."""
        return jnp.where(memory.tripped, 1.6, 1.0)
