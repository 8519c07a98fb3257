"""Velocity from positions, without a time shift: a local cubic fitted around each sample."""

from __future__ import annotations

import numpy as np

WINDOW_S = 0.13
"""Length of the window [s]: the noise of 1 mm becomes about 0.03 m/s."""

_ORDER = 3


def differentiate(
    values: np.ndarray, dt: float, usable: np.ndarray, window_s: float = WINDOW_S
) -> np.ndarray:
    """Derivative [N, n] of uniform samples, zero-phase; NaN outside usable stretches.

    A polynomial of third order is fitted to the samples around each one (Savitzky and Golay,
    1964). At the ends of a stretch the window is not symmetric, but the fit is the same.
    """
    half = max(2, round(0.5 * window_s / dt))
    result = np.full_like(np.asarray(values, float), np.nan)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], usable.astype(int), [0]])))
    for start, stop in edges.reshape(-1, 2):
        size = stop - start
        if size < 2 * _ORDER:
            continue
        reach = min(half, (size - 1) // 2)
        part = np.asarray(values[start:stop], float)
        offsets = np.arange(-reach, reach + 1)
        slopes = np.linalg.pinv(np.vander(offsets * dt, _ORDER + 1, increasing=True))
        for column in range(part.shape[1]):
            inner = np.convolve(part[:, column], slopes[1][::-1], mode="valid")
            result[start + reach : stop - reach, column] = inner
            for side, first in ((slice(start, start + reach), 0),
                                (slice(stop - reach, stop), size - 2 * reach - 1)):  # fmt: skip
                fitted = slopes @ part[first : first + 2 * reach + 1, column]
                here = np.arange(side.start, side.stop) - start - first - reach
                x = here * dt
                result[side, column] = fitted[1] + 2 * fitted[2] * x + 3 * fitted[3] * x**2
    return result
