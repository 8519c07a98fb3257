"""The few functions of an array module that the phase clock uses, for single Python floats.

On one number NumPy takes twenty times as long as Python itself. With this module in the place of
NumPy, the control process computes the very same formulas with the very same results.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lafr_mjx.arrays import namespace


def namespace_or_plain(*values: Any) -> Any:
    """This module if all values are Python floats, else NumPy or JAX.

    Neither integers nor NumPy's own numbers count: who passes those gets arrays, as ever.
    """
    for value in values:
        if type(value) is not float:
            return namespace(*values)
    return _PLAIN


class _Plain:
    """Functions by the names of the array modules."""

    @staticmethod
    def asarray(value: float) -> float:
        return value

    @staticmethod
    def ones_like(value: float) -> float:
        del value
        return 1.0

    @staticmethod
    def zeros_like(value: float) -> float:
        del value
        return 0.0

    @staticmethod
    def where(condition: bool, one: float, other: float) -> float:
        return one if condition else other

    @staticmethod
    def maximum(one: float, other: float) -> float:
        # Of NaN and a number it is NaN, as in the array modules.
        return one if one >= other or one != one else other

    @staticmethod
    def exp(value: float) -> float:
        # NumPy's own: the same to the last bit, and infinite where Python's would raise.
        return float(np.exp(value))


_PLAIN = _Plain()
