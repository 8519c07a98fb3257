"""What a controller is, for the simulated plant, the learner's model and the drone alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np

    from lafr_mjx.arrays import Array
    from lafr_mjx.types import CommandLimits, Reference, Sensed


class Controller(Protocol):
    """A pytree (its parameters are leaves) that turns a sensed state into a command.

    All references that it gets are relative to the moment at which the sensed state was
    taken, so that an old sample is compared with what was asked of it then.
    """

    def preview_s(self) -> Array:
        """[P] moments relative to the sample's stamp at which it wants the reference."""
        ...

    def start(self) -> Any:
        """Memory at the start of a flight."""
        ...

    def __call__(self, memory: Any, sensed: Sensed, references: Reference) -> tuple[Any, Array]:
        """New memory and command [4]; `references` has a leading axis of P."""
        ...


class Learnable(Controller, Protocol):
    """A controller that an adaptation flies, and trains if it has something to train."""

    @property
    def limits(self) -> CommandLimits:
        """Of its commands."""
        ...

    def resume(self, commands: Array) -> Any:
        """Memory in the midst of a flight, after these commands [N, 4], newest first."""
        ...

    def sent(self, memory: Any, command: Array) -> Any:
        """Memory when another command than its own was sent: with dither, or of a fallback."""
        ...

    def trained(self) -> Any:
        """The pytree that training changes; an empty one: there is nothing to train."""
        ...

    def with_trained(self, parameters: Any) -> Any:
        """The same controller with another such pytree."""
        ...


class Network(Protocol):
    """A policy network: a pytree whose leaves are its weights.

    Written with `lafr_mjx.arrays.namespace`, or with operators alone, it needs no JAX and flies
    on a drone, too. One that uses other sensors also has `sensing(inputs, sensed)`, which is called
    in its place where there is a `Sensed`; `sensed.measured` is empty in the learned model.
    """

    @classmethod
    def create(cls, rng: np.random.Generator, inputs: int, outputs: int) -> Network:
        """An untrained network; parameters of its own may follow, with defaults."""
        ...

    def __call__(self, inputs: Array) -> Array:
        """Outputs [..., outputs] for inputs [..., inputs]; zero is hover, ±1 nearly the limits."""
        ...
