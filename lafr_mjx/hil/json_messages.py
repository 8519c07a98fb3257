"""ROS 1 messages as a rosbridge writes them: JSON objects with every field by its name.

A rosbridge tells no digests. So an object must have exactly the fields of our definition, each
of its type; what has more, less or others is refused.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from rosbags.interfaces import Nodetype

from lafr_mjx.hil.messages import MalformedError, store

if TYPE_CHECKING:
    from collections.abc import Callable

_TIME = {"sec": "secs", "nanosec": "nsecs"}  # ROS 1 names them differently from rosbags
_FILLER = "structure_needs_at_least_one_member"  # of rosbags' empty messages; not on the wire
_LONGEST = 4096  # items of an array, letters of a text


def from_json(name: str, value: Any) -> Any:
    """Message of a JSON object; raises `MalformedError` whatever is wrong with it."""
    package, _, kind = name.rpartition("/")
    try:
        return _reader(f"{package}/msg/{kind}")(value)
    except MalformedError:
        raise
    except Exception as error:  # a hostile object makes conversions raise almost anything
        raise MalformedError(f"{name}: {error}") from error


def to_json(name: str, message: Any) -> dict[str, Any]:
    """JSON object of a message."""
    package, _, kind = name.rpartition("/")
    return _writer(f"{package}/msg/{kind}")(message)


def prepare(name: str) -> None:
    """Build the conversions of a message now, so that its first one in flight is not slow."""
    package, _, kind = name.rpartition("/")
    _reader(f"{package}/msg/{kind}")
    _writer(f"{package}/msg/{kind}")


def _fields(name: str) -> list[tuple[str, str, Any]]:
    """Name in JSON, name in Python, and type of each field."""
    fields = store().fielddefs[name][1]
    is_time = name == "builtin_interfaces/msg/Time"
    return [
        (_TIME[field] if is_time else field, field, kind)
        for field, kind in fields
        if field != _FILLER
    ]


@lru_cache
def _reader(name: str) -> Callable[[Any], Any]:
    make = store().types[name]
    parts = [(key, _value_reader(kind)) for key, _, kind in _fields(name)]
    keys = {key for key, _ in parts}

    def read(value: Any) -> Any:
        if not isinstance(value, dict) or value.keys() != keys:
            raise MalformedError(f"{name}: has not the fields {', '.join(sorted(keys))}")
        return make(*(part(value[key]) for key, part in parts))

    return read


@lru_cache
def _writer(name: str) -> Callable[[Any], dict[str, Any]]:
    parts = [(key, field, _value_writer(kind)) for key, field, kind in _fields(name)]
    return lambda message: {key: part(getattr(message, field)) for key, field, part in parts}


def _value_reader(kind: Any) -> Callable[[Any], Any]:
    shape, detail = kind
    if shape == Nodetype.NAME:
        return _reader(detail)
    if shape == Nodetype.BASE:
        return _base_reader(detail[0])
    (inner_shape, inner), length = detail
    item = _value_reader((inner_shape, inner))
    number = inner_shape == Nodetype.BASE and inner[0] != "string"
    fixed = shape == Nodetype.ARRAY

    def read(value: Any) -> Any:
        if not isinstance(value, list) or len(value) > _LONGEST or (fixed and len(value) != length):
            raise MalformedError("an array of another length")
        items = [item(one) for one in value]
        return np.array(items, inner[0]) if number else items

    return read


def _base_reader(kind: str) -> Callable[[Any], Any]:
    def text(value: Any) -> str:
        if not isinstance(value, str) or len(value) > _LONGEST:
            raise MalformedError("not a text")
        return value

    def boolean(value: Any) -> bool:
        if not isinstance(value, bool):
            raise MalformedError("neither true nor false")
        return value

    def integer(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise MalformedError("not a whole number")
        return value

    def real(value: Any) -> float:
        if value is None:
            return math.nan  # JSON has no other way to write what is not finite
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise MalformedError("not a number")
        return float(value)

    if kind.startswith("float"):
        return real
    return {"string": text, "bool": boolean}.get(kind, integer)


def _value_writer(kind: Any) -> Callable[[Any], Any]:
    shape, detail = kind
    if shape == Nodetype.NAME:
        return _writer(detail)
    if shape == Nodetype.BASE:
        name = detail[0]
        if name.startswith("float"):
            return lambda value: float(value) if math.isfinite(value) else None
        return {"string": str, "bool": bool}.get(name, int)
    item = _value_writer(detail[0])
    return lambda values: [item(value) for value in values]
