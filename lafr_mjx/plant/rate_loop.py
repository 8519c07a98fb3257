"""The flight controller: CTBR command to rotor speeds, by a PID on the body rates.

It knows the profile's nominal mass, inertia and rotor constants and nothing of the plant's
true ones: a payload or a cut propeller shows as missing acceleration, as on a real vehicle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp
from flax import struct

from lafr_mjx.plant.mixer import Mixer, Saturation, mix
from lafr_mjx.plant.vec3 import Scalar, Vec3, materialise, runtime_unit

if TYPE_CHECKING:
    from lafr_mjx.plant.rotors import Four


@struct.dataclass
class Ctbr:
    """Collective thrust and body rates, the command that the policy gives."""

    thrust: Scalar  # m/s², mass-normalised
    rates: Vec3  # rad/s


@struct.dataclass
class FlightController:
    """What the flight controller believes and how it is tuned."""

    mass: Scalar  # kg, nominal
    inertia: Vec3  # kg m², nominal, about the body axes
    thrust_coefficient: Scalar  # N/(rad/s)², nominal
    proportional: Vec3  # 1/s
    integral: Vec3  # 1/s²
    derivative: Vec3  # 1, on the filtered angular acceleration
    derivative_cutoff: Scalar  # rad/s
    mixer: Mixer


@struct.dataclass
class RateLoopState:
    """What the controller remembers from step to step."""

    integral: Vec3  # rad, integrated rate error
    previous_rates: Vec3  # rad/s
    acceleration: Vec3  # rad/s², low-pass filtered derivative of the rates

    @staticmethod
    def start(rates: Vec3) -> RateLoopState:
        """Nothing integrated yet."""
        return RateLoopState(Vec3.zero(), rates, Vec3.zero())


_INTEGRAL_LIMIT = 1.0  # rad; more would need seconds to unwind


def control_rates(
    controller: FlightController, state: RateLoopState, command: Ctbr, rates: Vec3, dt: float
) -> tuple[RateLoopState, Four, Saturation]:
    """One step of the loop: new memory, wanted rotor speeds [rad/s], what gave way."""
    error = command.rates - rates
    smoothing = 1.0 - jnp.exp(-dt * controller.derivative_cutoff)
    raw = (rates - state.previous_rates) * (1.0 / dt)
    acceleration = state.acceleration + (raw - state.acceleration) * smoothing

    wanted = (
        error.scaled(controller.proportional)
        + state.integral.scaled(controller.integral)
        - acceleration.scaled(controller.derivative)
    )
    unit = runtime_unit(controller.mass)
    torque = materialise(wanted.scaled(controller.inertia), unit)
    thrusts, saturation = mix(controller.mixer, command.thrust * controller.mass, torque, unit)

    # Anti-windup: an axis that gave way does not integrate further.
    tilt_free = jnp.where(saturation.roll_pitch < 1.0, 0.0, dt)
    yaw_free = jnp.where(saturation.yaw < 1.0, 0.0, dt)
    integral = state.integral + error.scaled(Vec3(tilt_free, tilt_free, yaw_free))
    integral = Vec3(*(jnp.clip(x, -_INTEGRAL_LIMIT, _INTEGRAL_LIMIT) for x in _parts(integral)))

    speeds = tuple(
        jnp.sqrt(jnp.maximum(thrust, 0.0) / controller.thrust_coefficient) for thrust in thrusts
    )
    return RateLoopState(integral, rates, acceleration), speeds, saturation


def _parts(vector: Vec3) -> tuple[Scalar, Scalar, Scalar]:
    return vector.x, vector.y, vector.z
