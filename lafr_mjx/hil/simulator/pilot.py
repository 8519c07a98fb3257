"""The pilot on the vehicle as Agilicious' behaves: who flies, time-outs, guard, land, off.

It has no clock and no socket of its own: every call is told the time, so that tests run it on a
simulated clock. It is as strict as the real pilot was seen to be:

- Feedthrough counts from its receipt, whatever its own stamp says, and waits for the next cycle.
  It takes over without `start`, even on the ground; `force_hover` and `land` do not stop it. After
  its time-out the pilot hovers where it believes to be.
- `land` descends from a hover only: from anything else, from a landing too, it hovers. Without a
  reference it ends the pilot's process. Nothing disarms by itself after landing.
- `off` disarms, clears references and resets the guard. `disable` does neither: a debug bridge
  takes over, which counts as armed, and the next `enable` flies on from the references. So does
  one after a stream of commands that came while it was off.
- The guard is a box that arms once the vehicle has been inside, by motion capture as it last came.
  It latches until `off`, beats feedthrough, and hovers where it triggered. A landing passes its
  floor and triggers it; `land` then goes on. Triggered by a call outside of the box, it is out of
  order until `off`; a pilot may also have none.
- Its hover has no integral action.
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
_ATTITUDE_GAIN = np.array([9.0, 9.0, 3.0])  # 1/s
_MOST_ACCELERATION = 9.0  # m/s², horizontal, in the pilot's own hover


class Settings(NamedTuple):
    """How this pilot is set up."""

    feedthrough_timeout_s: float = 0.1
    has_guard: bool = True
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
        self.armed = False  # the bridge to the motors
        self.debug = False  # the debug bridge has taken its place
        self.guard = False
        self.died = ""  # why the process has ended, if it has
        self.mode = "idle"
        self.references = 0  # in its queue; none: nothing can be flown but feedthrough
        self.target = np.zeros(3)  # m, where it hovers or goes
        self.asked = np.zeros(3)  # m, the reference that moves there
        self.own = np.zeros(4)  # the last command of its own controller
        self.feeding = False  # feedthrough flies now
        self._ground = ground_m
        self._guard_ready = self._guard_broken = False
        self._fed_at = -np.inf
        self._fed = np.array([0.0, 0.0, 0.0, 0.0])
        self._here = np.zeros(3)  # by the estimate
        self._seen = np.zeros(3)  # by motion capture

    # ------------------------------------------------------------- what it is told

    def enable(self, on: bool) -> None:
        """Arm; or switch over to the debug bridge, with all references kept."""
        self.armed, self.debug = on, not on

    def start(self) -> None:
        """Take off."""
        if self.armed and self.mode == "idle":
            self.mode, self.references = "takeoff", 1
            self.target = self._here + np.array([0.0, 0.0, self.settings.hover_height_m])
            self.asked = self._here.copy()

    def force_hover(self) -> None:
        """Hover here; a stream of feedthrough goes on all the same."""
        self._hover(self._here)

    def land(self) -> None:
        """Descend from a hover; from anything else, a landing too, hover."""
        if not self.references:
            self.died = "land without a reference"
        elif self.mode in ("hover", "goto") and not self.feeding:
            self.mode = "land"
        else:
            self._hover(self._here)

    def off(self) -> None:
        """Disarm, forget everything, reset the guard."""
        self.armed = self.debug = self.feeding = False
        self.guard = self._guard_ready = self._guard_broken = False
        self.mode, self.references = "idle", 0
        self._fed_at = -np.inf

    def trigger_guard(self) -> None:
        """Fly the guard's own hover until `off`; outside of its box the guard is lost by this."""
        if not self.settings.has_guard or not self.armed or self.guard or self._guard_broken:
            return
        if self._inside():
            self._guarded()
        else:
            self._guard_broken = True

    def go_to(self, position: Sequence[float]) -> None:
        """Go to a place, from hover."""
        if self.armed and self.mode in ("hover", "goto") and np.isfinite(position).all():
            self.mode, self.target = "goto", np.array(position, float)

    def feedthrough(self, now: float, command: Sequence[float]) -> None:
        """A command from outside; it flies from the next cycle on."""
        if self.guard or not np.isfinite(command).all():
            return
        low, high = self.settings.command_low, self.settings.command_high
        self._fed = np.clip(np.asarray(command, float), low, high)
        self._fed_at = now
        self.feeding = True

    # ------------------------------------------------------------- what it does

    def cycle(
        self, now: float, estimate: Estimate, seen: np.ndarray | None = None
    ) -> np.ndarray | None:
        """One cycle of 10 ms: the command to the bridge, or None if it gives none.

        Args:
            now: s.
            estimate: what it flies by.
            seen: where motion capture shows it; None if nothing came, and the guard's own
                position stays as it was.
        """
        self._here = np.array(estimate.position, float)
        self._seen = self._seen if seen is None else np.array(seen, float)
        if self.armed:
            self._watch_box()
        if self.guard:
            self.feeding = False
        elif self.feeding:
            if now - self._fed_at <= self.settings.feedthrough_timeout_s + _ROUNDING_S:
                return self._fed if self.armed else None
            self.feeding = False
            self._hover(self._here)
        if not self.armed:
            return None
        self.own = self._fly(estimate)
        return self.own

    def _inside(self) -> bool:
        low, high = np.asarray(self.settings.guard_low), np.asarray(self.settings.guard_high)
        return bool(np.all(self._seen >= low) and np.all(self._seen <= high))

    def _watch_box(self) -> None:
        if self._inside():
            self._guard_ready = True
        elif self.settings.has_guard and self._guard_ready and not self._guard_broken:
            self._guarded()

    def _guarded(self) -> None:
        if not self.guard:
            self.guard = True
            self._hover(self._here)

    def _hover(self, position: np.ndarray) -> None:
        self.mode, self.references = "hover", 1
        self.target = position.copy()
        self.asked = position.copy()

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
        wanted = _POSITION_GAIN * np.clip(error, -1.0, 1.0)
        wanted += _VELOCITY_GAIN * (speed - estimate.velocity)
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
        rates = _ATTITUDE_GAIN * np.array([turn[2, 1], turn[0, 2], turn[1, 0]])
        thrust = float(wanted @ matrix[:, 2])
        command = np.array([thrust, *rates])
        return np.clip(command, self.settings.command_low, self.settings.command_high)


class Bridge:
    """The radio to the flight controller: silence gives zero thrust, four times lock it.

    Each 0.1 s without a command is one time-out; each command in a row takes one back.
    """

    TIMEOUT_S = 0.1
    MOST_TIMEOUTS = 4

    def __init__(self) -> None:
        self.locked = False
        self._last = -np.inf
        self._timeouts = 0
        self._missed = 0  # time-outs since the last command

    def reset(self) -> None:
        """After `off`: as new."""
        self.__init__()

    def heard(self, now: float) -> None:
        """A command came."""
        if self._missed == 0:
            self._timeouts = max(0, self._timeouts - 1)
        self._last, self._missed = now, 0

    def alive(self, now: float, armed: bool) -> bool:
        """Whether commands are in force; counts time-outs while armed."""
        if self.locked:
            return False
        if now - self._last <= self.TIMEOUT_S + _ROUNDING_S:
            return True
        if armed and np.isfinite(self._last):
            missed = int((now - self._last - _ROUNDING_S) / self.TIMEOUT_S)
            self._timeouts += max(0, missed - self._missed)
            self._missed = max(missed, self._missed)
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
