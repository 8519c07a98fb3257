"""Delay of commands and of samples: any fraction of a step, with jitter and loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp
from flax import struct

from lafr_mjx.plant.limits import MAX_COMMAND_DELAY, MAX_SENSING_DELAY
from lafr_mjx.plant.plugins.plugin import CommandPlugin, Memory, SensePlugin, Setting, Settings

if TYPE_CHECKING:
    from lafr_mjx.plant.messages import CommandMessage, SampleMessage
    from lafr_mjx.plant.noise import Draws
    from lafr_mjx.plant.vec3 import Scalar


def _travel(draws: Draws, delay: Scalar, jitter: Scalar, loss: Scalar) -> Scalar:
    """Time on the way [s]: uniform in delay ± jitter, never negative, infinite if lost."""
    when, whether = draws.uniform(2)
    seconds = jnp.maximum(delay + jitter * (2.0 * when - 1.0), 0.0)
    return jnp.where(whether < loss, jnp.inf, seconds)


def _keys(name: str, longest: float) -> tuple[Setting, ...]:
    """Delay, half width of its jitter and probability of loss of a link."""
    longest_ms = 1e3 * longest

    def too_late(settings: Settings) -> str:
        delay, jitter = (getattr(settings, f"{name}_{what}_ms") for what in ("delay", "jitter"))
        if delay + jitter <= longest_ms:
            return ""
        return (
            f"'{name}_delay_ms' {delay:g} and '{name}_jitter_ms' {jitter:g} add up to "
            f"{delay + jitter:g}; together they may be at most {longest_ms:g}"
        )

    return (
        Setting(
            f"{name}_delay_ms", at_most=longest_ms, parameter="delay", unit=1e-3, check=too_late
        ),
        Setting(f"{name}_jitter_ms", at_most=longest_ms, parameter="jitter", unit=1e-3),
        Setting(f"{name}_loss", at_most=1.0, parameter="loss"),
    )


@struct.dataclass
class CommandDelay(CommandPlugin):
    """The way from the policy's computer to the flight controller."""

    shipped_as, listed = "command_delay", 20
    scenario_keys = _keys("command", MAX_COMMAND_DELAY)

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

    shipped_as, listed = "latency", 30
    scenario_keys = _keys("sensing", MAX_SENSING_DELAY)

    delay: Scalar = 0.01  # s
    jitter: Scalar = 0.0  # s, half width
    loss: Scalar = 0.0  # probability that a sample drops out

    def sense(
        self, memory: Memory, draws: Draws, message: SampleMessage
    ) -> tuple[Memory, SampleMessage]:
        """Arrive later, or never."""
        travel = _travel(draws, self.delay, self.jitter, self.loss)
        return memory, message.replace(arrival=message.arrival + travel)
