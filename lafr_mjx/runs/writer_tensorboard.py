"""Curves in TensorBoard, by tensorboardX: every number of an iteration's record is a scalar."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from lafr_mjx.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path


class Tensorboard:
    """Event files in the folder `tensorboard` of the run."""

    def __init__(self) -> None:
        """Refuse to begin without the package."""
        if importlib.util.find_spec("tensorboardX") is None:
            raise InputError("needs tensorboardX: pip install 'lafr-mjx[tensorboard]'")

    def start(self, folder: Path, config: dict[str, Any]) -> None:
        """Files of an interrupted run are replaced."""
        from tensorboardX import SummaryWriter

        del config
        for old in (folder / "tensorboard").glob("events.out.tfevents.*"):
            old.unlink()
        self._writer = SummaryWriter(str(folder / "tensorboard"))

    def iteration(self, number: int, record: dict[str, Any], flight: Any) -> None:
        """A point of each curve."""
        del flight
        for key, value in record.items():
            if isinstance(value, int | float):
                self._writer.add_scalar(key, value, number)
        self._writer.flush()

    def close(self) -> None:
        """Close the file."""
        self._writer.close()
