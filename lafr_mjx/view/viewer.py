"""The MuJoCo viewer: replays in real time, and live flights."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np

from lafr_mjx import interruption
from lafr_mjx.errors import InputError, RunError
from lafr_mjx.types import CONTROL_DT
from lafr_mjx.view.camera import FOLLOW_M, wide_camera
from lafr_mjx.view.decorations import draw_label, draw_stage
from lafr_mjx.view.live import LIVE_KEYS, LiveFlight
from lafr_mjx.view.player import REPLAY_KEYS, Player
from lafr_mjx.view.scene import Scene, build_scene
from lafr_mjx.view.video import LABEL_OFFSET, distinct_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lafr_mjx.view.replay import Replay
    from lafr_mjx.view.shown_flight import Moment

_FRAME_S = 1.0 / 60.0
_ASPECT = 1.6  # of the window, about
_DRONE_SIZE = 2.0  # a little larger than life, to be found in the arena
_LIVE_TOP_SPEED = 8.0  # m/s, upper end of the colours
_CAMERA_LAG_S = 0.25


def watch(
    replays: Sequence[Replay], speed: float = 1.0, *, follow: bool = False,
    seconds: float | None = None,
) -> None:  # fmt: skip
    """Replay flights until the window is closed, or for some seconds."""
    player = Player(replays, speed, follow=follow)
    top_speed = max(replay.top_speed for replay in replays)
    words = distinct_words([replay.name for replay in replays])
    scene = build_scene([(r.vehicle, r.task) for r in replays], _DRONE_SIZE)
    # Keys come from another thread; they are taken in between two frames.
    pressed: list[int] = []
    with _window(scene, pressed.append) as (window, stop):
        for elapsed in _frames(window, seconds, stop):
            while pressed:
                player.on_key(pressed.pop(0))
            player.advance(elapsed)
            moments = player.moments()
            with window.lock():
                scene.place(moments)
                target = window.user_scn
                target.ngeom = 0
                for stage, flight, moment in zip(
                    scene.stages, player.flights, moments, strict=True
                ):
                    draw_stage(target, stage, flight, moment, top_speed, width=0.006,
                               corridor=player.corridor)  # fmt: skip
                if len(replays) > 1:
                    for stage, word in zip(scene.stages, words, strict=True):
                        draw_label(target, stage.path.min(axis=0) + LABEL_OFFSET, word)
                if player.follow:
                    _follow(window.cam, moments[0].position, elapsed)
            window.set_texts([_figures(player, moments), _keys(REPLAY_KEYS)])
            window.sync()
        print(f"Shown: {player.flights[0].title}, {player.time:.1f} s", flush=True)


def watch_live(flight: LiveFlight, *, follow: bool = False, seconds: float | None = None) -> None:
    """Fly until the window is closed, or for some seconds."""
    setup = flight.setup
    flight.follow = follow
    scene = build_scene([(setup.vehicle, setup.task)], _DRONE_SIZE)
    flight.tick()  # compiles, before the window stands there empty
    flight.restart()
    pressed: list[int] = []
    due = 0.0
    with _window(scene, pressed.append) as (window, stop):
        for elapsed in _frames(window, seconds, stop):
            while pressed:
                flight.on_key(pressed.pop(0))
            due = min(due + elapsed, 5 * CONTROL_DT)  # a slow machine flies in slow motion
            while due >= CONTROL_DT:
                flight.tick()
                due -= CONTROL_DT
            moment = flight.moment()
            with window.lock():
                scene.place([moment])
                target = window.user_scn
                target.ngeom = 0
                draw_stage(target, scene.stages[0], flight, moment, _LIVE_TOP_SPEED, width=0.006)
                if flight.follow:
                    _follow(window.cam, moment.position, elapsed)
            window.set_texts([_live_figures(flight, moment), _keys(LIVE_KEYS)])
            window.sync()
        print(f"Flown: {flight.time:.1f} s, speed {flight.moment().speed:.1f} m/s", flush=True)


@contextlib.contextmanager
def _window(scene: Scene, on_key: Callable[[int], None]) -> Iterator[tuple[Any, list[int]]]:
    """A window, and the signals that came: they wait until it is closed and its thread has ended.

    A process that ends while the thread still draws hangs, or ends by a fault of X or the driver.
    """
    if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        raise InputError(
            "the viewer needs a screen, and there is none (DISPLAY is not set); "
            "use --video FILE or --web instead"
        )
    import mujoco.viewer

    with interruption.held() as stop:
        others = set(threading.enumerate())
        try:
            window = mujoco.viewer.launch_passive(
                scene.model, scene.data, key_callback=on_key,
                show_left_ui=False, show_right_ui=False,
            )  # fmt: skip
        except Exception as error:  # GLFW's errors come as several kinds
            raise RunError(f"the viewer cannot open a window: {error}") from error
        drawing = set(threading.enumerate()) - others
        try:
            start = wide_camera(scene, _ASPECT)
            with window.lock():
                window.cam.lookat[:] = start.lookat
                window.cam.distance, window.cam.azimuth = start.distance, start.azimuth
                window.cam.elevation = start.elevation
            yield window, stop
        finally:
            window.close()
            for thread in drawing:
                thread.join()


def _frames(window: Any, seconds: float | None, stop: list[int]) -> Iterator[float]:
    """Seconds since the last frame, at 60 frames a second at most, until a signal comes."""
    begun = last = time.monotonic()
    while window.is_running() and not stop:
        now = time.monotonic()
        if seconds is not None and now - begun > seconds:
            return
        yield now - last
        last = now
        time.sleep(max(0.0, _FRAME_S - (time.monotonic() - now)))


def _follow(camera: Any, position: np.ndarray, elapsed: float) -> None:
    """Go after the drone smoothly; angles stay in the user's hand."""
    share = 1.0 - np.exp(-elapsed / _CAMERA_LAG_S)
    camera.lookat[:] += share * (position - camera.lookat)
    camera.distance += share * (min(camera.distance, FOLLOW_M) - camera.distance)


