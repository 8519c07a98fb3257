"""What a policy is trained for: what a cost is. The costs are a file each, `cost_*.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from lafr_mjx import parts
from lafr_mjx.errors import InputError

if TYPE_CHECKING:
    import jax

    from lafr_mjx.model.state import ModelState
    from lafr_mjx.types import Reference


class Cost(Protocol):
    """A pytree whose weights are leaves.

    It may also have `check()`, which raises an `InputError` where its weights make no sense.
    """

    def __call__(
        self, state: ModelState, reference: Reference, command: jax.Array, previous: jax.Array
    ) -> jax.Array:
        """Cost [...] of one control interval: where it is, what is asked, what it commands."""
        ...


def cost_of(text: str) -> Any:
    """The cost that a text names, see `parts`.

    Raises:
        InputError: there is none, or it is no cost.
    """
    cost = parts.checked(parts.COST, text, ("__call__",), "no cost")
    try:
        getattr(cost, "check", lambda: None)()
    except InputError as error:
        raise InputError(f"--cost {text}: {error}") from error
    return cost
