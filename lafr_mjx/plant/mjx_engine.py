"""Engine `mjx`: MuJoCo MJX's own smooth dynamics, for any vehicle that MJX can simulate.

Mass properties of the vehicle's body come from the parameters, so that they can differ over
a batch; everything else comes from the MjModel.
"""

from __future__ import annotations

import contextlib
import io
from typing import TYPE_CHECKING

import jax.numpy as jnp
import mujoco
import numpy as np
from flax import struct

from lafr_mjx.errors import InputError
from lafr_mjx.plant.rigid_body import Inertial, Motion, Wrench
from lafr_mjx.plant.vec3 import Quat
from lafr_mjx.plant.vehicle_body import composite
from lafr_mjx.types import GRAVITY

if TYPE_CHECKING:
    from pathlib import Path

    import jax

with contextlib.redirect_stdout(io.StringIO()):  # its import prints that Warp is missing
    from mujoco import mjx
    from mujoco.mjx._src import smooth

_DISABLED = (
    mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    | mujoco.mjtDisableBit.mjDSBL_CONTACT
    | mujoco.mjtDisableBit.mjDSBL_ACTUATION
    | mujoco.mjtDisableBit.mjDSBL_SENSOR
    | mujoco.mjtDisableBit.mjDSBL_WARMSTART
)


@struct.dataclass
class MjxPhysics:
    """What is carried from step to step: everything else in mjx.Data is derived."""

    qpos: jax.Array
    qvel: jax.Array


def flight_model(mjcf_path: Path, timestep: float) -> mujoco.MjModel:
    """The vehicle's model prepared for free flight: no contact, no air but ours.

    Everything that is welded to the root body counts as one body, the root, whose mass
    properties are those of the parameters.
    """
    spec = mujoco.MjSpec.from_file(str(mjcf_path))
    original = spec.compile()
    root = _root_body(original)
    for welded in np.flatnonzero(original.body_weldid == root):
        body = spec.bodies[welded]
        body.explicitinertial = True
        body.mass, body.inertia, body.fullinertia = 0.0, [0.0] * 3, [np.nan] * 6
    data = mujoco.MjData(original)
    mujoco.mj_kinematics(original, data)
    frame = composite(original, data, root, np.flatnonzero(original.body_weldid == root))
    body = spec.bodies[root]
    body.mass = frame.mass
    body.inertia = np.linalg.eigvalsh(frame.inertia)
    # MuJoCo drops the coupling terms from the mass matrix of a body whose mass is centred in
    # its frame. A payload may move it later, so the structure must be there from the start.
    body.ipos = frame.centre_of_mass + 0.01
    model = spec.compile()
    model.opt.timestep = timestep
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER
    # A must: with the dense mass matrix the factorisation calls LAPACK, which hangs XLA's CPU
    # thread pool for large batches.
    model.opt.jacobian = mujoco.mjtJacobian.mjJAC_SPARSE
    model.opt.gravity[:] = (0.0, 0.0, -GRAVITY)
    model.opt.density = 0.0
    model.opt.viscosity = 0.0
    model.opt.wind[:] = 0.0
    model.opt.disableflags |= int(_DISABLED)
    if not model.dof_damping.any():
        model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_EULERDAMP)
    return model


def _root_body(model: mujoco.MjModel) -> int:
    """Body of the free joint, which must be the model's first joint."""
    if model.njnt == 0 or model.jnt_type[0] != mujoco.mjtJoint.mjJNT_FREE:
        raise InputError("the vehicle's MJCF must have a free joint as its first joint")
    return int(model.jnt_bodyid[0])


class MjxEngine:
    """Steps a vehicle whose root is a free joint; it may carry more joints behind it."""

    name = "mjx"

    def __init__(self, mjcf_path: Path, timestep: float) -> None:
        self.timestep = timestep
        self.model = model = flight_model(mjcf_path, timestep)
        self.body_id = _root_body(model)
        self._mjx_model = mjx.put_model(self.model)
        self._template = mjx.make_data(self.model)
        self._rest_qpos = jnp.asarray(self.model.qpos0, jnp.float32)
        # Joints behind the root may have springs or dampers; a lone free body has none.
        self._has_passive = bool(
            model.jnt_stiffness.any() or model.dof_damping.any() or model.ntendon
        )

    def physics(self, motion: Motion) -> MjxPhysics:
        """Physics state that has this motion; joints behind the root are at rest."""
        pose = jnp.concatenate([motion.position.array(), motion.attitude.array()])
        twist = jnp.concatenate([motion.velocity.array(), motion.rates.array()])
        qpos = self._rest_qpos.at[:7].set(pose)
        qvel = jnp.zeros(self.model.nv).at[:6].set(twist)
        return MjxPhysics(qpos, qvel)

    def motion(self, physics: MjxPhysics) -> Motion:
        """Motion of the vehicle in a physics state."""
        qpos, qvel = physics.qpos, physics.qvel
        return Motion.of(jnp.concatenate([qpos[0:3], qvel[0:3], qpos[3:7], qvel[3:6]]))

    def prepare(self, inertial: Inertial) -> mjx.Model:
        """What `advance` needs of the mass properties; constant over many steps."""
        i, model = self.body_id, self._mjx_model
        return model.replace(
            body_mass=model.body_mass.at[i].set(inertial.mass),
            body_ipos=model.body_ipos.at[i].set(inertial.centre.array()),
            body_inertia=model.body_inertia.at[i].set(inertial.moments.array()),
            body_iquat=model.body_iquat.at[i].set(inertial.axes.array()),
        )

    def advance(self, mass: mjx.Model, physics: MjxPhysics, wrench: Wrench) -> MjxPhysics:
        """One time step under a wrench in body axes."""
        attitude = Quat.of(physics.qpos[3:7])
        # A free joint's generalised force is the force in world axes and the torque in body
        # axes, both at the body frame's origin.
        applied = jnp.concatenate(
            [attitude.matrix().times(wrench.force).array(), wrench.torque.array()]
        )
        applied = jnp.zeros(self.model.nv).at[:6].set(applied)
        data = self._template.replace(qpos=physics.qpos, qvel=physics.qvel)
        data = mjx.kinematics(mass, data)
        data = mjx.com_pos(mass, data)
        data = mjx.crb(mass, data)
        data = mjx.factor_m(mass, data)
        data = mjx.com_vel(mass, data)
        if self._has_passive:
            data = mjx.tendon(mass, data)
            data = mjx.passive(mass, data)
        data = mjx.rne(mass, data)
        # As mjx.fwd_acceleration, less the forces that no vehicle has.
        force = applied - data.qfrc_bias
        if self._has_passive:
            force = force + data.qfrc_passive
        qacc = smooth.solve_m(mass, data, force)
        data = data.replace(qacc=qacc, qfrc_smooth=force)
        data = mjx.euler(mass, data)
        return MjxPhysics(data.qpos, data.qvel)