def _figures(player: Player, moments: Sequence[Moment]) -> tuple:
    rows: list[tuple[str, str]] = []
    for replay, flight, moment in zip(player.replays, player.flights, moments, strict=True):
        rows += [
            (replay.name, f"{flight.title} ({player.index + 1} of {player.count})"),
            ("Time", f"{moment.time:5.2f} of {flight.duration:.2f} s"),
            *_common(moment),
            ("Event", moment.event),
        ]
    rows.append(("Replay", f"{player.speed:g} x" + (", paused" if player.paused else "")))
    return _text(mujoco.mjtGridPos.mjGRID_TOPLEFT, rows)


def _live_figures(flight: LiveFlight, moment: Moment) -> tuple:
    setup = flight.setup
    state = flight.crash and f"crashed: {flight.crash}"
    return _text(
        mujoco.mjtGridPos.mjGRID_TOPLEFT,
        [
            (f"{setup.task.name}, {setup.scenario.name}", setup.title),
            ("Time", f"{moment.time:5.2f} s"),
            *_common(moment),
            ("Wind", f"{np.linalg.norm(flight.wind):.0f} m/s"),
            ("", state or ("paused" if flight.paused else "")),
        ],
    )


def _common(moment: Moment) -> list[tuple[str, str]]:
    return [
        ("Lap", f"{int(moment.lap) + 1}"),
        ("Speed", f"{moment.speed:5.2f} m/s"),
        ("Error", f"{moment.error:5.3f} m"),
        ("Time scale", f"{moment.time_scale:.2f}"),
    ]


def _keys(keys: Sequence[tuple[str, str]]) -> tuple:
    return _text(mujoco.mjtGridPos.mjGRID_BOTTOMLEFT, keys)


def _text(place: int, rows: Sequence[tuple[str, str]]) -> tuple:
    # The viewer's font has no letters beyond ASCII.
    left, right = (
        "\n".join(row[i] for row in rows).replace("·", "|").encode("ascii", "replace").decode()
        for i in range(2)
    )
    return (mujoco.mjtFontScale.mjFONTSCALE_150, place, left, right)
