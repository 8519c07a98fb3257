"""Floor, sky and light of the web view."""

from __future__ import annotations

from typing import Any

import numpy as np

_FLOOR = (86, 98, 114)
_LINES, _STRONG_LINES = (100, 113, 130), (124, 138, 156)
_SKY_TOP, _SKY_BOTTOM = (38, 46, 58), (98, 110, 126)
_FADES_M = 30.0  # m from the camera


def add_world(server: Any, middle: np.ndarray) -> None:
    """A dark floor under the middle of the paths: lines and drones stand out before it."""
    scene = server.scene
    scene.set_up_direction("+z")
    scene.set_background_image(_sky())
    scene.configure_environment_map(environment_intensity=0.8)
    scene.add_grid(
        "/floor", position=(middle[0], middle[1], 0.0), infinite_grid=True, cell_size=0.5,
        section_size=1.0, cell_color=_LINES, section_color=_STRONG_LINES, plane_color=_FLOOR,
        plane_opacity=1.0, fade_distance=_FADES_M, shadow_opacity=0.45,
    )  # fmt: skip


def _sky() -> np.ndarray:
    """A soft gradient, [64, 8, 3] uint8."""
    top, bottom = np.array(_SKY_TOP), np.array(_SKY_BOTTOM)
    share = np.linspace(0.0, 1.0, 64)[:, None, None]
    return np.tile(top + share * (bottom - top), (1, 8, 1)).astype(np.uint8)
