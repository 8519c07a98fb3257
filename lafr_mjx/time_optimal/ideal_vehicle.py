"""The two ideal vehicles of the bounds: what limits them, in numbers.

- CTBR: collective thrust and body rates are commanded and obeyed at once, within the limits of
  the command interface.
- Rotor thrust: each of four rotors gives at once between nothing and a quarter of the largest
  collective thrust; the body has its inertia; body rates are not limited.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from lafr_mjx.errors import InputError

if TYPE_CHECKING:
    from lafr_mjx.plant.vehicle import Vehicle

ModelName = Literal["ctbr", "rotor"]


class Ideal(NamedTuple):
    """Limits and mass properties; neither delay, nor motor lag, nor drag."""

    thrust_low: float  # m/s²
    thrust_high: float  # m/s²
    rates_high: np.ndarray  # [3] rad/s, either way
    mass: float  # kg
    inertia: np.ndarray  # [3, 3] kg m², about the centre of mass
    mixing: np.ndarray  # [4, 4] (collective thrust [N], torque [N m]) to rotor thrusts [N]

    @property
    def rotor_high(self) -> float:
        """Largest thrust of one rotor [N]: a quarter of the largest collective thrust."""
        return self.thrust_high * self.mass / 4.0

    @property
    def unmixing(self) -> np.ndarray:
        """[4, 4] rotor thrusts [N] to collective thrust [N] and torque [N m]."""
        return np.linalg.inv(self.mixing)


def ideal_vehicle(
    vehicle: Vehicle, arm_m: float | None = None, inertia: tuple[float, ...] | None = None
) -> Ideal:
    """The vehicle without its imperfections.

    Args:
        vehicle: its limits, mass, inertia and rotors.
        arm_m: distance of each rotor from the axis of thrust, instead of the vehicle's own; the
            rotors keep their directions.
        inertia: moments about x, y and z [kg m²] instead of the vehicle's own; fewer than three
            leave the others as they are, and a single one is taken for x and y.
    """
    arms = (vehicle.rotor_positions - vehicle.centre_of_mass)[:, :2]
    if arm_m is not None:
        if not (math.isfinite(arm_m) and 0.005 <= arm_m <= 2.0):
            raise InputError(f"--arm {arm_m:g}: must be from 0.005 to 2 m")
        arms = arms / np.linalg.norm(arms, axis=1, keepdims=True) * arm_m
    matrix = np.array(vehicle.inertia, dtype=float)
    if inertia:
        given = (inertia[0], *inertia) if len(inertia) == 1 else inertia
        if len(given) > 3 or not all(math.isfinite(x) and 1e-8 <= x <= 10.0 for x in given):
            raise InputError(
                f"--inertia {' '.join(f'{x:g}' for x in inertia)}: must be one to three moments "
                f"from 1e-8 to 10 kg m²"
            )
        moments = [*given, *np.diag(matrix)[len(given) :]]
        matrix = np.diag(moments)
        if 2.0 * max(moments) > sum(moments) * (1.0 + 1e-9):
            raise InputError(
                f"--inertia: moments {', '.join(f'{x:g}' for x in moments)} kg m² belong to no "
                f"body; none may exceed the sum of the other two"
            )
    reaction = vehicle.rotors.torque_per_thrust * vehicle.rotors.spin
    allocation = np.stack([np.ones(4), arms[:, 1], -arms[:, 0], reaction])
    low, high = np.asarray(vehicle.limits.low, float), np.asarray(vehicle.limits.high, float)
    return Ideal(
        thrust_low=float(low[0]),
        thrust_high=float(high[0]),
        rates_high=np.minimum(high[1:], -low[1:]),
        mass=float(vehicle.mass),
        inertia=matrix,
        mixing=np.linalg.inv(allocation),
    )
