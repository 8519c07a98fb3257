"""One picture of a flight, as with a stroboscope: the drone every half second along its path."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import mujoco
import numpy as np
from PIL import Image, ImageDraw

from lafr_mjx.metrics import event_in
from lafr_mjx.runs.run_files import write_whole
from lafr_mjx.view.camera import trail_width, wide_camera
from lafr_mjx.view.decorations import (
    draw_course,
    draw_line,
    draw_wind,
    legend,
    speed_colour,
)
from lafr_mjx.view.offscreen import Renderer
from lafr_mjx.view.overlay import font, speed_bar
from lafr_mjx.view.scene import build_scene
from lafr_mjx.view.video import WIDE_DRONE_SIZE

if TYPE_CHECKING:
    from pathlib import Path

    from lafr_mjx.view.replay import Replay
    from lafr_mjx.view.shown_flight import Flight

INTERVAL_S = 0.5
_ASPECT = 2.8  # width over height of a row
_SAMPLES = 8
_INK, _DIM, _SHADE = (255, 255, 255, 255), (215, 222, 230, 255), (14, 20, 28, 150)


def strobe_picture(replay: Replay, width: int = 1280) -> Image.Image:
    """The first flight above the last, one lap each, the drone every half second."""
    flights = [replay.flights[0]]
    if len(replay.flights) > 1:
        flights.append(replay.flights[-1])
    height = round(width / _ASPECT) // 2 * 2
    size = WIDE_DRONE_SIZE
    scene = build_scene([(replay.vehicle, replay.task)], drone_size=size, ghosts=False)
    stage, camera = scene.stages[0], wide_camera(scene, _ASPECT, elevation=-38.0, lowered=0.01)
    whole = Image.new("RGB", (width, height * len(flights)))
    with Renderer(scene.model, width, height, samples=_SAMPLES) as renderer:
        for row, flight in enumerate(flights):
            start, end = one_lap(flight, replay.task.ramp_s)
            times = np.arange(start, end, INTERVAL_S)

            def draw(
                target: mujoco.MjvScene,
                option: mujoco.MjvOption,
                flight: Flight = flight,
                times: np.ndarray = times,
                end: float = end,
            ) -> None:
                for time in times[1:]:
                    scene.place([flight.at(time)])
                    mujoco.mjv_addGeoms(
                        scene.model, scene.data, option, mujoco.MjvPerturb(),
                        mujoco.mjtCatBit.mjCAT_DYNAMIC, target,
                    )  # fmt: skip
                draw_course(target, stage, flight.planned, flight.at(end).gates)
                points, speeds = flight.trail(end, end - times[0])
                colours = speed_colour(speeds[::2], replay.top_speed)
                draw_line(target, points[::2], colours, 0.7 * trail_width(camera))
                draw_wind(target, stage.path, flight.at(times[0]).wind, first=0.4)

            scene.place([flight.at(times[0])])
            picture = Image.fromarray(renderer.render(scene.data, camera, draw))
            _caption(picture, flight, replay.name)
            unit, ink = width / 1000.0, ImageDraw.Draw(picture, "RGBA")
            speed_bar(picture, ink, replay.top_speed, unit, legend([flight], [flight.at(end)]))
            whole.paste(picture, (0, row * height))
    return whole


def make_strobe(path: Path, replay: Replay) -> None:
    """Write the picture; it appears whole or not at all."""
    data, png = io.BytesIO(), path.suffix.lower() == ".png"
    picture = strobe_picture(replay)
    picture.save(data, "PNG" if png else "JPEG", **({"optimize": True} if png else {"quality": 92}))
    write_whole(path, data.getvalue())


def one_lap(flight: Flight, ramp_s: float) -> tuple[float, float]:
    """Start and end [s] of one lap at full tempo, or of what was flown of it."""
    start = float(np.clip(ramp_s, flight.time[0], flight.time[-1]))
    begun = flight.at(start).lap
    done = np.flatnonzero(flight.lap >= begun + 1.0)
    end = float(flight.time[done[0]]) if len(done) else float(flight.time[-1])
    end = min(end, flight.crash_time)
    return (start, end) if end > start else (float(flight.time[0]), float(flight.time[-1]))


def _caption(picture: Image.Image, flight: Flight, name: str) -> None:
    draw = ImageDraw.Draw(picture, "RGBA")
    unit = picture.width / 1000.0
    title, metrics = flight.title, flight.metrics
    lap = "no lap" if metrics.lap_time_s is None else f"lap {metrics.lap_time_s:.2f} s"
    line = f"up to {metrics.peak_speed_mps:.1f} m/s, {lap}, RMSE {metrics.rmse_m:.2f} m"
    event = event_in(vars(metrics))
    if event:
        line += f", crashed at {flight.crash_time:.1f} s" if event == "crash" else f", {event}"
    big, small = font(round(19 * unit), bold=True), font(round(13 * unit))
    small_width = max(draw.textlength(t, small) for t in (line, name))
    width = max(small_width, draw.textlength(title, big)) + 24.0 * unit
    draw.rounded_rectangle((10 * unit, 10 * unit, 10 * unit + width, 80 * unit), 7 * unit, _SHADE)
    draw.text((22 * unit, 33 * unit), title, _INK, big, anchor="ls")
    draw.text((22 * unit, 53 * unit), line, _INK, small, anchor="ls")
    draw.text((22 * unit, 71 * unit), name, _DIM, small, anchor="ls")
    note = f"a picture every {INTERVAL_S:g} s · drone drawn {WIDE_DRONE_SIZE:g} times its size"
    place = (14 * unit, picture.height - 10 * unit)
    draw.text(place, note, _DIM, font(round(11 * unit)), anchor="ls")
