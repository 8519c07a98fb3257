"""From a scenario's settings to the plant's parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np

from lafr_mjx.errors import InputError
from lafr_mjx.plant.flight import Conditions
from lafr_mjx.plant.gyroscope import Gyroscope
from lafr_mjx.plant.mixer import build_mixer
from lafr_mjx.plant.params import CrashLimits, PlantParams, as_leaves, inertial_of
from lafr_mjx.plant.plugins import Plugin, World, shipped
from lafr_mjx.plant.rate_loop import FlightController
from lafr_mjx.plant.rotors import Rotors
from lafr_mjx.plant.settings import shipped_keys
from lafr_mjx.plant.vec3 import Vec3
from lafr_mjx.plant.vehicle import add_point_mass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lafr_mjx.plant.scenario import Scenario
    from lafr_mjx.plant.settings import Settings
    from lafr_mjx.plant.vehicle import Vehicle
    from lafr_mjx.tasks import Fan


def params_for(
    vehicle: Vehicle,
    settings: Settings,
    fans: Sequence[Fan] = (),
    extra_plugins: Mapping[str, Plugin] | None = None,
) -> PlantParams:
    """Parameters of a vehicle under these settings; `extra_plugins` come from the user."""
    rotors = vehicle.rotors
    mass, inertia, centre = add_point_mass(
        vehicle.frame.mass * settings.mass_scale,
        vehicle.frame.inertia * settings.mass_scale,
        vehicle.frame.centre_of_mass,
        settings.payload_kg,
        np.asarray(settings.payload_position_m),
    )
    params = PlantParams(
        inertial=inertial_of(float(mass), np.asarray(inertia), np.asarray(centre)),
        rotors=Rotors(
            position=tuple(Vec3(*p) for p in vehicle.rotor_positions),
            thrust_coefficient=tuple(rotors.thrust_coefficient * s for s in settings.rotor_scale),
            torque_per_thrust=tuple(rotors.spin * rotors.torque_per_thrust),
            inertia=tuple(rotors.spin * rotors.inertia),
            time_constant=rotors.time_constant,
            speed_min=rotors.speed_min,
            speed_max=rotors.speed_max,
        ),
        gyroscope=Gyroscope(
            noise=settings.noise_scale * settings.gyro_noise_radps,
            delay=1e-3 * settings.gyro_delay_ms,
        ),
        controller=_flight_controller(vehicle, settings.rate_loop_slowness),
        command_low=jnp.asarray(vehicle.limits.low),
        command_high=jnp.asarray(vehicle.limits.high),
        crash=CrashLimits(),
        plugins=_plugins(World(vehicle, settings, fans), extra_plugins or {}),
    )
    return as_leaves(params)


def conditions_for(
    vehicle: Vehicle,
    scenario: Scenario,
    flight: int,
    fans: Sequence[Fan] = (),
    extra_plugins: Mapping[str, Plugin] | None = None,
) -> Conditions:
    """Conditions of one flight of a run (0 is the first)."""
    before, after, start, over = scenario.settings_for(flight)
    return Conditions(
        before=params_for(vehicle, before, fans, extra_plugins),
        after=params_for(vehicle, after, fans, extra_plugins),
        start=np.float32(start),
        duration=np.float32(over),
    )


def _flight_controller(vehicle: Vehicle, slowness: float) -> FlightController:
    """It believes in the profile, whatever the scenario says of the vehicle."""
    loop = vehicle.rate_loop
    gains = loop.gains.blended(loop.slow, slowness)
    return FlightController(
        mass=vehicle.mass,
        proportional=Vec3(*gains.proportional),
        integral=Vec3(*gains.integral),
        derivative=Vec3(*gains.derivative),
        derivative_cutoff=2.0 * np.pi * loop.derivative_cutoff,
        mixer=build_mixer(vehicle, gains.idle_authority),
    )


def _plugins(world: World, users: Mapping[str, Plugin]) -> dict[str, Plugin]:
    """All that ship, also those that are idle: one compiled program serves every scenario."""
    known = {s.key for plugin in users.values() for s in plugin.scenario_keys} | {*shipped_keys()}
    for key in vars(world.settings):
        if key not in known:
            raise InputError(f"the scenario sets '{key}', but the plugin of this key is not there")
    plugins: dict[str, Plugin] = {}
    for kind in shipped():
        for i, plugin in enumerate(kind().instances(world)):
            plugins[kind.shipped_as + (str(i + 1) if i else "")] = plugin
    for name, plugin in users.items():
        # One of a shipped class replaces what the scenario says, with the parameters it was given.
        plugins[name] = plugin if plugin.shipped_as else plugin.configured(world)
    return plugins
