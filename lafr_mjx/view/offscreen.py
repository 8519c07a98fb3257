"""Pictures without a screen: the backend that works here, and a renderer on top of it."""

from __future__ import annotations

import atexit
import importlib
import os
import subprocess
import sys
import weakref
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np

from lafr_mjx.closing import Closing
from lafr_mjx.errors import InputError, RunError

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGES = {
    "egl": "libegl1 libegl-mesa0 libgl1-mesa-dri",
    "osmesa": "libosmesa6",
}
"""What each backend needs, in Debian's words."""

_MAX_GEOMS = 20_000
_OFF = ("disable", "disabled", "off", "false", "0")
_PROBE = """
import mujoco, mujoco.{backend}
context = mujoco.{backend}.GLContext(64, 64)
context.make_current()
model = mujoco.MjModel.from_xml_string("<mujoco/>")
mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100).free()
context.free()
print("works")
"""


@lru_cache(maxsize=1)
def backend() -> str:
    """Name of the backend that works: EGL if it does, else OSMesa.

    `MUJOCO_GL` narrows the choice, as for MuJoCo itself.

    Raises:
        RunError: naming the Debian packages, if none works.
    """
    asked = os.environ.get("MUJOCO_GL", "").lower().strip()
    if asked in _OFF:
        raise InputError(f"MUJOCO_GL={asked} forbids rendering; unset it")
    candidates = (asked,) if asked in PACKAGES else tuple(PACKAGES)
    reasons = []
    for name in candidates:
        reason = _trouble_with(name)
        if not reason:
            return name
        reasons.append(f"  {name}: {reason}; Debian packages: {PACKAGES[name]}")
    first = candidates[0]
    raise RunError(
        "pictures cannot be rendered here without a screen:\n"
        + "\n".join(reasons)
        + f"\nOn Debian or Ubuntu: apt install {PACKAGES[first]}"
    )


def _trouble_with(name: str) -> str:
    """Why a backend does not work, or nothing.

    It is tried in a process of its own: PyOpenGL stays with the first platform that it meets,
    and a broken driver may end the process.
    """
    environment = {**os.environ, "MUJOCO_GL": name, "PYOPENGL_PLATFORM": name}
    try:
        done = subprocess.run(
            [sys.executable, "-c", _PROBE.format(backend=name)],
            env=environment, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "does not answer"
    if "works" in done.stdout:
        return ""
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    return lines[-1][:200] if lines else f"ended with status {done.returncode}"


_open: weakref.WeakSet[Renderer] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    # Contexts that Python's end finds open complain from their destructors.
    for renderer in list(_open):
        renderer.close()


class Renderer(Closing):
    """Draws a model into arrays. Close it, or use it as a context manager."""

    def __init__(self, model: mujoco.MjModel, width: int, height: int, *, samples: int = 4) -> None:
        name = backend()
        os.environ["PYOPENGL_PLATFORM"] = name
        model.vis.global_.offwidth = width
        model.vis.global_.offheight = height
        model.vis.quality.offsamples = samples
        self.width, self.height = width, height
        self._model = model
        self._gl: Any = importlib.import_module(f"mujoco.{name}").GLContext(width, height)
        self._gl.make_current()
        self._context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._context)
        self._scene = mujoco.MjvScene(model, _MAX_GEOMS)
        # A mirror in the floor doubles the work for little.
        self._scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = 0
        self._option = mujoco.MjvOption()
        _open.add(self)

    def render(
        self,
        data: mujoco.MjData,
        camera: mujoco.MjvCamera,
        draw: Callable[[mujoco.MjvScene, mujoco.MjvOption], None] | None = None,
        size: tuple[int, int] | None = None,
        *,
        shadows: bool = True,
    ) -> np.ndarray:
        """A picture, [height, width, 3] uint8.

        Args:
            data: poses.
            camera: from where.
            draw: adds to the scene.
            size: width and height, if smaller than the renderer's own.
            shadows: they take about half of the time.
        """
        self._gl.make_current()
        self._scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = int(shadows)
        width, height = size or (self.width, self.height)
        rectangle = mujoco.MjrRect(0, 0, width, height)
        everything = mujoco.mjtCatBit.mjCAT_ALL
        mujoco.mjv_updateScene(
            self._model, data, self._option, None, camera, everything, self._scene
        )
        if draw is not None:
            draw(self._scene, self._option)
        mujoco.mjr_render(rectangle, self._scene, self._context)
        picture = np.empty((height, width, 3), np.uint8)
        mujoco.mjr_readPixels(picture, None, rectangle, self._context)
        return picture[::-1]

    def close(self) -> None:
        """Give the memory back."""
        if self._gl is not None:
            self._gl.make_current()
            self._context.free()
            self._gl.free()
            self._gl = None


def camera_at(
    target: Any, distance: float, azimuth: float = 90.0, elevation: float = -25.0
) -> mujoco.MjvCamera:
    """A camera that looks at a point [3] from a distance [m]; angles in degrees."""
    camera = mujoco.MjvCamera()
    camera.type = mujoco.mjtCamera.mjCAMERA_FREE
    camera.lookat[:] = target
    camera.distance, camera.azimuth, camera.elevation = distance, azimuth, elevation
    return camera
