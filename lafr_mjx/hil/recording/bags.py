"""Recorded flights as ROS bags, and bags as `Rollout`s."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lafr_mjx import so3
from lafr_mjx.errors import InputError, RunError
from lafr_mjx.hil.recording.spool import Record, SpoolReader
from lafr_mjx.hil.wire.ros_messages import MalformedError, decode, message_type, seconds
from lafr_mjx.types import CONTROL_DT, SAMPLE_DT, Reference, Rollout, State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

TICK_TOPIC = "/lafr_mjx/tick"
TICK = "lafr_mjx_msgs/Tick"
STATE = "agiros_msgs/QuadState"


def write_bag(path: Path, records: Iterable[Record]) -> int:
    """Write records to a new bag; how many. Whole or not at all."""
    from rosbags.rosbag1 import Writer

    if path.exists():
        raise InputError(f"{path}: exists already, and nothing is overwritten")
    partial = path.with_name(f".{path.stem}.partial.bag")
    partial.unlink(missing_ok=True)
    count = 0
    try:
        with Writer(partial) as writer:
            connections: dict[tuple[str, str], Any] = {}
            for record in records:
                key = (record.topic, record.kind)
                if key not in connections:
                    kind = message_type(record.kind)
                    package, _, name = record.kind.rpartition("/")
                    connections[key] = writer.add_connection(
                        record.topic,
                        f"{package}/msg/{name}",
                        msgdef=kind.definition or "\n",
                        md5sum=kind.digest,
                        callerid="/lafr_mjx",
                    )
                writer.write(connections[key], round(record.wall * 1e9), record.data)
                count += 1
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    return count


def bag_of(spool: Path, bag: Path, tell: Callable[[str], None]) -> None:
    """Make the bag of a spool, if there is none yet; `tell` hears what stands against it."""
    if not spool.exists() or bag.exists():
        return
    try:
        write_bag(bag, read_records(spool, tell))
    except (OSError, InputError, RunError) as error:
        tell(f"no bag could be made of the recording {spool}: {error}")


def read_records(path: Path, tell: Callable[[str], None] | None = None) -> Iterator[Record]:
    """Records of a bag or of a spool, in the order of their time.

    Args:
        path: of the file.
        tell: is told of what cannot be read; of a killed session that is the last record.
    """
    if path.suffix == ".spool":
        spool = SpoolReader(path)
        yield from spool
        if spool.damaged and tell is not None:
            tell(f"{path}: {spool.damaged}; what comes after that is missing")
        return
    from lafr_mjx.logs.bag_file import BagFile

    with BagFile(path) as bag:
        for message in bag.messages():
            kind = message.kind.replace("/msg/", "/")
            if kind in (TICK, STATE) and message.digest != message_type(kind).digest:
                raise InputError(
                    f"{path}: {message.topic} holds {kind} with the digest {message.digest}; this "
                    f"version reads {message_type(kind).digest}"
                )
            yield Record(message.topic, kind, float("nan"), 1e-9 * message.recorded, message.data)


def flights(records: Iterable[Record]) -> dict[int, Rollout]:
    """All flights of a recording by their number; none if it has no ticks of ours.

    A flight that was broken off (mode left `policy`) ends there, marked as crashed only if the
    vehicle was: that is not known here, so never.
    """
    ticks: dict[int, list[Any]] = {}
    states: list[tuple[float, Any]] = []
    offset = None
    for record in records:
        try:
            if record.topic == TICK_TOPIC and record.kind == TICK:
                tick = decode(TICK, record.data)
                offset = seconds(tick.header.stamp) - tick.time
                if tick.leg >= 0:
                    ticks.setdefault(tick.leg, []).append(tick)
            elif record.kind == STATE and record.topic.endswith("/state"):
                states.append((record.wall, decode(record.kind, record.data)))
        except MalformedError:
            continue  # dropped at its receipt, too
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
