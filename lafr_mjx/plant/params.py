"""Everything about one plant that may differ from run to run, as one pytree of leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from lafr_mjx import so3
from lafr_mjx.plant.rigid_body import Inertial
from lafr_mjx.plant.vec3 import Quat, Scalar, Vec3

if TYPE_CHECKING:
    from lafr_mjx.plant.gyroscope import Gyroscope
    from lafr_mjx.plant.plugins import Plugin
    from lafr_mjx.plant.rate_loop import FlightController
    from lafr_mjx.plant.rotors import Rotors


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
    gyroscope: Gyroscope
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


def as_leaves(params: Any) -> Any:
    """The same tree with every leaf a float32 array, so that it can be traced and batched."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), params)


def stack(trees: list[Any]) -> Any:
    """Many trees of one structure as one tree with a leading batch axis."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)
