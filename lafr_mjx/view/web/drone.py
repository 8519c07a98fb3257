"""A drone in the browser: its frame, and propellers that turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lafr_mjx import so3
from lafr_mjx.view.meshes import Part, merged, parts_of_body

if TYPE_CHECKING:
    import mujoco

    from lafr_mjx.view.scene import Actor

_GUARD_COLOUR, _GUARD_OPACITY = (210, 222, 238), 0.35


class DroneInBrowser:
    """One drone of the scene; a tinted one is the ghost of the reference."""

    def __init__(
        self, server: Any, model: mujoco.MjModel, actor: Actor, name: str,
        tint: tuple[tuple[int, int, int], float] | None = None,
    ) -> None:  # fmt: skip
        self._server, self._name, self._tint = server, name, tint
        self._frame = server.scene.add_frame(name, show_axes=False)
        self._rest = actor.blade_poses
        parts = parts_of_body(model, actor.body)
        self._add_body([part for part in parts if part.geom not in actor.blades])
        self._blades = [
            self._add_blade(part, number)
            for number, part in enumerate(p for p in parts if p.geom in actor.blades)
        ]

    def move(self, position: np.ndarray, quaternion: np.ndarray, angles: np.ndarray) -> None:
        """Put it somewhere, with its propellers turned by angles [4] rad."""
        self._frame.position, self._frame.wxyz = position, quaternion
        for blade, pose, angle in zip(self._blades, self._rest, angles, strict=False):
            turn = np.array([np.cos(0.5 * angle), 0.0, 0.0, np.sin(0.5 * angle)])
            blade.wxyz = so3.multiply(turn, pose)

    def show(self, visible: bool) -> None:
        """Show or hide it."""
        self._frame.visible = visible

    def _add_body(self, parts: list[Part]) -> None:
        solid = [p for p in parts if p.rgba[3] > 0.95 and self._tint is None]
        clear = [p for p in parts if p.rgba[3] <= 0.95 or self._tint is not None]
        mesh = merged(solid)
        if mesh is not None:
            self._server.scene.add_mesh_trimesh(f"{self._name}/frame", mesh)
        mesh = merged(clear)
        if mesh is not None:
            colour, opacity = self._tint or (_GUARD_COLOUR, _GUARD_OPACITY)
            self._server.scene.add_mesh_simple(
                f"{self._name}/clear", np.asarray(mesh.vertices, np.float32),
                np.asarray(mesh.faces), color=colour, opacity=opacity, side="double",
                cast_shadow=False,
            )  # fmt: skip

    def _add_blade(self, part: Part, number: int) -> Any:
        colour, opacity = self._tint or (tuple(int(255 * c) for c in part.rgba[:3]), None)
        return self._server.scene.add_mesh_simple(
            f"{self._name}/blade{number}", part.vertices.astype(np.float32), part.faces,
            color=colour, opacity=opacity, position=part.position, wxyz=part.quaternion,
            cast_shadow=False,
        )  # fmt: skip
