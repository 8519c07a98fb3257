"""The `[path]` table of a task file -> a path. Each kind of path is one small reader."""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

import numpy as np

from lafr_mjx.errors import InputError
from lafr_mjx.reference import splines

if TYPE_CHECKING:
    from collections.abc import Callable

    from lafr_mjx.reference.path import Path
    from lafr_mjx.toml_table import Table

PROGRAM_SEGMENTS = 16
"""Paths are cut into a multiple of this, so that most tasks share one compiled program."""

_MAX_COORDINATE_M = 1000.0
_MAX_SAMPLES = 100_000
_MAX_CSV_BYTES = 10_000_000


def read_path(table: Table) -> tuple[Path, str]:
    """Read a path; returns it with the name of its kind."""
    kind = table.string("kind", choices=tuple(_READERS))
    duration_s = table.number("lap_s", at_least=0.1, at_most=3600.0)
    return shareable(_READERS[kind](table, duration_s)), kind


def shareable(path: Path) -> Path:
    """The same curve in as many segments as those of other tasks have."""
    segments = len(path.breaks) - 1
    count = -(-segments // PROGRAM_SEGMENTS) * PROGRAM_SEGMENTS
    return splines.with_segments(path, count)


def _harmonics(table: Table, duration_s: float) -> Path:
    centre = table.vector("centre", 3)
    if "sine" not in table and "cosine" not in table:
        raise table.fail("sine", "given (or 'cosine'): a list of lists of 3 numbers")
    parts = [table.matrix(key, 3, np.zeros((0, 3))) for key in ("sine", "cosine")]
    table.finish()  # a misspelt key is named before its consequences are
    # The shorter of the two lists is continued by zeros.
    rows = max(map(len, parts))
    sine, cosine = (np.vstack([part, np.zeros((rows - len(part), 3))]) for part in parts)
    _check_size(table, np.vstack([centre[None], sine, cosine]))
    return _make(table, splines.from_harmonics, centre, sine, cosine, duration_s)


def _waypoints(table: Table, duration_s: float) -> Path:
    periodic = table.boolean("periodic")
    points = table.matrix("points", 3, min_rows=2)
    yaw = table.vector("yaw_rad", len(points)) if "yaw_rad" in table else None
    knots = len(points) + periodic
    times = table.vector("times", knots, at_least=0.0) if "times" in table else None
    table.finish()
    _check_size(table, points)
    options = {"periodic": periodic, "yaw": yaw, "times": times}
    return _make(table, splines.from_waypoints, points, duration_s, **options)


def _samples(table: Table, duration_s: float) -> Path:
    periodic = table.boolean("periodic")
    segments = table.integer("segments", 32, at_least=1, at_most=128)
    tolerance_m = table.number("tolerance_m", 0.01, above=0.0)
    if ("points" in table) == ("file" in table):
        raise InputError(f"{table.path}: 'path' needs either 'points' or 'file'")
    points = table.matrix("points", 3) if "points" in table else _csv_points(table)
    table.finish()
    _check_size(table, points)
    options = {"periodic": periodic, "segments": segments, "tolerance_m": tolerance_m}
    return _make(table, splines.from_samples, points, duration_s, **options)


_READERS = {"harmonics": _harmonics, "waypoints": _waypoints, "samples": _samples}


def _make(table: Table, make: Callable[..., Path], *values: Any, **options: Any) -> Path:
    """Call a maker of paths; its errors are given the name of the file."""
    try:
        return make(*values, **options)
    except InputError as error:
        raise InputError(f"{table.path}: 'path': {error}") from error


def _check_size(table: Table, points: np.ndarray) -> None:
    if len(points) > _MAX_SAMPLES or np.abs(points).max() > _MAX_COORDINATE_M:
        raise InputError(
            f"{table.path}: the path has {len(points)} points with coordinates up to "
            f"{np.abs(points).max():g} m; allowed are {_MAX_SAMPLES} and {_MAX_COORDINATE_M:g} m"
        )


def _csv_points(table: Table) -> np.ndarray:
    """Points of a CSV file in the task's folder: x, y, z in metres; lines with # are comments."""
    name = table.string("file")
    folder = table.path.resolve().parent
    file = (folder / name).resolve()
    if FilePath(name).is_absolute() or not file.is_relative_to(folder):
        raise table.fail("file", "a file in the folder of the task or below")
    if not file.is_file():
        raise table.fail("file", "an existing CSV file")
    if file.stat().st_size > _MAX_CSV_BYTES:
        raise table.fail("file", f"a CSV file of at most {_MAX_CSV_BYTES} bytes")
    rows = []
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{table.path}: '{name}' cannot be read: {error}") from error
    for number, line in enumerate(lines, start=1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        try:
            row = [float(entry) for entry in text.split(",")]
        except ValueError:
            row = []
        if len(row) != 3 or not np.isfinite(row).all():
            raise InputError(f"{file}, line {number}: {line!r} is not 'x, y, z' in metres")
        rows.append(row)
    if not rows:
        raise InputError(f"{file}: holds no points")
    return np.array(rows)
