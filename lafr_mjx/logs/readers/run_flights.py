"""The project's own recorded flights: run folders and the rollout files in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lafr_mjx import so3
from lafr_mjx.errors import InputError
from lafr_mjx.logs.log_readers import LogReader, ReadOptions
from lafr_mjx.logs.raw_log import RawLog, Signal

if TYPE_CHECKING:
    from pathlib import Path

    from lafr_mjx.arrays import Array
    from lafr_mjx.types import Rollout


class RunReader(LogReader):
    """Reads what was sensed at 100 Hz and what was sent at 50 Hz; never the truth."""

    label = "run folders and their rollouts/*.npz"
    suffixes = (".npz",)

    def recognises(self, path: Path) -> bool:
        """Folders by their configuration, files by their content."""
        return (path / "config.toml").is_file() or (super().recognises(path) and is_rollout(path))

    def read(self, path: Path, options: ReadOptions) -> list[RawLog]:
        """The flight, or every flight of the run, in order."""
        from lafr_mjx.runs.rollout_file import load_rollout
        from lafr_mjx.runs.run_folder import RunFolder

        if path.is_file():
            return [of_rollout(load_rollout(path), path)]
        numbers = RunFolder.open(path).rollout_numbers()
        if not numbers:
            raise InputError(f"{path}: the run has no recorded flights")
        files = [path / "rollouts" / f"{number:03d}.npz" for number in numbers]
        return [of_rollout(load_rollout(file), file) for file in files]


READER = RunReader()


def is_rollout(path: Path) -> bool:
    """Whether an `.npz` is a recorded flight of this project."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return "sensed.position" in file.files
    except Exception:
        return False  # who reads it says what is wrong


def of_rollout(rollout: Rollout, path: Path) -> RawLog:
    """A flight in memory as a log."""
    received = np.asarray(rollout.sample_received, bool)
    flying = np.asarray(rollout.valid, bool) & ~np.asarray(rollout.crashed, bool)
    kept = received & np.repeat(flying, 2)
    time = np.asarray(rollout.sample_time, float)[kept]
    ticks = np.asarray(rollout.time, float)[flying]
    commands = np.asarray(rollout.command, float)[flying]
    notes = []
    lost = int((~received & np.repeat(flying, 2)).sum())
    if lost:
        notes.append(f"{lost} samples of motion capture were lost")
    if not flying[np.asarray(rollout.valid, bool)].all():
        notes.append("the vehicle crashed; what follows is not used")

    def signal(values: Array, name: str) -> Signal:
        return Signal(time, np.asarray(values, float)[kept], name)

    sample = rollout.sample
    quaternion = so3.matrix_to_quaternion(np.asarray(sample.rotation, float))
    return RawLog(
        path=path,
        name=f"{path.parent.parent.name}/{path.stem}" if path.parent.name == "rollouts"
        else path.stem,
        position=signal(sample.position, "sample.position"),
        velocity=signal(sample.velocity, "sample.velocity"),
        quaternion=signal(quaternion, "sample.rotation"),
        rates=signal(sample.rates, "sample.rates"),
        thrust=Signal(ticks, commands[:, :1], "command", held=True),
        rate_command=Signal(ticks, commands[:, 1:], "command", held=True),
        notes=tuple(notes),
    )  # fmt: skip
