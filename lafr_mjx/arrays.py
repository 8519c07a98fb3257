"""One source for NumPy and JAX: choose the array module by what the arguments are.

The drone's control process imports no JAX, the learner differentiates through the same
formulas. Functions that serve both ask `namespace` for the module to compute with.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import jax

Array: TypeAlias = "np.ndarray | jax.Array"


def clip(xp: Any, values: Any, low: Any, high: Any) -> Any:
    """`xp.clip`: the same, but NumPy's own spends five times as long around a few numbers."""
    if xp is np:
        return np.minimum(np.maximum(values, low), high)
    return xp.clip(values, low, high)


def namespace(*arrays: Any) -> Any:
    """Return `jax.numpy` if any argument is a JAX array or tracer, else `numpy`.

    JAX is never imported here: if nobody has imported it yet, no argument can be a JAX array.
    """
    jax_module = sys.modules.get("jax")
    if jax_module is not None and any(isinstance(x, jax_module.Array) for x in arrays):
        return jax_module.numpy
    return np
