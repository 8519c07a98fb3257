"""What a plugin is: parameters, a memory, and the phase of the step in which it acts.

A plugin is a frozen flax dataclass whose fields are its parameters, so that each can differ
over a batch. It derives from the class of its phase and overrides that class's one method.
Plugins are combined by phase, never by their place in a list: winds and wrenches add up,
ceilings multiply, and what a link does to a message (map it, delay it, lose it) commutes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

import numpy as np
from flax import struct

from lafr_mjx.plant.settings import Setting, Settings, declare
from lafr_mjx.plant.vec3 import Scalar, Vec3

if TYPE_CHECKING:
    from collections.abc import Sequence

    import jax

    from lafr_mjx.plant.messages import CommandMessage, SampleMessage
    from lafr_mjx.plant.noise import Draws
    from lafr_mjx.plant.rigid_body import Motion, Wrench
    from lafr_mjx.plant.rotors import Four
    from lafr_mjx.plant.vehicle import Vehicle
    from lafr_mjx.tasks import Fan

Memory = Any  # a pytree; () for a plugin that remembers nothing


@struct.dataclass
class Flow:
    """The vehicle and the air as it meets it, handed to force and measure plugins."""

    motion: Motion
    rotor_air_velocity: tuple[Vec3, ...]  # m/s, body axes: relative to the air there
    air_velocity: Vec3  # m/s, the mean of the four
    rotor_position: tuple[Vec3, ...]  # m, body frame
    rotor_speed: Four  # rad/s
    rotor_thrust: Four  # N


class World(NamedTuple):
    """What the parameters of plugins follow from."""

    vehicle: Vehicle
    settings: Settings  # of the scenario
    fans: Sequence[Fan] = ()  # of the task


class Plugin:
    """Common to all phases."""

    shipped_as: ClassVar[str] = ""  # name of a plugin that is always there
    scenario_keys: ClassVar[tuple[Setting, ...]] = ()  # that belong to this plugin
    listed: ClassVar[int] = 100  # place of its keys among those of others

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "shipped_as" not in vars(cls) and "scenario_keys" in vars(cls):
            declare(cls.__name__, cls.scenario_keys)

    def configured(self, world: World) -> Any:
        """This plugin with the parameters that vehicle and scenario ask for."""
        given, plugin = vars(world.settings), cast("Any", self)
        for key in self.scenario_keys:
            if key.parameter and key.key in given:
                value = np.multiply(key.unit, given[key.key])
                value = Vec3(*value) if value.shape == (3,) else value
                plugin = plugin.replace(**{key.parameter: value})
        return plugin

    def instances(self, world: World) -> list[Any]:
        """A shipped plugin as often as the world has it."""
        return [self.configured(world)]

    def init(self, draws: Draws) -> Memory:
        """Memory at the start, e.g. drawn from a stationary distribution."""
        del draws
        return ()

    def update(self, memory: Memory, draws: Draws, dt: float) -> Memory:
        """Advance the random processes of air and forces by one control interval."""
        del draws, dt
        return memory


class CommandPlugin(Plugin):
    """Acts on each command (50 Hz) when it is sent."""

    def send(
        self, memory: Memory, draws: Draws, message: CommandMessage
    ) -> tuple[Memory, CommandMessage]:
        """The message as it will arrive."""
        raise NotImplementedError


class ActuatorPlugin(Plugin):
    """Limits the rotors, at each command."""

    def ceiling(self, memory: Memory, rotor_speed: Four, dt: float) -> tuple[Memory, Scalar]:
        """Factor on the rotors' top speed for the next `dt` seconds."""
        raise NotImplementedError


class AirPlugin(Plugin):
    """Moves the air, at each physics step and any point."""

    def velocity(self, memory: Memory, point: Vec3) -> Vec3:
        """Velocity of the air at a point [m/s, world]."""
        raise NotImplementedError


class ForcePlugin(Plugin):
    """Pushes the body at each physics step."""

    def wrench(self, memory: Memory, flow: Flow) -> Wrench:
        """Force at the body's origin and torque about it, in body axes."""
        raise NotImplementedError


class MeasurePlugin(Plugin):
    """A sensor: measures when the state estimator samples (100 Hz).

    What it says travels with that sample, is as late as it and lost with it. It is recorded under
    the plugin's name (`Rollout.measured`), and controllers see it (`Sensed.measured`).
    """

    def measure(
        self, memory: Memory, draws: Draws, flow: Flow
    ) -> tuple[Memory, Vec3 | Scalar | jax.Array]:
        """What it says: a number, a vector, or an array of always the same shape."""
        raise NotImplementedError


class SensePlugin(Plugin):
    """Acts on each sample of the state estimator (100 Hz) when it is taken."""

    def sense(
        self, memory: Memory, draws: Draws, message: SampleMessage
    ) -> tuple[Memory, SampleMessage]:
        """The sample as it will arrive."""
        raise NotImplementedError
