"""From a scenario's settings to the plant's parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lafr_mjx.plant.flight import Conditions
from lafr_mjx.plant.params import (
    PlantParams,
    as_leaves,
    ideal_params,
    inertial_of,
    nominal_battery,
    nominal_drag,
)
from lafr_mjx.plant.plugins import (
    CommandDelay,
    DrydenGusts,
    FanJet,
    Plugin,
    RadioQuantisation,
    SensorLatency,
    SensorNoise,
    SteadyWind,
)
from lafr_mjx.plant.plugins.gusts import dryden_time_constants
from lafr_mjx.plant.vec3 import Vec3
from lafr_mjx.plant.vehicle import add_point_mass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lafr_mjx.plant.scenario import Scenario, Settings
    from lafr_mjx.plant.vehicle import Vehicle
    from lafr_mjx.tasks import Fan

_GUST_ALTITUDE = 1.5  # m; below 3.05 m the gust model does not depend on it


def params_for(
    vehicle: Vehicle,
    settings: Settings,
    fans: Sequence[Fan] = (),
    extra_plugins: Mapping[str, Plugin] | None = None,
) -> PlantParams:
    """Parameters of a vehicle under these settings; `extra_plugins` come from the user."""
    plugins = {**_links(vehicle, settings), **_world(vehicle, settings, fans)}
    params = ideal_params(vehicle, {**plugins, **(extra_plugins or {})})
    mass, inertia, centre = add_point_mass(
        vehicle.frame.mass * settings.mass_scale,
        vehicle.frame.inertia * settings.mass_scale,
        vehicle.frame.centre_of_mass,
        settings.payload_kg,
        np.asarray(settings.payload_position_m),
    )
    scale = settings.rotor_scale
    rotors = params.rotors.replace(
        thrust_coefficient=tuple(vehicle.rotors.thrust_coefficient * s for s in scale)
    )
    changed = params.replace(
        inertial=inertial_of(float(mass), np.asarray(inertia), np.asarray(centre)), rotors=rotors
    )
    return as_leaves(changed)


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


def _links(vehicle: Vehicle, settings: Settings) -> dict[str, Plugin]:
    thrust_step, rate_step = 0.0, Vec3(0.0, 0.0, 0.0)
    if settings.radio_steps > 0.0:
        thrust_step = float(vehicle.limits.high[0]) / settings.radio_steps
        # Full deflection of the sticks, as Agilicious configures Betaflight [rad/s].
        full = np.radians([1022.0, 1022.0, 524.0])
        rate_step = Vec3(*(2.0 * full / settings.radio_steps))
    scale = settings.noise_scale
    return {
        "command_delay": CommandDelay(
            delay=1e-3 * settings.command_delay_ms,
            jitter=1e-3 * settings.command_jitter_ms,
            loss=settings.command_loss,
        ),
        "radio": RadioQuantisation(thrust_step, rate_step),
        "latency": SensorLatency(
            delay=1e-3 * settings.sensing_delay_ms,
            jitter=1e-3 * settings.sensing_jitter_ms,
            loss=settings.sensing_loss,
        ),
        "noise": SensorNoise(
            position=scale * settings.position_noise_m,
            velocity=scale * settings.velocity_noise_mps,
            attitude=scale * settings.attitude_noise_rad,
            rates=scale * settings.rates_noise_radps,
        ),
    }


def _world(vehicle: Vehicle, settings: Settings, fans: Sequence[Fan]) -> dict[str, Plugin]:
    rotor_drag, body_drag = nominal_drag(vehicle, settings.drag_scale)
    wind = np.asarray(settings.wind_mps, float)
    level = float(np.hypot(wind[0], wind[1]))
    along = (wind[0] / level, wind[1] / level) if level > 0.0 else (1.0, 0.0)
    times = dryden_time_constants(_GUST_ALTITUDE, float(np.linalg.norm(wind)))
    battery = nominal_battery(vehicle).replace(
        strength=settings.battery_strength, initial_charge=settings.battery_charge
    )
    plugins: dict[str, Plugin] = {
        "battery": battery,
        "wind": SteadyWind(Vec3(*wind)),
        "gusts": DrydenGusts(
            intensity=Vec3(*(settings.gust_mps,) * 3),
            time_constant=Vec3(*times),
            along=Vec3(*along, 0.0),
        ),
        "rotor_drag": rotor_drag,
        "body_drag": body_drag,
    }
    for i, fan in enumerate(fans):
        plugins["fan" if i == 0 else f"fan{i + 1}"] = FanJet(
            position=Vec3(*fan.position),
            direction=Vec3(*fan.direction),
            speed=settings.fan_scale * fan.speed,
            radius=fan.outlet_radius,
            spread=float(np.tan(fan.half_angle)),
        )
    return plugins
