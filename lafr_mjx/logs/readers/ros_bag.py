"""ROS bags: agiros state and commands, odometry, MAVROS attitude targets. No ROS needed.

States come from `agiros_msgs/QuadState` or `nav_msgs/Odometry`, commands from
`agiros_msgs/Command` or `mavros_msgs/AttitudeTarget`. Topics are found by these types; where
there are several, the most likely one is taken and the notes say which. Stamps are those of the
headers; a message without one has the time at which it was recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lafr_mjx import so3
from lafr_mjx.errors import InputError
from lafr_mjx.logs.bag_file import BagFile
from lafr_mjx.logs.log_readers import LogReader, ReadOptions
from lafr_mjx.logs.raw_log import RawLog, Signal
from lafr_mjx.logs.smoothing import differentiate
from lafr_mjx.types import GRAVITY

if TYPE_CHECKING:
    from pathlib import Path

# Types in order of preference, and for each the ends of topic names in order of preference.
_STATES = {
    "agiros_msgs/msg/QuadState": ("agiros_pilot/state", "state"),
    "nav_msgs/msg/Odometry": ("agiros_pilot/odometry", "odometry", "local_position/odom"),
}
_COMMANDS = {
    "agiros_msgs/msg/Command": ("feedthrough_command", "command", "mpc_command"),
    "mavros_msgs/msg/AttitudeTarget": ("setpoint_raw/attitude", "target_attitude"),
}
_IGNORE_RATES = 7  # AttitudeTarget: type_mask bits of roll, pitch and yaw rate
_IGNORE_THRUST = 64


class BagReader(LogReader):
    """Reads ROS 1 and ROS 2 bags; those of ROS 2 may be folders."""

    label = "ROS bags (.bag, .mcap, .db3, ROS 2 folders)"
    suffixes = (".bag", ".mcap", ".db3")

    def recognises(self, path: Path) -> bool:
        """Files by their suffix, folders by their metadata."""
        return super().recognises(path) or (path / "metadata.yaml").is_file()

    def read(self, path: Path, options: ReadOptions) -> list[RawLog]:
        """One flight."""
        return [read_bag(path, options)]


READER = BagReader()


def read_bag(path: Path, options: ReadOptions = ReadOptions()) -> RawLog:
    """Read one flight of a ROS 1 or ROS 2 bag."""
    found = _messages(path, options)
    (state_topic, state_type, states), (command_topic, command_type, commands) = found
    notes = [f"states from {state_topic} ({state_type}), commands from {command_topic}"]
    fields = _state_fields(state_topic, states, state_type, notes)
    fields |= _commands(path, command_topic, commands, command_type, options, fields, notes)
    return RawLog(path=path, name=path.stem, notes=tuple(notes), **fields)


Messages = list[tuple[float, Any]]
"""Messages of a topic with their stamps [s]."""


def _messages(path: Path, options: ReadOptions) -> list[tuple[str, str, Messages]]:
    """Topic, type and messages of the states and of the commands."""
    with BagFile(path) as bag:
        types = bag.types
        state = _topic(path, types, _STATES, options.state_topic, "state")
        command = _topic(path, types, _COMMANDS, options.command_topic, "command")
        lists: dict[str, Messages] = {state: [], command: []}
        for item in bag.messages(lists):
            message = bag.decode(item)
            lists[item.topic].append((_stamp(message, item.recorded), message))
    for topic, messages in lists.items():
        if not messages:
            raise InputError(f"{path}: topic {topic} has no message")
    return [(topic, types[topic], lists[topic]) for topic in (state, command)]


def _topic(
    path: Path,
    types: dict[str, str],
    wanted: dict[str, tuple[str, ...]],
    given: str | None,
    role: str,
) -> str:
    if given is not None:
        if given not in types:
            raise InputError(
                f"--{role}-topic {given}: is not in {path}; it has {', '.join(sorted(types))}"
            )
        if types[given] not in wanted:
            raise InputError(
                f"--{role}-topic {given}: holds {types[given]}; {role}s are read from "
                f"{', '.join(wanted)}"
            )
        return given
    for kind, endings in wanted.items():
        names = sorted(topic for topic, found in types.items() if found == kind)
        for ending in endings:
            for name in names:
                if name.endswith(ending):
                    return name
        if names:
            return names[0]
    listed = ", ".join(f"{topic} ({kind})" for topic, kind in sorted(types.items()))
    raise InputError(
        f"{path}: no {role} in it: needed is one of {', '.join(wanted)}; "
        f"it has {listed or 'nothing'}"
    )


def _stamp(message: Any, recorded: int) -> float:
    stamp = message.header.stamp
    seconds = stamp.sec + 1e-9 * stamp.nanosec
    return seconds if seconds > 0.0 else 1e-9 * recorded


def _rows(messages: Messages, take: Any) -> np.ndarray:
    return np.array([take(message) for _, message in messages], float)


def _xyz(vector: Any) -> tuple[float, float, float]:
    return vector.x, vector.y, vector.z


def _state_fields(topic: str, messages: Messages, kind: str, notes: list[str]) -> dict[str, Any]:
    time = np.array([stamp for stamp, _ in messages])
    agiros = kind.endswith("QuadState")

    def pose(m: Any) -> Any:
        return m.pose if agiros else m.pose.pose

    def twist(m: Any) -> Any:
        return m.velocity if agiros else m.twist.twist

    position = _rows(messages, lambda m: _xyz(pose(m).position))
    quaternion = _rows(messages, lambda m: (pose(m).orientation.w, *_xyz(pose(m).orientation)))
    velocity = _rows(messages, lambda m: _xyz(twist(m).linear))
    rates = _rows(messages, lambda m: _xyz(twist(m).angular))
    if not agiros:
        velocity = _odometry_velocity(time, position, quaternion, velocity, notes)
    return {
        "position": Signal(time, position, f"{topic} pose"),
        "velocity": Signal(time, velocity, f"{topic} twist"),
        "quaternion": Signal(time, quaternion, f"{topic} orientation"),
        "rates": Signal(time, rates, f"{topic} angular velocity"),
    }


def _odometry_velocity(
    time: np.ndarray,
    position: np.ndarray,
    quaternion: np.ndarray,
    velocity: np.ndarray,
    notes: list[str],
) -> np.ndarray:
    """Velocity in the world. ROS says that the twist is in the child frame; not all agree."""
    step = float(np.median(np.diff(time))) if len(time) > 1 else 1.0
    rotation = np.asarray(so3.quaternion_to_matrix(quaternion))
    rotated = (rotation @ velocity[..., None])[..., 0]
    if len(time) < 10 or step <= 0.0:
        return rotated
    moved = differentiate(position, step, np.ones(len(time), bool))
    in_world = float(np.nanmedian(np.linalg.norm(velocity - moved, axis=1)))
    in_body = float(np.nanmedian(np.linalg.norm(rotated - moved, axis=1)))
    frame = "world" if in_world < in_body else "body"
    notes.append(f"the odometry's velocity is in the {frame} frame, as the positions show")
    return velocity if frame == "world" else rotated


def _commands(
    path: Path, topic: str, messages: Messages, kind: str, options: ReadOptions,
    state: dict[str, Signal], notes: list[str],
) -> dict[str, Signal]:  # fmt: skip
    """Collective thrust and body rates; messages that carry something else count as missing."""
    agiros = kind.endswith("Command")
    kept = [
        pair for pair in messages
        if not (pair[1].is_single_rotor_thrust if agiros
                else pair[1].type_mask & (_IGNORE_RATES | _IGNORE_THRUST))
    ]  # fmt: skip
    lost = len(messages) - len(kept)
    if len(kept) < len(messages) / 2:
        carried = (
            "command single rotors" if agiros else "carry no body rates or no thrust (type_mask)"
        )
        raise InputError(
            f"{path}: {lost} of {len(messages)} messages on {topic} {carried}; needed are "
            "collective thrust and body rates"
        )
    if lost:
        others = "commands for single rotors" if agiros else "targets without rates"
        notes.append(f"{lost} {others} count as missing")
    time = np.array([stamp for stamp, _ in kept])
    thrust = _rows(kept, lambda m: (m.collective_thrust if agiros else m.thrust,))
    rates = _rows(kept, lambda m: _xyz(m.bodyrates if agiros else m.body_rate))
    if not agiros:
        full = options.full_thrust
        if full is None:
            full = _full_thrust(path, topic, time, thrust, state)
            notes.append(
                f"MAVROS gives thrust as a share of full thrust; {full:.2f} m/s² at full thrust "
                "makes it carry the weight on average, so the mass cannot be told from this log "
                "(--full-thrust sets it)"
            )
        thrust = full * thrust
    return {
        "thrust": Signal(time, thrust, f"{topic} thrust", held=True),
        "rate_command": Signal(time, rates, f"{topic} rates", held=True),
    }


def _full_thrust(
    path: Path, topic: str, time: np.ndarray, share: np.ndarray, state: dict[str, Any]
) -> float:
    """Full thrust for which the specific force along the body's z axis fits on average."""
    attitude: Signal = state["quaternion"]
    inside = (time >= attitude.time[0]) & (time <= attitude.time[-1])
    if inside.sum() < 10:
        raise InputError(f"{path}: {topic} and the states do not overlap in time")
    up = so3.quaternion_to_matrix(attitude.values)[:, 2, 2]
    lift = np.interp(time[inside], attitude.time, up) * share[inside, 0]
    velocity = state["velocity"]
    ends = np.interp(time[inside][[0, -1]], velocity.time, velocity.values[:, 2])
    span = time[inside][-1] - time[inside][0]
    mean = float(np.mean(lift))
    if mean < 1e-3:
        raise InputError(f"{path}: the thrust on {topic} is {mean:.3g} on average; it never flew")
    return float((GRAVITY + (ends[1] - ends[0]) / max(span, 1e-3)) / mean)
