"""A run folder as a user of Python meets it: its table, its flights, its policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lafr_mjx.errors import InputError
from lafr_mjx.runs.run_folder import RunFolder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from lafr_mjx.control.policy import Policy
    from lafr_mjx.types import Rollout


class Run:
    """A run on disk, as `lafr_mjx.adapt` returns it.

    Examples:
        >>> run = lafr_mjx.Run("runs/figure8-wind5-ours-0")
        >>> run.table["peak_speed_mps"][-1]
        >>> run.flight(-1).truth.position
    """

    def __init__(self, path: Path | str) -> None:
        """Open a folder; nothing is read before it is asked for, but the configuration."""
        self._folder = RunFolder.open(path)
        self.path = self._folder.path

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    @property
    def config(self) -> dict[str, Any]:
        """What was asked for, and what it stood for."""
        return self._folder.config

    @property
    def iterations(self) -> list[dict[str, Any]]:
        """Figures of each flight and of what was learned from it."""
        return self._folder.iterations()

    @property
    def table(self) -> dict[str, np.ndarray]:
        """The figures by column, one value for each flight; what is not known is NaN."""
        return table_of(self.iterations)

    def frame(self) -> Any:
        """The table as a pandas frame (needs pandas)."""
        try:
            import pandas  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            raise InputError("frame: needs pandas (pip install pandas)") from error
        return pandas.DataFrame(self.table)

    def flight(self, number: int) -> Rollout:
        """A recorded flight; -1 is the last."""
        numbers = self._folder.rollout_numbers()
        if not -len(numbers) <= number < len(numbers):
            raise InputError(f"{self.path}: has {len(numbers)} recorded flights, not {number}")
        return self._folder.load_rollout(numbers[number])

    @property
    def policy(self) -> Policy:
        """The policy after the last flight."""
        from lafr_mjx.control.policy_file import load_policy

        return load_policy(self.path / "policy.npz")


def table_of(records: Sequence[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """The figures of flights by column; what is not known is NaN."""
    columns = [key for key, value in (records[0] if records else {}).items() if _single(value)]
    return {key: _column([record.get(key) for record in records]) for key in columns}


def _single(value: Any) -> bool:
    return not isinstance(value, list | dict)


def _column(values: list[Any]) -> np.ndarray:
    if all(isinstance(value, str) for value in values):
        return np.array(values)
    if all(isinstance(value, bool) for value in values):
        return np.array(values, bool)
    return np.array([np.nan if value is None else value for value in values], float)
