"""Logs as `.npz`: keys t, p, v, q_wxyz, w, c, w_cmd, ok, mass.

| key | what |
|---|---|
| `t` | stamps [s] |
| `p`, `v` | position and velocity, world, z up |
| `q_wxyz` | attitude, body to world |
| `w`, `w_cmd` | measured and commanded body rates [rad/s] |
| `c`, `c_cmd` | mass-normalised thrust [m/s²], measured (from rotor speeds) or commanded |
| `ok` | False where the log is not to be used |
| `mass` | kg |

Other keys are listed in the notes and not used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lafr_mjx.errors import InputError
from lafr_mjx.logs.log_readers import LogReader, ReadOptions
from lafr_mjx.logs.raw_log import RawLog, Signal
from lafr_mjx.logs.readers.run_flights import is_rollout
from lafr_mjx.logs.smoothing import stretches

if TYPE_CHECKING:
    from pathlib import Path

_SIGNALS = {
    "position": ("p", 3, False),
    "velocity": ("v", 3, False),
    "quaternion": ("q_wxyz", 4, False),
    "rates": ("w", 3, False),
    "rate_command": ("w_cmd", 3, True),
}
_OTHERS = ("t", "c", "c_cmd", "ok", "mass", "dt")


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """All arrays of an `.npz` file; never runs code from it."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except Exception as error:  # a cut or mangled file makes the reader raise almost anything
        text = " ".join(str(error).split())
        raise InputError(
            f"{path}: is not a readable .npz file: {text[:200] or type(error).__name__}"
        ) from error


class NpzReader(LogReader):
    """Reads logs in the layout above."""

    label = ".npz"
    suffixes = (".npz",)

    def recognises(self, path: Path) -> bool:
        """By the suffix; flights of this project have another layout."""
        return super().recognises(path) and not is_rollout(path)

    def read(self, path: Path, options: ReadOptions) -> list[RawLog]:
        """One flight."""
        return [_read(path)]


READER = NpzReader()


def _read(path: Path) -> RawLog:
    arrays = load_arrays(path)
    if "t" not in arrays:
        raise InputError(f"{path}: 't' is missing; its keys are {', '.join(sorted(arrays))}")
    time = _numbers(path, "t", arrays["t"])
    if time.ndim != 1:
        raise InputError(f"{path}: 't' has the shape {time.shape}; it must be a row of stamps")
    fields: dict[str, Any] = {}
    for field, (key, width, held) in _SIGNALS.items():
        if key in arrays:
            fields[field] = Signal(time, _values(path, key, arrays[key], width, time), key, held)
    for key, held in (("c", False), ("c_cmd", True)):
        if key in arrays:
            fields["thrust"] = Signal(time, _values(path, key, arrays[key], 1, time), key, held)
    used = {key for key, _, _ in _SIGNALS.values()} | set(_OTHERS)
    unused = sorted(set(arrays) - used)
    return RawLog(
        path=path,
        name=path.stem,
        mass=_mass(path, arrays),
        bad=_bad(path, time, arrays),
        notes=(f"keys that are not used: {', '.join(unused)}",) if unused else (),
        **fields,
    )


def _numbers(path: Path, key: str, array: np.ndarray) -> np.ndarray:
    if array.dtype.kind not in "fiub":
        raise InputError(f"{path}: '{key}' holds {array.dtype}; it must hold numbers")
    return np.asarray(array, float)


def _values(path: Path, key: str, array: np.ndarray, width: int, time: np.ndarray) -> np.ndarray:
    values = _numbers(path, key, array)
    values = values[:, None] if width == 1 and values.ndim == 1 else values
    if values.shape != (len(time), width):
        raise InputError(
            f"{path}: '{key}' has the shape {array.shape}; with {len(time)} stamps it must be "
            f"({len(time)}, {width})"
        )
    return values


def _mass(path: Path, arrays: dict[str, np.ndarray]) -> float | None:
    if "mass" not in arrays:
        return None
    mass = _numbers(path, "mass", arrays["mass"])
    if mass.size != 1 or not 0.001 < float(mass.reshape(())) < 1000.0:
        raise InputError(f"{path}: 'mass' is {mass}; it must be one number of kilograms")
    return float(mass.reshape(()))


def _bad(
    path: Path, time: np.ndarray, arrays: dict[str, np.ndarray]
) -> tuple[tuple[float, float], ...]:
    if "ok" not in arrays:
        return ()
    good = np.asarray(arrays["ok"], bool)
    if good.shape != time.shape:
        raise InputError(f"{path}: 'ok' has the shape {good.shape}, 't' {time.shape}")
    return tuple((float(time[a]), float(time[b - 1])) for a, b in stretches(~good))
