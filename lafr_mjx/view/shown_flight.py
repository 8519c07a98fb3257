"""A flight as it is shown: poses and figures that can be asked for at any moment."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lafr_mjx import so3
from lafr_mjx.logs.smoothing import continuous
from lafr_mjx.metrics import FlightMetrics, event_in, flight_metrics
from lafr_mjx.plant.plugins.fan import FanJet
from lafr_mjx.plant.vec3 import Vec3
from lafr_mjx.view.course_shapes import gate_states, leaves_path, path_points

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lafr_mjx.plant.scenario import Scenario
    from lafr_mjx.plant.vehicle import Vehicle
    from lafr_mjx.reference.path import Path
    from lafr_mjx.tasks import Fan, Task
    from lafr_mjx.types import Rollout

SPIN_SHOWN = 1.0 / 60.0
"""Propellers are shown turning this much slower: at 30 frames a second the true speed would
look like standing still, or like turning backwards."""


class Moment(NamedTuple):
    """What is shown of a flight at one instant; world frame, SI units."""

    time: float  # s since the start of the flight
    position: np.ndarray  # [3]
    quaternion: np.ndarray  # [4] w, x, y, z
    reference_position: np.ndarray  # [3]
    reference_quaternion: np.ndarray  # [4]
    speed: float  # m/s
    error: float  # m
    time_scale: float
    lap: float  # laps of the reference since the start
    blade_angle: np.ndarray  # [4] rad, as shown
    wind: np.ndarray  # [3] m/s, of the air everywhere
    fan_scale: float  # strength of the fans
    gates: Sequence[int]  # [G] what became of them so far; see `course.gate_states`
    event: str  # "crash", "fallback", "slowed 2.1"; empty while all is well


@dataclass(frozen=True, eq=False)
class Flight:
    """One recorded flight, ready to be shown; the leading axis of all arrays is time."""

    number: int
    title: str  # e.g. "iteration 3"
    time: np.ndarray  # [T] s
    position: np.ndarray  # [T, 3]
    quaternion: np.ndarray  # [T, 4], without jumps of sign
    reference_position: np.ndarray  # [T, 3]
    reference_quaternion: np.ndarray  # [T, 4]
    speed: np.ndarray  # [T]
    error: np.ndarray  # [T]
    time_scale: np.ndarray  # [T] in force: the phase's rate, not the goal
    lap: np.ndarray  # [T]
    blade_angle: np.ndarray  # [T, 4]
    wind: np.ndarray  # [T, 3]
    fan_scale: np.ndarray  # [T]
    gates: np.ndarray  # [T, G]
    event: tuple[str, ...]  # [T]
    planned: np.ndarray | None  # [N, 3] its reference, if that is not the task's path
    crash_time: float  # s; infinite if it did not crash
    metrics: FlightMetrics  # as the commands print them

    @property
    def duration(self) -> float:
        """Seconds from the first to the last tick."""
        return float(self.time[-1] - self.time[0])

    def at(self, time: float) -> Moment:
        """The flight at a moment, interpolated; beyond its ends it stands still."""
        time = float(np.clip(time, self.time[0], self.time[-1]))
        after = int(np.clip(np.searchsorted(self.time, time), 1, len(self.time) - 1))
        step = self.time[after] - self.time[after - 1]
        share = (time - self.time[after - 1]) / step if step > 0.0 else 1.0

        def between(name: str) -> Any:
            values = getattr(self, name)
            return values[after - 1] + share * (values[after] - values[after - 1])

        others = ("time", "gates", "event")
        shown = {name: between(name) for name in Moment._fields if name not in others}
        for name in ("quaternion", "reference_quaternion"):
            shown[name] = np.asarray(so3.normalise(shown[name]))
        now = after if share >= 1.0 else after - 1
        return Moment(time=time, gates=self.gates[now], event=self.event[now], **shown)

    def trail(self, time: float, seconds: float) -> tuple[np.ndarray, np.ndarray]:
        """Points [N, 3] and speeds [N] of the last seconds up to a moment."""
        shown = (self.time > time - seconds) & (self.time < time)
        now = self.at(time)
        points = np.concatenate([self.position[shown], now.position[None]])
        return points, np.append(self.speed[shown], now.speed)


def flight_of(
    rollout: Rollout,
    task: Task,
    vehicle: Vehicle,
    scenario: Scenario | None,
    number: int,
    title: str,
    path: Path | None = None,
) -> Flight:
    """Prepare a recorded flight.

    Args:
        rollout: as the plant, hardware or a file gave it.
        task: for laps, fans and the path.
        vehicle: for the propellers.
        scenario: the conditions of the run, if they are known.
        number: of the flight in its run; a scenario may change from flight to flight.
        title: what it is called on screen.
        path: its reference, if it is known.
    """
    valid = np.asarray(rollout.valid)
    time = np.asarray(rollout.time, float)[valid]
    position = np.asarray(rollout.truth.position, float)[valid]
    wanted = np.asarray(rollout.reference.position, float)[valid]
    speed = np.linalg.norm(np.asarray(rollout.truth.velocity, float)[valid], axis=-1)
    rate = np.asarray(rollout.phase_rate, float)[valid]
    goal = np.asarray(rollout.time_scale, float)[valid]
    crashed = np.asarray(rollout.crashed)[valid]
    extra = rollout.diagnostics
    rotor_speed = np.full((len(time), 4), vehicle.hover_speed)
    if hasattr(extra, "rotor_speed"):
        rotor_speed = np.asarray(extra.rotor_speed, float)[valid]
    air = None
    if hasattr(extra, "air_velocity"):
        air = np.asarray(extra.air_velocity, float)[valid]
    steady, fan_scale = _weather(scenario, number, time)
    wind = steady if air is None else air - jets(task.fans, fan_scale, position)
    return Flight(
        number=number,
        title=title,
        time=time,
        position=position,
        quaternion=_quaternions(rollout.truth.rotation, valid),
        reference_position=wanted,
        reference_quaternion=_quaternions(rollout.reference.rotation, valid),
        speed=speed,
        error=np.linalg.norm(position - wanted, axis=-1),
        # While the phase comes up to speed, it is the time scale that is gone to.
        time_scale=np.where(time < task.ramp_s, goal, 1.0 / np.maximum(rate, 1e-3)),
        lap=np.asarray(rollout.phase, float)[valid] / task.lap_s,
        blade_angle=_blade_angles(rotor_speed, time, vehicle.rotors.spin),
        wind=wind,
        fan_scale=fan_scale,
        gates=gate_states(task.gates, position),
        event=_events(rollout, valid),
        planned=_planned(path, task),
        crash_time=float(time[crashed][0]) if crashed.any() else float("inf"),
        metrics=flight_metrics(rollout, task, vehicle.limits),
    )


def _planned(path: Path | None, task: Task) -> np.ndarray | None:
    """Points [N, 3] of a flight's reference; None if that is the task's path, or not known."""
    points = None if path is None else path_points(path)
    return points if points is not None and leaves_path(task, points) else None


def _events(rollout: Rollout, valid: np.ndarray) -> tuple[str, ...]:
    """What does not go as planned at each tick, in the words of `metrics.event_in`."""
    fallback = np.zeros(len(valid)) if rollout.fallback is None else np.asarray(rollout.fallback)
    names = ("crashed", "fallback", "slow_down_factor")
    columns = (np.asarray(rollout.crashed), fallback, np.asarray(rollout.slow_down))
    ticks = zip(*(column[valid].tolist() for column in columns), strict=True)
    return tuple(event_in(dict(zip(names, tick, strict=True))) for tick in ticks)


def jets(fans: Sequence[Fan], scale: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Velocity [T, 3] of the fans' jets at points [T, 3], as the plant has it."""
    world: Any = SimpleNamespace(fans=fans, settings=SimpleNamespace(fan_scale=scale))
    found = [jet.velocity((), Vec3.of(points)).array() for jet in FanJet().instances(world)]
    return np.sum(np.asarray(found, float), axis=0)


