"""TOML text of a nested dictionary; `tomllib` reads the same dictionary back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tomli_w

from lafr_mjx.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping


def toml_text(table: Mapping[str, Any]) -> str:
    """Text of a table of str, int, float, bool, lists and tables of them.

    Floats keep every bit. What TOML cannot say, such as None, is a TypeError.
    """
    return tomli_w.dumps(_plain(table, ()))


def _plain(value: Any, name: tuple[str, ...]) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item, (*name, key)) for key, item in value.items()}
    if hasattr(value, "tolist"):  # NumPy and JAX: arrays as lists, scalars as numbers
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(item, name) for item in value]
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InputError(f"{value!r}: is not UTF-8 text") from error
    elif not isinstance(value, bool | int | float):
        raise TypeError(f"configuration '{'.'.join(name)}': {value!r} has no form in TOML")
    return value
