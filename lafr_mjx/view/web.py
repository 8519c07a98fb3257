"""The web view: a replay in a browser, for machines without a screen."""

from __future__ import annotations

import contextlib
import io
import socket
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from lafr_mjx.errors import InputError
from lafr_mjx.view.decorations import TRAIL_S, speed_colour
from lafr_mjx.view.flights import jets
from lafr_mjx.view.player import SPEEDS, Player
from lafr_mjx.view.scene import Scene, Stage, build_scene

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lafr_mjx.view.flights import Flight, Moment
    from lafr_mjx.view.replay import Replay

_FRAME_S = 1.0 / 30.0
_TRAIL_PIECES = 90
_DRONE_SIZE = 2.0
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_ARROW_M = 0.14  # of arrow per m/s of wind
_BLUE, _RED = "#0072B2", "#D55E00"


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
        except ImportError as error:
            raise InputError("--web needs the extra 'web': pip install 'lafr-mjx[web]'") from error
        self.player = Player(replays, speed)
        self._top_speed = max(replay.top_speed for replay in replays)
        cast = [(r.vehicle, r.task, r.path()) for r in replays]
        self._scene = build_scene(cast, _DRONE_SIZE)
        _check_address(host)
        with contextlib.redirect_stdout(io.StringIO()):  # its banner; ours says the same
            self._server = viser.ViserServer(host, port, label="LAFR-MJX", verbose=False)
        self._server.gui.configure_theme(
            control_width="large", show_logo=False, show_share_button=False
        )
        self._server.gui.main_panel.dock_right()
        self._shown: Any = None
        self._stages = [
            _StageInBrowser(self._server, self._scene, stage, i)
            for i, stage in enumerate(self._scene.stages)
        ]
        self._add_world()
        self._controls = _Controls(self._server, self.player)
        self._server.on_client_connect(self._welcome)

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
        state = (self.player.index, self.player.time, self._controls.ghost)
        if state != self._shown:  # a paused scene lets the browser rest
            self._shown = state
            with self._server.atomic():
                for stage, flight, moment in zip(
                    self._stages, self.player.flights, moments, strict=True
                ):
                    stage.update(flight, moment, self._top_speed, ghost=self._controls.ghost)
        self._controls.update(moments)
        if self.player.follow:
            target = moments[0].position + self._scene.stages[0].offset
            for client in self._server.get_clients().values():
                # Both move by the same step, so that the visitor's own angle is kept.
                step = 0.15 * (target - np.asarray(client.camera.look_at))
                client.camera.position = np.asarray(client.camera.position) + step
                client.camera.look_at = np.asarray(client.camera.look_at) + step

    def _add_world(self) -> None:
        points = np.concatenate([stage.path for stage in self._scene.stages])
        low, high = points.min(axis=0), points.max(axis=0)
        middle = 0.5 * (low + high)
        scene = self._server.scene
        scene.set_up_direction("+z")
        scene.set_background_image(_sky())
        scene.add_grid(
            "/floor", position=(middle[0], middle[1], 0.0), infinite_grid=True, cell_size=0.5,
            section_size=1.0, cell_color=(150, 158, 168), section_color=(110, 118, 128),
            plane_color=(205, 211, 218), plane_opacity=1.0, fade_distance=22.0,
            shadow_opacity=0.25,
        )  # fmt: skip
        self._home = (middle + np.array([0.0, -4.3, 2.3]), middle)

    def _welcome(self, client: Any) -> None:
        client.camera.position, client.camera.look_at = self._home
        client.camera.up_direction = (0.0, 0.0, 1.0)


