"""State of the learner's model: x = (p, v, R), all with leading batch axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from lafr_mjx.arrays import Array
    from lafr_mjx.types import Reference, State


class ModelState(NamedTuple):
    """Position and velocity in the world, attitude from body to world."""

    position: Array  # [..., 3] m
    velocity: Array  # [..., 3] m/s
    rotation: Array  # [..., 3, 3]


def of(state: State | Reference) -> ModelState:
    """The part of a sensed state, or of a reference, that the model knows."""
    return ModelState(state.position, state.velocity, state.rotation)
