"""The file of a user with policy networks of their own, as text."""

SOURCE = '''
import time
from typing import Any, NamedTuple

import numpy as np

from lafr_mjx import mlp


class Twice(NamedTuple):
    """Layers with tanh between them, behind a gain."""

    layers: Any
    gain: Any

    @classmethod
    def create(cls, rng, inputs, outputs, width=256):
        layers = mlp.create(rng, (inputs, width, width, outputs), last_scale=0.01)
        return cls(layers, np.ones(1, np.float32))

    def __call__(self, inputs):
        return self.gain * mlp.apply(self.layers, inputs)


class Slow(Twice):
    def __call__(self, inputs):
        time.sleep(0.007)
        return mlp.apply(self.layers, inputs)


class OneOnly(Twice):
    def __call__(self, inputs):
        (size,) = inputs.shape
        return mlp.apply(self.layers, inputs)


class Lazy(Twice):
    def __call__(self, inputs):
        import jax.numpy as jnp

        return mlp.apply(self.layers, jnp.asarray(inputs))


class NoNetwork:
    pass
'''


def written(folder, name="nets.py", source=SOURCE):
    """The full path of the file."""
    file = folder / name
    file.write_text(source, encoding="utf-8")
    return str(file)
