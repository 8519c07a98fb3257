"""Read the rigid body of a vehicle (mass, inertia, rotor positions) from its MJCF."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import mujoco
import numpy as np

from lafr_mjx.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

ROTOR_SITES = ("thrust1", "thrust2", "thrust3", "thrust4")
"""Rotors in Agilicious' order: front right, back left, back right, front left."""

_MAX_BYTES = 20_000_000
_AXIS_TOLERANCE = 1e-3  # rad


class RigidPart(NamedTuple):
    """Mass properties of bodies that are welded together, in the axes of the root body."""

    mass: float  # kg
    inertia: np.ndarray  # [3, 3] kg m², about the centre of mass
    centre_of_mass: np.ndarray  # [3] m


class BodyProperties(NamedTuple):
    """What the MJCF says about the vehicle, at the joint angles of its reference pose."""

    name: str  # of the body that carries the free joint
    mass: float  # kg, of the body and all that hangs on it
    inertia: np.ndarray  # [3, 3] kg m², about the centre of mass, in body axes
    centre_of_mass: np.ndarray  # [3] m, in body axes
    frame: RigidPart  # the part that is fixed to the free joint; all of it for a rigid vehicle
    rotor_positions: np.ndarray  # [4, 3] m, in body axes
    single_free_body: bool  # no joint, tendon or constraint beside the free joint


def read_body(path: Path) -> BodyProperties:
    """Read and check a vehicle's MJCF; `path` must exist."""
    model = load_model(path)
    root = _root_body(model, path)
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    if not model.body_subtreemass[root] > 0.0:
        raise InputError(
            f"{path}: the vehicle's mass is {model.body_subtreemass[root]:g} kg; it must be > 0"
        )
    whole = composite(model, data, root, np.flatnonzero(model.body_rootid == root))
    frame = composite(model, data, root, np.flatnonzero(model.body_weldid == root))
    for part in (whole, frame):
        _check_inertia(part.inertia, path)
    return BodyProperties(
        name=model.body(root).name,
        mass=whole.mass,
        inertia=whole.inertia,
        centre_of_mass=whole.centre_of_mass,
        frame=frame,
        rotor_positions=_rotor_positions(model, data, root, path),
        single_free_body=model.njnt == 1 and model.neq == 0 and model.ntendon == 0,
    )


def load_model(path: Path) -> mujoco.MjModel:
    """Compile an MJCF file; what MuJoCo rejects becomes an `InputError` that names the file."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    if size > _MAX_BYTES:
        raise InputError(f"{path}: {size} bytes; a vehicle's MJCF has at most {_MAX_BYTES}")
    try:
        return mujoco.MjModel.from_xml_path(str(path))
    except (ValueError, RuntimeError, mujoco.FatalError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path}: MuJoCo cannot use this MJCF: {reason}") from error


def _root_body(model: mujoco.MjModel, path: Path) -> int:
    free = np.flatnonzero(model.jnt_type == mujoco.mjtJoint.mjJNT_FREE)
    if len(free) != 1:
        raise InputError(
            f"{path}: has {len(free)} free joints; it must have exactly one <freejoint>, that of "
            f"the vehicle's root body"
        )
    root = int(model.jnt_bodyid[free[0]])
    if not model.body(root).name:
        raise InputError(f"{path}: the body with the free joint has no name; give it one")
    strangers = [j for j in range(model.njnt) if model.body_rootid[model.jnt_bodyid[j]] != root]
    if strangers:
        raise InputError(
            f"{path}: joint '{model.joint(strangers[0]).name}' belongs to another body than the "
            f"vehicle; all joints must be of the vehicle's tree"
        )
    return root


def composite(
    model: mujoco.MjModel, data: mujoco.MjData, root: int, bodies: np.ndarray
) -> RigidPart:
    """Some bodies as one rigid part, in the axes of the root body."""
    to_root = data.xmat[root].reshape(3, 3).T
    masses = model.body_mass[bodies]
    centres = (data.xipos[bodies] - data.xpos[root]) @ to_root.T
    mass = float(masses.sum())
    centre = masses @ centres / mass
    inertia = np.zeros((3, 3))
    for body, own_mass, own_centre in zip(bodies, masses, centres, strict=True):
        axes = to_root @ data.ximat[body].reshape(3, 3)
        arm = own_centre - centre
        inertia += axes @ np.diag(model.body_inertia[body]) @ axes.T
        inertia += own_mass * (arm @ arm * np.eye(3) - np.outer(arm, arm))
    return RigidPart(mass, inertia, centre)


def _check_inertia(inertia: np.ndarray, path: Path) -> None:
    # MuJoCo's compiler checks this too, unless the file switches its checks off.
    moments = np.linalg.eigvalsh(inertia)
    if moments[0] <= 0.0 or moments[0] + moments[1] < moments[2] * (1.0 - 1e-9):
        shown = ", ".join(f"{moment:.4g}" for moment in moments)
        raise InputError(
            f"{path}: no body has the principal moments of inertia {shown} kg m²; they must be "
            f"> 0, and the largest at most the sum of the others"
        )


def _rotor_positions(
    model: mujoco.MjModel, data: mujoco.MjData, root: int, path: Path
) -> np.ndarray:
    to_root = data.xmat[root].reshape(3, 3).T
    positions = np.zeros((4, 3))
    for i, name in enumerate(ROTOR_SITES):
        site = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SITE, name)
        if site < 0:
            raise InputError(
                f"{path}: has no site '{name}'; the rotors are the sites {', '.join(ROTOR_SITES)}"
            )
        if model.body_weldid[model.site_bodyid[site]] != root:
            raise InputError(
                f"{path}: site '{name}' moves against the body with the free joint; rotors must "
                f"be fixed to it"
            )
        axis = to_root @ data.site_xmat[site].reshape(3, 3)[:, 2]
        if np.arccos(np.clip(axis[2], -1.0, 1.0)) > _AXIS_TOLERANCE:
            raise InputError(
                f"{path}: the z axis of site '{name}' is {np.round(axis, 4).tolist()} in body "
                f"axes; it must be the body's z axis (tilted rotors are not supported)"
            )
        positions[i] = to_root @ (data.site_xpos[site] - data.xpos[root])
    return positions
