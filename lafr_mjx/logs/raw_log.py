"""A log as it was recorded: each signal with its own stamps, in SI units, z up.

Readers make one of these; what looks wrong with single signals is said here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lafr_mjx.errors import InputError
from lafr_mjx.logs import outliers

if TYPE_CHECKING:
    from pathlib import Path

MIN_SAMPLES = 100
"""One second at 100 Hz: with less there is nothing to fit and nothing to test."""

_MOST_BAD = 0.5  # share of samples that may be NaN
_UNIT = 0.05  # how far a quaternion's length may be from one


class Signal(NamedTuple):
    """Samples of one quantity."""

    time: np.ndarray  # [N] s
    values: np.ndarray  # [N, n]
    name: str  # what the file calls it, for messages
    held: bool = False  # True: a command that holds until the next one


@dataclass(frozen=True)
class RawLog:
    """One recorded flight. World frame z up, body frame x forward, y left, z up."""

    path: Path
    name: str
    position: Signal | None = None  # m, world
    velocity: Signal | None = None  # m/s, world
    quaternion: Signal | None = None  # w, x, y, z; body to world
    rates: Signal | None = None  # rad/s, body, measured
    thrust: Signal | None = None  # m/s², mass-normalised
    rate_command: Signal | None = None  # rad/s, body
    mass: float | None = None  # kg
    bad: tuple[tuple[float, float], ...] = ()  # s, stretches that the file calls unusable
    notes: tuple[str, ...] = ()

    def signals(self) -> dict[str, Signal]:
        """The signals that are there, by the name of their field."""
        names = ("position", "velocity", "quaternion", "rates", "thrust", "rate_command")
        return {n: getattr(self, n) for n in names if getattr(self, n) is not None}


def checked(log: RawLog, where: str, signal: Signal) -> tuple[Signal, list[str]]:
    """The signal without what cannot be used, and notes that say what that was.

    Raises:
        InputError: the stamps or values make no sense.
    """
    time, values = np.asarray(signal.time, float), np.asarray(signal.values, float)
    label = f"{log.path}: {where} ('{signal.name}')"
    if values.ndim != 2 or len(time) != len(values):
        raise InputError(f"{label}: {len(time)} stamps for values of the shape {values.shape}")
    if len(time) < MIN_SAMPLES:
        raise InputError(
            f"{label}: has {len(time)} samples; at least {MIN_SAMPLES} are needed to fit and test"
        )
    if not np.isfinite(time).all():
        raise InputError(f"{label}: stamp {int(np.argmin(np.isfinite(time)))} is not a number")
    notes: list[str] = []
    step = np.diff(time)
    if (step < 0.0).any():
        i = int(np.argmax(step < 0.0))
        raise InputError(
            f"{label}: the clock runs backwards at sample {i + 1}: {time[i]:.6f} s, "
            f"then {time[i + 1]:.6f} s ({int((step < 0.0).sum())} times in all)"
        )
    if (step == 0.0).any():
        keep = np.concatenate([[True], step > 0.0])
        notes.append(
            f"{where}: {int((~keep).sum())} samples with the stamp of the one before are left out "
            f"(the first at {time[np.argmin(keep)]:.3f} s)"
        )
        time, values = time[keep], values[keep]
        if len(time) < MIN_SAMPLES:
            raise InputError(f"{label}: only {len(time)} different stamps; are they rounded?")
    _check_rate(label, time)
    good = np.isfinite(values).all(axis=1)
    if good.mean() < _MOST_BAD:
        raise InputError(
            f"{label}: {int((~good).sum())} of {len(values)} samples are not numbers "
            f"(the first at {time[np.argmin(good)]:.3f} s)"
        )
    if not good.all():
        notes.append(
            f"{where}: {int((~good).sum())} samples are not numbers and count as missing "
            f"(the first at {time[np.argmin(good)]:.3f} s)"
        )
        time, values = time[good], values[good]
    found = signal._replace(time=time, values=values)
    bad = outliers.outliers(where, found) | _not_unit(where, values)
    if bad.any():
        time, values = _without(label, where, found, bad, notes)
    return found._replace(time=time, values=values), notes


def _not_unit(where: str, values: np.ndarray) -> np.ndarray:
    if where != "quaternion":
        return np.zeros(len(values), bool)
    return np.abs(np.linalg.norm(values, axis=1) - 1.0) > _UNIT


def _without(
    label: str, where: str, signal: Signal, bad: np.ndarray, notes: list[str]
) -> tuple[np.ndarray, np.ndarray]:
    """The samples that can be; many that cannot are no accident, and stay or end the reading."""
    i, count = int(np.argmax(bad)), int(bad.sum())
    first = f"sample {i} at {signal.time[i]:.3f} s"
    if outliers.accidents(bad):
        notes.append(
            f"{where}: {count} samples cannot be and count as missing (the first: {first}, "
            f"{np.array2string(signal.values[i], precision=4, separator=', ')})"
        )
        return signal.time[~bad], signal.values[~bad]
    if where == "quaternion":
        norm = float(np.linalg.norm(signal.values[i]))
        raise InputError(
            f"{label}: {first} has the length {norm:.3g}; a quaternion has length 1 "
            f"({count} such samples)"
        )
    notes.append(f"{where}: jumps at {count} samples (the first: {first}); none is left out")
    return signal.time, signal.values


def _check_rate(label: str, time: np.ndarray) -> None:
    median = float(np.median(np.diff(time)))
    if median > 0.25:
        hint = "milliseconds" if median < 250.0 else "micro- or nanoseconds"
        raise InputError(
            f"{label}: samples are {median:g} s apart; a log needs at least 10 Hz "
            f"(are the stamps in {hint}?)"
        )
    if median < 2e-5:
        raise InputError(f"{label}: samples are {median:g} s apart; are the stamps in seconds?")
