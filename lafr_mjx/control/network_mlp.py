"""The paper's policy network: layers with tanh between them, 2 × 256 unless told otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lafr_mjx import mlp

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from lafr_mjx.arrays import Array


class Mlp(NamedTuple):
    """A multilayer perceptron."""

    layers: tuple[mlp.Layer, ...]

    @classmethod
    def create(
        cls, rng: np.random.Generator, inputs: int, outputs: int, hidden: Sequence[int] = (256, 256)
    ) -> Mlp:
        """Random weights; the output is nearly zero."""
        return cls(mlp.create(rng, (inputs, *hidden, outputs), last_scale=0.01))

    def __call__(self, inputs: Array) -> Array:
        """Outputs [..., outputs] for inputs [..., inputs]."""
        return mlp.apply(self.layers, inputs)
