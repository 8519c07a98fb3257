"""The stage: arena, landmarks and fans, drones and their ghosts, as one MuJoCo model.

Nothing is simulated here. Poses come from flights; MuJoCo only places and draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import mujoco
import numpy as np

from lafr_mjx import so3
from lafr_mjx.resources import data_folder
from lafr_mjx.view.course_shapes import corridor, gate_frame, outline, path_points

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lafr_mjx.plant.vehicle import Vehicle
    from lafr_mjx.tasks import Fan, Task
    from lafr_mjx.view.shown_flight import Moment

_GHOST_RGBA = (0.35, 0.75, 1.0, 0.30)
_SHADOW_SIZE = 2048
_FAN_RADIUS = 0.25  # m, for which assets/arena.xml draws the fan
_FAN_SPIN = 25.0  # rad/s at full strength, as shown


@dataclass(frozen=True, eq=False)
class Actor:
    """One drone of the scene: where its pose goes, and its propellers."""

    address: int  # of its free joint in qpos
    body: int
    blades: tuple[int, ...]  # geoms, () if the vehicle's MJCF has none
    blade_poses: np.ndarray  # [4, 4] quaternions of the blades at rest


class Shape(NamedTuple):
    """A mesh of the model that is drawn on demand, and where it stands."""

    mesh: int
    position: np.ndarray  # [3] m
    rotation: np.ndarray  # [9]


@dataclass(frozen=True, eq=False)
class Stage:
    """One flight's part of the scene."""

    task: Task

    offset: np.ndarray  # [3] m, by which all of it is moved
    drone: Actor
    ghost: Actor | None  # of the reference; not in every scene
    fan_blades: tuple[tuple[tuple[int, np.ndarray, np.ndarray], ...], ...]  # geom and its pose
    path: np.ndarray  # [N, 3] m, of the task; moved
    outline: np.ndarray  # [N, 3] m, what a picture of all of it must have; moved
    corridor: Shape
    gates: tuple[Shape, ...]


@dataclass(frozen=True, eq=False)
class Scene:
    """The model, its data, and the stages on it."""

    model: mujoco.MjModel
    data: mujoco.MjData
    stages: tuple[Stage, ...]

    def place(self, moments: Sequence[Moment]) -> None:
        """Put drones and ghosts where their flights are, one moment for each stage."""
        for stage, moment in zip(self.stages, moments, strict=True):
            self._pose(stage.drone, moment.position + stage.offset, moment.quaternion)
            self._turn_blades(stage.drone, moment.blade_angle)
            if stage.ghost is not None:
                place = moment.reference_position + stage.offset
                self._pose(stage.ghost, place, moment.reference_quaternion)
                self._turn_blades(stage.ghost, moment.blade_angle)
            self._turn_fans(stage, moment)
        self._settle()

    def pose(self, actor: Actor, position: np.ndarray, quaternion: np.ndarray) -> None:
        """Put one drone somewhere."""
        self._pose(actor, position, quaternion)
        self._settle()

    def _settle(self) -> None:
        # Kinematics is all that drawing needs; nothing moves by itself.
        mujoco.mj_kinematics(self.model, self.data)
        mujoco.mj_comPos(self.model, self.data)
        mujoco.mj_camlight(self.model, self.data)

    def _pose(self, actor: Actor, position: np.ndarray, quaternion: np.ndarray) -> None:
        self.data.qpos[actor.address : actor.address + 3] = position
        self.data.qpos[actor.address + 3 : actor.address + 7] = quaternion

    def _turn_fans(self, stage: Stage, moment: Moment) -> None:
        for blades in stage.fan_blades:
            angle = _FAN_SPIN * moment.fan_scale * moment.time
            turn = np.array([np.cos(0.5 * angle), np.sin(0.5 * angle), 0.0, 0.0])
            for geom, place, rest in blades:
                self.model.geom_quat[geom] = so3.multiply(turn, rest)
                self.model.geom_pos[geom] = so3.quaternion_to_matrix(turn) @ place

    def _turn_blades(self, actor: Actor, angles: np.ndarray) -> None:
        for geom, rest, angle in zip(actor.blades, actor.blade_poses, angles, strict=False):
            turn = np.array([np.cos(0.5 * angle), 0.0, 0.0, np.sin(0.5 * angle)])
            self.model.geom_quat[geom] = so3.multiply(turn, rest)


