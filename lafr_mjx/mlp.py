"""A multilayer perceptron as plain arrays: the same code on NumPy (drone) and JAX (learner)."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lafr_mjx.arrays import namespace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lafr_mjx.arrays import Array


class Layer(NamedTuple):
    """One affine layer: x W + b."""

    weight: Array  # [..., inputs, outputs]
    bias: Array  # [..., outputs]


def create(rng: np.random.Generator, sizes: Sequence[int], last_scale: float) -> tuple[Layer, ...]:
    """Random layers (float32); the last one is scaled, so that the output starts near zero."""
    layers = []
    for i, (inputs, outputs) in enumerate(itertools.pairwise(sizes)):
        scale = (last_scale if i == len(sizes) - 2 else 1.0) / np.sqrt(inputs)
        weight = scale * rng.standard_normal((inputs, outputs))
        layers.append(Layer(weight.astype(np.float32), np.zeros(outputs, np.float32)))
    return tuple(layers)


def apply(layers: Sequence[Layer], inputs: Array) -> Array:
    """Output [..., outputs] of the network with tanh between its layers."""
    xp = namespace(inputs, layers[0].weight)
    value = inputs
    for layer in layers[:-1]:
        value = xp.tanh(value @ layer.weight + layer.bias)
    return value @ layers[-1].weight + layers[-1].bias
