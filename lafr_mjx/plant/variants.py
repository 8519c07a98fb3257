"""MJCF variants: a vehicle with a payload and cut propellers. Made with dm_control's `mjcf`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
from dm_control import mjcf

from lafr_mjx.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lafr_mjx.plant.vehicle import Vehicle

_PAYLOAD_DENSITY = 4000.0  # kg/m³, only for how large it is drawn
_POINT_INERTIA = 1e-12  # kg m²; MuJoCo wants it positive


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


def compile_model(root: mjcf.RootElement) -> mujoco.MjModel:
    """Compile a variant."""
    return mujoco.MjModel.from_xml_string(root.to_xml_string(), root.get_assets())


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
