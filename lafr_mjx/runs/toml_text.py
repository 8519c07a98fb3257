"""TOML text of a nested dictionary; `tomllib` reads the same dictionary back."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from lafr_mjx.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def toml_text(table: Mapping[str, Any]) -> str:
    """Text of a table of str, int, float, bool, lists and tables of them.

    Floats keep every bit. What TOML cannot say, such as None, is a TypeError.
    """
    lines: list[str] = []
    _write_table(table, (), lines)
    return "\n".join(lines).strip("\n") + "\n"


def _write_table(table: Mapping[str, Any], name: tuple[str, ...], lines: list[str]) -> None:
    # A key after a sub-table's header would belong to the sub-table: plain values come first.
    children = {key: value for key, value in table.items() if isinstance(value, dict)}
    if name:
        lines.extend(("", f"[{'.'.join(map(_key, name))}]"))
    for key, value in table.items():
        if key not in children:
            lines.append(f"{_key(key)} = {_value(value, (*name, key))}")
    for key, child in children.items():
        _write_table(child, (*name, key), lines)


def _key(key: str) -> str:
    if not isinstance(key, str):
        raise TypeError(f"key {key!r}: the keys of a configuration are strings")
    return key if _BARE_KEY.fullmatch(key) else _string(key)


def _value(value: Any, name: tuple[str, ...]) -> str:
    if hasattr(value, "tolist"):  # NumPy and JAX: arrays as lists, scalars as numbers
        value = value.tolist()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(item, name) for item in value)}]"
    if isinstance(value, dict):  # within a list
        items = (f"{_key(key)} = {_value(item, (*name, key))}" for key, item in value.items())
        return f"{{{', '.join(items)}}}"
    raise TypeError(f"configuration '{'.'.join(name)}': {value!r} has no form in TOML")


def _string(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"{text!r}: is not UTF-8 text") from error
    # JSON's escapes are TOML's, but for DEL, which JSON leaves as it is.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
