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


def taped(layers: Sequence[Layer], inputs: Array) -> tuple[Array, list[Array]]:
    """The output as `apply` gives it, and what went into each layer."""
    xp, tape = namespace(inputs, layers[0].weight), [inputs]
    for layer in layers[:-1]:
        tape.append(xp.tanh(tape[-1] @ layer.weight + layer.bias))
    return tape[-1] @ layers[-1].weight + layers[-1].bias, tape


def pulled_back(
    transposed: Sequence[Array], tape: Sequence[Array], slope: Array
) -> tuple[Array, list[Array]]:
    """For a slope at the output: the slope at the inputs, and at the output of each layer.

    Args:
        transposed: weights of the layers, [outputs, inputs] each.
        tape: from `taped`.
        slope: [..., outputs].
    """
    slopes = []
    for weight, value in zip(reversed(transposed), reversed(tape), strict=True):
        slopes.append(slope)
        slope = slope @ weight
        if value is not tape[0]:
            slope = slope * (1.0 - value**2)
    return slope, slopes[::-1]


def gradient(tape: Sequence[Array], slopes: Sequence[Array]) -> tuple[Layer, ...]:
    """Slope in the layers, summed over all leading axes, from the two above."""
    rows = [(x.reshape((-1, x.shape[-1])), y.reshape((-1, y.shape[-1])))
            for x, y in zip(tape, slopes, strict=True)]  # fmt: skip
    return tuple(Layer(x.T @ y, y.sum(axis=0)) for x, y in rows)
