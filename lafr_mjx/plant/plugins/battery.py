"""Battery: sag under load and discharge lower the rotors' top speed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp
from flax import struct

from lafr_mjx.plant.plugins.plugin import ActuatorPlugin, Memory, Setting, World

if TYPE_CHECKING:
    from lafr_mjx.plant.noise import Draws
    from lafr_mjx.plant.rotors import Four
    from lafr_mjx.plant.vec3 import Scalar


@struct.dataclass
class BatteryState:
    """What has been drawn, and what the terminals show."""

    used: Scalar  # A s since this plant was reset
    voltage: Scalar  # V under load


@struct.dataclass
class Battery(ActuatorPlugin):
    """Open-circuit voltage falls linearly with the charge; a series resistance adds sag.

    The top speed of a motor is proportional to the voltage. `strength` 0 makes an ideal supply
    that still reports its voltage.
    """

    shipped_as, listed = "battery", 80
    scenario_keys = (
        Setting("battery_strength", at_most=1.0),
        Setting("battery_charge", 1.0, at_most=1.0, change="never"),  # at the first flight's start
    )

    voltage_full: Scalar = 8.4  # V
    voltage_empty: Scalar = 6.4  # V
    capacity: Scalar = 1620.0  # A s
    initial_charge: Scalar = 1.0  # share of the capacity at the reset
    resistance: Scalar = 0.03  # ohm
    power_coefficient: Scalar = 0.0  # W/(rad/s)³ of all rotors' summed cubes
    avionics_power: Scalar = 0.0  # W
    strength: Scalar = 1.0  # how much of the drop reaches the motors

    def configured(self, world: World) -> Battery:
        """The profile's."""
        battery, rotors = world.vehicle.battery, world.vehicle.rotors
        shaft = rotors.thrust_coefficient * rotors.torque_per_thrust
        return Battery(
            voltage_full=battery.voltage_full,
            voltage_empty=battery.voltage_empty,
            capacity=battery.capacity * 3.6,
            initial_charge=world.settings.battery_charge,
            resistance=battery.resistance,
            power_coefficient=shaft / battery.efficiency,
            avionics_power=battery.avionics_power,
            strength=world.settings.battery_strength,
        )

    def init(self, draws: Draws) -> Memory:
        """At rest, without load."""
        del draws
        return BatteryState(jnp.float32(0.0), self._open_circuit(jnp.float32(0.0)))

    def _open_circuit(self, used: Scalar) -> Scalar:
        charge = jnp.clip(self.initial_charge - used / self.capacity, 0.0, 1.0)
        return self.voltage_empty + charge * (self.voltage_full - self.voltage_empty)

    def ceiling(
        self, memory: BatteryState, rotor_speed: Four, dt: float
    ) -> tuple[BatteryState, Scalar]:
        """Top speed as a share of that at full voltage."""
        cubes = sum(speed * speed * speed for speed in rotor_speed)
        power = self.power_coefficient * cubes + self.avionics_power
        current = power / jnp.maximum(memory.voltage, 1.0)
        used = memory.used + current * dt
        voltage = jnp.maximum(self._open_circuit(used) - self.resistance * current, 0.1)
        share = 1.0 - self.strength * (1.0 - voltage / self.voltage_full)
        return BatteryState(used, voltage), share
