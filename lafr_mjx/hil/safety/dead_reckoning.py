"""Where the vehicle is while nobody sees it: by the commands that were sent, from a fitted model.

The model is the simplest one that knows what matters for a few seconds: how much of a commanded
thrust is there (payload, battery, propellers), how the air brakes, and how the wind pushes,

    a = gain · c · z_b − g e_z − drag · v + push

It is fitted in flight to what was sensed and commanded over the last seconds, whoever flew: so it
is there with a learner or without. All plain numbers and small arrays of NumPy.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lafr_mjx import so3
from lafr_mjx.hil.safety.command_log import DELAY_S
from lafr_mjx.hil.safety.rate_loop_fit import STEP_S
from lafr_mjx.types import CONTROL_DT, GRAVITY, State

if TYPE_CHECKING:
    from lafr_mjx.hil.safety.command_log import CommandLog
    from lafr_mjx.hil.safety.rate_loop_fit import Turning

_THRUST_LAG_S = 0.03  # of the motors
_WINDOW = 5  # ticks between two velocities that are compared
_FORGET_S = 3.0  # older flight counts less
_NOISE_MPS = 0.05  # of such a difference
_PRIOR = np.array([1.0, 0.3, 0.0, 0.0])
_PRIOR_SPREAD = np.array([0.3, 0.3, 2.0, 2.0])
_LOWEST = np.array([0.5, 0.0, -8.0, -8.0])  # what can be
_HIGHEST = np.array([1.5, 1.5, 8.0, 8.0])


class Motion(NamedTuple):
    """The fitted model."""

    gain: float  # of the commanded thrust
    drag: float  # 1/s
    push: np.ndarray  # [3] m/s², horizontal


class MotionFit:
    """Least squares with forgetting; `see` at each tick with a good state in the air."""

    def __init__(self) -> None:
        self._normal = np.zeros((4, 4))
        self._right = np.zeros(4)
        self._thrust = GRAVITY
        self._begin: np.ndarray | None = None  # velocity at the window's begin
        self._sums = np.zeros(7)  # of thrust · z_b, of the velocity, of the time
        self._ticks = 0

    def see(self, state: State, commanded: float) -> None:
        """A tick of flight, with the thrust that was commanded then [m/s²]."""
        self._thrust += CONTROL_DT / _THRUST_LAG_S * (commanded - self._thrust)
        velocity = np.asarray(state.velocity, float)
        if self._begin is None:
            self._begin = velocity
            return
        lift = CONTROL_DT * self._thrust * np.asarray(state.rotation, float)[:, 2]
        self._sums[:3] += lift
        self._sums[3:6] += CONTROL_DT * velocity
        self._sums[6] += CONTROL_DT
        self._ticks += 1
        if self._ticks >= _WINDOW:
            self._take(velocity - self._begin)
            self._begin, self._ticks = velocity, 0
            self._sums[:] = 0.0

    def pause(self) -> None:
        """Nothing is known of this moment: what comes next begins anew."""
        self._begin, self._ticks = None, 0
        self._sums[:] = 0.0

    def _take(self, change: np.ndarray) -> None:
        fx, fy, fz, vx, vy, vz, t = self._sums.tolist()
        rows = np.array([[fx, -vx, t, 0.0], [fy, -vy, 0.0, t], [fz, -vz, 0.0, 0.0]])
        wanted = change + np.array([0.0, 0.0, GRAVITY * t])
        keep = math.exp(-t / _FORGET_S)
        self._normal = keep * self._normal + rows.T @ rows
        self._right = keep * self._right + rows.T @ wanted

    def motion(self) -> Motion:
        """The model by now; where the flight tells nothing, that of a vehicle as expected."""
        trust = np.diag((_NOISE_MPS / _PRIOR_SPREAD) ** 2)
        found = np.linalg.solve(self._normal + trust, self._right + trust @ _PRIOR)
        gain, drag, x, y = np.clip(found, _LOWEST, _HIGHEST).tolist()
        return Motion(gain, drag, np.array([x, y, 0.0]))


class DeadReckoning:
    """State of the vehicle at the moment at which a command sent now will count."""

    def __init__(
        self,
        stamp: float,
        state: State,
        turning: Turning,
        now: float,
        motion: Motion,
        log: CommandLog,
    ) -> None:
        """From the last good state and the commands since, up to now.

        Args:
            stamp: moment of the state [s].
            state: the last one that motion capture vouched for.
            turning: the fitted rate loop, and how it turned then.
            now: s.
            motion: the fitted model.
            log: of commands.
        """
        self.motion = motion
        self.position = np.array(state.position, float)
        self.velocity = np.array(state.velocity, float)
        self.rotation = np.array(state.rotation, float)
        self._thrust = float(self._known(log.heard(stamp))[0])
        # The rate loop's moment is at most a step before the state's.
        ahead = max(0.0, stamp - turning.moment)
        self._turning = turning.after(ahead, self._known(log.heard(turning.moment))[1:])
        self._follow(stamp, now + DELAY_S, log)

    def follow(self, before: float, now: float, log: CommandLog) -> None:
        """Go on from an earlier moment to now, under the commands that were logged."""
        self._follow(before + DELAY_S, now + DELAY_S, log)

    def _follow(self, moment: float, end: float, log: CommandLog) -> None:
        while moment < end - 1e-9:
            step = min(STEP_S, end - moment)
            self._step(step, log.heard(moment))
            moment += step

    def advance(self, seconds: float, command: np.ndarray | None) -> None:
        """Go on under a command that was sent; None: it is not known which."""
        steps = math.ceil(seconds / STEP_S - 1e-9)
        for _ in range(steps):
            self._step(seconds / steps, command)

    def _known(self, command: np.ndarray | None) -> np.ndarray:
        """Who flies without our knowing the command most likely hovers."""
        hover = np.array([GRAVITY / self.motion.gain, 0.0, 0.0, 0.0])
        return hover if command is None else command

    def _step(self, dt: float, command: np.ndarray | None) -> None:
        known, before = self._known(command), self._turning.rates
        self._turning = self._turning.after(dt, known[1:])
        self._thrust += dt / _THRUST_LAG_S * (float(known[0]) - self._thrust)
        self.rotation = self.rotation @ so3.exp(0.5 * dt * (before + self._turning.rates))
        self.velocity = self.velocity + dt * self._acceleration()
        self.position = self.position + dt * self.velocity

    def _acceleration(self) -> np.ndarray:
        motion = self.motion
        force = motion.gain * self._thrust * self.rotation[:, 2] + motion.push
        force -= motion.drag * self.velocity
        force[2] -= GRAVITY
        return force
