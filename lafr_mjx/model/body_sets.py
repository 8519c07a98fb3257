"""Sets of features of the body-frame library: which coefficients a variant may use.

A set is a mask [features, 6]. Acceleration and rates choose theirs separately.
"""

from __future__ import annotations

import numpy as np

from lafr_mjx.model.body import NAMES, OUTPUTS
from lafr_mjx.model.body_features import BASE

_DRAG = ("vx", "vy", "vz")
_RATES = ("wx", "wy", "wz")


def _mask(rows: dict[str, tuple[str, ...]]) -> np.ndarray:
    mask = np.zeros((len(NAMES), len(OUTPUTS)), bool)
    for output, names in rows.items():
        for name in names:
            mask[NAMES.index(name), OUTPUTS.index(output)] = True
    return mask


def _both(names: tuple[str, ...], outputs: tuple[str, ...]) -> np.ndarray:
    return _mask(dict.fromkeys(outputs, names))


_A, _W = OUTPUTS[:3], ("wx", "wy", "wz")
_PAST = tuple(name for name in NAMES if name.startswith("past"))
_PRODUCTS = tuple(name for name in NAMES if "*" in name)
_QUADRATIC_DRAG = tuple(
    name for name in NAMES if name.startswith("|v|") or name in {f"thrust*{v}" for v in _DRAG}
)

SCALE_BIAS = _mask({"az": ("one", "thrust")}) | _mask({rate: ("one", rate) for rate in _RATES})
"""The simplest correction: gain and offset of the thrust and of each body rate."""

ACCELERATION: dict[str, np.ndarray] = {
    "scale and bias": _mask({"az": ("one", "thrust")}),
    "drag": _both(("one", "thrust", *_DRAG), _A),
    "linear": _both(("one", *BASE), _A),
    "quadratic drag": _both(("one", *BASE, *_QUADRATIC_DRAG), _A),
    "quadratic": _both(("one", *BASE, *_QUADRATIC_DRAG, *_PRODUCTS), _A),
}
"""Sets for the acceleration, from few to many features."""

RATES: dict[str, np.ndarray] = {
    "scale and bias": _mask({rate: ("one", rate) for rate in _RATES}),
    "cross rates": _both(("one", *_RATES), _W),
    "linear": _both(("one", *BASE), _W),
    "quadratic": _both(("one", *BASE, *_QUADRATIC_DRAG, *_PRODUCTS), _W),
}
"""Sets for the body rates."""

_THRUST_PAST = tuple(name for name in _PAST if name.endswith("thrust"))
_RATES_PAST = tuple(name for name in _PAST if not name.endswith("thrust"))


def with_history(mask: np.ndarray) -> np.ndarray:
    """The same set with the last commands: thrusts for accelerations, rates for rates."""
    used = mask.any(axis=0)
    wider = _both(_THRUST_PAST, _A) | _both(_RATES_PAST, _W)
    return mask | (wider & used)


SHORT = ACCELERATION["linear"] | RATES["cross rates"]
"""What generalises from a few seconds; for refits in flight, where there is no time to choose."""
