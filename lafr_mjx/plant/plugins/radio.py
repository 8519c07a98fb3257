"""Quantisation of commands by an 11-bit radio link (SBUS)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from flax import struct

from lafr_mjx.plant.plugins.plugin import CommandPlugin, Memory, Setting, World
from lafr_mjx.plant.rate_loop import Ctbr
from lafr_mjx.plant.vec3 import Scalar, Vec3

if TYPE_CHECKING:
    from lafr_mjx.plant.messages import CommandMessage
    from lafr_mjx.plant.noise import Draws

# Full deflection of the sticks, as Agilicious configures Betaflight [rad/s].
_FULL = np.radians([1022.0, 1022.0, 524.0])


@struct.dataclass
class RadioQuantisation(CommandPlugin):
    """Rounds each channel to its step; a step of 0 leaves the channel as it is."""

    shipped_as, listed = "radio", 90
    # Steps per channel, 1600 with SBUS (192 to 1792); 0: not quantised.
    scenario_keys = (Setting("radio_steps", at_most=65535.0, change="jump"),)

    thrust_step: Scalar = 0.0  # m/s²
    rate_step: Vec3 = struct.field(default_factory=Vec3.zero)  # rad/s

    def configured(self, world: World) -> RadioQuantisation:
        """Steps over the range of each channel."""
        steps = world.settings.radio_steps
        if steps == 0.0:
            return self
        thrust = float(world.vehicle.limits.high[0])
        return RadioQuantisation(thrust / steps, Vec3(*(2.0 * _FULL / steps)))

    def send(
        self, memory: Memory, draws: Draws, message: CommandMessage
    ) -> tuple[Memory, CommandMessage]:
        """Round to the nearest step."""
        del draws
        old = message.command
        rates = Vec3(
            _round(old.rates.x, self.rate_step.x),
            _round(old.rates.y, self.rate_step.y),
            _round(old.rates.z, self.rate_step.z),
        )
        command = Ctbr(_round(old.thrust, self.thrust_step), rates)
        return memory, message.replace(command=command)


def _round(value: Scalar, step: Scalar) -> Scalar:
    safe = jnp.where(step > 0.0, step, 1.0)
    return jnp.where(step > 0.0, jnp.round(value / safe) * safe, value)
