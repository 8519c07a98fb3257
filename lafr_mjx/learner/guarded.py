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
    from lafr_mjx.types import CommandLimits, Reference, Sensed

DITHER = np.array([0.6, 0.4, 0.4, 0.4], np.float32)
"""Standard deviation of the dither at full strength: m/s², rad/s."""


_SLOW_WITHIN_M = 0.12
"""Further error within which the clock slows down to the full; it stays so for the flight."""

_SLOWEST = 3.0
"""Largest factor on the time scale."""


class Memory(NamedTuple):
    """What goes on from tick to tick."""

    history: Any  # [HISTORY, 4] commands as they were sent
    tick: Any
    worst: Any  # m, largest error so far


class GuardedPolicy(NamedTuple):
    """A policy with dither; beyond an error limit the last good one takes over."""

    policy: Policy
    last_good: Policy
    dither: Any  # strength, 0 to 1
    slow_from: Any  # m, error from which on the clock slows down
    error_limit: Any  # m
    key: Any  # uint32 [2]

    def preview_s(self) -> Any:
        """Moments at which the policies want the reference."""
        return jnp.asarray(PREVIEW_S)

    def start(self) -> Memory:
        """At the start of a flight."""
        hover = jnp.tile(jnp.asarray(COMMAND_HOVER), (HISTORY, 1))
        return Memory(hover, jnp.int32(0), jnp.float32(0.0))

    def __call__(self, memory: Memory, sensed: Sensed, references: Reference) -> tuple[Memory, Any]:
        """One command [4]."""
        state = sensed.state
        error = jnp.linalg.norm(references.position[0] - state.position)
        worst = jnp.maximum(memory.worst, error)
        tripped = worst > self.error_limit
        seen = observe(state.position, state.velocity, state.rotation, references, memory.history)
        command = jnp.where(tripped, act(self.last_good, seen), act(self.policy, seen))
        command = _dithered(self.key, memory.tick, self.dither, command, self.policy.limits)
        history = jnp.concatenate([command[None], memory.history[:-1]])
        return Memory(history, memory.tick + 1, worst), command

    def time_scale_factor(self, memory: Memory) -> Any:
        """By how much the reference's clock is to slow down."""
        return _slow_down(memory.worst, self.slow_from)


class GuardedController(NamedTuple):
    """Any controller with dither; when the error grows the clock slows down."""

    controller: Any
    dither: Any  # strength, 0 to 1
    slow_from: Any  # m, error from which on the clock slows down
    key: Any  # uint32 [2]

    def preview_s(self) -> Any:
        """Moments at which the controller wants the reference."""
        return self.controller.preview_s()

    def start(self) -> tuple[Any, Any, Any]:
        """The controller's own memory, the tick, the largest error so far."""
        return self.controller.start(), jnp.int32(0), jnp.float32(0.0)

    def __call__(self, memory: tuple, sensed: Sensed, references: Reference) -> tuple[tuple, Any]:
        """One command [4]."""
        inner, tick, worst = memory
        error = jnp.linalg.norm(references.position[0] - sensed.state.position)
        inner, command = self.controller(inner, sensed, references)
        command = _dithered(self.key, tick, self.dither, command, self.controller.limits)
        return (inner, tick + 1, jnp.maximum(worst, error)), command

    def time_scale_factor(self, memory: tuple) -> Any:
        """By how much the reference's clock is to slow down."""
        return _slow_down(memory[2], self.slow_from)


def surprising_error(expected: Any) -> Any:
    """Error [m] from which on something is not as the model believes it to be.

    `expected` is the peak that the model foretells for the whole flight, with its ramp. Slowing
    down is no cure for an error that was expected: the policy was trained for this speed.
    """
    known = jnp.where(jnp.isnan(expected), 1.0, expected)
    return jnp.clip(1.5 * known + 0.08, 0.15, 0.40)


def _slow_down(worst: Any, slow_from: Any) -> Any:
    """Factor on the time scale for the largest error so far."""
    share = jnp.clip((worst - slow_from) / _SLOW_WITHIN_M, 0.0, 1.0)
    return 1.0 + (_SLOWEST - 1.0) * share


def _dithered(key: Any, tick: Any, strength: Any, command: Any, limits: CommandLimits) -> Any:
    key = jax.random.fold_in(jax.random.wrap_key_data(key), tick)
    command = command + strength * DITHER * jax.random.normal(key, (4,))
    return jnp.clip(command, limits.low, limits.high)
