"""ROS 1 messages: the definitions under `hil/msg`, their digests, bytes and back.

A ROS 1 peer refuses a message whose digest differs from its own. `rosbags` computes the digests
and does the serialisation; no ROS installation is needed. Names are written as in ROS 1
(`agiros_msgs/Command`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from lafr_mjx.hil.wire import fast_messages
from lafr_mjx.resources import data_folder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rosbags.typesys.store import Typestore

AGIROS_DIGESTS = {
    "agiros_msgs/Command": "4d577bccd8c13adfb614a4c929e12409",
    "agiros_msgs/QuadState": "64abc96085c98da0b390e079b723be37",
    "agiros_msgs/Telemetry": "5251574f675e7717477eef1003887d54",
    "agiros_msgs/Setpoint": "7664ff7a9a9bd8a5486517df47844f44",
    "agiros_msgs/Reference": "e374aa4139d56741a12f70c4fa22044e",
}
"""Digests that an Agilicious pilot expects; preflight compares them with ours."""


class MalformedError(Exception):
    """Bytes that are not a message of the type that was promised."""


class OutdatedError(MalformedError):
    """A message that is no newer than the one before it."""


class MessageType(NamedTuple):
    """What a peer is told about a message."""

    name: str  # e.g. "std_msgs/Bool"
    digest: str  # md5
    definition: str


@lru_cache(maxsize=1)
def store() -> Typestore:
    """All known messages: those of ROS Noetic and those under `hil/msg`."""
    known = get_typestore(Stores.ROS1_NOETIC)
    added: dict[str, Any] = {}
    for path in sorted(data_folder("hil").glob("msg/*/*.msg")):
        name = f"{path.parent.name}/msg/{path.stem}"
        added.update(get_types_from_msg(path.read_text(encoding="utf-8"), name))
    known.register(added)
    return known


def _long(name: str) -> str:
    package, _, kind = name.rpartition("/")
    return f"{package}/msg/{kind}"


@lru_cache
def message_type(name: str) -> MessageType:
    """Digest and definition of a message."""
    definition, digest = store().generate_msgdef(_long(name))
    return MessageType(name, digest, definition)


@lru_cache
def message_class(name: str) -> Any:
    """The class that `decode` returns and `encode` takes."""
    return store().types[_long(name)]


@lru_cache(maxsize=1)
def _fast_decoders() -> dict[str, fast_messages.Decoder]:
    return fast_messages.decoders(message_class)


def encode(name: str, message: Any) -> bytes:
    """Bytes of a message."""
    return bytes(store().serialize_ros1(message, _long(name)))


def decode(name: str, data: bytes) -> Any:
    """Message of these bytes; raises `MalformedError` whatever is wrong with them."""
    fast = _fast_decoders().get(name)
    if fast is not None and (message := fast(data)) is not None:
        return message
    try:
        return store().deserialize_ros1(data, _long(name))
    except Exception as error:  # random bytes make the reader raise almost anything
        raise MalformedError(f"{name}: {error}") from error


def header(seconds: float, sequence: int = 0, frame: str = "world") -> Any:
    """A `std_msgs/Header` with a stamp in seconds."""
    return message_class("std_msgs/Header")(sequence & 0xFFFFFFFF, stamp(seconds), frame)


def stamp(seconds: float) -> Any:
    """A ROS time."""
    nanoseconds = round(seconds * 1e9)
    kind = store().types["builtin_interfaces/msg/Time"]
    return kind(nanoseconds // 1_000_000_000, nanoseconds % 1_000_000_000)


def seconds(stamped: Any) -> float:
    """Seconds of a ROS time."""
    return stamped.sec + 1e-9 * stamped.nanosec


def vector(values: Iterable[float]) -> Any:
    """A `geometry_msgs/Vector3`."""
    x, y, z = values
    return message_class("geometry_msgs/Vector3")(float(x), float(y), float(z))


def pose(position: Iterable[float], quaternion_wxyz: Iterable[float]) -> Any:
    """A `geometry_msgs/Pose`; ROS writes quaternions as xyzw."""
    w, x, y, z = (float(value) for value in quaternion_wxyz)
    point = message_class("geometry_msgs/Point")(*(float(value) for value in position))
    turn = message_class("geometry_msgs/Quaternion")(x, y, z, w)
    return message_class("geometry_msgs/Pose")(point, turn)


def pose_stamped(
    position: Iterable[float],
    quaternion_wxyz: Iterable[float],
    time_s: float,
    sequence: int = 0,
) -> Any:
    """A `geometry_msgs/PoseStamped` in the world frame."""
    return message_class("geometry_msgs/PoseStamped")(
        header(time_s, sequence), pose(position, quaternion_wxyz)
    )


def twist(linear: Iterable[float], angular: Iterable[float]) -> Any:
    """A `geometry_msgs/Twist`."""
    return message_class("geometry_msgs/Twist")(vector(linear), vector(angular))


def boolean(value: bool) -> Any:
    """A `std_msgs/Bool`."""
    return message_class("std_msgs/Bool")(bool(value))


def text(value: str) -> Any:
    """A `std_msgs/String`."""
    return message_class("std_msgs/String")(value)


def empty() -> Any:
    """A `std_msgs/Empty`."""
    return message_class("std_msgs/Empty")()
