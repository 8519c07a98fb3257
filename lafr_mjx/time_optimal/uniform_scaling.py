"""Ceiling of uniform time scaling: the fastest lap whose clock never changes its pace.

NumPy alone. The path is tracked exactly at a constant phase rate 1/α, so the whole lap is as
slow as its worst moment asks for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lafr_mjx.errors import RunError
from lafr_mjx.reference.flatness import flat_state
from lafr_mjx.reference.path import derivatives, lap_s

if TYPE_CHECKING:
    from lafr_mjx.reference.path import Path
    from lafr_mjx.time_optimal.ideal_vehicle import Ideal

_SAMPLES = 20_001
_SLOWEST, _FASTEST = 100.0, 1e-3  # of the time scales that are looked at
_SCAN = 400
_THINNED = 10  # the scan looks at every tenth sample


def uniform_ceiling(path: Path, ideal: Ideal) -> float:
    """Shortest duration [s] of the path at one constant phase rate, within the CTBR limits.

    A slower lap is easier in all shipped tasks, but need not be where the thrust has a lower
    limit. The time scale is therefore lowered in small steps until a limit is broken for the
    first time, and that step is bisected.
    """
    table = np.asarray(derivatives(path, np.linspace(0.0, float(lap_s(path)), _SAMPLES)))

    scales = np.geomspace(_SLOWEST, _FASTEST, _SCAN)
    scan = (i for i, scale in enumerate(scales) if not _within(table[::_THINNED], scale, ideal))
    broken = next(scan, None)
    if broken == 0:
        raise RunError(
            f"uniform time scaling: the path breaks the vehicle's limits even {_SLOWEST:g} times "
            f"slower than its file asks for; look at its yaw and its altitude"
        )
    if broken is None:
        raise RunError("uniform time scaling: the path never reaches the vehicle's limits")
    fast, slow = float(scales[broken]), float(scales[broken - 1])
    while not _within(table, slow, ideal):  # broken only between the scan's samples
        fast, slow = slow, 1.001 * slow
    while slow - fast > 1e-9 * slow:
        middle = 0.5 * (fast + slow)
        fast, slow = (fast, middle) if _within(table, middle, ideal) else (middle, slow)
    return slow * float(lap_s(path))


def _within(table: np.ndarray, scale: float, ideal: Ideal) -> bool:
    p0, p1, p2, p3 = (table[:, i] / scale**i for i in range(4))
    with np.errstate(divide="ignore", invalid="ignore"):  # free fall has no attitude
        state = flat_state(p0[:, :3], p1[:, :3], p2[:, :3], p3[:, :3], p0[:, 3], p1[:, 3])
    thrust, rates = np.asarray(state.thrust), np.asarray(state.rates)
    return bool(
        np.all(thrust <= ideal.thrust_high)
        and np.all(thrust >= ideal.thrust_low)
        and np.all(np.abs(rates) <= ideal.rates_high)
    )
