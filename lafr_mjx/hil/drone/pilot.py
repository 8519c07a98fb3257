"""The pilot on the vehicle as Agilicious' behaves: who flies, time-outs, guard, land, off.

It has no clock and no socket of its own: every call is told the time, so that tests run it on a
simulated clock. What was read about the real pilot, with its traps, is emulated:

- Feedthrough counts from its receipt, whatever its own stamp says. It takes over without `start`,
  even on the ground; `force_hover` and `land` do not stop it. After its time-out the pilot hovers
  where it is.
- `off` disarms, clears everything and resets the guard. `land` only hovers if the vehicle did not
  hover before. Nothing disarms by itself after landing.
- The guard is a box that arms once the vehicle has been inside; it latches until `off` and beats
  feedthrough. Assumed here: under the guard `land` still works, and landing does not trigger it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

GRAVITY = 9.81
CYCLE_S = 0.01

_ROUNDING_S = 1e-9  # what sums of cycles may be off
_TAKEOFF_MPS = 0.6
_GOTO_MPS = 1.5
_LAND_MPS = 0.5
_POSITION_GAIN = np.array([5.0, 5.0, 8.0])
_VELOCITY_GAIN = np.array([3.5, 3.5, 4.5])
_INTEGRAL_GAIN = np.array([1.5, 1.5, 2.5])
_ATTITUDE_GAIN = np.array([9.0, 9.0, 3.0])
_MOST_ACCELERATION = 9.0  # m/s², horizontal, in the pilot's own hover


class Settings(NamedTuple):
    """How this pilot is set up."""

    feedthrough_timeout_s: float = 0.1
    guard_low: ArrayLike = (-7.0, -8.0, 0.5)
    guard_high: ArrayLike = (13.0, 8.0, 5.0)
    hover_height_m: float = 1.0
    command_low: Any = (0.0, -6.0, -6.0, -6.0)
    command_high: Any = (25.0, 6.0, 6.0, 6.0)


class Estimate(NamedTuple):
    """What the pilot believes: world frame, quaternion wxyz."""

    position: np.ndarray
    velocity: np.ndarray
    quaternion: np.ndarray
    rates: np.ndarray


class Pilot:
    """Modes: idle, takeoff, hover, goto, land; beside them feedthrough and guard."""

    def __init__(self, settings: Settings = Settings(), ground_m: float = 0.05) -> None:
        self.settings = settings
        self.armed = False
        self.guard = False
        self.mode = "idle"
        self.target = np.zeros(3)  # m, where it hovers or goes
        self.asked = np.zeros(3)  # m, the reference that moves there
        self.feeding = False  # feedthrough flies now
        self._ground = ground_m
        self._guard_ready = False
        self._fed_at = -np.inf
        self._fed = np.array([0.0, 0.0, 0.0, 0.0])
        self._integral = np.zeros(3)
        self._here = np.zeros(3)

    # ------------------------------------------------------------- what it is told

    def enable(self, on: bool) -> None:
        """Arm or disarm."""
        if on and not self.armed:
            self.armed, self.mode = True, "idle"
        elif not on:
            self.off()

    def start(self) -> None:
        """Take off."""
        if self.armed and self.mode == "idle":
            self.mode = "takeoff"
            self.target = self._here + np.array([0.0, 0.0, self.settings.hover_height_m])
            self.asked = self._here.copy()
            self._integral[:] = 0.0

    def force_hover(self) -> None:
        """Hover here; a stream of feedthrough goes on all the same."""
        if self.armed:
            self._hover(self._here)

    def land(self) -> None:
        """Descend; the first call only hovers if it was not hovering."""
        if not self.armed or self.mode == "land":
            return
        if self.mode in ("hover", "goto") and not self.feeding:
            self.mode = "land"
        elif self.mode != "idle" or self.feeding:
            self._hover(self._here)

    def off(self) -> None:
        """Disarm, forget everything, reset the guard."""
        self.armed = self.guard = self._guard_ready = self.feeding = False
        self.mode = "idle"
        self._fed_at = -np.inf
        self._integral[:] = 0.0

    def trigger_guard(self) -> None:
        """Fly the guard's own hover until `off`."""
        if self.armed and not self.guard:
            self.guard = True
            low, high = np.asarray(self.settings.guard_low), np.asarray(self.settings.guard_high)
            if self.mode != "land":
                self._hover(np.clip(self._here, low, high))

    def go_to(self, position: Sequence[float]) -> None:
        """Go to a place, from hover."""
        if self.armed and self.mode in ("hover", "goto") and np.isfinite(position).all():
            self.mode, self.target = "goto", np.array(position, float)

    def feedthrough(self, now: float, command: Sequence[float]) -> np.ndarray | None:
        """A command from outside; what goes to the bridge at once, or None."""
        if not self.armed or self.guard or not np.isfinite(command).all():
            return None
        low, high = self.settings.command_low, self.settings.command_high
        self._fed = np.clip(np.asarray(command, float), low, high)
        self._fed_at = now
        self.feeding = True
        return self._fed

    # ------------------------------------------------------------- what it does

    def cycle(self, now: float, estimate: Estimate) -> np.ndarray | None:
        """One cycle of 10 ms: the command to the bridge, or None if it gives none."""
        self._here = np.array(estimate.position, float)
        if not self.armed:
            return None
        self._watch_box()
        if self.guard:
            self.feeding = False
        elif self.feeding:
            if now - self._fed_at <= self.settings.feedthrough_timeout_s + _ROUNDING_S:
                return self._fed
            self.feeding = False
            self._hover(self._here)
        return self._fly(estimate)

    def _watch_box(self) -> None:
        low, high = np.asarray(self.settings.guard_low), np.asarray(self.settings.guard_high)
        inside = bool(np.all(self._here >= low) and np.all(self._here <= high))
        if inside:
            self._guard_ready = True
        elif self._guard_ready and self.mode != "land":
            self.trigger_guard()

    def _hover(self, position: np.ndarray) -> None:
        self.mode = "hover"
        self.target = position.copy()
        self.asked = position.copy()
        self._integral[:] = 0.0

    def _fly(self, estimate: Estimate) -> np.ndarray:
        if self.mode == "idle":
            return np.zeros(4)
        speed = np.zeros(3)
        if self.mode == "land":
            if estimate.position[2] < self._ground + 0.03:
                return np.zeros(4)
            speed[2] = -_LAND_MPS
            self.asked = self.asked + CYCLE_S * speed
        elif self.mode in ("takeoff", "goto"):
            way = self.target - self.asked
            distance = float(np.linalg.norm(way))
            most = _TAKEOFF_MPS if self.mode == "takeoff" else _GOTO_MPS
            if distance < 1e-3:
                self._hover(self.target)
            else:
                # Slows down in time to stop at the target.
                pace = min(most, 0.05 + 1.5 * distance, distance / CYCLE_S)
                speed = way / distance * pace
                self.asked = self.asked + CYCLE_S * speed
        return self._track(estimate, speed)

    def _track(self, estimate: Estimate, speed: np.ndarray) -> np.ndarray:
        error = self.asked - estimate.position
        self._integral = np.clip(self._integral + CYCLE_S * error, -2.0, 2.0)
        wanted = (
            _POSITION_GAIN * np.clip(error, -1.0, 1.0)
            + _VELOCITY_GAIN * (speed - estimate.velocity)
            + _INTEGRAL_GAIN * self._integral
        )
        level = float(np.hypot(wanted[0], wanted[1]))
        if level > _MOST_ACCELERATION:
            wanted[:2] *= _MOST_ACCELERATION / level
        wanted[2] = max(wanted[2] + GRAVITY, 3.0)
        matrix = rotation(estimate.quaternion)
        up = wanted / np.linalg.norm(wanted)
        left = np.cross(up, [1.0, 0.0, 0.0])
        left /= np.linalg.norm(left)
        goal = np.column_stack([np.cross(left, up), left, up])
        turn = 0.5 * (matrix.T @ goal - goal.T @ matrix)
        rates = _ATTITUDE_GAIN * 2.0 * np.array([turn[2, 1], turn[0, 2], turn[1, 0]])
        thrust = float(wanted @ matrix[:, 2])
        command = np.array([thrust, *rates])
        return np.clip(command, self.settings.command_low, self.settings.command_high)


class Bridge:
    """The radio to the flight controller: silence gives zero thrust, four times lock it."""

    TIMEOUT_S = 0.1
    MOST_TIMEOUTS = 4

    def __init__(self) -> None:
        self.locked = False
        self._last = -np.inf
        self._timeouts = 0
        self._silent = True

    def reset(self) -> None:
        """After `off`: as new."""
        self.__init__()

    def heard(self, now: float) -> None:
        """A command came."""
        self._last, self._silent = now, False

    def alive(self, now: float, armed: bool) -> bool:
        """Whether commands are in force; counts time-outs while armed."""
        if self.locked:
            return False
        if now - self._last <= self.TIMEOUT_S + _ROUNDING_S:
            return True
        if armed and not self._silent:
            self._silent = True
            self._timeouts += 1
            self.locked = self._timeouts >= self.MOST_TIMEOUTS
        return False


def rotation(quaternion: np.ndarray) -> np.ndarray:
    """Matrix of a quaternion wxyz."""
    w, x, y, z = quaternion / np.linalg.norm(quaternion)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )
