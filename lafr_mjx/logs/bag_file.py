"""The one door to ROS bags, for fitting to them and for replaying them. No ROS needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from lafr_mjx.closing import Closing
from lafr_mjx.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from rosbags.interfaces import Connection


class BagMessage(NamedTuple):
    """One recorded message."""

    topic: str
    kind: str  # as bags name it: "agiros_msgs/msg/QuadState"
    digest: str  # of its definition, as the recording says; empty if it does not
    recorded: int  # ns since 1970
    data: bytes


class BagFile(Closing):
    """A ROS 1 or ROS 2 bag, open for reading. Use it as a context manager.

    Whatever is wrong with a bag is an `InputError` that names it, also while it is read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.exists():
            raise InputError(f"{path}: there is no such bag")
        if path.suffix == ".bag" and path.is_dir():
            raise InputError(f"{path}: is a folder, not a bag")
        try:
            from rosbags.highlevel import AnyReader
            from rosbags.typesys import Stores, get_typestore
        except ImportError as error:
            raise InputError(f"{path}: reading bags needs rosbags: pip install rosbags") from error
        try:
            default = get_typestore(Stores.ROS1_NOETIC if path.suffix == ".bag" else Stores.LATEST)
            self._reader = AnyReader([path], default_typestore=default)
            self._reader.open()
        except Exception as error:
            raise self._unreadable(error) from error

    @property
    def types(self) -> dict[str, str]:
        """The type of each topic."""
        return {c.topic: c.msgtype for c in self._reader.connections}

    def messages(self, topics: Collection[str] | None = None) -> Iterator[BagMessage]:
        """Messages in the order in which they were recorded; of all topics, or of these."""
        wanted: list[Connection] = [
            c for c in self._reader.connections if topics is None or c.topic in topics
        ]
        if not wanted:
            return
        source = self._reader.messages(wanted)
        while True:
            try:
                connection, recorded, data = next(source)
            except StopIteration:
                return
            except Exception as error:  # a cut or mangled bag makes its reader raise anything
                raise self._unreadable(error) from error
            yield BagMessage(
                connection.topic, connection.msgtype, connection.digest, recorded, bytes(data)
            )

    def decode(self, message: BagMessage) -> Any:
        """The message by the definition that the bag itself carries."""
        try:
            return self._reader.deserialize(message.data, message.kind)
        except Exception as error:
            raise self._unreadable(error) from error

    def close(self) -> None:
        """Close the file."""
        self._reader.close()

    def _unreadable(self, error: Exception) -> InputError:
        return InputError(f"{self.path}: is not a readable bag: {type(error).__name__}: {error}")
