"""No time scaling: every flight at the first time scale, to see what learning alone does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp

from lafr_mjx.learner.time_scaling import Choice, taken_as_it_is

if TYPE_CHECKING:
    import jax

    from lafr_mjx.learner.time_scaling import Evidence, LastFlight


class Hold(NamedTuple):
    """Nothing to set."""

    outcomes = ("held",)

    def start(self) -> tuple[()]:
        """Nothing is remembered."""
        return ()

    def propose(self, memory: Any, last: LastFlight) -> tuple[Any, jax.Array]:
        """The same again."""
        return memory, last.pace.time_scale

    def choose(self, memory: Any, fastest: jax.Array, evidence: Evidence) -> Choice:
        """The same again, with the trained policy."""
        return taken_as_it_is(memory, fastest, jnp.int32(0), evidence, {})
