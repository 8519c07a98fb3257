"""What a run writes beside its own record: what a log writer is. The writers: a file each.

A run's own record, `iterations.jsonl`, is always there. The shipped writers are `writer_*.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from lafr_mjx import parts
from lafr_mjx.closing import Closing
from lafr_mjx.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from lafr_mjx.runs.run_folder import RunFolder
    from lafr_mjx.types import Rollout


class LogWriter(Protocol):
    """Told about a run while it goes on; its parameters are plain values."""

    def start(self, folder: Path, config: dict[str, Any]) -> None:
        """A run begins or goes on; all of its iterations follow, also those flown before.

        Args:
            folder: of the run; what is written there should have a name of its own.
            config: what `config.toml` in it says.
        """
        ...

    def iteration(self, number: int, record: dict[str, Any], flight: Rollout | None) -> None:
        """An iteration is done and stored.

        Args:
            number: from 0.
            record: its line of `iterations.jsonl`.
            flight: as it was recorded; None if its file is gone.
        """
        ...

    def close(self) -> None:
        """The run ends, or is interrupted."""
        ...


def writer_of(text: str) -> Any:
    """The writer that a text names, see `parts`.

    Raises:
        InputError: there is none, it is no writer, or it needs what is not installed.
    """
    writer = parts.made(parts.LOG, text)
    for name in ("start", "iteration", "close"):
        if not callable(getattr(writer, name, None)):
            raise InputError(f"--log {text}: has no '{name}': it is no log writer")
    return writer


class Logs(Closing):
    """The writers of a run. One that fails is told and left out; the run goes on."""

    def __init__(
        self, texts: Sequence[str], folder: RunFolder, tell: Callable[[str], None]
    ) -> None:
        """Begin them anew, and tell them what was flown before."""
        self._writers = {text: writer_of(text) for text in texts}
        self._folder, self._tell, self._told = folder, tell, 0
        self._each("start", folder.path, folder.config)
        self.update()

    def update(self) -> None:
        """Tell them what the run has stored since."""
        for record in self._folder.iterations()[self._told :] if self._writers else ():
            number = record["iteration"]
            try:
                flight = self._folder.load_rollout(number)
            except InputError:  # people delete flights to save space
                flight = None
            self._each("iteration", number, record, flight)
            self._told += 1

    def close(self) -> None:
        """Close them."""
        self._each("close")
        self._writers = {}

    def _each(self, method: str, *arguments: Any) -> None:
        for text, writer in list(self._writers.items()):
            try:
                getattr(writer, method)(*arguments)
            except Exception as error:  # whatever the user's code does
                del self._writers[text]
                self._tell(
                    f"--log {text}: '{method}' fails: {parts.reason(error)}; it is left out from "
                    f"now on, and the run goes on"
                )
