"""Many runs as one program: what differs between them is a leaf with a leading axis.

A batch is split evenly over the JAX devices. A batch of one is not batched at all.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_AXIS = "runs"
_PROGRAMS: list[Any] = []


@lru_cache(maxsize=32)
def program(function: Callable[..., Any], devices: int, **static: Any) -> Callable[[Any, Any], Any]:
    """The compiled program of `function(shared, run, **static)`, for `run` with a leading axis."""
    one = partial(function, **static)

    def share(shared: Any, runs: Any) -> Any:
        if jax.tree.leaves(runs)[0].shape[0] > 1:
            return jax.vmap(partial(one, shared))(runs)
        # A batch of one would still pay for batched matrix products.
        return jax.tree.map(lambda leaf: leaf[None], one(shared, row(runs, 0)))

    if devices == 1:
        _PROGRAMS.append(jax.jit(share))
        return _PROGRAMS[-1]
    same, split = PartitionSpec(), PartitionSpec(_AXIS)
    # The runs know nothing of each other: no device ever waits for another.
    sharded = jax.shard_map(
        share, mesh=_mesh(devices), in_specs=(same, split), out_specs=split, check_vma=False
    )
    _PROGRAMS.append(jax.jit(sharded))
    return _PROGRAMS[-1]


def compiled() -> int:
    """Programs that were compiled so far in this process: one for each kind of batch is right."""
    return sum(made._cache_size() for made in _PROGRAMS)


def placed(runs: Any, devices: int) -> Any:
    """A batch on its devices, in single precision; counters and keys stay what they are."""
    runs = jax.tree.map(_single, runs)
    if devices == 1:
        return runs
    return jax.device_put(runs, NamedSharding(_mesh(devices), PartitionSpec(_AXIS)))


def stacked(trees: Sequence[Any]) -> Any:
    """Trees of one structure as one with a leading axis, on the host."""
    return jax.tree.map(lambda *leaves: np.stack([np.asarray(x) for x in leaves]), *trees)


def row(tree: Any, index: int) -> Any:
    """One of a batch."""
    return jax.tree.map(lambda leaf: leaf[index], tree)


def single(tree: Any) -> Any:
    """The same tree with every leaf a float32 array of JAX."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), tree)


def _single(leaf: Any) -> Any:
    double = getattr(leaf, "dtype", None) == np.float64
    return np.asarray(leaf, np.float32) if double else leaf


def _mesh(devices: int) -> Mesh:
    return Mesh(np.array(jax.devices()[:devices]), (_AXIS,))
