"""The column map: a TOML file that says what the columns of a table mean.

`docs/fit.md` shows one with all units and orders.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lafr_mjx.errors import InputError
from lafr_mjx.toml_table import Table, read_toml

if TYPE_CHECKING:
    from pathlib import Path

TIME_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
LENGTH_UNITS = {"m": 1.0, "cm": 1e-2, "mm": 1e-3}
RATE_UNITS = {"rad/s": 1.0, "deg/s": 0.017453292519943295}
THRUST_UNITS = ("m/s2", "N", "rotor-rad/s", "rotor-rpm")


@dataclass(frozen=True)
class Columns:
    """Some columns and how to turn their numbers into SI units."""

    names: tuple[str, ...]
    scale: float = 1.0


@dataclass(frozen=True)
class ColumnMap:
    """What the columns of a table mean."""

    path: Path
    z_down: bool
    time: Columns
    signals: dict[str, Columns]  # by the field of a `RawLog`; those that the map names
    velocity_in_body: bool = False
    attitude_order: str = "wxyz"
    attitude_inverse: bool = False
    thrust_unit: str = "m/s2"
    thrust_commanded: bool = True
    thrust_coefficient: float = 0.0
    mass: float | None = None


# Table of the map: field of a log, number of columns, units of which the first is the default.
_SIGNALS: dict[str, tuple[str, int, dict[str, float]]] = {
    "position": ("position", 3, LENGTH_UNITS),
    "velocity": ("velocity", 3, {}),
    "attitude": ("quaternion", 4, {}),
    "rates": ("rates", 3, RATE_UNITS),
    "rate_command": ("rate_command", 3, RATE_UNITS),
}


def read_columns(path: Path) -> ColumnMap:
    """Read and check a column map."""
    table = read_toml(path)
    frame = table.string("frame", "z-up", choices=("z-up", "z-down"))
    names = (*_SIGNALS, "thrust")
    parts = {name: table.table(name) for name in names if name in table}
    table.known(*names)
    time = table.table("time", required=True)
    clock = Columns((time.string("column"),), _scale(time, TIME_UNITS))
    signals: dict[str, Columns] = {}
    more: dict[str, Any] = {}
    for name, (field, count, units) in _SIGNALS.items():
        if name in parts:
            signals[field] = _columns(parts[name], count, units)
    if "velocity" in parts:
        more["velocity_in_body"] = _choice(parts["velocity"], "axes", "world", "body") == "body"
    if "attitude" in parts:
        maps = _choice(parts["attitude"], "maps", "body-to-world", "world-to-body")
        more["attitude_order"] = _choice(parts["attitude"], "order", "wxyz", "xyzw")
        more["attitude_inverse"] = maps == "world-to-body"
    if "thrust" in parts:
        signals["thrust"] = _thrust(parts["thrust"], more)
    mass = table.table("vehicle").number("mass_kg", None, above=0.001, at_most=1000.0)
    table.finish()
    found = ColumnMap(path, frame == "z-down", clock, signals, mass=mass, **more)
    if found.thrust_unit != "m/s2" and mass is None:
        raise InputError(
            f"{path}: 'vehicle.mass_kg' is missing; it must be a number > 0.001, since the thrust "
            f"is in {found.thrust_unit}"
        )
    return found


def _scale(part: Table, units: dict[str, float]) -> float:
    choices = tuple(units)
    return units[part.string("unit", choices[0], choices=choices)] if units else 1.0


def _columns(part: Table, count: int, units: dict[str, float]) -> Columns:
    names = part.strings("columns")
    if len(names) != count:
        raise part.fail("columns", f"a list of {count} names")
    return Columns(tuple(names), _scale(part, units))


def _choice(part: Table, key: str, *choices: str) -> str:
    return part.string(key, choices[0], choices=choices)


def _thrust(part: Table, more: dict[str, Any]) -> Columns:
    names = part.strings("columns")
    if not 1 <= len(names) <= 16:
        raise part.fail("columns", "a list of names: one, or one for each rotor")
    more["thrust_unit"] = _choice(part, "unit", *THRUST_UNITS)
    more["thrust_commanded"] = part.boolean("commanded", True)
    part.known("thrust_coefficient")
    if more["thrust_unit"].startswith("rotor"):
        more["thrust_coefficient"] = part.number("thrust_coefficient", above=0.0, at_most=1.0)
    return Columns(tuple(names))
