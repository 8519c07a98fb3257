"""Does the log say what it claims? Frames, signs and units, in plain words.

Each quantity is compared with what others imply: velocity with the change of position, body
rates with the change of attitude, acceleration with thrust and gravity. Where they disagree,
the usual mistakes are tried one after another, and the one that explains the data is named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lafr_mjx import so3
from lafr_mjx.logs.flight_log import turn_rates
from lafr_mjx.logs.smoothing import continuous, differentiate, moving_mean
from lafr_mjx.types import GRAVITY, SAMPLE_DT

if TYPE_CHECKING:
    from collections.abc import Callable

    from lafr_mjx.logs.flight_log import FlightLog

_GOOD, _BAD = 0.35, 0.75  # share of the motion that stays unexplained
_MOVES = {"velocity": 0.1, "rates": 0.05, "acceleration": 0.3}  # RMS below which nothing is said
_LAGS = (0, 2, 4, 6, 8)  # samples by which a response may lag


class Finding(NamedTuple):
    """What looks wrong; `serious` if a fit would be meaningless."""

    text: str
    serious: bool


def check(log: FlightLog) -> list[Finding]:
    """Everything that looks wrong with a log; empty if nothing does."""
    findings = _thrust_level(log)
    if log.position is not None and log.velocity is not None:
        findings += _velocity(log)
    if log.rotation is not None:
        findings += _rates(log)
        if log.velocity is not None and np.isfinite(log.command[:, 0]).any():
            findings += _acceleration(log)
    elif log.rates is not None:
        findings += _rate_command(log)
    return findings


def _unexplained(measured: np.ndarray, explained: np.ndarray) -> float:
    """Share [0, ∞) of the measured motion that the explanation leaves."""
    good = np.isfinite(measured).all(-1) & np.isfinite(explained).all(-1)
    a, b = measured[good], explained[good]
    if len(a) == 0:
        return np.inf
    a, b = a - a.mean(axis=0), b - b.mean(axis=0)
    return float(np.sqrt(np.sum((a - b) ** 2) / max(np.sum(a**2), 1e-12)))


def _named(
    measured: np.ndarray,
    plain: np.ndarray,
    mistakes: list[tuple[str, np.ndarray]],
    vague: str,
    compare: Callable[[np.ndarray, np.ndarray], float] = _unexplained,
) -> list[Finding]:
    """The mistake that explains what the plain reading does not; nothing if that is fine."""
    base = compare(measured, plain)
    if base < _GOOD:
        return []
    return _judged(base, [(compare(measured, other), text) for text, other in mistakes], vague)


def _judged(base: float, scored: list[tuple[float, str]], vague: str) -> list[Finding]:
    """The mistake that explains most, if it explains enough; else that something is odd."""
    best, text = min(scored)
    if best < min(0.6 * base, _BAD):
        return [Finding(text, True)]
    if base > _BAD:
        return [Finding(f"{vague} ({100 * base:.0f} % of the motion is not explained)", False)]
    return []


def _thrust_level(log: FlightLog) -> list[Finding]:
    thrust = log.command[log.usable, 0]
    thrust = thrust[np.isfinite(thrust)]
    if len(thrust) == 0:
        return []
    mean = float(np.mean(thrust))
    if 0.4 * GRAVITY < mean < 3.0 * GRAVITY:
        return []
    if mean < -0.4 * GRAVITY:
        return [Finding(f"the thrust is negative ({mean:.1f} m/s² on average): its sign is "
                        "turned, or the z axis points down", True)]  # fmt: skip
    mass = log.raw.mass
    hint = "is it in newtons, or a share of full thrust?"
    if mass and 0.6 * GRAVITY < mean / mass < 2.0 * GRAVITY:
        hint = f"divided by the mass of {mass:g} kg it would fit: it is in newtons"
    elif mean < 1.5:
        hint = "is it a share of full thrust?"
    elif mean > 1000.0:
        hint = "is it a raw motor command?"
    return [Finding(f"the thrust is {mean:.3g} m/s² on average, but flying needs about "
                    f"{GRAVITY}: {hint}", True)]  # fmt: skip


def _velocity(log: FlightLog) -> list[Finding]:
    moved = differentiate(np.asarray(log.position), SAMPLE_DT, log.usable)
    velocity = np.asarray(log.velocity)
    good = log.usable & np.isfinite(moved).all(-1)
    moved, velocity = moved[good], velocity[good]
    if np.sqrt(np.mean(np.sum(moved**2, axis=1))) < _MOVES["velocity"]:
        return []
    mistakes = [
        ("the velocity has the opposite sign of the change of position", -velocity),
        ("the positions are in millimetres, the velocities in m/s", 1e3 * velocity),
        ("the positions are in centimetres, the velocities in m/s", 1e2 * velocity),
        ("the velocities are in mm/s, the positions in metres", 1e-3 * velocity),
        ("the velocities are in cm/s, the positions in metres", 1e-2 * velocity),
        ("the z axis of the velocity points down, that of the position up",
         velocity * np.array([1.0, 1.0, -1.0])),
    ]  # fmt: skip
    if log.rotation is not None:
        rotation = log.rotation[good]
        rotated = (rotation @ velocity[..., None])[..., 0]
        mistakes.append(("the velocity is in the body frame, not in the world frame", rotated))
    return _named(moved, velocity, mistakes, "the velocity does not fit the change of position")


def _smooth(values: np.ndarray) -> np.ndarray:
    return moving_mean(values, 5)


def _at_best_lag(measured: np.ndarray, explained: np.ndarray) -> float:
    """As `_unexplained`, for the lag of the response that fits best."""
    size = len(measured)
    return min(_unexplained(measured[lag:], explained[: size - lag]) for lag in _LAGS)


def _rates(log: FlightLog) -> list[Finding]:
    rotation = np.asarray(log.rotation)
    kept = log.usable[:-1] & log.usable[1:]
    turned = _smooth(turn_rates(rotation))
    rates = log.command[:-1, 1:] if log.rates is None else log.rates[:-1]
    kind = "commanded rates" if log.rates is None else "body rates"
    rates = _smooth(np.nan_to_num(rates))
    if np.sqrt(np.mean(np.sum(turned[kept] ** 2, axis=1))) < _MOVES["rates"]:
        return []
    flips = {
        "y and z axes (forward-right-down instead of forward-left-up)": (1, -1, -1),
        "x and y axes": (-1, -1, 1),
        "x, y and z axes": (-1, -1, -1),
        "x axis": (-1, 1, 1),
        "y axis": (1, -1, 1),
        "z axis": (1, 1, -1),
    }
    mistakes = [(f"the {kind} are in °/s, not rad/s", rates * np.pi / 180.0)]
    mistakes += [
        (f"the sign of the {kind} is turned on the {name}", rates * np.array(signs))
        for name, signs in flips.items()
    ]
    inverse = np.swapaxes(rotation[:-1], -1, -2)
    mistakes.append(
        (f"the {kind} are in the world frame, not in the body frame",
         (inverse @ rates[..., None])[..., 0])
    )  # fmt: skip
    masked = np.where(kept[:, None], turned, np.nan)
    base = _at_best_lag(masked, rates)
    if base < _GOOD:
        return []
    scored = [(_at_best_lag(masked, other), text) for text, other in mistakes]
    # The attitude itself may be misread: another order, or the inverse rotation.
    quaternion = continuous(np.asarray(so3.matrix_to_quaternion(rotation)))
    readings = {
        "the quaternions are x, y, z, w, not w, x, y, z": quaternion[:, [3, 0, 1, 2]],
        "the quaternions are w, x, y, z, not x, y, z, w": quaternion[:, [1, 2, 3, 0]],
        "the attitude maps world to body, not body to world": quaternion * [1, -1, -1, -1],
    }
    for text, reading in readings.items():
        turned = turn_rates(np.asarray(so3.quaternion_to_matrix(so3.normalise(reading))))
        again = _smooth(turned)
        scored.append((_at_best_lag(np.where(kept[:, None], again, np.nan), rates), text))
    return _judged(base, scored, f"the {kind} do not fit the change of attitude")


def _acceleration(log: FlightLog) -> list[Finding]:
    acceleration = differentiate(np.asarray(log.velocity), SAMPLE_DT, log.usable)
    rotation = np.asarray(log.rotation)
    thrust = log.command[:, :1] * rotation[..., 2]
    gravity = np.array([0.0, 0.0, GRAVITY])
    good = log.usable & np.isfinite(acceleration).all(-1) & np.isfinite(thrust).all(-1)
    measured = np.where(good[:, None], acceleration, np.nan)
    if np.sqrt(np.nanmean(np.sum(measured**2, axis=1))) < _MOVES["acceleration"]:
        return _upside_down(rotation[good])
    plain = _smooth(np.nan_to_num(thrust)) - gravity
    swapped = rotation[..., 2] * np.array([1.0, 1.0, -1.0])
    mistakes = [
        ("your z axis points down (north-east-down): thrust and gravity act the other way round",
         -plain),
        ("the attitude's horizontal axes are turned by 180° against those of the positions",
         plain * np.array([-1.0, -1.0, 1.0])),
        ("the attitude's horizontal axes are turned by 90° against those of the positions",
         np.stack([-plain[:, 1], plain[:, 0], plain[:, 2]], axis=1)),
        ("the attitude's horizontal axes are turned by -90° against those of the positions",
         np.stack([plain[:, 1], -plain[:, 0], plain[:, 2]], axis=1)),
        ("the body's z axis points down, that of the world up",
         -log.command[:, :1] * swapped * np.array([1.0, 1.0, -1.0]) - gravity),
        ("the positions (and velocities) are in millimetres, not metres", 1e3 * plain),
        ("the positions (and velocities) are in centimetres, not metres", 1e2 * plain),
        ("the positions (and velocities) are in feet, not metres", plain / 0.3048),
    ]  # fmt: skip
    return _named(
        measured, plain, mistakes, "the acceleration does not fit thrust and gravity",
        _at_best_lag,
    )  # fmt: skip


def _upside_down(rotation: np.ndarray) -> list[Finding]:
    up = float(np.mean(rotation[:, 2, 2])) if len(rotation) else 1.0
    if up > -0.5:
        return []
    return [Finding("the body's z axis points down while the vehicle hovers: "
                    "is the body frame forward-right-down?", True)]  # fmt: skip


def _rate_command(log: FlightLog) -> list[Finding]:
    """Without an attitude: do the measured rates follow the commanded ones?"""
    # Yaw is left out: its command often saturates.
    measured, wanted = np.asarray(log.rates)[:, :2], log.command[:, 1:3]
    measured = np.where(log.usable[:, None], measured, np.nan)
    mistakes = [
        ("the measured body rates are in °/s, the commanded ones in rad/s",
         wanted * 180.0 / np.pi),
        ("the commanded body rates are in °/s, the measured ones in rad/s",
         wanted * np.pi / 180.0),
        ("measured and commanded body rates have opposite signs", -wanted),
    ]  # fmt: skip
    text = "the measured body rates hardly follow the commanded ones"
    return _named(measured, wanted, mistakes, text, _at_best_lag)