class _StageInBrowser:
    """One flight's drone, ghost, path, trail, wind and fans."""

    def __init__(self, server: Any, scene: Scene, stage: Stage, index: int) -> None:
        self._stage = stage
        self._scene = scene
        self._root = f"/stage{index}"
        self._server = server
        self._drone = _add_drone(server, scene, stage.drone, f"{self._root}/drone", None)
        self._ghost = _add_drone(
            server, scene, stage.ghost, f"{self._root}/ghost", (90, 190, 255, 0.35)
        )
        pieces = np.stack([stage.path[:-1], stage.path[1:]], axis=1)
        server.scene.add_line_segments(f"{self._root}/path", pieces, (60, 66, 74), thickness=0.008)
        here = np.tile(stage.path[0], (_TRAIL_PIECES, 2, 1))
        self._trail = server.scene.add_line_segments(
            f"{self._root}/trail", here, np.zeros((_TRAIL_PIECES, 2, 3), np.uint8), thickness=0.022
        )
        _add_props(server, scene, self._root, index)
        self._wind: Any = None
        self._wind_shown = np.full(3, np.nan)

    def update(self, flight: Flight, moment: Moment, top_speed: float, *, ghost: bool) -> None:
        """Move everything to a moment."""
        offset = self._stage.offset
        _move(self._drone, moment.position + offset, moment.quaternion, moment.blade_angle)
        _move(
            self._ghost, moment.reference_position + offset, moment.reference_quaternion,
            moment.blade_angle,
        )  # fmt: skip
        self._ghost[0].visible = ghost
        times = np.linspace(max(moment.time - TRAIL_S, 0.0), moment.time, _TRAIL_PIECES + 1)
        points = _along(flight.time, flight.position, times) + offset
        colours = speed_colour(np.interp(times, flight.time, flight.speed), top_speed)[:, :3]
        shades = (255.0 * colours).astype(np.uint8)
        self._trail.points = np.stack([points[:-1], points[1:]], axis=1).astype(np.float32)
        self._trail.colors = np.stack([shades[:-1], shades[1:]], axis=1)
        self._update_wind(moment)

    def _update_wind(self, moment: Moment) -> None:
        wind = np.round(moment.wind, 1)
        if np.allclose(wind, self._wind_shown, atol=0.25):
            return  # arrows are sent anew only when it is seen
        self._wind_shown = wind
        path, fans = self._stage.path, self._stage.fans
        low, high = path.min(axis=0), path.max(axis=0)
        starts = [np.array([x, high[1] + 0.7, high[2] + 0.35]) for x in np.linspace(*_x(low, high))]
        shafts = [_ARROW_M * wind] * len(starts)
        for fan in fans:
            ahead = np.array([0.15, 0.8, 1.6])[:, None] * fan.direction + fan.position
            starts += list(ahead + self._stage.offset)
            strength = np.full(len(ahead), moment.fan_scale)
            shafts += list(_ARROW_M * jets([fan], strength, ahead))
        arrows = np.array([[s, s + d] for s, d in zip(starts, shafts, strict=True)])
        long = np.linalg.norm(arrows[:, 1] - arrows[:, 0], axis=-1) > 0.3 * _ARROW_M
        if self._wind is not None:
            self._wind.remove()
            self._wind = None
        if long.any():
            self._wind = self._server.scene.add_arrows(
                f"{self._root}/wind", arrows[long].astype(np.float32), (60, 160, 235),
                shaft_radius=0.022, head_radius=0.05, head_length=0.12,
            )  # fmt: skip


