"""Transitions on the control clock, taken from a log with a finer clock.

The model steps by one control interval (20 ms). A log sampled at 100 Hz holds two interleaved
sequences of such steps; both are used. A command is the mean over its interval.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import jax
import numpy as np

from lafr_mjx.model.data import Transitions
from lafr_mjx.model.residual import COMMANDS
from lafr_mjx.model.state import ModelState
from lafr_mjx.types import CONTROL_DT, SAMPLE_DT

if TYPE_CHECKING:
    from collections.abc import Sequence

Rows = TypeVar("Rows")

STRIDE = round(CONTROL_DT / SAMPLE_DT)
"""Samples of a log per control interval."""

REACH = STRIDE * (COMMANDS - 1)
"""Samples back to the oldest command that the model remembers."""

_QUANTUM = 4096  # rows


class Recording(NamedTuple):
    """A flight on the 100 Hz clock, ready for the model (NumPy, float32)."""

    state: ModelState  # [N, ...]
    command: np.ndarray  # [N, 4] mean over the control interval that begins at the sample
    usable: np.ndarray  # [N] bool, False in gaps


def recording(
    position: np.ndarray,
    velocity: np.ndarray,
    rotation: np.ndarray,
    command: np.ndarray,
    usable: np.ndarray,
) -> Recording:
    """From samples; `command` [N, 4] holds means over one sample interval each."""
    following = np.concatenate([command[1:], command[-1:]])
    good = usable & np.isfinite(position).all(-1) & np.isfinite(velocity).all(-1)
    good &= np.isfinite(rotation).all((-1, -2)) & np.isfinite(command).all(-1)
    state = ModelState(*(np.asarray(x, np.float32) for x in (position, velocity, rotation)))
    mean = np.asarray(0.5 * (command + following), np.float32)
    return Recording(state, np.nan_to_num(mean), good)


def command_windows(record: Recording, index: np.ndarray) -> np.ndarray:
    """The last commands [..., COMMANDS, 4] at samples, newest first; the first one is repeated."""
    back = index[..., None] - STRIDE * np.arange(COMMANDS)
    return record.command[np.maximum(back, 0)]


def _whole(usable: np.ndarray, before: int, after: int) -> np.ndarray:
    """[N] whether all samples from `before` earlier to `after` later are there and usable."""
    bad = np.concatenate([[0], np.cumsum(~usable)])
    size = len(usable)
    index = np.arange(size)
    low, high = np.maximum(index - before, 0), np.minimum(index + after + 1, size)
    return (bad[high] == bad[low]) & (index >= before) & (index + after < size)


def transitions(record: Recording, start: int = 0, stop: int | None = None) -> Transitions:
    """All rows that lie within samples [start, stop) (their past commands may lie before).

    Rows that touch a gap are not usable.
    """
    stop = len(record.usable) if stop is None else min(stop, len(record.usable))
    index = np.arange(start + STRIDE, stop - STRIDE)
    good = _whole(record.usable, REACH + STRIDE, STRIDE)[index]

    def at(where: np.ndarray) -> ModelState:
        return ModelState(*(leaf[where] for leaf in record.state))

    # The learner's rows hold JAX's arrays, these NumPy's; both serve.
    return Transitions(
        before=at(index - STRIDE),
        before_commands=cast("Any", command_windows(record, index - STRIDE)),
        now=at(index),
        commands=cast("Any", command_windows(record, index)),
        after=at(index + STRIDE),
        usable=cast("Any", good),
    )


def join(parts: Sequence[Rows]) -> Rows:
    """Rows (or windows) of several recordings, one after another."""
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


def filled(rows: Transitions) -> Transitions:
    """Filled up with rows that are not usable: few lengths, so that programs are found again."""
    count = len(rows.usable)
    index = np.minimum(np.arange(-(-count // _QUANTUM) * _QUANTUM), count - 1)
    longer = jax.tree.map(lambda leaf: np.asarray(leaf)[index], rows)
    return longer._replace(usable=longer.usable * (np.arange(len(index)) < count))


class Windows(NamedTuple):
    """Stretches of flight to predict: a start, the commands along it, and what was measured."""

    start: ModelState  # [W, ...]
    commands: np.ndarray  # [W, steps, COMMANDS, 4]
    truth: ModelState  # [W, steps, ...] after each step
    index: np.ndarray  # [W] sample of the start


def windows(record: Recording, start: int, stop: int, steps: int, every: int = 5) -> Windows:
    """Windows of `steps` control intervals that start at every n-th sample in [start, stop)."""
    stop = min(stop, len(record.usable))
    index = np.arange(start, stop - steps * STRIDE, every)
    index = index[_whole(record.usable, REACH, steps * STRIDE)[index]]
    along = index[:, None] + STRIDE * np.arange(steps)
    return Windows(
        start=ModelState(*(leaf[index] for leaf in record.state)),
        commands=command_windows(record, along),
        truth=ModelState(*(leaf[along + STRIDE] for leaf in record.state)),
        index=index,
    )
