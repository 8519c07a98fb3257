"""A table that any spreadsheet opens: `iterations.csv`, a row for each iteration."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


class Csv:
    """What is a list in the record, such as the candidates, is left out."""

    def start(self, folder: Path, config: dict[str, Any]) -> None:
        """An empty table."""
        del config
        self._file = (folder / "iterations.csv").open("w", encoding="utf-8", newline="")
        self._table: Any = None

    def iteration(self, number: int, record: dict[str, Any], flight: Any) -> None:
        """A row."""
        del number, flight
        if self._table is None:
            columns = [key for key, value in record.items() if not isinstance(value, list)]
            self._table = csv.DictWriter(self._file, columns, extrasaction="ignore")
            self._table.writeheader()
        self._table.writerow(record)
        self._file.flush()

    def close(self) -> None:
        """Close it."""
        self._file.close()
