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
    position: Columns | None
    velocity: Columns | None
    velocity_in_body: bool
    attitude: Columns | None
    attitude_order: str
    attitude_inverse: bool
    rates: Columns | None
    rate_command: Columns | None
    thrust: Columns | None
    thrust_unit: str
    thrust_commanded: bool
    thrust_coefficient: float
    mass: float | None


def read_columns(path: Path) -> ColumnMap:
    """Read and check a column map."""
    table = read_toml(path)
    frame = table.string("frame", "z-up", choices=("z-up", "z-down"))
    names = ("position", "velocity", "attitude", "rates", "rate_command", "thrust")
    parts = {name: table.table(name) for name in names if name in table}
    table.known(*names)
    time = table.table("time", required=True)
    found = ColumnMap(
        path=path,
        z_down=frame == "z-down",
        time=Columns((time.string("column"),), _scale(time, TIME_UNITS, "s")),
        position=_columns(parts.get("position"), 3, LENGTH_UNITS, "m"),
        velocity=_columns(parts.get("velocity"), 3),
        velocity_in_body=_word(parts.get("velocity"), "axes", ("world", "body")) == "body",
        attitude=_columns(parts.get("attitude"), 4),
        attitude_order=_word(parts.get("attitude"), "order", ("wxyz", "xyzw")),
        attitude_inverse=_word(parts.get("attitude"), "maps", ("body-to-world", "world-to-body"))
        == "world-to-body",
        rates=_columns(parts.get("rates"), 3, RATE_UNITS, "rad/s"),
        rate_command=_columns(parts.get("rate_command"), 3, RATE_UNITS, "rad/s"),
        mass=table.table("vehicle").number("mass_kg", None, above=0.001, at_most=1000.0),
        **_thrust(parts.get("thrust")),
    )
    table.finish()
    if found.thrust is not None and found.thrust_unit != "m/s2" and found.mass is None:
        raise InputError(
            f"{path}: 'vehicle.mass_kg' is missing; it must be a number > 0.001, since the thrust "
            f"is in {found.thrust_unit}"
        )
    return found


def _scale(part: Table, units: dict[str, float], default: str) -> float:
    return units[part.string("unit", default, choices=tuple(units))]


def _columns(
    part: Table | None, count: int, units: dict[str, float] | None = None, default: str = ""
) -> Columns | None:
    if part is None:
        return None
    names = part.strings("columns")
    if len(names) != count:
        raise part.fail("columns", f"a list of {count} names")
    return Columns(tuple(names), 1.0 if units is None else _scale(part, units, default))


def _word(part: Table | None, key: str, choices: tuple[str, ...]) -> str:
    return choices[0] if part is None else part.string(key, choices[0], choices=choices)


def _thrust(part: Table | None) -> dict[str, Any]:
    if part is None:
        return {"thrust": None, "thrust_unit": "m/s2", "thrust_commanded": True,
                "thrust_coefficient": 0.0}  # fmt: skip
    names = part.strings("columns")
    if not 1 <= len(names) <= 16:
        raise part.fail("columns", "a list of names: one, or one for each rotor")
    unit = part.string("unit", "m/s2", choices=THRUST_UNITS)
    part.known("thrust_coefficient")
    rotors = unit.startswith("rotor")
    return {
        "thrust": Columns(tuple(names)),
        "thrust_unit": unit,
        "thrust_commanded": part.boolean("commanded", True),
        "thrust_coefficient": part.number("thrust_coefficient", above=0.0, at_most=1.0)
        if rotors
        else 0.0,
    }
