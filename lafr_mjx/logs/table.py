"""Tables as CSV or Parquet, with a column map."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any

import numpy as np

from lafr_mjx import so3
from lafr_mjx.errors import InputError
from lafr_mjx.logs.raw import RawLog, Signal

if TYPE_CHECKING:
    from pathlib import Path

    from lafr_mjx.logs.columns import ColumnMap, Columns

_TURN = np.array([1.0, -1.0, -1.0])
"""Half a turn about x: forward-right-down to forward-left-up, north-east-down to z up."""


def read_table(path: Path, columns: ColumnMap) -> RawLog:
    """Read the columns that the map names; rows with an empty cell count as missing there."""
    notes: list[str] = []
    data = _parquet(path) if path.suffix.lower() in (".parquet", ".pq") else _csv(path, notes)
    time_all = _take(path, columns, data, columns.time)[:, 0]

    def signal(given: Columns | None, held: bool = False) -> Signal | None:
        if given is None:
            return None
        values = _take(path, columns, data, given)
        there = np.asarray(~np.isnan(values).all(axis=1))  # tables of mixed rates leave cells empty
        if 0 < there.sum() < len(there):
            notes.append(
                f"{', '.join(given.names)}: {int((~there).sum())} of {len(there)} rows hold no "
                f"number (the first: row {int(np.argmin(there)) + 1})"
            )
        return Signal(time_all[there], values[there], ", ".join(given.names), held)

    fields: dict[str, Any] = {
        "position": signal(columns.position),
        "velocity": signal(columns.velocity),
        "quaternion": signal(columns.attitude),
        "rates": signal(columns.rates),
        "rate_command": signal(columns.rate_command, held=True),
        "thrust": signal(columns.thrust, held=columns.thrust_commanded),
    }
    fields = _to_our_frame({k: v for k, v in fields.items() if v is not None}, columns)
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


def _csv(path: Path, notes: list[str]) -> dict[str, np.ndarray]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            sample = file.read(4096)
            file.seek(0)
            first = sample.splitlines()[0] if sample else ""
            delimiter = max(",;\t", key=first.count)
            rows = csv.reader(file, delimiter=delimiter)
            names = [name.strip() for name in next(rows, [])]
            if len(names) < 2:
                raise InputError(f"{path}: line 1 must name the columns; it is {first[:60]!r}")
            double = {name for name in names if names.count(name) > 1}
            if double:
                raise InputError(f"{path}: line 1 names the column '{min(double)}' twice")
            lines = [(number, row) for number, row in enumerate(rows, start=2) if row]
            _leave_out_cut_line(path, lines, notes)
            for number, row in lines:
                if len(row) != len(names):
                    raise InputError(
                        f"{path}: line {number} has {len(row)} cells; line 1 names {len(names)}"
                    )
            cells = [row for _, row in lines]
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: is not a CSV file: {error}") from error
    return {name: _parsed(path, name, [row[i] for row in cells]) for i, name in enumerate(names)}


def _leave_out_cut_line(path: Path, lines: list[tuple[int, list[str]]], notes: list[str]) -> None:
    """Whoever wrote the file was stopped inside its last line: no number in it can be trusted."""
    with path.open("rb") as file:
        file.seek(-1, 2)
        if file.read(1) in b"\r\n" or len(lines) < 2:
            return
    number, _ = lines.pop()
    notes.append(f"line {number}, the last, has no end and may be cut: it is left out")


def _parsed(path: Path, name: str, cells: list[str]) -> np.ndarray:
    """Numbers of a column; text columns become NaN and matter only if the map names them."""
    values = np.full(len(cells), np.nan)
    words = 0
    for i, cell in enumerate(cells):
        text = cell.strip()
        if text and text.lower() not in ("nan", "null", "none"):
            try:
                values[i] = float(text)
            except ValueError:
                words += 1
    if 0 < words < len(cells):
        odd = next(i for i, cell in enumerate(cells) if _is_word(cell))
        raise InputError(f"{path}: line {odd + 2}, column '{name}': {cells[odd]!r} is no number")
    return values


def _is_word(cell: str) -> bool:
    text = cell.strip().lower()
    if not text or text in ("nan", "null", "none"):
        return False
    try:
        float(text)
    except ValueError:
        return True
    return False


def _parquet(path: Path) -> dict[str, np.ndarray]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise InputError(
            f"{path}: reading Parquet needs pyarrow: pip install 'lafr-mjx[logs]'"
        ) from error
    try:
        table = parquet.read_table(path, page_checksum_verification=True)
    except Exception as error:  # a cut or mangled file makes the reader raise almost anything
        text = " ".join(str(error).split())
        raise InputError(f"{path}: is not a readable Parquet file: {text[:300]}") from error
    data = {}
    for name in table.column_names:
        column = table.column(name)
        numeric = pyarrow.types.is_floating(column.type) or pyarrow.types.is_integer(column.type)
        if numeric:
            data[name] = np.asarray(column.to_numpy(zero_copy_only=False), float)
    return data
