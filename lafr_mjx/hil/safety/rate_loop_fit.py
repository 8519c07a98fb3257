"""How fast the vehicle follows commanded body rates, found out in flight.

Whoever flies without seeing the vehicle must know how far a command turns it: a rate loop that is
taken to be 10 ms faster than it is costs several degrees while it brakes. The loop is taken for a
second-order system of one unknown, its frequency f,

    ω̈ = f² (c − ω) − 2 ζ f ω̇

A bank of such systems hears all commands, whoever sends them. The one whose turns agree best with
the attitudes of motion capture is the vehicle's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lafr_mjx import so3

if TYPE_CHECKING:
    from lafr_mjx.hil.safety.command_log import CommandLog
    from lafr_mjx.types import State

STEP_S = 0.005
EXPECTED = 42.0
"""Frequency of a rate loop of which nothing is known yet [rad/s]; firmwares have 20 to 140."""

_FREQUENCIES = np.array([18.0, 21.0, 24.0, 28.0, 34.0, EXPECTED, 55.0, 80.0, 120.0])
_DAMPING = 0.55
_DOUBT = 0.01  # rad: a loop unlike the expected one must agree better by so much
_WINDOW_S = 0.1  # over which turns are compared
_FORGET_S = 8.0
_GAP_S = 0.1  # without a sample for so long, the comparison begins anew
_MOST_MISS = 0.02  # rad²: what no system explains (motion capture flips) tells nothing of any


class Turning(NamedTuple):
    """A rate loop at a moment."""

    frequency: float  # rad/s
    rates: np.ndarray  # [3] rad/s
    slope: np.ndarray  # [3] rad/s²
    moment: float  # s

    def after(self, seconds: float, wanted: np.ndarray) -> Turning:
        """A short time later, under wanted rates [3]."""
        a, b, c, d = _free_motion(self.frequency, seconds)
        off, slope = self.rates - wanted, self.slope
        return Turning(
            self.frequency, wanted + a * off + b * slope, c * off + d * slope, self.moment + seconds
        )


class RateLoopFit:
    """The bank; `see` at each tick with a good attitude."""

    def __init__(self) -> None:
        count = len(_FREQUENCIES)
        self._motion = _free_motion(_FREQUENCIES[:, None], STEP_S)
        self._prior = (_DOUBT * np.log(_FREQUENCIES / EXPECTED)) ** 2
        self._misses = np.zeros(count)  # rad², forgetting
        self._rates, self._slope = np.zeros((count, 3)), np.zeros((count, 3))
        self._turned = np.zeros((count, 3))  # rad, in this window, by each system
        self._seen = np.zeros(3)  # ... and by the vehicle
        self._time = self._stamp = self._begin = -np.inf
        self._settled = False  # the rates are the systems' own, not those that they began with
        self._rotation = np.eye(3)

    def see(self, state: State, stamp: float, log: CommandLog, airborne: bool = True) -> None:
        """A state of motion capture at its moment.

        What a vehicle on the ground does, or one whose commands are not known, tells nothing of
        its rate loop: then the systems follow the rates that were sensed.
        """
        rotation = np.asarray(state.rotation, float)
        told = airborne and log.heard(stamp) is not None and stamp - self._stamp <= _GAP_S
        if told:
            self._seen += so3.log(self._rotation.T @ rotation)
            self._advance(stamp, log)
        else:
            self._restart(stamp, np.asarray(state.rates, float))
        self._rotation, self._stamp = rotation, stamp
        if stamp - self._begin >= _WINDOW_S:
            self._compare(stamp)

    def _compare(self, stamp: float) -> None:
        """The end of a window."""
        rest = (stamp - self._time) * self._rates  # since the last whole step
        misses = np.sum((self._turned + rest - self._seen)[:, :2] ** 2, axis=1)
        if self._settled and misses.min() < _MOST_MISS:
            self._misses = np.exp(-(stamp - self._begin) / _FORGET_S) * self._misses + misses
        self._settled = True
        self._turned, self._begin = -rest, stamp
        self._seen[:] = 0.0

    def best(self) -> Turning:
        """The vehicle's rate loop by now."""
        k = int(np.argmin(self._misses + self._prior))
        return Turning(float(_FREQUENCIES[k]), self._rates[k], self._slope[k], self._time)

    def _restart(self, stamp: float, rates: np.ndarray) -> None:
        """From sensed rates; the first window is none of the systems' own."""
        zero = np.zeros_like(self._rates)
        self._rates, self._slope, self._turned = zero + rates, zero, zero.copy()
        self._seen[:] = 0.0
        self._time = self._begin = stamp
        self._settled = False

    def _advance(self, stamp: float, log: CommandLog) -> None:
        a, b, c, d = self._motion
        while self._time + STEP_S <= stamp + 1e-9:
            command = log.heard(self._time)
            wanted = np.zeros(3) if command is None else command[1:]
            before, off = self._rates, self._rates - wanted
            self._rates, self._slope = wanted + a * off + b * self._slope, c * off + d * self._slope
            self._turned += 0.5 * STEP_S * (before + self._rates)
            self._time += STEP_S


def _free_motion(frequency: Any, seconds: float) -> tuple[Any, Any, Any, Any]:
    """(a, b, c, d) with which x, ẋ become a x + b ẋ, c x + d ẋ: exact, for numbers or arrays."""
    half, turns = _DAMPING * frequency, frequency * np.sqrt(1.0 - _DAMPING**2)
    decay = np.exp(-half * seconds)
    sine, cosine = decay * np.sin(turns * seconds) / turns, decay * np.cos(turns * seconds)
    return cosine + half * sine, sine, -(frequency**2) * sine, cosine - half * sine
