"""What a controller is, for the simulated plant and for the drone alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from lafr_mjx.arrays import Array
    from lafr_mjx.types import Reference, Sensed


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
