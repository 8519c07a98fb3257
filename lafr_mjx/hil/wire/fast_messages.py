"""The messages that pass a hundred times a second, by `struct`: the same, in a fifth of the time.

A decoder here knows the layout that every sound message of its type has. Whatever differs from it
in the least, it leaves to the decoder that serves all types: nothing is refused here, and nothing
is accepted that would be refused there.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    Decoder = Callable[[bytes], Any]  # None: left to the decoder of all types

_HEADER = struct.Struct("<IiII")  # sequence, seconds, nanoseconds, length of the frame's name
_POSE = struct.Struct("<7d")
_STATE = struct.Struct("<32dI")  # all but the header and the motors, and how many of these follow
_LENGTH = struct.Struct("<I")
_TELEMETRY = struct.Struct("<??idd")  # what is between the bridge's name and the reference
_VOLTAGE = struct.Struct("<d")
_FRAME = b"world"
_COMMAND = struct.Struct(f"<IIII{len(_FRAME)}sd?8d")
_COMMAND_BODY = struct.Struct("<d?4d")  # all but the header and the single thrusts
_THRUSTS = 4
_MOST_MOTORS = 32


def decoders(message_class: Callable[[str], Any]) -> dict[str, Decoder]:
    """Decoder of each type that has one here.

    Args:
        message_class: gives the class of a message by its name.
    """
    state = _state_decoder(message_class)

    def whole_state(data: bytes) -> Any:
        message, end = state(data, 0)
        return message if end == len(data) else None

    made = {
        "agiros_msgs/QuadState": whole_state,
        "agiros_msgs/Telemetry": _telemetry_decoder(message_class, state),
        "agiros_msgs/Command": _command_decoder(message_class),
        "geometry_msgs/PoseStamped": _pose_decoder(message_class),
    }
    return {name: _or_nothing(decode) for name, decode in made.items()}


def command_bytes(sequence: int, seconds: float, command: tuple[float, ...]) -> bytes:
    """An `agiros_msgs/Command` of thrust and body rates.

    Args:
        sequence: counts the commands.
        seconds: of the stamp, and of the message's own time.
        command: [4].
    """
    thrust, roll, pitch, yaw = command
    whole, rest = divmod(round(seconds * 1e9), 1_000_000_000)
    return _COMMAND.pack(
        sequence & 0xFFFFFFFF, whole & 0xFFFFFFFF, rest, len(_FRAME), _FRAME, seconds, False,
        thrust, roll, pitch, yaw, 0.0, 0.0, 0.0, 0.0,
    )  # fmt: skip


def _or_nothing(decode: Decoder) -> Decoder:
    def careful(data: bytes) -> Any:
        try:
            return decode(data)
        except Exception:  # too short, or text that is none: others say what is wrong with it
            return None

    return careful


def _header_decoder(message_class: Callable[[str], Any]) -> Callable[..., tuple[Any, int]]:
    header, time = message_class("std_msgs/Header"), message_class("builtin_interfaces/Time")

    def decode(data: bytes, at: int) -> tuple[Any, int]:
        sequence, seconds, nanoseconds, length = _HEADER.unpack_from(data, at)
        frame, end = _text(data, at + _HEADER.size, length)
        return header(sequence, time(seconds, nanoseconds), frame), end

    return decode


def _text(data: bytes, at: int, length: int) -> tuple[str, int]:
    end = at + length
    if end > len(data):  # a slice would be cut short without a word
        raise ValueError("a text goes beyond the end")
    return data[at:end].decode(), end


def _state_decoder(message_class: Callable[[str], Any]) -> Callable[..., tuple[Any, int]]:
    header = _header_decoder(message_class)
    kind, pose, point, turn, twist, vector = (
        message_class(name)
        for name in (
            "agiros_msgs/QuadState", "geometry_msgs/Pose", "geometry_msgs/Point",
            "geometry_msgs/Quaternion", "geometry_msgs/Twist", "geometry_msgs/Vector3",
        )
    )  # fmt: skip

    def decode(data: bytes, at: int) -> tuple[Any, int]:
        head, at = header(data, at)
        (
            t, px, py, pz, qx, qy, qz, qw, vx, vy, vz, wx, wy, wz, ax, ay, az, bx, by, bz,
            cx, cy, cz, gx, gy, gz, jx, jy, jz, sx, sy, sz, motors,
        ) = _STATE.unpack_from(data, at)  # fmt: skip
        if not 1 <= motors <= _MOST_MOTORS:
            raise ValueError("an unusual number of motors")
        at += _STATE.size
        speeds = np.frombuffer(data, "<f8", motors, at)
        message = kind(
            head, t, pose(point(px, py, pz), turn(qx, qy, qz, qw)),
            twist(vector(vx, vy, vz), vector(wx, wy, wz)),
            twist(vector(ax, ay, az), vector(bx, by, bz)),
            vector(cx, cy, cz), vector(gx, gy, gz), vector(jx, jy, jz), vector(sx, sy, sz), speeds,
        )  # fmt: skip
        return message, at + 8 * motors

    return decode


def _telemetry_decoder(
    message_class: Callable[[str], Any], state: Callable[..., tuple[Any, int]]
) -> Decoder:
    header = _header_decoder(message_class)
    kind, text, boolean = (
        message_class(name)
        for name in ("agiros_msgs/Telemetry", "std_msgs/String", "std_msgs/Bool")
    )

    def decode(data: bytes) -> Any:
        head, at = header(data, 0)
        (t,) = _VOLTAGE.unpack_from(data, at)
        (length,) = _LENGTH.unpack_from(data, at + 8)
        name, at = _text(data, at + 12, length)
        armed, guard, queued, left, rmse = _TELEMETRY.unpack_from(data, at)
        reference, at = state(data, at + _TELEMETRY.size)
        (voltage,) = _VOLTAGE.unpack_from(data, at)
        if at + _VOLTAGE.size != len(data):
            return None
        return kind(
            head, t, text(name), boolean(armed), boolean(guard), queued, left, rmse, reference,
            voltage,
        )  # fmt: skip

    return decode


def _pose_decoder(message_class: Callable[[str], Any]) -> Decoder:
    header = _header_decoder(message_class)
    kind, pose, point, turn = (
        message_class(f"geometry_msgs/{name}")
        for name in ("PoseStamped", "Pose", "Point", "Quaternion")
    )

    def decode(data: bytes) -> Any:
        head, at = header(data, 0)
        if at + _POSE.size != len(data):
            return None
        x, y, z, qx, qy, qz, qw = _POSE.unpack_from(data, at)
        return kind(head, pose(point(x, y, z), turn(qx, qy, qz, qw)))

    return decode


def _command_decoder(message_class: Callable[[str], Any]) -> Decoder:
    header = _header_decoder(message_class)
    kind, vector = (message_class(n) for n in ("agiros_msgs/Command", "geometry_msgs/Vector3"))

    def decode(data: bytes) -> Any:
        head, at = header(data, 0)
        t, single, thrust, x, y, z = _COMMAND_BODY.unpack_from(data, at)
        at += _COMMAND_BODY.size
        if at + 8 * _THRUSTS != len(data):
            return None
        return kind(head, t, single, thrust, vector(x, y, z), np.frombuffer(data, "<f8", 4, at))

    return decode