def _weather(
    scenario: Scenario | None, number: int, time: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Steady wind [T, 3] and strength of the fans [T] that a scenario asks for."""
    if scenario is None:
        return np.zeros((len(time), 3)), np.zeros(len(time))
    before, after, start, over = scenario.settings_for(number)
    share = (time >= start).astype(float)
    if over > 0.0:
        share = np.clip((time - start) / over, 0.0, 1.0)
    first, last = np.asarray(before.wind_mps, float), np.asarray(after.wind_mps, float)
    wind = first + share[:, None] * (last - first)
    return wind, before.fan_scale + share * (after.fan_scale - before.fan_scale)


def _quaternions(rotations: Any, valid: np.ndarray) -> np.ndarray:
    """Quaternions [T, 4] of rotations; q and -q are the same, so that no step is a jump."""
    return continuous(np.asarray(so3.matrix_to_quaternion(np.asarray(rotations, float)[valid])))


def _blade_angles(rotor_speed: np.ndarray, time: np.ndarray, spin: np.ndarray) -> np.ndarray:
    # A rotor turns against the torque with which it acts on the body.
    steps = np.diff(time, append=time[-1])[:, None] * rotor_speed
    turned = np.concatenate([np.zeros((1, 4)), np.cumsum(steps, axis=0)[:-1]])
    return -SPIN_SHOWN * np.asarray(spin) * turned
