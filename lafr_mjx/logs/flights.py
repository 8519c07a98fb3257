"""The project's own recorded flights: run folders and the rollout files in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lafr_mjx import so3
from lafr_mjx.errors import InputError
from lafr_mjx.logs.raw import RawLog, Signal

if TYPE_CHECKING:
    from pathlib import Path

    from lafr_mjx.arrays import Array
    from lafr_mjx.types import Rollout


def read_rollout(path: Path) -> RawLog:
    """One flight: what was sensed at 100 Hz and what was sent at 50 Hz; never the truth."""
    from lafr_mjx.runs.rollout_file import load_rollout

    return of_rollout(load_rollout(path), path)


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


def read_run_folder(path: Path) -> list[RawLog]:
    """Every flight of a run, in order."""
    from lafr_mjx.runs.run_folder import RunFolder

    folder = RunFolder.open(path)
    numbers = folder.rollout_numbers()
    if not numbers:
        raise InputError(f"{path}: the run has no recorded flights")
    return [read_rollout(path / "rollouts" / f"{number:03d}.npz") for number in numbers]