def build_scene(
    casts: Sequence[tuple[Vehicle, Task]],
    drone_size: float = 1.0,
    *,
    ghosts: bool = True,
) -> Scene:
    """Compile the scene.

    Args:
        casts: vehicle and task of each stage.
        drone_size: factor on what the drones look like; their places remain true.
        ghosts: whether the reference is shown as a drone, too.
    """
    spec = mujoco.MjSpec.from_file(str(data_folder("assets") / "arena.xml"))
    for name in ("landmark1", "fan1"):
        spec.delete(spec.body(name))
    spec.option.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
    _light(spec)
    offsets = _side_by_side([outline(task) for _, task in casts])
    for i, ((vehicle, task), offset) in enumerate(zip(casts, offsets, strict=True)):
        _add_vehicle(spec, vehicle, f"drone{i}/", drone_size, None)
        if ghosts:
            _add_vehicle(spec, vehicle, f"ghost{i}/", drone_size, _GHOST_RGBA)
        for j, landmark in enumerate(task.landmarks):
            _add_landmark(spec, landmark + offset, f"stage{i}/landmark{j}/")
        for j, fan in enumerate(task.fans):
            _add_fan(spec, fan, offset, f"stage{i}/fan{j}/")
        _add_mesh(spec, f"stage{i}/corridor", corridor(task))
        for j, gate in enumerate(task.gates):
            _add_mesh(spec, f"stage{i}/gate{j}", gate_frame(gate))
    model = spec.compile()
    data = mujoco.MjData(model)
    stages = tuple(
        Stage(
            task=task,
            offset=np.asarray(offset, float),
            drone=_actor(model, f"drone{i}/", vehicle.body_name),
            ghost=_actor(model, f"ghost{i}/", vehicle.body_name) if ghosts else None,
            fan_blades=tuple(
                _fan_blades(model, f"stage{i}/fan{j}/") for j in range(len(task.fans))
            ),
            path=path_points(task.path) + offset,
            outline=outline(task) + offset,
            corridor=_shape(model, f"stage{i}/corridor", offset),
            gates=tuple(_shape(model, f"stage{i}/gate{j}", offset) for j in range(len(task.gates))),
        )
        for i, ((vehicle, task), offset) in enumerate(zip(casts, offsets, strict=True))
    )
    mujoco.mj_forward(model, data)
    return Scene(model, data, stages)


