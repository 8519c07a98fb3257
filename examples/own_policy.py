"""A network of your own as the policy: a straight way through beside a hidden layer."""

from typing import Any, NamedTuple

import numpy as np

import lafr_mjx as lm


class TwoWays(NamedTuple):
    """Its leaves are trained."""

    hidden: Any
    output: Any
    through: Any

    @classmethod
    def create(cls, rng, inputs, outputs, hidden=128):
        shapes = ((inputs, hidden), (hidden, outputs), (inputs, outputs))
        first, *last = (np.float32(rng.normal(size=s) / np.sqrt(s[0])) for s in shapes)
        return cls(first, *(0.01 * each for each in last))

    def __call__(self, seen):
        hidden = seen @ self.hidden  # operators alone: on NumPy it flies on a drone, too
        return hidden / (1.0 + abs(hidden)) @ self.output + seen @ self.through


if __name__ == "__main__":
    run = lm.adapt("figure8", policy=lm.part(TwoWays, hidden=64), iterations=12, out="runs/ways")
    print(run.table["lap_time_s"], run.policy.network.hidden.shape)
