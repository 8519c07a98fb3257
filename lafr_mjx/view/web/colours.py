"""Colours as the browser's scene wants them."""

from __future__ import annotations

import numpy as np


def linear_rgb(rgb: np.ndarray) -> np.ndarray:
    """Colours for corners and instances, uint8, from what is to be seen (sRGB, 0 to 1).

    The scene takes the colours of corners (lines, merged meshes) and of instances (arrows) for
    linear light; as given they would look pale. Colours of whole objects it converts itself.
    """
    seen = np.clip(np.asarray(rgb, float), 0.0, 1.0)
    light = np.where(seen <= 0.04045, seen / 12.92, ((seen + 0.055) / 1.055) ** 2.4)
    return np.round(255.0 * light).astype(np.uint8)