def _side_by_side(paths: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Offsets along the narrower horizontal side of the paths, with room between them."""
    low = np.min([path.min(axis=0) for path in paths], axis=0)
    high = np.max([path.max(axis=0) for path in paths], axis=0)
    extent = (high - low)[:2]
    axis = int(np.argmin(extent))
    step = np.zeros(3)
    step[axis] = extent[axis] + 1.2
    return [i * step for i in range(len(paths))]


def _add_vehicle(
    spec: Any, vehicle: Vehicle, prefix: str, size: float, rgba: tuple[float, ...] | None
) -> None:
    child = mujoco.MjSpec.from_file(str(vehicle.mjcf_path))
    _take_options(child, spec)
    body = child.body(vehicle.body_name)
    for geom in body.find_all("geom"):
        geom.contype = geom.conaffinity = 0
        _resize(geom, size)
        if rgba is not None:
            geom.material = ""
            geom.rgba = rgba
    for kind in ("camera", "light"):
        for item in body.find_all(kind):
            child.delete(item)
    spec.worldbody.add_frame().attach_body(body, prefix, "")


def _light(spec: Any) -> None:
    """Softer shadows and rounder light than the arena's own, at half the price."""
    quality, headlight = spec.visual.quality, spec.visual.headlight
    quality.shadowsize = _SHADOW_SIZE
    quality.numslices, quality.numstacks = 14, 6
    headlight.ambient = [0.42, 0.42, 0.42]
    headlight.diffuse = [0.42, 0.42, 0.42]


def _take_options(child: Any, parent: Any) -> None:
    """Nothing is simulated: a vehicle's own solver settings would only raise warnings."""
    for name in dir(parent.option):
        if not name.startswith("_"):
            value = getattr(parent.option, name)
            if isinstance(value, np.ndarray):
                getattr(child.option, name)[:] = value
            elif isinstance(value, int | float):
                setattr(child.option, name, value)


def _resize(geom: Any, size: float) -> None:
    if size == 1.0 or geom.type in (mujoco.mjtGeom.mjGEOM_MESH, mujoco.mjtGeom.mjGEOM_HFIELD):
        return
    geom.pos = size * geom.pos
    geom.size = size * geom.size
    if np.isfinite(geom.fromto[0]):
        geom.fromto = size * geom.fromto


def _add_landmark(spec: Any, position: np.ndarray, prefix: str) -> None:
    arena = mujoco.MjSpec.from_file(str(data_folder("assets") / "arena.xml"))
    body = arena.body("landmark1")
    body.pos = position
    _fit_pole(arena.geom("landmark1_pole"), float(position[2]), 0.0)
    spec.worldbody.add_frame().attach_body(body, prefix, "")


def _add_fan(spec: Any, fan: Fan, offset: np.ndarray, prefix: str) -> None:
    arena = mujoco.MjSpec.from_file(str(data_folder("assets") / "arena.xml"))
    body = arena.body("fan1")
    body.pos = fan.position + offset
    # The fan blows along its x axis; it stands upright.
    heading = float(np.arctan2(fan.direction[1], fan.direction[0]))
    pitch = -float(np.arcsin(np.clip(fan.direction[2], -1.0, 1.0)))
    turn = np.array([np.cos(0.5 * heading), 0.0, 0.0, np.sin(0.5 * heading)])
    tilt = np.array([np.cos(0.5 * pitch), 0.0, np.sin(0.5 * pitch), 0.0])
    body.quat = so3.multiply(turn, tilt)
    size = fan.outlet_radius / _FAN_RADIUS
    for geom in body.find_all("geom"):
        geom.pos = size * geom.pos
        geom.size = size * geom.size
    _fit_pole(arena.geom("fan1_pole"), float(fan.position[2]), 0.29 * size)
    spec.worldbody.add_frame().attach_body(body, prefix, "")


def _add_mesh(spec: Any, name: str, shape: tuple[np.ndarray, np.ndarray]) -> None:
    mesh = spec.add_mesh(name=name, inertia=mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL)
    mesh.uservert, mesh.userface = (array.flatten() for array in shape)


def _shape(model: mujoco.MjModel, name: str, offset: np.ndarray) -> Shape:
    mesh = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_MESH, name)
    # The compiler has moved the corners into axes of its own.
    rotation = np.asarray(so3.quaternion_to_matrix(model.mesh_quat[mesh]))
    return Shape(mesh, model.mesh_pos[mesh] + offset, rotation.flatten())


def _fit_pole(pole: Any, height: float, top: float) -> None:
    """A pole from the floor to `top` below the body's origin."""
    half = max(0.5 * (height - top), 1e-3)
    pole.size = [pole.size[0], half, 0.0]
    pole.pos = [0.0, 0.0, -top - half]


def _actor(model: mujoco.MjModel, prefix: str, body_name: str) -> Actor:
    body = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, prefix + body_name)
    joint = int(model.body_jntadr[body])
    blades = tuple(
        geom for geom in (_geom(model, f"{prefix}blade{k}") for k in range(1, 5)) if geom >= 0
    )
    return Actor(
        address=int(model.jnt_qposadr[joint]),
        body=body,
        blades=blades if len(blades) == 4 else (),
        blade_poses=model.geom_quat[list(blades)].copy() if blades else np.zeros((0, 4)),
    )


def _fan_blades(
    model: mujoco.MjModel, prefix: str
) -> tuple[tuple[int, np.ndarray, np.ndarray], ...]:
    geoms = [_geom(model, f"{prefix}fan1_blade_{letter}") for letter in "abc"]
    return tuple((g, model.geom_pos[g].copy(), model.geom_quat[g].copy()) for g in geoms)


def _geom(model: mujoco.MjModel, name: str) -> int:
    return mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_GEOM, name)