class _Controls:
    """Buttons, sliders and plots beside the scene."""

    def __init__(self, server: Any, player: Player) -> None:
        self._server, self._player = server, player
        self._told = 0.0
        self._index = -1
        gui = server.gui
        self._text = gui.add_markdown("")
        titles = tuple(f"{i}: {_title(player, i)}" for i in range(player.count))
        self._flight = gui.add_dropdown("Flight", titles, initial_value=titles[0])
        self._play = gui.add_button("Pause")
        self._time = gui.add_slider("Time [s]", 0.0, player.duration, 0.02, 0.0)
        speeds = tuple(f"{s:g}" for s in SPEEDS)
        nearest = min(SPEEDS, key=lambda s: abs(s - player.speed))
        self._speed = gui.add_dropdown("Speed", speeds, initial_value=f"{nearest:g}")
        self._follow = gui.add_checkbox("Follow the drone", initial_value=False)
        self._ghost = gui.add_checkbox("Reference drone", initial_value=True)
        self._flight_plot: Any = None
        with gui.add_folder("Plots"):
            self._plots = gui.add_folder("This flight")
            if player.count > 1:
                _progress_plot(gui, player)
        self._play.on_click(lambda _: self._toggle())
        self._flight.on_update(lambda e: self._by_visitor(e, self._choose))
        self._time.on_update(lambda e: self._by_visitor(e, self._seek))
        self._speed.on_update(lambda e: self._by_visitor(e, self._set_speed))
        self._follow.on_update(lambda e: self._by_visitor(e, self._set_follow))

    @property
    def ghost(self) -> bool:
        """Whether the reference drone is wanted."""
        return bool(self._ghost.value)

    def update(self, moments: Sequence[Moment]) -> None:
        """Show the figures of the moment, a few times a second."""
        if self._index != self._player.index:
            self._show_flight()
        now = time.monotonic()
        if now - self._told < 0.15:
            return
        self._told = now
        for handle, name, value in (
            (self._time, "value", round(min(self._player.time, self._time.max), 2)),
            (self._play, "label", "Play" if self._player.paused else "Pause"),
            (self._text, "content", _figures(self._player, moments)),
        ):
            if getattr(handle, name) != value:
                setattr(handle, name, value)

    def _show_flight(self) -> None:
        self._index = self._player.index
        self._time.max = max(round(self._player.duration, 2), 0.02)
        self._flight.value = self._flight.options[self._index]
        flight = self._player.flights[0]
        data = (flight.time, flight.speed, flight.error)
        if self._flight_plot is not None:
            self._flight_plot.data = data
            return
        with self._plots:
            self._flight_plot = self._server.gui.add_uplot(
                data,
                ({"label": "time [s]"}, {"label": "speed [m/s]", "stroke": _BLUE, "width": 2},
                 {"label": "error [m]", "stroke": _RED, "width": 2, "scale": "error"}),
                scales={"x": {"time": False}},
                axes=({}, {"size": 36}, {"scale": "error", "side": 1, "size": 40}),
                height=200,
            )  # fmt: skip

    def _by_visitor(self, event: Any, act: Any) -> None:
        # What we set ourselves must not come back as if a visitor had asked for it.
        if event.client is not None:
            act()

    def _toggle(self) -> None:
        self._player.paused = not self._player.paused

    def _choose(self) -> None:
        self._player.choose(list(self._flight.options).index(self._flight.value))

    def _seek(self) -> None:
        self._player.paused = True
        self._player.seek(float(self._time.value))

    def _set_speed(self) -> None:
        self._player.speed = float(self._speed.value)

    def _set_follow(self) -> None:
        self._player.follow = bool(self._follow.value)


def _progress_plot(gui: Any, player: Player) -> None:
    flights = player.replays[0].flights
    numbers = np.array([flight.number for flight in flights], float)
    speeds = np.array([flight.figures.peak_speed_mps for flight in flights])
    errors = np.array([flight.figures.peak_error_m for flight in flights])
    with gui.add_folder("All flights"):
        gui.add_uplot(
            (numbers, speeds, errors),
            ({"label": "iteration"}, {"label": "peak speed [m/s]", "stroke": _BLUE, "width": 2},
             {"label": "peak error [m]", "stroke": _RED, "width": 2, "scale": "error"}),
            scales={"x": {"time": False}},
            axes=({}, {"size": 36}, {"scale": "error", "side": 1, "size": 40}),
            height=200,
        )  # fmt: skip


def _title(player: Player, index: int) -> str:
    flights = player.replays[0].flights
    flight = flights[min(index, len(flights) - 1)]
    return f"{flight.title}, {flight.figures.peak_speed_mps:.1f} m/s"


