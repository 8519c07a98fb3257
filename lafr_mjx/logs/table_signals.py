"""From the columns of a table to signals, by a column map; for every reader of tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lafr_mjx import so3
from lafr_mjx.errors import InputError
from lafr_mjx.logs.column_map import ColumnMap, Columns, read_columns
from lafr_mjx.logs.raw_log import RawLog, Signal

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lafr_mjx.logs.log_readers import ReadOptions

_TURN = np.array([1.0, -1.0, -1.0])
"""Half a turn about x: forward-right-down to forward-left-up, north-east-down to z up."""


def table_log(
    path: Path,
    options: ReadOptions,
    load: Callable[[Path, list[str]], dict[str, np.ndarray]],
) -> RawLog:
    """Read the columns that the map names; rows with an empty cell count as missing there.

    Args:
        path: of the table.
        options: with the column map.
        load: the table's columns by their names; adds to the notes what is to be known.
    """
    if options.columns is None:
        raise InputError(
            f"{path}: a table needs a column map, a TOML file that says what its columns are; "
            "give one by --columns FILE (the documentation of fit has one to start from)"
        )
    columns = read_columns(options.columns)
    notes: list[str] = []
    data = load(path, notes)
    time_all = _take(path, columns, data, columns.time)[:, 0]

    fields: dict[str, Any] = {}
    for field, given in columns.signals.items():
        names, values = ", ".join(given.names), _take(path, columns, data, given)
        there = np.asarray(~np.isnan(values).all(axis=1))  # tables of mixed rates leave cells empty
        if 0 < there.sum() < len(there):
            notes.append(
                f"{names}: {int((~there).sum())} of {len(there)} rows hold no number "
                f"(the first: row {int(np.argmin(there)) + 1})"
            )
        held = field == "rate_command" or (field == "thrust" and columns.thrust_commanded)
        fields[field] = Signal(time_all[there], values[there], names, held)
    fields = _to_our_frame(fields, columns)
    return RawLog(path=path, name=path.stem, mass=columns.mass, notes=tuple(notes), **fields)


def _to_our_frame(fields: dict[str, Signal], columns: ColumnMap) -> dict[str, Signal]:
    if "quaternion" in fields:
        q = fields["quaternion"].values
        q = q[:, [3, 0, 1, 2]] if columns.attitude_order == "xyzw" else q
        q = q * np.array([1.0, -1.0, -1.0, -1.0]) if columns.attitude_inverse else q
        fields["quaternion"] = fields["quaternion"]._replace(values=q)
    if "velocity" in fields and columns.velocity_in_body:
        fields["velocity"] = _velocity_to_world(fields, columns)
    if columns.z_down:
        for key in ("position", "velocity", "rates", "rate_command"):
            if key in fields:
                fields[key] = fields[key]._replace(values=fields[key].values * _TURN)
        if "quaternion" in fields:
            # Half a turn on both sides: w, x, -y, -z.
            q = fields["quaternion"].values * np.array([1.0, 1.0, -1.0, -1.0])
            fields["quaternion"] = fields["quaternion"]._replace(values=q)
    if "thrust" in fields:
        fields["thrust"] = fields["thrust"]._replace(
            values=_specific_thrust(fields["thrust"].values, columns)
        )
    return fields


def _velocity_to_world(fields: dict[str, Signal], columns: ColumnMap) -> Signal:
    velocity, attitude = fields["velocity"], fields.get("quaternion")
    if attitude is None or not np.array_equal(attitude.time, velocity.time):
        raise InputError(
            f"{columns.path}: 'velocity.axes' is 'body'; then attitude must be in the same rows"
        )
    rotation = so3.quaternion_to_matrix(attitude.values)
    return velocity._replace(values=(rotation @ velocity.values[..., None])[..., 0])


def _specific_thrust(values: np.ndarray, columns: ColumnMap) -> np.ndarray:
    if columns.thrust_unit.startswith("rotor"):
        speed = values * (2.0 * np.pi / 60.0 if columns.thrust_unit == "rotor-rpm" else 1.0)
        values = columns.thrust_coefficient * speed**2
    total = values.sum(axis=1, keepdims=True)
    return total if columns.thrust_unit == "m/s2" else total / float(columns.mass or 1.0)


def _take(
    path: Path, columns: ColumnMap, data: dict[str, np.ndarray], wanted: Columns
) -> np.ndarray:
    for name in wanted.names:
        if name not in data:
            raise InputError(
                f"{columns.path}: column '{name}' is not in {path}; it has "
                f"{', '.join(list(data)[:40])}"
            )
    with np.errstate(all="ignore"):  # what is no number is looked for later, and told
        return wanted.scale * np.stack([data[name] for name in wanted.names], axis=1)
