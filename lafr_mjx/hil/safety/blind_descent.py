"""Without motion capture: brake, then sink level to the ground, by dead reckoning.

The pilot's own hover, guard and landing fly on an estimate that is worthless then. So we fly, by
feedthrough, from the last good state: first to a standstill, and if motion capture stays away,
down. Nobody sees the ground: the motors are switched off when it must have come.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from lafr_mjx.hil.safety.command_log import DELAY_S, CommandLog
from lafr_mjx.hil.safety.dead_reckoning import DeadReckoning, MotionFit
from lafr_mjx.hil.safety.rate_loop_fit import RateLoopFit, Turning
from lafr_mjx.types import COMMAND_HOVER, GRAVITY, State

DOWN_S = 2.15
"""From the loss to the ground, from heights that can be sunk from in that time."""

_SETTLE_M = 0.4  # from here on it may stand already: less thrust than its weight, and no more
_SETTLE_S = 1.3  # ... for so long: it may also be a little higher than it believes
_SETTLE_SHARE = 0.96  # of its weight
_BRAKE_MPS2 = 4.0
_BRAKE_GAIN = 2.2  # 1/s
_SINK_GAIN = 4.0  # 1/s
_MOST_SINK_MPS2 = 3.0
_LEAST_LIFT_MPS2 = 3.0  # it must never turn over
_TILT = math.tan(math.radians(28.0))
_ATTITUDE_GAIN = 8.0  # 1/s
_SLOWEST_MPS = 0.45  # of sinking
_FASTEST_MPS = 2.5
_NEAR_M = 1.0  # below this it sinks no faster than ...
_NEAR_MPS = 0.8
_OLD_S = 0.3  # who flew since then, and how, is not known
_GUESSED_S = 0.012  # a state of so long after the last pose is still a good one


class _Kept(NamedTuple):
    stamp: float
    state: State
    turning: Turning


class BlindDescent:
    """Watches the flight as long as it is seen, and flies when it is not."""

    def __init__(self) -> None:
        self.log = CommandLog()
        self._fit = MotionFit()
        self._loop = RateLoopFit()
        self._kept: list[_Kept] = []  # states of the last moments
        self._flown: DeadReckoning | None = None
        self._lost = -math.inf  # when motion capture was last there
        self._now = -math.inf
        self._ground = 0.0
        self._sinks = 0.0  # m/s, as asked
        self._settles = math.inf  # since when

    def see(self, state: State, stamp: float, airborne: bool) -> None:
        """A tick at which motion capture was there."""
        if not self._kept or stamp > self._kept[-1].stamp:
            self._loop.see(state, stamp, self.log, airborne)
            self._kept = [*self._kept[-15:], _Kept(stamp, state, self._loop.best())]
        command = self.log.heard(stamp)
        if airborne and command is not None:
            self._fit.see(state, float(command[0]))
        else:
            self._fit.pause()

    def unseen(self) -> None:
        """A tick at which it was not, and somebody else flies."""
        self._fit.pause()

    def ready(self, now: float) -> bool:
        """Whether there is a state to begin from that is not too old for that."""
        return bool(self._kept) and now - max(self._kept[-1].stamp, self._now) < _OLD_S

    def trim(self) -> np.ndarray:
        """What a hover needs beside its own weight, as far as the flight has told [3] m/s²."""
        motion = self._fit.motion()
        return np.array([0.0, 0.0, (1.0 / motion.gain - 1.0) * GRAVITY]) - motion.push

    def begin(self, now: float, lost: float, ground: float) -> None:
        """Take over.

        Args:
            now: s.
            lost: when motion capture last showed something new.
            ground: height of the ground [m].
        """
        good = [kept for kept in self._kept if kept.stamp <= lost + _GUESSED_S] or self._kept[:1]
        kept = good[-1]
        if self._flown is not None and self._now > kept.stamp:
            self._flown.follow(self._now, now, self.log)  # nothing good was seen since the last one
        else:
            self._flown = DeadReckoning(*kept, now, self._fit.motion(), self.log)
        self._lost, self._now, self._ground = lost, now, ground
        self._sinks, self._settles = 0.0, math.inf

    def end(self) -> None:
        """Somebody else has the vehicle; where it is by then is kept, should it be lost again."""
        self._fit.pause()

    def tick(self, now: float, descend: bool) -> np.ndarray:
        """The command [4] of this moment."""
        flown = self._flown
        assert flown is not None
        flown.advance(min(max(now - self._now, 0.0), 0.1), self.log.heard(self._now + DELAY_S))
        self._now = now
        if descend:
            self._sinks = min(max(self._sinks, self._sink(now)), self._fastest())
            if self._height() < _SETTLE_M:
                self._settles = min(self._settles, now)
        command = _command(flown, self._sinks)
        if not math.isinf(self._settles):
            command[0] = min(command[0], _SETTLE_SHARE * GRAVITY / flown.motion.gain)
        return command if np.isfinite(command).all() else np.array(COMMAND_HOVER, float)

    @property
    def down(self) -> bool:
        """Whether the ground must have come."""
        return self._now - self._settles > _SETTLE_S

    def _height(self) -> float:
        """Above the ground, by dead reckoning [m]."""
        return math.inf if self._flown is None else float(self._flown.position[2]) - self._ground

    def _sink(self, now: float) -> float:
        height, left = self._height(), max(self._lost + DOWN_S - now, 0.4)
        return max(height / left, _SLOWEST_MPS)

    def _fastest(self) -> float:
        return _NEAR_MPS if self._height() < _NEAR_M else _FASTEST_MPS


def _command(flown: DeadReckoning, sink: float) -> np.ndarray:
    """Towards a standstill over the ground that sinks."""
    motion, velocity = flown.motion, flown.velocity
    level = -_BRAKE_GAIN * velocity[:2]
    size = float(np.hypot(*level))
    if size > _BRAKE_MPS2:
        level *= _BRAKE_MPS2 / size
    rise = min(max(_SINK_GAIN * (-sink - float(velocity[2])), -_MOST_SINK_MPS2), _BRAKE_MPS2)
    force = np.array([*level, rise + GRAVITY]) - motion.push
    force += motion.drag * velocity
    force[2] = max(force[2], _LEAST_LIFT_MPS2)
    size, most = float(np.hypot(force[0], force[1])), _TILT * float(force[2])
    if size > most:
        force[:2] *= most / size
    body = flown.rotation.T @ force
    up = body / np.linalg.norm(body)
    # The turn that brings the body's z axis there: about their common normal.
    angle = math.acos(min(max(float(up[2]), -1.0), 1.0))
    side = math.hypot(float(up[0]), float(up[1]))
    share = angle / side if side > 1e-6 else 0.0
    rates = _ATTITUDE_GAIN * share * np.array([-up[1], up[0], 0.0])
    thrust = max(float(body[2]) / motion.gain, 2.0)
    return np.array([thrust, *rates])
