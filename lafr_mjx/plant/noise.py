"""Random numbers for the plant's inner loop: Threefry-2x32 as plain arithmetic.

JAX's own generator runs a loop on CPU for each draw and each derived key, which costs more
than the physics. This one is the same cipher (Salmon et al., "Parallel random numbers: as easy
as 1, 2, 3", 2011) with the 13 rounds that its authors found to pass all tests, written out so
that XLA fuses it with its use. A draw is addressed by (key, moment, stream, number), so no key
is ever derived, a batch draws the same numbers as single runs, and adding a plugin does not
change what the others draw.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

if TYPE_CHECKING:
    from lafr_mjx.plant.vec3 import Scalar

_ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
_PARITY = np.uint32(0x1BD11BDA)
_ROUNDS = 13
_NUMBERS = 256  # draws that one stream can make in one moment


def threefry(k0: Scalar, k1: Scalar, x0: Scalar, x1: Scalar) -> tuple[Scalar, Scalar]:
    """Encrypt a counter of two words with a key of two words."""
    keys = (k0, k1, k0 ^ k1 ^ _PARITY)
    x0, x1 = x0 + k0, x1 + k1
    for i in range(_ROUNDS):
        turn = _ROTATIONS[i % 8]
        x0 = x0 + x1
        x1 = (x1 << np.uint32(turn)) | (x1 >> np.uint32(32 - turn))
        x1 = x0 ^ x1
        if i % 4 == 3:
            injection = i // 4 + 1
            x0 = x0 + keys[injection % 3]
            x1 = x1 + keys[(injection + 1) % 3] + np.uint32(injection)
    return x0, x1


@struct.dataclass
class Draws:
    """The random numbers of one plugin at one moment."""

    k0: Scalar  # uint32
    k1: Scalar  # uint32
    moment: Scalar  # uint32
    stream: int = struct.field(pytree_node=False)

    @staticmethod
    def of(key: jax.Array, moment: Scalar, name: str) -> Draws:
        """For the plugin of that name; `key` is raw key data, uint32 [2]."""
        stream = zlib.crc32(name.encode()) & ~(_NUMBERS - 1)
        return Draws(key[0], key[1], jnp.asarray(moment).astype(jnp.uint32), stream)

    def uniform(self, count: int) -> tuple[Scalar, ...]:
        """Independent draws, uniform in (0, 1); asking again gives the same numbers."""
        words: list[Scalar] = []
        for pair in range((count + 1) // 2):
            words += threefry(self.k0, self.k1, self.moment, np.uint32(self.stream + pair))
        # 23 bits and half a step: neither 0 nor 1 can come out in float32.
        return tuple(
            ((word >> np.uint32(9)).astype(jnp.float32) + 0.5) * (2.0**-23)
            for word in words[:count]
        )

    def normal(self, count: int) -> tuple[Scalar, ...]:
        """Independent standard normal draws."""
        # Divided, not multiplied, by a constant: XLA then computes each draw only once (see
        # `vec3.materialise`).
        half = float(np.sqrt(0.5))
        return tuple(jax.lax.erf_inv(2.0 * u - 1.0) / half for u in self.uniform(count))

    def jax_key(self) -> jax.Array:
        """A key for `jax.random`, for distributions that are not here; slower."""
        words = threefry(self.k0, self.k1, self.moment, np.uint32(self.stream + _NUMBERS - 1))
        return jax.random.wrap_key_data(jnp.stack(words), impl="threefry2x32")
