"""Delay of commands and of samples: any fraction of a step, with jitter and loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp
from flax import struct

from lafr_mjx.plant.plugins.plugin import CommandPlugin, Memory, SensePlugin

if TYPE_CHECKING:
    from lafr_mjx.plant.messages import CommandMessage, SampleMessage
    from lafr_mjx.plant.noise import Draws
    from lafr_mjx.plant.vec3 import Scalar


def _travel(draws: Draws, delay: Scalar, jitter: Scalar, loss: Scalar) -> Scalar:
    """Time on the way [s]: uniform in delay ± jitter, never negative, infinite if lost."""
    when, whether = draws.uniform(2)
    seconds = jnp.maximum(delay + jitter * (2.0 * when - 1.0), 0.0)
    return jnp.where(whether < loss, jnp.inf, seconds)


@struct.dataclass
class CommandDelay(CommandPlugin):
    """The way from the policy's computer to the flight controller."""

    delay: Scalar = 0.02  # s
    jitter: Scalar = 0.0  # s, half width
    loss: Scalar = 0.0  # probability that a command never arrives

    def send(
        self, memory: Memory, draws: Draws, message: CommandMessage
    ) -> tuple[Memory, CommandMessage]:
        """Arrive later, or never."""
        travel = _travel(draws, self.delay, self.jitter, self.loss)
        return memory, message.replace(arrival=message.arrival + travel)


@struct.dataclass
class SensorLatency(SensePlugin):
    """The way from the cameras through the estimator to the policy's computer."""

    delay: Scalar = 0.01  # s
    jitter: Scalar = 0.0  # s, half width
    loss: Scalar = 0.0  # probability that a sample drops out

    def sense(
        self, memory: Memory, draws: Draws, message: SampleMessage
    ) -> tuple[Memory, SampleMessage]:
        """Arrive later, or never."""
        travel = _travel(draws, self.delay, self.jitter, self.loss)
        return memory, message.replace(arrival=message.arrival + travel)
