"""Engine `freebody`: MuJoCo's Euler step written out for one free rigid body.

It solves the same equations as `mjx.step` in the same discretisation (semi-implicit Euler in
the free joint's coordinates), and a test proves it equal over random inertias, off-centre
masses and wrenches. It needs no mass matrix, so it is many times faster.
"""

from __future__ import annotations

from flax import struct

from lafr_mjx.plant.rigid_body import Inertial, Motion, Wrench
from lafr_mjx.plant.vec3 import Mat3, Scalar, Vec3, materialise, runtime_unit
from lafr_mjx.types import GRAVITY


@struct.dataclass
class MassMatrices:
    """Mass properties in the form that the equations of motion use."""

    inverse_mass: Scalar  # 1/kg
    centre: Vec3  # m, centre of mass in the body frame
    inertia: Mat3  # kg m², about the centre of mass, in body axes
    inverse_inertia: Mat3
    unit: Scalar  # 1, see `materialise`


class FreeBodyEngine:
    """The motion is the physics state itself."""

    name = "freebody"

    def __init__(self, timestep: float) -> None:
        self.timestep = timestep

    def physics(self, motion: Motion) -> Motion:
        """Physics state that has this motion."""
        return motion

    def motion(self, physics: Motion) -> Motion:
        """Motion of the vehicle in a physics state."""
        return physics

    def prepare(self, inertial: Inertial) -> MassMatrices:
        """What `advance` needs of the mass properties; constant over many steps."""
        moments = inertial.moments
        inverse = Vec3(1.0 / moments.x, 1.0 / moments.y, 1.0 / moments.z)
        axes = inertial.axes.matrix()
        unit = runtime_unit(inertial.mass)
        return MassMatrices(
            inverse_mass=1.0 / inertial.mass,
            centre=inertial.centre,
            inertia=materialise(_from_principal(axes, moments), unit),
            inverse_inertia=materialise(_from_principal(axes, inverse), unit),
            unit=unit,
        )

    def advance(self, mass: MassMatrices, physics: Motion, wrench: Wrench) -> Motion:
        """One time step under a wrench in body axes."""
        acceleration, angular = accelerations(mass, physics, wrench)
        dt = self.timestep
        velocity = materialise(physics.velocity + acceleration * dt, mass.unit)
        rates = materialise(physics.rates + angular * dt, mass.unit)
        return Motion(
            position=physics.position + velocity * dt,
            velocity=velocity,
            attitude=physics.attitude.turned(rates * dt),
            rates=rates,
        )


def accelerations(mass: MassMatrices, motion: Motion, wrench: Wrench) -> tuple[Vec3, Vec3]:
    """Acceleration of the body frame's origin (world) and angular acceleration (body).

    Newton for the centre of mass c and Euler about it:
    m (a + R (ω̇ × c + ω × (ω × c))) = F + m g,  J ω̇ + ω × J ω = τ - c × F.
    """
    rates, centre = motion.rates, mass.centre
    momentum = mass.inertia.times(rates)
    torque = materialise(
        wrench.torque - centre.cross(wrench.force) - rates.cross(momentum), mass.unit
    )
    angular = materialise(mass.inverse_inertia.times(torque), mass.unit)
    lever = angular.cross(centre) + rates.cross(rates.cross(centre))
    specific = materialise(wrench.force * mass.inverse_mass - lever, mass.unit)
    acceleration = motion.attitude.matrix().times(specific)
    return acceleration - Vec3(0.0, 0.0, GRAVITY), angular


def _from_principal(axes: Mat3, moments: Vec3) -> Mat3:
    """Axes diag(moments) axesᵀ."""
    scaled = (axes.a.scaled(moments), axes.b.scaled(moments), axes.c.scaled(moments))
    return Mat3(*(Vec3(row.dot(axes.a), row.dot(axes.b), row.dot(axes.c)) for row in scaled))
