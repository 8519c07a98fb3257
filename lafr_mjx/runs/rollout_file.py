"""A recorded flight on disk: one `.npz` with an array for each field of a `Rollout`.

The arrays are named by their fields, e.g. `time`, `sensed.position`, `diagnostics.voltage`,
`measured.NAME` of a sensor, and those of the path that was its reference, e.g. `path.breaks`.
"""

from __future__ import annotations

import dataclasses
import io
import zipfile
import zlib
from collections import namedtuple
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from lafr_mjx.errors import InputError
from lafr_mjx.reference import path as paths
from lafr_mjx.runs.run_files import write_whole
from lafr_mjx.types import Reference, Rollout, State

if TYPE_CHECKING:
    from pathlib import Path

_VERSION = 1
_PARTS: dict[str, type] = {
    "sensed": State,
    "truth": State,
    "sample": State,
    "reference": Reference,
}
_SAMPLES = ("sample_time", "sample", "sample_received")
"""Fields with two entries for each tick."""


def save_rollout(path: Path, rollout: Rollout, flown: paths.Path | None = None) -> None:
    """Write a flight and its reference; the file appears whole or not at all."""
    arrays: dict[str, np.ndarray] = {"version": np.array(_VERSION)}
    if flown is not None:
        arrays |= {f"path.{key}": np.asarray(x) for key, x in flown._asdict().items()}
    for name, value in rollout._asdict().items():
        if name in _PARTS:
            arrays |= {f"{name}.{key}": np.asarray(x) for key, x in value._asdict().items()}
        elif name in ("diagnostics", "measured"):
            arrays |= {f"{name}.{key}": np.asarray(x) for key, x in _items(value).items()}
        elif value is not None:
            arrays[name] = np.asarray(value)
    odd = [name for name, array in arrays.items() if array.dtype.hasobject]
    if odd:
        raise TypeError(f"'{odd[0]}' of a flight is not an array of numbers")
    data = io.BytesIO()
    np.savez_compressed(data, **arrays)  # type: ignore[arg-type]
    write_whole(path, data.getvalue())


def load_rollout(path: Path) -> Rollout:
    """Read and check a flight (NumPy arrays).

    The diagnostics, if there are any, become a named tuple: they are read as attributes, and
    the flight remains a pytree.
    """
    arrays = _read(path)
    version = arrays.pop("version", None)
    if version is None or version.shape != ():
        raise InputError(f"{path}: is not a recorded flight")
    if version != _VERSION:
        raise InputError(f"{path}: is of version {version}; this program reads {_VERSION}")
    fields: dict[str, Any] = {}
    try:
        for name in Rollout._fields:
            if name in _PARTS:
                part = _PARTS[name]
                fields[name] = part(*(arrays.pop(f"{name}.{key}") for key in part._fields))
            elif name == "measured":
                found = [key for key in arrays if key.startswith("measured.")]
                fields[name] = {key.partition(".")[2]: arrays.pop(key) for key in found}
            elif name == "fallback":  # earlier files do not say
                fields[name] = arrays.pop(name, None)
            elif name != "diagnostics":
                fields[name] = arrays.pop(name)
    except KeyError as error:
        raise InputError(f"{path}: is not a recorded flight: {error} is missing") from error
    arrays = {name: array for name, array in arrays.items() if not name.startswith("path.")}
    fields["diagnostics"] = _diagnostics(path, arrays)
    rollout = Rollout(**fields)
    _check(path, rollout)
    return rollout


def load_path(path: Path) -> paths.Path | None:
    """The reference of a recorded flight; None if the file does not say."""
    arrays = _read(path)
    try:
        return paths.Path(*(arrays[f"path.{key}"] for key in paths.Path._fields))
    except KeyError:
        return None


def _read(path: Path) -> dict[str, np.ndarray]:
    """All arrays of a file."""
    if path.is_file() and not zipfile.is_zipfile(path):
        # NumPy would speak of pickles, and how to trust them.
        raise InputError(
            f"{path}: cannot be read as a recorded flight: it is no .npz file, or was cut short"
        )
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except FileNotFoundError as error:
        raise InputError(f"{path}: there is no such flight") from error
    except (OSError, ValueError, KeyError, EOFError, AttributeError, NotImplementedError,
            zipfile.BadZipFile, zlib.error, RuntimeError) as error:  # fmt: skip
        raise InputError(f"{path}: cannot be read as a recorded flight: {error}") from error


def _items(diagnostics: Any) -> dict[str, Any]:
    if diagnostics is None:
        return {}
    if isinstance(diagnostics, dict):
        return diagnostics
    if dataclasses.is_dataclass(diagnostics):
        return {f.name: getattr(diagnostics, f.name) for f in dataclasses.fields(diagnostics)}
    if hasattr(diagnostics, "_asdict"):
        return diagnostics._asdict()
    return vars(diagnostics)


@lru_cache
def _diagnostics_type(names: tuple[str, ...]) -> Any:
    # One type for one set of names: JAX compiles anew for each type of a pytree.
    return namedtuple("Diagnostics", names)


def _diagnostics(path: Path, arrays: dict[str, np.ndarray]) -> Any:
    names = tuple(name.removeprefix("diagnostics.") for name in arrays)
    if not all(name.startswith("diagnostics.") for name in arrays):
        raise InputError(f"{path}: holds what is no part of a flight: {', '.join(arrays)}")
    if not names:
        return None
    try:
        return _diagnostics_type(names)(*arrays.values())
    except ValueError as error:
        raise InputError(f"{path}: the diagnostics have a bad name: {error}") from error


def _check(path: Path, rollout: Rollout) -> None:
    if rollout.time.ndim != 1:
        raise InputError(f"{path}: 'time' has the shape {rollout.time.shape}; it must be a row")
    ticks = len(rollout.time)
    tails = {"position": (3,), "velocity": (3,), "acceleration": (3,), "jerk": (3,),
             "rotation": (3, 3), "rates": (3,), "command": (4,)}  # fmt: skip
    for name, value in rollout._asdict().items():
        rows = 2 * ticks if name in _SAMPLES else ticks
        for key, array in value._asdict().items() if name in _PARTS else [(name, value)]:
            wanted = (rows, *tails.get(key, ()))
            if array is None or name in ("diagnostics", "measured"):
                continue
            if array.shape != wanted:
                raise InputError(f"{path}: '{name}' has the shape {array.shape}, not {wanted}")
    for part in ("diagnostics", "measured"):
        for name, array in _items(getattr(rollout, part)).items():
            if array.shape[:1] != (ticks,):
                raise InputError(f"{path}: '{part}.{name}' has the shape {array.shape}")
