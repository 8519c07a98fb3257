"""Filters of uniform samples without a time shift, and stretches of them."""

from __future__ import annotations

import numpy as np

WINDOW_S = 0.13
"""Length of the window [s]: the noise of 1 mm becomes about 0.03 m/s."""

_ORDER = 3


def stretches(mask: np.ndarray) -> np.ndarray:
    """Where a mask [N] is True without a break: [K, 2] first samples and ends."""
    edges = np.diff(np.concatenate([[0], np.asarray(mask, int), [0]]))
    return np.flatnonzero(edges).reshape(-1, 2)


def moving_mean(values: np.ndarray, width: int) -> np.ndarray:
    """Mean over an odd number of samples around each; zeros count beyond the ends."""
    from scipy.ndimage import uniform_filter1d

    return uniform_filter1d(values, width, axis=0, mode="constant")


def differentiate(values: np.ndarray, dt: float, usable: np.ndarray) -> np.ndarray:
    """Derivative [N, n] of uniform samples, zero-phase; NaN outside usable stretches.

    A polynomial of third order is fitted to the samples around each one (Savitzky and Golay,
    1964). At the ends of a stretch the window is not symmetric, but the fit is the same.
    """
    from scipy.signal import savgol_filter  # not at the start: the command line's help is here, too

    half = max(2, round(0.5 * WINDOW_S / dt))
    result = np.full_like(np.asarray(values, float), np.nan)
    for start, stop in stretches(usable):
        if stop - start >= 2 * _ORDER:
            width = 2 * min(half, (stop - start - 1) // 2) + 1
            part = np.asarray(values[start:stop], float)
            result[start:stop] = savgol_filter(part, width, _ORDER, 1, dt, axis=0)
    return result


def continuous(quaternion: np.ndarray) -> np.ndarray:
    """Quaternions [N, 4] without jumps of sign: q and -q are the same attitude."""
    turned = np.sum(quaternion[1:] * quaternion[:-1], axis=-1) < 0.0
    return quaternion * np.concatenate([[1.0], np.where(np.cumsum(turned) % 2, -1.0, 1.0)])[:, None]
