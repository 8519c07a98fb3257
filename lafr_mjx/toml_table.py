"""Strict reading of TOML files: every value checked, every error names file, key and value.

A reader asks a `Table` for each key it knows, with its type and range, and then calls
`finish()`, which rejects the keys that nobody asked for.
"""

from __future__ import annotations

import math
import tomllib
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from lafr_mjx.errors import InputError, meant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
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

    def _value(
        self,
        key: str,
        default: Any,
        allowed: str,
        good: Callable[[Any], bool],
        made: Callable[[Any], Any] = lambda value: value,
    ) -> Any:
        """What stands there, if it is good, and else the default."""
        self._read.add(key)
        if key not in self.data and default is not _MISSING:
            return default
        if key not in self.data or not good(self.data[key]):
            raise self.fail(key, allowed)
        return made(self.data[key])

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
        limits = (above, at_least, at_most)
        allowed = f"a number {_limits_text(*limits)}".strip()
        return self._value(key, default, allowed, lambda x: _is_number(x, *limits), float)

    def integer(
        self, key: str, default: Any = _MISSING, *, at_least: int = 0, at_most: int | None = None
    ) -> int:
        """A whole number within the limits."""
        limits = (None, at_least, at_most)
        allowed = f"a whole number {_limits_text(*limits)}"
        return self._value(
            key, default, allowed, lambda x: isinstance(x, int) and _is_number(x, *limits)
        )

    def boolean(self, key: str, default: Any = _MISSING) -> bool:
        """`true` or `false`."""
        return self._value(key, default, "true or false", lambda x: isinstance(x, bool))

    def string(
        self, key: str, default: Any = _MISSING, *, choices: Sequence[str] | None = None
    ) -> str:
        """A string, one of `choices` if given."""
        allowed = "a string" if choices is None else "one of " + ", ".join(map(repr, choices))
        return self._value(
            key, default, allowed,
            lambda x: isinstance(x, str) and (choices is None or x in choices),
        )  # fmt: skip

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
        limits = (above, at_least, at_most)
        each = f", each {_limits_text(*limits)}" if _limits_text(*limits) else ""

        def good(value: Any) -> bool:
            return _is_list(value, lambda x: _is_number(x, *limits)) and len(value) == size

        found = self._value(key, default, f"a list of {size} numbers{each}", good)
        return np.array(found, dtype=float)

    def box(self, low_key: str, high_key: str) -> tuple[np.ndarray, np.ndarray]:
        """Lowest and highest corner [3] of a box, in metres."""
        low = self.vector(low_key, 3, at_least=-1000.0, at_most=1000.0)
        high = self.vector(high_key, 3, at_least=-1000.0, at_most=1000.0)
        if np.any(low >= high):
            raise self.fail(high_key, f"above '{low_key}' ({low.tolist()}) in each axis")
        return low, high

    def matrix(
        self, key: str, columns: int, default: Any = _MISSING, *, min_rows: int = 1
    ) -> np.ndarray:
        """A list of at least `min_rows` lists of `columns` finite numbers."""
        allowed = f"a list of at least {min_rows} lists of {columns} numbers"

        def good(value: Any) -> bool:
            rows = _is_list(value, lambda row: _is_list(row, _is_number) and len(row) == columns)
            return rows and len(value) >= min_rows

        return np.array(self._value(key, default, allowed, good), dtype=float)

    def strings(self, key: str) -> list[str]:
        """A list of strings."""
        texts = partial(_is_list, good=lambda x: isinstance(x, str))
        return self._value(key, _MISSING, "a list of strings", texts)

    def table(self, key: str, *, required: bool = False) -> Table:
        """A sub-table; an absent one reads as empty unless it is required."""
        absent = _MISSING if required else {}
        value = self._value(key, absent, "a table", lambda x: isinstance(x, dict))
        child = Table(value, self.path, f"{self.prefix}{key}.")
        self._children.append(child)
        return child

    def tables(self, key: str) -> list[Table]:
        """An array of tables; absent reads as empty."""
        many = partial(_is_list, good=lambda x: isinstance(x, dict))
        children = [
            Table(item, self.path, f"{self.prefix}{key}[{i}].")
            for i, item in enumerate(self._value(key, [], "an array of tables", many))
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


def _is_list(value: Any, good: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and all(map(good, value))


def _is_number(
    value: Any,
    above: float | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
) -> bool:
    """Whether it is finite and within the limits."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        finite = math.isfinite(float(value))
    except OverflowError:
        return False
    low = (above is None or value > above) and (at_least is None or value >= at_least)
    return finite and low and (at_most is None or value <= at_most)
