"""Everything about one plant that may differ from run to run, as one pytree of leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from lafr_mjx import so3
from lafr_mjx.plant.mixer import build_mixer
from lafr_mjx.plant.plugins import (
    Battery,
    BodyDrag,
    CommandDelay,
    DrydenGusts,
    FanJet,
    Plugin,
    RadioQuantisation,
    RotorDrag,
    SensorLatency,
    SensorNoise,
    SteadyWind,
)
from lafr_mjx.plant.rate_loop import FlightController
from lafr_mjx.plant.rigid_body import Inertial
from lafr_mjx.plant.rotors import Rotors
from lafr_mjx.plant.vec3 import Quat, Scalar, Vec3

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lafr_mjx.plant.vehicle import Vehicle


@struct.dataclass
class CrashLimits:
    """When a flight counts as lost."""

    ground: Scalar = 0.05  # m, least height of the body's origin
    tilt_cosine: Scalar = float(np.cos(np.radians(100.0)))
    speed: Scalar = 20.0  # m/s
    error: Scalar = 2.0  # m, from the reference


@struct.dataclass
class PlantParams:
    """The truth about one vehicle and its world; every leaf can be batched."""

    inertial: Inertial
    rotors: Rotors
    controller: FlightController  # what the flight controller believes
    command_low: jax.Array  # [4] what the flight controller accepts
    command_high: jax.Array  # [4]
    crash: CrashLimits
    plugins: dict[str, Plugin]


def inertial_of(mass: float, inertia: np.ndarray, centre: np.ndarray) -> Inertial:
    """Mass properties from an inertia matrix [3, 3] about the centre of mass (host side)."""
    moments, axes = np.linalg.eigh(np.asarray(inertia, float))
    if np.linalg.det(axes) < 0.0:
        axes[:, 0] *= -1.0
    return Inertial(
        mass=mass,
        centre=Vec3(*np.asarray(centre, float)),
        moments=Vec3(*moments),
        axes=Quat(*so3.matrix_to_quaternion(axes)),
    )


def still_plugins(vehicle: Vehicle) -> dict[str, Plugin]:
    """The full set of plugins, all neutral: no delay, no air, no noise, no drag.

    All are always there, so that one compiled program serves every scenario.
    """
    return {
        "command_delay": CommandDelay(delay=0.0),
        "radio": RadioQuantisation(),
        "battery": nominal_battery(vehicle).replace(strength=0.0),
        "wind": SteadyWind(),
        "gusts": DrydenGusts(),
        "fan": FanJet(),
        "rotor_drag": RotorDrag(),
        "body_drag": BodyDrag(),
        "latency": SensorLatency(delay=0.0),
        "noise": SensorNoise(),
    }


def nominal_battery(vehicle: Vehicle) -> Battery:
    """The profile's battery."""
    battery, rotors = vehicle.battery, vehicle.rotors
    shaft = rotors.thrust_coefficient * rotors.torque_per_thrust
    return Battery(
        voltage_full=battery.voltage_full,
        voltage_empty=battery.voltage_empty,
        capacity=battery.capacity * 3.6,
        resistance=battery.resistance,
        power_coefficient=shaft / battery.efficiency,
        avionics_power=battery.avionics_power,
    )


def nominal_drag(vehicle: Vehicle, scale: float = 1.0) -> tuple[RotorDrag, BodyDrag]:
    """The profile's drag; its figures are per unit of the nominal mass at hover speed."""
    per_rotor = scale * vehicle.mass * vehicle.drag.rotor / (4.0 * vehicle.hover_speed)
    return RotorDrag(Vec3(*per_rotor)), BodyDrag(scale * vehicle.mass * vehicle.drag.body)


def ideal_params(vehicle: Vehicle, plugins: Mapping[str, Plugin] | None = None) -> PlantParams:
    """The vehicle as its profile says, in a still world; `plugins` replace or add to those."""
    rotors, loop = vehicle.rotors, vehicle.rate_loop
    signed_torque = rotors.spin * rotors.torque_per_thrust
    thrust_min = rotors.thrust_coefficient * rotors.speed_min**2
    params = PlantParams(
        inertial=inertial_of(*vehicle.frame),
        rotors=Rotors(
            position=tuple(Vec3(*p) for p in vehicle.rotor_positions),
            thrust_coefficient=(rotors.thrust_coefficient,) * 4,
            torque_per_thrust=tuple(signed_torque),
            time_constant=rotors.time_constant,
            speed_min=rotors.speed_min,
            speed_max=rotors.speed_max,
        ),
        controller=FlightController(
            mass=vehicle.mass,
            inertia=Vec3(*np.diag(vehicle.inertia)),
            thrust_coefficient=rotors.thrust_coefficient,
            proportional=Vec3(*loop.proportional),
            integral=Vec3(*loop.integral),
            derivative=Vec3(*loop.derivative),
            derivative_cutoff=2.0 * np.pi * loop.derivative_cutoff,
            mixer=build_mixer(
                vehicle.rotor_positions,
                vehicle.centre_of_mass,
                signed_torque,
                thrust_min,
                rotors.thrust_reachable,
            ),
        ),
        command_low=jnp.asarray(vehicle.limits.low),
        command_high=jnp.asarray(vehicle.limits.high),
        crash=CrashLimits(),
        plugins={**still_plugins(vehicle), **(plugins or {})},
    )
    return as_leaves(params)


def as_leaves(params: Any) -> Any:
    """The same tree with every leaf a float32 array, so that it can be traced and batched."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), params)


def stack(trees: list[Any]) -> Any:
    """Many trees of one structure as one tree with a leading batch axis."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)
