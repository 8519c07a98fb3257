"""A rule of your own for the time scale: faster after a good flight, slower after another."""

from typing import Any, NamedTuple

import lafr_mjx as lm  # before JAX: it quietens XLA
import jax.numpy as jnp


class Careful(NamedTuple):
    """Its fields are its settings."""

    step: Any = 0.1
    outcomes = ("faster", "slower")

    def start(self):
        return ()  # nothing is remembered

    def propose(self, memory, last):
        bad = (last.error > 0.5 * last.threshold) | last.event
        return memory, last.pace.time_scale * jnp.where(bad, 1.0 + self.step, 1.0 - self.step)

    def choose(self, memory, fastest, evidence):
        slower = fastest > evidence.last.pace.time_scale
        return lm.taken_as_it_is(memory, fastest, slower.astype(int), evidence, {})


if __name__ == "__main__":
    run = lm.adapt("figure8", ats=Careful(step=0.08), iterations=12, out="runs/careful")
    print(run.table["bound_by"], run.table["lap_time_s"])
