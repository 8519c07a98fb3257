"""Flights in a recording of a drone's control process, as `Rollout`s: its ticks, and the states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lafr_mjx import so3
from lafr_mjx.errors import InputError
from lafr_mjx.logs.bag_file import BagFile
from lafr_mjx.types import CONTROL_DT, SAMPLE_DT, Reference, Rollout, State

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

TICK_TOPIC = "/lafr_mjx/tick"
TICK = "lafr_mjx_msgs/Tick"
STATE = "agiros_msgs/QuadState"


class Message(NamedTuple):
    """One recorded message, decoded."""

    topic: str
    kind: str  # e.g. "agiros_msgs/QuadState"
    recorded: float  # s since 1970
    content: Any


def is_needed(topic: str, kind: str) -> bool:
    """Whether flights are made of messages like this one."""
    return (topic, kind) == (TICK_TOPIC, TICK) or (kind == STATE and topic.endswith("/state"))


def flights_of_bag(path: Path) -> dict[int, Rollout]:
    """All flights of a bag by their number, read by the definitions that it carries."""
    with BagFile(path) as bag:
        kinds = {topic: kind.replace("/msg/", "/") for topic, kind in bag.types.items()}
        needed = [topic for topic, kind in kinds.items() if is_needed(topic, kind)]
        messages = (
            Message(m.topic, kinds[m.topic], 1e-9 * m.recorded, bag.decode(m))
            for m in bag.messages(needed)
        )
        try:
            found = flown(messages)
        except (AttributeError, ValueError) as error:  # a definition that is not ours
            raise InputError(f"{path}: is of another version of this program: {error}") from error
    if not found:
        raise InputError(f"{path}: holds no flight of this program (topic {TICK_TOPIC})")
    return found


def flown(messages: Iterable[Message]) -> dict[int, Rollout]:
    """All flights of a recording by their number; none if it has no ticks of ours.

    A flight that was broken off (mode left `policy`) ends there, marked as crashed only if the
    vehicle was: that is not known here, so never.
    """
    ticks: dict[int, list[Any]] = {}
    states: list[tuple[float, Any]] = []
    offset = None
    for message in messages:
        if message.kind == TICK:
            tick = message.content
            offset = tick.header.stamp.sec + 1e-9 * tick.header.stamp.nanosec - tick.time
            if tick.leg >= 0:
                ticks.setdefault(tick.leg, []).append(tick)
        else:
            states.append((message.recorded, message.content))
    if offset is None:
        return {}
    moments = np.array([wall - offset for wall, _ in states])
    return {
        number: _rollout(rows, moments, [state for _, state in states])
        for number, rows in sorted(ticks.items())
        if len(rows) > 1
    }


def _rollout(ticks: list[Any], moments: np.ndarray, states: list[Any]) -> Rollout:
    def column(name: str, shape: tuple[int, ...] = ()) -> np.ndarray:
        values = np.array([np.asarray(getattr(tick, name), float) for tick in ticks])
        return values.reshape((len(ticks), *shape))

    start = ticks[0].time - ticks[0].leg_time
    sensed = State(
        column("position", (3,)), column("velocity", (3,)), column("rotation", (3, 3)),
        column("rates", (3,)),
    )  # fmt: skip
    time = column("leg_time")
    sample_time, sample, received = _samples(len(ticks), start, moments, states)
    return Rollout(
        time=time,
        valid=np.ones(len(ticks), bool),
        sensed=sensed,
        stamp=column("stamp") - start,
        command=column("command", (4,)),
        reference=Reference(
            position=column("reference_position", (3,)),
            velocity=column("reference_velocity", (3,)),
            acceleration=column("reference_acceleration", (3,)),
            jerk=column("reference_jerk", (3,)),
            rotation=column("reference_rotation", (3, 3)),
            rates=column("reference_rates", (3,)),
            thrust=column("reference_thrust"),
        ),
        phase=column("phase"),
        phase_rate=column("phase_rate"),
        time_scale=column("time_scale"),
        truth=sensed,
        crashed=np.zeros(len(ticks), bool),
        sample_time=sample_time,
        sample=sample,
        sample_received=received,
        diagnostics=None,
        fallback=np.array([tick.controller != ticks[0].controller for tick in ticks]),
    )


def _samples(
    ticks: int, start: float, moments: np.ndarray, states: list[Any]
) -> tuple[np.ndarray, State, np.ndarray]:
    """The 100 Hz states of a flight, one for each 10 ms; gaps are not received."""
    count = 2 * ticks
    grid = SAMPLE_DT * (1.0 + np.arange(count))
    sample = State(
        np.zeros((count, 3)), np.zeros((count, 3)), np.tile(np.eye(3), (count, 1, 1)),
        np.zeros((count, 3)),
    )  # fmt: skip
    sample_time, received = grid.copy(), np.zeros(count, bool)
    inside = np.flatnonzero(
        (moments > start) & (moments <= start + ticks * CONTROL_DT + 0.5 * SAMPLE_DT)
    )
    for i in inside:
        at = moments[i] - start
        k = round(at / SAMPLE_DT) - 1
        if not 0 <= k < count or (
            received[k] and abs(sample_time[k] - grid[k]) < abs(at - grid[k])
        ):
            continue
        pose, twist = states[i].pose, states[i].velocity
        turn = pose.orientation
        quaternion = np.array([turn.w, turn.x, turn.y, turn.z])
        motion = np.array(
            [[getattr(v, axis) for axis in "xyz"] for v in (pose.position, twist.linear,
             twist.angular)]
        )  # fmt: skip
        length = np.linalg.norm(quaternion)
        if not np.isfinite(motion).all() or not abs(length - 1.0) < 0.01:
            continue
        sample_time[k], received[k] = at, True
        sample.position[k], sample.velocity[k], sample.rates[k] = motion
        sample.rotation[k] = so3.quaternion_to_matrix(quaternion / length)
    return sample_time, sample, received
