"""Strict reading of TOML files: every value checked, every error names file, key and value.

A reader asks a `Table` for each key it knows, with its type and range, and then calls
`finish()`, which rejects the keys that nobody asked for.
"""

from __future__ import annotations

import math
import tomllib
from typing import TYPE_CHECKING, Any

import numpy as np

from lafr_mjx.errors import InputError, meant

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_MAX_BYTES = 1_000_000
_MISSING: Any = object()


def read_toml(path: Path) -> Table:
    """Read a TOML file into a `Table`; syntax errors become one clear line."""
    try:
        size = path.stat().st_size
        if size > _MAX_BYTES:
            raise InputError(f"{path}: {size} bytes; a settings file has at most {_MAX_BYTES}")
        data = tomllib.loads(path.read_bytes().decode("utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 text: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: is not valid TOML: {error}") from error
    except RecursionError as error:
        raise InputError(f"{path}: is nested too deeply") from error
    return Table(data, path)


def _limits_text(above: float | None, at_least: float | None, at_most: float | None) -> str:
    parts = []
    if above is not None:
        parts.append(f"> {above:g}")
    if at_least is not None:
        parts.append(f">= {at_least:g}")
    if at_most is not None:
        parts.append(f"<= {at_most:g}")
    return " and ".join(parts)


class Table:
    """A TOML table that remembers its file, its key and which keys were read."""

    def __init__(self, data: dict[str, Any], path: Path, prefix: str = "") -> None:
        self.data = data
        self.path = path
        self.prefix = prefix
        self._read: set[str] = set()
        self._children: list[Table] = []

    def __contains__(self, key: str) -> bool:
        return key in self.data

    def fail(self, key: str, allowed: str) -> InputError:
        """The error for a key whose value is not allowed (to be raised by the caller)."""
        name = f"{self.prefix}{key}"
        if key not in self.data:
            return InputError(f"{self.path}: '{name}' is missing; it must be {allowed}")
        given = repr(self.data[key])
        if len(given) > 120:
            given = given[:117] + "..."
        return InputError(f"{self.path}: '{name}' is {given}; it must be {allowed}")

    def _get(self, key: str, default: Any, allowed: str) -> Any:
        self._read.add(key)
        if key in self.data:
            return self.data[key]
        if default is _MISSING:
            raise self.fail(key, allowed)
        return _MISSING

    def number(
        self,
        key: str,
        default: Any = _MISSING,
        *,
        above: float | None = None,
        at_least: float | None = None,
        at_most: float | None = None,
    ) -> float:
        """A finite number within the limits."""
        allowed = f"a number {_limits_text(above, at_least, at_most)}".strip()
        value = self._get(key, default, allowed)
        if value is _MISSING:
            return default
        if not _is_number(value) or not _within(value, above, at_least, at_most):
            raise self.fail(key, allowed)
        return float(value)

    def integer(
        self, key: str, default: Any = _MISSING, *, at_least: int = 0, at_most: int | None = None
    ) -> int:
        """A whole number within the limits."""
        allowed = f"a whole number {_limits_text(None, at_least, at_most)}"
        value = self._get(key, default, allowed)
        if value is _MISSING:
            return default
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.fail(key, allowed)
        if not _within(value, None, at_least, at_most):
            raise self.fail(key, allowed)
        return value

    def boolean(self, key: str, default: Any = _MISSING) -> bool:
        """`true` or `false`."""
        value = self._get(key, default, "true or false")
        if value is _MISSING:
            return default
        if not isinstance(value, bool):
            raise self.fail(key, "true or false")
        return value

    def string(
        self, key: str, default: Any = _MISSING, *, choices: Sequence[str] | None = None
    ) -> str:
        """A string, one of `choices` if given."""
        allowed = "a string" if choices is None else "one of " + ", ".join(map(repr, choices))
        value = self._get(key, default, allowed)
        if value is _MISSING:
            return default
        if not isinstance(value, str) or (choices is not None and value not in choices):
            raise self.fail(key, allowed)
        return value

    def vector(
        self,
        key: str,
        size: int,
        default: Any = _MISSING,
        *,
        above: float | None = None,
        at_least: float | None = None,
        at_most: float | None = None,
    ) -> np.ndarray:
        """A list of `size` finite numbers, each within the limits."""
        limits = _limits_text(above, at_least, at_most)
        allowed = f"a list of {size} numbers" + (f", each {limits}" if limits else "")
        value = self._get(key, default, allowed)
        if value is _MISSING:
            return np.asarray(default, dtype=float)
        good = isinstance(value, list) and len(value) == size and all(map(_is_number, value))
        if not good or not all(_within(x, above, at_least, at_most) for x in value):
            raise self.fail(key, allowed)
        return np.array(value, dtype=float)

    def matrix(
        self, key: str, columns: int, default: Any = _MISSING, *, min_rows: int = 1
    ) -> np.ndarray:
        """A list of at least `min_rows` lists of `columns` finite numbers."""
        allowed = f"a list of at least {min_rows} lists of {columns} numbers"
        value = self._get(key, default, allowed)
        if value is _MISSING:
            return np.asarray(default, dtype=float)
        good = isinstance(value, list) and len(value) >= min_rows
        good = good and all(isinstance(row, list) and len(row) == columns for row in value)
        if not good or not all(_is_number(x) for row in value for x in row):
            raise self.fail(key, allowed)
        return np.array(value, dtype=float)

    def strings(self, key: str) -> list[str]:
        """A list of strings."""
        value = self._get(key, _MISSING, "a list of strings")
        if not isinstance(value, list) or not all(isinstance(x, str) for x in value):
            raise self.fail(key, "a list of strings")
        return value

    def table(self, key: str, *, required: bool = False) -> Table:
        """A sub-table; an absent one reads as empty unless it is required."""
        value = self._get(key, _MISSING if required else {}, "a table")
        if value is _MISSING:
            value = {}
        if not isinstance(value, dict):
            raise self.fail(key, "a table")
        child = Table(value, self.path, f"{self.prefix}{key}.")
        self._children.append(child)
        return child

    def tables(self, key: str) -> list[Table]:
        """An array of tables; absent reads as empty."""
        value = self._get(key, [], "an array of tables")
        if value is _MISSING:
            return []
        if not isinstance(value, list) or not all(isinstance(x, dict) for x in value):
            raise self.fail(key, "an array of tables")
        children = [
            Table(item, self.path, f"{self.prefix}{key}[{i}].") for i, item in enumerate(value)
        ]
        self._children.extend(children)
        return children

    def known(self, *keys: str) -> None:
        """Name keys that may be there although nobody reads them now."""
        self._read.update(keys)

    def finish(self) -> None:
        """Reject the keys of this table and its sub-tables that were never asked for."""
        for key in self.data:
            if key not in self._read:
                known = sorted(self._read)
                raise InputError(
                    f"{self.path}: unknown key '{self.prefix}{key}'{meant(key, known)} "
                    f"(allowed here: {', '.join(known)})"
                )
        for child in self._children:
            child.finish()


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def _within(
    value: float, above: float | None, at_least: float | None, at_most: float | None
) -> bool:
    if above is not None and not value > above:
        return False
    if at_least is not None and not value >= at_least:
        return False
    return at_most is None or value <= at_most
