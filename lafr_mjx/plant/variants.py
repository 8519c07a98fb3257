"""MJCF variants: a vehicle with a payload and cut propellers, alone or in the arena of a task.

Made with dm_control's `mjcf`. Models are merged, never attached, so no name gets a prefix:
the vehicle's body keeps its name (`quad` in the shipped files), its sites are `thrust1`..`4`
and `imu`, its propellers `prop1`..`4` and `blade1`..`4`, its payload the body `payload`; the
arena has the geom `floor`, the cameras `overview` and `track`, and the mocap bodies `landmark1`,
`landmark2`, ... and `fan1`, `fan2`, ...
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
from dm_control import mjcf

from lafr_mjx import so3
from lafr_mjx.errors import InputError
from lafr_mjx.resources import data_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lafr_mjx.plant.vehicle import Vehicle

_PAYLOAD_DENSITY = 4000.0  # kg/m³, only for how large it is drawn
_FAN_RADIUS = 0.25  # m, as drawn in arena.xml
_POINT_INERTIA = 1e-12  # kg m²; MuJoCo wants it positive
_UPRIGHT = np.array([1.0, 0.0, 0.0, 0.0])


def vehicle_variant(
    vehicle: Vehicle,
    payload_mass: float = 0.0,
    payload_position: Sequence[float] = (0.0, 0.0, 0.0),
    propeller_scale: Sequence[float] = (1.0, 1.0, 1.0, 1.0),
) -> mjcf.RootElement:
    """The vehicle's MJCF with a payload and with its propellers drawn cut.

    Args:
        vehicle: whose MJCF is taken.
        payload_mass: kg, a point mass fixed to the body; 0 for none.
        payload_position: m, in body axes.
        propeller_scale: factor on each rotor's thrust and torque. The MJCF has no thrust, so
            this only draws disc and blades smaller: by the factor itself, since the fourth
            root that momentum theory gives could hardly be seen.
    """
    position = _vector(payload_position, 3, "payload_position")
    scale = _vector(propeller_scale, 4, "propeller_scale")
    if not (np.isfinite(payload_mass) and payload_mass >= 0.0):
        raise InputError(f"payload_mass is {payload_mass}; it must be a number >= 0 (kg)")
    if np.any(scale <= 0.0) or np.any(scale > 2.0):
        raise InputError(f"propeller_scale is {scale.tolist()}; each must be > 0 and <= 2")
    root = _parse(vehicle.mjcf_path)
    if payload_mass > 0.0:
        _add_payload(_find_body(root, vehicle.body_name), payload_mass, position)
    for i, factor in enumerate(scale, start=1):
        for name in (f"prop{i}", f"blade{i}"):
            geom = root.find("geom", name)  # a user's vehicle need not have them
            if geom is not None and factor != 1.0:
                geom.size = _cut(_inherited_size(geom), name.startswith("prop"), factor)
    return root


def scene_variant(
    vehicle: Vehicle,
    landmarks: Sequence[Sequence[float]] = (),
    fans: Sequence[tuple[Sequence[float], Sequence[float], float]] = (),
    payload_mass: float = 0.0,
    payload_position: Sequence[float] = (0.0, 0.0, 0.0),
    propeller_scale: Sequence[float] = (1.0, 1.0, 1.0, 1.0),
) -> mjcf.RootElement:
    """The vehicle in the arena, with the landmarks and fans of a task.

    Args:
        vehicle: whose MJCF is taken.
        landmarks: m, world positions to pass.
        fans: for each, its outlet's position [m, world], the direction it blows to and the
            outlet's radius [m].
        payload_mass: as in `vehicle_variant`.
        payload_position: as in `vehicle_variant`.
        propeller_scale: as in `vehicle_variant`.
    """
    root = vehicle_variant(vehicle, payload_mass, payload_position, propeller_scale)
    arena = _parse(data_folder("assets") / "arena.xml")
    landmark_geoms, fan_geoms = _take_geoms(arena, "landmark1"), _take_geoms(arena, "fan1")
    for i, given in enumerate(landmarks):
        position = _vector(given, 3, f"landmarks[{i}]")
        _add_prop(arena, f"landmark{i + 1}", landmark_geoms, position)
    for i, given in enumerate(fans):
        position, quaternion, radius = _fan_pose(given, f"fans[{i}]")
        scale = radius / _FAN_RADIUS
        _add_prop(arena, f"fan{i + 1}", fan_geoms, position, quaternion, scale)
    arena.model = root.model
    root.include_copy(arena, override_attributes=True)
    body = _find_body(root, vehicle.body_name)
    if root.find("camera", "track") is None:
        reach = 10.0 * float(np.abs(vehicle.rotor_positions[:, :2]).max())
        axes = [0.371, -0.928, 0.0, 0.365, 0.146, 0.920]
        offset = [-reach, -0.4 * reach, 0.48 * reach]
        body.add("camera", name="track", mode="trackcom", pos=offset, xyaxes=axes)
    return root


def compile_model(root: mjcf.RootElement) -> mujoco.MjModel:
    """Compile a variant."""
    return mujoco.MjModel.from_xml_string(root.to_xml_string(), root.get_assets())


def write_xml(root: mjcf.RootElement, folder: Path | str, name: str = "scene.xml") -> Path:
    """Write a variant and its assets into a folder; MuJoCo opens the returned file by itself."""
    mjcf.export_with_assets(root, str(folder), name)
    return Path(folder) / name


def _parse(path: Path) -> mjcf.RootElement:
    try:
        return mjcf.from_path(str(path))
    except (ValueError, KeyError, AttributeError, OSError, SyntaxError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path}: dm_control cannot read this MJCF: {reason}") from error


def _find_body(root: mjcf.RootElement, name: str) -> Any:
    body = root.find("body", name)
    if body is None:
        raise InputError(f"model '{root.model}' has no body '{name}'")
    return body


def _vector(given: Any, size: int, name: str) -> np.ndarray:
    try:
        vector = np.asarray(given, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} is {given!r}; it must be {size} numbers") from error
    if vector.shape != (size,) or not np.all(np.isfinite(vector)):
        raise InputError(f"{name} is {given!r}; it must be {size} finite numbers")
    return vector


def _add_payload(body: Any, mass: float, position: np.ndarray) -> None:
    # A body without joints is welded to its parent, and MuJoCo adds its mass there.
    payload = body.add("body", name="payload", pos=position)
    payload.add("inertial", pos=[0.0, 0.0, 0.0], mass=mass, diaginertia=[_POINT_INERTIA] * 3)
    half = 0.5 * (mass / _PAYLOAD_DENSITY) ** (1.0 / 3.0)
    payload.add(
        "geom",
        name="payload",
        type="box",
        size=[half] * 3,
        rgba=[0.55, 0.15, 0.65, 1.0],
        group=2,
        contype=0,
        conaffinity=0,
        mass=0.0,
    )


def _inherited_size(geom: Any) -> np.ndarray:
    """A geom's own size or that of its default class (or the class's parents)."""
    if geom.size is not None:
        return np.asarray(geom.size)
    default = geom.dclass
    while default is not None and default.tag == "default":
        if default.geom.size is not None:
            return np.asarray(default.geom.size)
        default = default.parent
    raise InputError(f"geom '{geom.name}' has no size; a propeller must be a sized primitive")


def _cut(size: np.ndarray, is_disc: bool, factor: float) -> np.ndarray:
    """Shorten the radius of a disc (its first number) or the span of a blade (its largest)."""
    cut = size.copy()
    cut[0 if is_disc else int(np.argmax(size))] *= factor
    return cut


def _take_geoms(arena: mjcf.RootElement, name: str) -> dict[str, dict[str, Any]]:
    """Remove a prop of the arena's file; return its geoms' attributes by their short names."""
    body = _find_body(arena, name)
    geoms = {geom.name.removeprefix(f"{name}_"): geom.get_attributes() for geom in body.geom}
    body.remove()
    return geoms


def _add_prop(
    arena: mjcf.RootElement,
    name: str,
    geoms: dict[str, dict[str, Any]],
    position: np.ndarray,
    quaternion: np.ndarray = _UPRIGHT,
    scale: float = 1.0,
) -> None:
    """Add a mocap body with these geoms, and let its pole stand on the floor."""
    world: Any = arena.worldbody
    body = world.add("body", name=name, mocap="true", pos=position, quat=quaternion)
    for short, original in geoms.items():
        attributes = {**original, "name": f"{name}_{short}"}
        if short == "pole":
            top = scale * (-original["pos"][2] - original["size"][1])
            if position[2] <= top:
                continue
            # The pole is upright in the world, whichever way the prop points.
            down = so3.quaternion_to_matrix(quaternion).T @ np.array([0.0, 0.0, -1.0])
            attributes["fromto"] = np.concatenate([top * down, position[2] * down])
            attributes["size"] = original["size"][:1]
            del attributes["pos"]
        elif scale != 1.0:
            attributes["size"] = scale * np.asarray(original["size"])
            attributes["pos"] = scale * np.asarray(original.get("pos", np.zeros(3)))
        body.add("geom", **attributes)


def _fan_pose(given: Any, name: str) -> tuple[np.ndarray, np.ndarray, float]:
    """Position, attitude (x axis along the jet) and radius of a fan."""
    if not isinstance(given, tuple | list) or len(given) != 3:
        raise InputError(f"{name} is {given!r}; it must be (position, direction, radius)")
    position = _vector(given[0], 3, f"{name} position")
    direction = _vector(given[1], 3, f"{name} direction")
    radius = float(_vector([given[2]], 1, f"{name} radius")[0])
    length = float(np.linalg.norm(direction))
    if length < 1e-9 or radius <= 0.0:
        raise InputError(f"{name} is {given!r}; it must have a direction and a radius > 0")
    x, y, z = direction / length
    yaw = so3.exp_quaternion(np.array([0.0, 0.0, np.arctan2(y, x)]))
    pitch = so3.exp_quaternion(np.array([0.0, -np.arcsin(np.clip(z, -1.0, 1.0)), 0.0]))
    return position, np.asarray(so3.multiply(yaw, pitch)), radius
