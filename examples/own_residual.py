"""A residual of your own: drag along the body's axes and a steady push, six numbers in all."""

from typing import Any, NamedTuple

import lafr_mjx as lm  # before JAX: it quietens XLA
import jax.numpy as jnp


class DragAndPush(NamedTuple):
    """Its leaves are fitted."""

    drag: Any  # [3]
    push: Any  # [3]

    @classmethod
    def create(cls, rng):
        return cls(jnp.zeros(3), jnp.zeros(3))

    def __call__(self, state, effective, commands, switches):
        along = jnp.einsum("...ji,...j", state.rotation, state.velocity)
        force = self.push - jnp.einsum("...ij,...j", state.rotation, self.drag * along)
        return force, 0.0 * force  # acceleration in the world, body rates


if __name__ == "__main__":
    run = lm.adapt("figure8", scenario="wind5", features=DragAndPush, iterations=12)
    print(run.table["residual_loss"], run.table["lap_time_s"])