def _figures(player: Player, moments: Sequence[Moment]) -> str:
    lines = []
    for replay, flight, moment in zip(player.replays, player.flights, moments, strict=True):
        state = " · **crashed**" if moment.crashed else ""
        lines += [
            f"**{replay.name}** · {flight.title}{state}",
            "",
            "| speed | error | lap | time scale | wind |",
            "|---|---|---|---|---|",
            f"| {moment.speed:.1f} m/s | {moment.error:.2f} m | {int(moment.lap) + 1} "
            f"| {moment.time_scale:.2f} | {np.linalg.norm(moment.wind):.1f} m/s |",
            "",
        ]
    return "\n".join(lines)


def _add_drone(
    server: Any, scene: Scene, actor: Any, name: str, tint: tuple[float, ...] | None
) -> tuple[Any, list[Any], np.ndarray]:
    """A frame that carries the drone, the handles of its blades, and their poses at rest."""
    from lafr_mjx.view.meshes import merged, parts_of_body

    frame = server.scene.add_frame(name, show_axes=False)
    parts = parts_of_body(scene.model, actor.body)
    solid = [p for p in parts if p.geom not in actor.blades and p.rgba[3] > 0.95]
    clear = [p for p in parts if p.geom not in actor.blades and p.rgba[3] <= 0.95]
    if tint is not None:
        solid, clear = [], [*solid, *clear]
    mesh = merged(solid)
    if mesh is not None:
        server.scene.add_mesh_trimesh(f"{name}/frame", mesh)
    mesh = merged(clear)
    if mesh is not None:
        colour, opacity = (tint[:3], tint[3]) if tint else ((190, 205, 225), 0.25)
        server.scene.add_mesh_simple(
            f"{name}/clear", np.asarray(mesh.vertices, np.float32), np.asarray(mesh.faces),
            color=colour, opacity=opacity, side="double", cast_shadow=False,
        )  # fmt: skip
    blades = []
    for part in (p for p in parts if p.geom in actor.blades):
        colour = tint[:3] if tint else tuple(int(255 * c) for c in part.rgba[:3])
        blades.append(
            server.scene.add_mesh_simple(
                f"{name}/blade{len(blades)}", part.vertices.astype(np.float32), part.faces,
                color=colour, opacity=tint[3] if tint else None, position=part.position,
                wxyz=part.quaternion, cast_shadow=False,
            )
        )  # fmt: skip
    return frame, blades, actor.blade_poses


def _move(
    drone: tuple[Any, list[Any], np.ndarray],
    position: np.ndarray,
    quaternion: np.ndarray,
    angles: np.ndarray,
) -> None:
    from lafr_mjx import so3

    frame, blades, rest = drone
    frame.position, frame.wxyz = position, quaternion
    for blade, pose, angle in zip(blades, rest, angles, strict=False):
        turn = np.array([np.cos(0.5 * angle), 0.0, 0.0, np.sin(0.5 * angle)])
        blade.wxyz = so3.multiply(turn, pose)


def _add_props(server: Any, scene: Scene, root: str, index: int) -> None:
    """Landmarks and fans, which do not move."""
    from lafr_mjx.view.meshes import merged, parts_of_body

    for body in range(1, scene.model.nbody):
        name = scene.model.body(body).name
        if name.startswith(f"stage{index}/"):
            mesh = merged(parts_of_body(scene.model, body))
            if mesh is not None:
                server.scene.add_mesh_trimesh(
                    f"{root}/{name.replace('/', '_')}", mesh, position=scene.data.xpos[body],
                    wxyz=scene.data.xquat[body],
                )  # fmt: skip


def _along(time: np.ndarray, values: np.ndarray, times: np.ndarray) -> np.ndarray:
    return np.stack([np.interp(times, time, values[:, k]) for k in range(values.shape[1])], axis=-1)


def _x(low: np.ndarray, high: np.ndarray) -> tuple[float, float, int]:
    return float(low[0]), float(high[0]), 4


def _sky() -> np.ndarray:
    """A soft gradient, [64, 8, 3] uint8."""
    top, bottom = np.array([150, 178, 210]), np.array([236, 241, 246])
    share = np.linspace(0.0, 1.0, 64)[:, None, None]
    return np.tile(top + share * (bottom - top), (1, 8, 1)).astype(np.uint8)
