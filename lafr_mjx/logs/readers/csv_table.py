"""Tables as text (`.csv`, `.tsv`, `.txt`): commas, semicolons or tabs, names in the first line."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

import numpy as np

from lafr_mjx.errors import InputError
from lafr_mjx.logs.log_readers import LogReader, ReadOptions
from lafr_mjx.logs.table_signals import table_log

if TYPE_CHECKING:
    from pathlib import Path

    from lafr_mjx.logs.raw_log import RawLog


class CsvReader(LogReader):
    """Reads tables as text by a column map."""

    label = ".csv, .tsv, .txt with --columns"
    suffixes = (".csv", ".tsv", ".txt")

    def read(self, path: Path, options: ReadOptions) -> list[RawLog]:
        """One flight; a line that was cut at the end of the file is left out."""
        return [table_log(path, options, _columns)]


READER = CsvReader()


def _columns(path: Path, notes: list[str]) -> dict[str, np.ndarray]:
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
    numbers = [_number(cell.strip()) for cell in cells]
    odd = [i for i, number in enumerate(numbers) if number is None]
    if 0 < len(odd) < len(cells):
        line = odd[0] + 2
        raise InputError(f"{path}: line {line}, column '{name}': {cells[odd[0]]!r} is no number")
    return np.array(numbers, float)  # None becomes NaN


def _number(text: str) -> float | None:
    """The number in a cell; NaN if it is empty, None if it holds something else."""
    if text.lower() in ("", "null", "none"):
        return np.nan
    try:
        return float(text)
    except ValueError:
        return None
