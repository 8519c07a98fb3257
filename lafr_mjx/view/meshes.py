"""Triangles and colours of a MuJoCo model's shapes, as the browser's scene wants them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import mujoco
import numpy as np
import trimesh

from lafr_mjx import so3

if TYPE_CHECKING:
    from collections.abc import Iterable

_SHOWN_GROUPS = (0, 1, 2)
_ROUND = 20  # corners of a circle


class Part(NamedTuple):
    """One shape in the axes of its body."""

    geom: int
    vertices: np.ndarray  # [V, 3] m, in the geom's own axes
    faces: np.ndarray  # [F, 3]
    position: np.ndarray  # [3]
    quaternion: np.ndarray  # [4]
    rgba: np.ndarray  # [4]


def parts_of_body(model: mujoco.MjModel, body: int) -> list[Part]:
    """The visible shapes of a body, without what hangs on it by joints."""
    geoms = np.flatnonzero(model.geom_bodyid == body)
    parts = []
    for geom in geoms:
        if model.geom_group[geom] not in _SHOWN_GROUPS:
            continue
        shape = _shape(model, int(geom))
        if shape is None:
            continue
        material = int(model.geom_matid[geom])
        rgba = model.mat_rgba[material] if material >= 0 else model.geom_rgba[geom]
        if material >= 0 and np.allclose(rgba, 1.0):
            rgba = np.array([0.12, 0.12, 0.14, 1.0])  # a texture; here they are dark weaves
        parts.append(
            Part(
                int(geom), np.asarray(shape.vertices, float), np.asarray(shape.faces),
                model.geom_pos[geom].copy(), model.geom_quat[geom].copy(), np.array(rgba, float),
            )
        )  # fmt: skip
    return parts


def linear_rgb(rgb: np.ndarray) -> np.ndarray:
    """Colours for corners and instances, uint8, from what is to be seen (sRGB, 0 to 1).

    The scene takes the colours of corners (lines, merged meshes) and of instances (arrows) for
    linear light; as given they would look pale. Colours of whole objects it converts itself.
    """
    seen = np.clip(np.asarray(rgb, float), 0.0, 1.0)
    light = np.where(seen <= 0.04045, seen / 12.92, ((seen + 0.055) / 1.055) ** 2.4)
    return np.round(255.0 * light).astype(np.uint8)


def merged(parts: Iterable[Part]) -> Any:
    """Shapes as one coloured `trimesh.Trimesh` in the axes of their body; None without shapes."""
    meshes = []
    for part in parts:
        turned = part.vertices @ so3.quaternion_to_matrix(part.quaternion).T + part.position
        mesh = trimesh.Trimesh(turned, part.faces, process=False)
        colour = np.append(
            linear_rgb(part.rgba[:3]), np.uint8(255.0 * np.clip(part.rgba[3], 0.0, 1.0))
        )
        mesh.visual = trimesh.visual.ColorVisuals(
            mesh, vertex_colors=np.tile(colour, (len(turned), 1))
        )
        meshes.append(mesh)
    return trimesh.util.concatenate(meshes) if meshes else None


def _shape(model: mujoco.MjModel, geom: int) -> trimesh.Trimesh | None:
    kind, size = int(model.geom_type[geom]), model.geom_size[geom]
    make = trimesh.creation
    if kind == mujoco.mjtGeom.mjGEOM_BOX:
        return make.box(2.0 * size)
    if kind == mujoco.mjtGeom.mjGEOM_SPHERE:
        return make.icosphere(subdivisions=2, radius=size[0])
    if kind == mujoco.mjtGeom.mjGEOM_ELLIPSOID:
        mesh = make.icosphere(subdivisions=2)
        mesh.apply_scale(size)
        return mesh
    if kind == mujoco.mjtGeom.mjGEOM_CYLINDER:
        return make.cylinder(size[0], 2.0 * size[1], sections=_ROUND)
    if kind == mujoco.mjtGeom.mjGEOM_CAPSULE:
        return make.capsule(2.0 * size[1], size[0], count=[_ROUND, 8])
    if kind == mujoco.mjtGeom.mjGEOM_MESH:
        mesh = int(model.geom_dataid[geom])
        first, count = model.mesh_vertadr[mesh], model.mesh_vertnum[mesh]
        face, faces = model.mesh_faceadr[mesh], model.mesh_facenum[mesh]
        return trimesh.Trimesh(
            model.mesh_vert[first : first + count], model.mesh_face[face : face + faces]
        )
    return None
