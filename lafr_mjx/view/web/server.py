"""The server of the web view: one replay, which all its visitors share, and the floor below it."""

from __future__ import annotations

import contextlib
import io
import logging
import socket
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from lafr_mjx.errors import InputError
from lafr_mjx.view.player import Player
from lafr_mjx.view.scene import build_scene
from lafr_mjx.view.web.home_camera import HomeCameras
from lafr_mjx.view.web.panel import Panel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lafr_mjx.view.replay import Replay

_FRAME_S = 1.0 / 30.0
_DRONE_SIZE = 3.0  # factor on what drones look like, to be seen with the whole path
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_FLOOR = (86, 98, 114)
_LINES, _STRONG_LINES = (100, 113, 130), (124, 138, 156)
_SKY_TOP, _SKY_BOTTOM = (38, 46, 58), (98, 110, 126)
_FADES_M = 30.0  # m from the camera


def serve(
    replays: Sequence[Replay], host: str = "127.0.0.1", port: int = 8080, speed: float = 1.0
) -> None:
    """Show replays in browsers until interrupted."""
    view = WebView(replays, host, port, speed)
    print(f"Open http://{host}:{view.port} in a browser; Ctrl-C ends.", flush=True)
    if host not in _LOOPBACK:
        print(f"Everybody who can reach {host}:{view.port} can watch and steer it.", flush=True)
    try:
        view.run()
    finally:
        view.close()


def _check_address(host: str) -> None:
    """The server would wait for ever on an address that is not this machine's."""
    try:
        family, *_, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family) as probe:
            probe.bind(address)
    except OSError as error:
        raise InputError(
            f"--host {host}: the web view cannot listen there: {error.strerror or error}; "
            f"127.0.0.1 is this machine alone, 0.0.0.0 all of its addresses"
        ) from error


class WebView:
    """A server with one replay that all its visitors share."""

    def __init__(
        self, replays: Sequence[Replay], host: str = "127.0.0.1", port: int = 8080,
        speed: float = 1.0,
    ) -> None:  # fmt: skip
        try:
            import viser

            from lafr_mjx.view.web.stage import StageInBrowser
        except ImportError as error:
            raise InputError("--web needs the extra 'web': pip install 'lafr-mjx[web]'") from error
        self.player = Player(replays, speed)
        self._top_speed = max(replay.top_speed for replay in replays)
        self._scene = build_scene([(r.vehicle, r.task) for r in replays], _DRONE_SIZE)
        _check_address(host)
        # A connection that only looks whether somebody listens is not worth a traceback.
        logging.getLogger("websockets.server").setLevel(logging.CRITICAL)
        with contextlib.redirect_stdout(io.StringIO()):  # its banner; ours says the same
            self._server = viser.ViserServer(host, port, label="LAFR-MJX", verbose=False)
        self._server.gui.configure_theme(
            control_width="large", show_logo=False, show_share_button=False
        )
        self._server.gui.main_panel.dock_right()
        self._shown: Any = None
        self._stages = [
            StageInBrowser(self._server, self._scene, stage, i)
            for i, stage in enumerate(self._scene.stages)
        ]
        points = np.concatenate([stage.outline for stage in self._scene.stages])
        _add_world(self._server, 0.5 * (points.min(axis=0) + points.max(axis=0)))
        self._panel = Panel(self._server, self.player, self._top_speed)
        self._cameras = HomeCameras(points)
        self._server.on_client_connect(self._panel.welcome)
        self._server.on_client_connect(self._cameras.welcome)
        self._server.on_client_disconnect(self._cameras.forget)

    @property
    def port(self) -> int:
        """Where it listens: the next free port if the one asked for was taken."""
        return self._server.get_port()

    def run(self, seconds: float | None = None) -> None:
        """Play, until interrupted or for some seconds."""
        begun = last = time.monotonic()
        while seconds is None or time.monotonic() - begun < seconds:
            now = time.monotonic()
            self.player.advance(now - last)
            last = now
            self._update()
            time.sleep(max(0.0, _FRAME_S - (time.monotonic() - now)))

    def close(self) -> None:
        """Stop listening."""
        with contextlib.redirect_stdout(io.StringIO()):
            self._server.stop()

    def _update(self) -> None:
        moments = self.player.moments()
        self.player.corridor = self._panel.corridor
        state = (self.player.index, self.player.time, self._panel.ghost, self.player.corridor)
        if state != self._shown:  # a paused scene lets the browser rest
            self._shown = state
            with self._server.atomic():
                for stage, flight, moment in zip(
                    self._stages, self.player.flights, moments, strict=True
                ):
                    stage.update(
                        flight, moment, self._top_speed, ghost=self._panel.ghost,
                        corridor=self.player.corridor,
                    )  # fmt: skip
        self._panel.update(moments)
        if self.player.follow:
            target = moments[0].position + self._scene.stages[0].offset
            for client in self._server.get_clients().values():
                # Both move by the same step, so that the visitor's own angle is kept.
                step = 0.15 * (target - np.asarray(client.camera.look_at))
                client.camera.position = np.asarray(client.camera.position) + step
                client.camera.look_at = np.asarray(client.camera.look_at) + step


def _add_world(server: Any, middle: np.ndarray) -> None:
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
