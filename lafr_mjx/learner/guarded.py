"""The controller as it flies: with a little dither to learn from, and a guard behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp

from lafr_mjx.control.departure import DITHER, departure, slow_down_factor, window
from lafr_mjx.types import CONTROL_DT

if TYPE_CHECKING:
    from lafr_mjx.control.controller import Learnable
    from lafr_mjx.types import Reference, Sensed


class Memory(NamedTuple):
    """What goes on from tick to tick."""

    policy: Any  # memory of the policy
    last_good: Any  # and of the one behind it
    tick: Any
    worst: Any  # m, largest error so far
    excess: Any  # m, of the departure over its limit, the largest so far


class Guarded(NamedTuple):
    """A policy with dither; in trouble the clock slows down, then the last good one takes over."""

    policy: Learnable
    last_good: Learnable
    dither: Any  # strength, 0 to 1
    slow_from: Any  # [WINDOWS] m, departure from which on the clock slows down
    error_limit: Any  # m
    key: Any  # uint32 [2]

    def preview_s(self) -> Any:
        """Moments at which the policies want the reference."""
        return self.policy.preview_s()

    def start(self) -> Memory:
        """At the start of a flight."""
        zero = jnp.float32(0.0)
        return Memory(self.policy.start(), self.last_good.start(), jnp.int32(0), zero, zero)

    def __call__(self, memory: Memory, sensed: Sensed, references: Reference) -> tuple[Memory, Any]:
        """One command [4]."""
        error = sensed.state.position - references.position[0]
        worst = jnp.maximum(memory.worst, jnp.linalg.norm(error))
        gone = departure(error, sensed.state.velocity - references.velocity[0])
        limit = jnp.asarray(self.slow_from)[window(memory.tick * CONTROL_DT)]
        excess = jnp.maximum(memory.excess, gone - limit)
        own, command = self.policy(memory.policy, sensed, references)
        other, fallback = self.last_good(memory.last_good, sensed, references)
        after = memory._replace(worst=worst, excess=excess)
        command = jnp.where(self.fallback(after), fallback, command)
        key = jax.random.fold_in(jax.random.wrap_key_data(self.key), memory.tick)
        command = command + self.dither * DITHER * jax.random.normal(key, (4,))
        limits = self.policy.limits
        command = jnp.clip(command, limits.low, limits.high)
        own, other = self.policy.sent(own, command), self.last_good.sent(other, command)
        return after._replace(policy=own, last_good=other, tick=memory.tick + 1), command

    def time_scale_factor(self, memory: Memory) -> Any:
        """By how much the reference's clock is to slow down."""
        return slow_down_factor(memory.excess)

    def fallback(self, memory: Memory) -> Any:
        """Whether the last good policy has the vehicle."""
        return memory.worst > self.error_limit


def surprising_departure(expected: Any) -> Any:
    """Departures [WINDOWS] m from which on something is not as the model believes it to be.

    `expected` is what the model predicts of vehicles that differ from it, in the noise and the
    gusts that were seen. Slowing down is no cure for what was expected: the policy was trained
    for this speed. Nor is it worth it for a few centimetres, which teach the model.
    """
    known = jnp.where(jnp.isnan(expected), 1.0, expected)
    return jnp.clip(1.2 * known + 0.05, 0.15, 0.40)
