"""Recorded flights as ROS bags, and back."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from lafr_mjx.errors import InputError, RunError
from lafr_mjx.hil.recording.spool import Record, SpoolReader
from lafr_mjx.hil.wire.ros_messages import MalformedError, decode, message_type
from lafr_mjx.logs.flown_ticks import STATE, TICK, Message, flown, is_needed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from lafr_mjx.types import Rollout


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
    """All flights of a recording by their number, see `logs.flown_ticks`."""
    return flown(_decoded(records))


def _decoded(records: Iterable[Record]) -> Iterator[Message]:
    for record in records:
        if is_needed(record.topic, record.kind):
            with contextlib.suppress(MalformedError):  # dropped at its receipt, too
                message = decode(record.kind, record.data)
                yield Message(record.topic, record.kind, record.wall, message)
