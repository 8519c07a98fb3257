"""The flight controller: CTBR command to rotor speeds, by a PID on the body rates.

It knows the profile's nominal mass, inertia and rotor constants (through its mixer) and nothing of
the plant's true ones: a payload or a cut propeller shows as missing acceleration, as on a real
vehicle.
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
    proportional: Vec3  # 1/s
    integral: Vec3  # 1/s²
    derivative: Vec3  # 1, on the filtered angular acceleration
    derivative_cutoff: Scalar  # rad/s
    mixer: Mixer


@struct.dataclass
class RateLoopState:
    """What the controller remembers from step to step."""

    integral: Vec3  # rad, integrated rate error
    previous_rates: Vec3  # rad/s, as sensed
    acceleration: Vec3  # rad/s², low-pass filtered derivative of the rates

    @staticmethod
    def start(rates: Vec3) -> RateLoopState:
        """Nothing integrated yet."""
        return RateLoopState(Vec3.zero(), rates, Vec3.zero())


_INTEGRAL_LIMIT = 1.0  # rad; more would need seconds to unwind
_WINDUP_ROOM = 0.15  # of the rotors' range: with less left, the integrals grow slower


def control_rates(
    controller: FlightController, state: RateLoopState, command: Ctbr, rates: Vec3, dt: float
) -> tuple[RateLoopState, Four, Saturation]:
    """One step of the loop on sensed rates: new memory, wanted rotor speeds [rad/s], what gave way.

    The derivative acts on the rates, not on the error: a step of the command gives no kick.
    """
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
    thrust = command.thrust * controller.mass
    speeds, throttle, saturation = mix(controller.mixer, thrust, materialise(wanted, unit), unit)

    # Anti-windup: steering that needs almost all of the rotors' range does not integrate further,
    # and without thrust there is nothing to hold.
    gain = dt * jnp.clip(saturation.room * (1.0 / _WINDUP_ROOM), 0.0, 1.0)
    limit = jnp.where(throttle > 0.0, _INTEGRAL_LIMIT, 0.0)
    grown = state.integral + error * gain
    integral = Vec3(*(jnp.clip(x, -limit, limit) for x in (grown.x, grown.y, grown.z)))
    return RateLoopState(integral, rates, acceleration), speeds, saturation
