"""The controller as it flies: with a little dither to learn from, and a guard behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

if TYPE_CHECKING:
    from lafr_mjx.control.controller import Learnable
    from lafr_mjx.types import Reference, Sensed

DITHER = np.array([0.6, 0.4, 0.4, 0.4], np.float32)
"""Standard deviation of the dither at full strength: m/s², rad/s."""


_SLOW_WITHIN_M = 0.12
"""Further error within which the clock slows down to the full; it stays so for the flight."""

_SLOWEST = 3.0
"""Largest factor on the time scale."""


class Memory(NamedTuple):
    """What goes on from tick to tick."""

    policy: Any  # memory of the policy
    last_good: Any  # and of the one behind it
    tick: Any
    worst: Any  # m, largest error so far


class Guarded(NamedTuple):
    """A policy with dither; beyond an error limit the last good one takes over."""

    policy: Learnable
    last_good: Learnable
    dither: Any  # strength, 0 to 1
    slow_from: Any  # m, error from which on the clock slows down
    error_limit: Any  # m
    key: Any  # uint32 [2]

    def preview_s(self) -> Any:
        """Moments at which the policies want the reference."""
        return self.policy.preview_s()

    def start(self) -> Memory:
        """At the start of a flight."""
        return Memory(self.policy.start(), self.last_good.start(), jnp.int32(0), jnp.float32(0.0))

    def __call__(self, memory: Memory, sensed: Sensed, references: Reference) -> tuple[Memory, Any]:
        """One command [4]."""
        error = jnp.linalg.norm(references.position[0] - sensed.state.position)
        worst = jnp.maximum(memory.worst, error)
        own, command = self.policy(memory.policy, sensed, references)
        other, fallback = self.last_good(memory.last_good, sensed, references)
        after = memory._replace(worst=worst)
        command = jnp.where(self.fallback(after), fallback, command)
        key = jax.random.fold_in(jax.random.wrap_key_data(self.key), memory.tick)
        command = command + self.dither * DITHER * jax.random.normal(key, (4,))
        limits = self.policy.limits
        command = jnp.clip(command, limits.low, limits.high)
        own, other = self.policy.sent(own, command), self.last_good.sent(other, command)
        return after._replace(policy=own, last_good=other, tick=memory.tick + 1), command

    def time_scale_factor(self, memory: Memory) -> Any:
        """By how much the reference's clock is to slow down."""
        share = jnp.clip((memory.worst - self.slow_from) / _SLOW_WITHIN_M, 0.0, 1.0)
        return 1.0 + (_SLOWEST - 1.0) * share

    def fallback(self, memory: Memory) -> Any:
        """Whether the last good policy has the vehicle."""
        return memory.worst > self.error_limit


def surprising_error(expected: Any) -> Any:
    """Error [m] from which on something is not as the model believes it to be.

    `expected` is the peak that the model predicts for the whole flight, with its ramp. Slowing
    down is no cure for an error that was expected: the policy was trained for this speed.
    """
    known = jnp.where(jnp.isnan(expected), 1.0, expected)
    return jnp.clip(1.5 * known + 0.08, 0.15, 0.40)
