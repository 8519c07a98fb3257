"""Videos and animated pictures of flights, rendered without a screen."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from PIL import Image
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from lafr_mjx.errors import InputError, RunError
from lafr_mjx.view.camera import close_camera, follow_camera, trail_width, wide_camera
from lafr_mjx.view.decorations import LEAST_WIND, TRAIL_WIDTH, draw_label, draw_stage, legend
from lafr_mjx.view.offscreen import Renderer
from lafr_mjx.view.overlay import annotate, framed
from lafr_mjx.view.scene import build_scene

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from types import TracebackType

    from lafr_mjx.view.camera import CameraName
    from lafr_mjx.view.replay import Replay
    from lafr_mjx.view.shown_flight import Flight

WIDE_DRONE_SIZE = 3.0
"""Drones are drawn that much larger where the whole path is seen, and the picture says so."""

_CLIPS = 3
_LEAD_S = 0.5  # a clip begins that much before the flight has come up to speed
_HELD_S = 0.4  # the last picture stays for a moment
LABEL_OFFSET = np.array([-0.1, 0.0, 0.35])  # m, from the corner of a path
_INSET = (0.25, 0.30)  # of width and height


class Clip(NamedTuple):
    """A part of a video: one flight of each replay, from a moment on."""

    flights: tuple[Flight, ...]
    start: float  # s
    seconds: float


class Shot(NamedTuple):
    """How a video is made."""

    width: int = 640
    height: int = 360
    fps: int = 30
    camera: CameraName = "wide"
    speed: float = 1.0  # of the replay: 0.5 is slow motion


def plan_clips(
    replays: Sequence[Replay], seconds: float, speed: float = 1.0, *, all_flights: bool = False
) -> list[Clip]:
    """What is shown in so many seconds of video; 0: the flights as a whole.

    Of many flights the first, a middle one and the last get equal shares.
    """
    count = max(len(replay.flights) for replay in replays)
    chosen = list(range(count))
    if not all_flights and seconds > 0.0 and count > _CLIPS:
        chosen = sorted({0, round(0.55 * (count - 1)), count - 1})
    clips = []
    for index in chosen:
        flights = tuple(r.flights[min(index, len(r.flights) - 1)] for r in replays)
        longest = max(flight.duration for flight in flights)
        if seconds <= 0.0:
            clips.append(Clip(flights, 0.0, longest))
            continue
        share = min(speed * seconds / len(chosen), longest)
        ramp = min(replay.task.ramp_s for replay in replays)
        start = float(np.clip(ramp - _LEAD_S, 0.0, longest - share))
        clips.append(Clip(flights, start, share))
    return clips


def make_video(path: Path, replays: Sequence[Replay], clips: Sequence[Clip], shot: Shot) -> int:
    """Render clips into an .mp4 or .gif; returns the number of frames.

    When it is interrupted, what was rendered so far is kept.
    """
    moments = [
        (clip, clip.start + step)
        for clip in clips
        for step in np.arange(0.0, clip.seconds, shot.speed / shot.fps)
    ]
    if not moments:
        raise InputError(f"--video {path}: there is nothing to show in so short a time")
    held = round(_HELD_S * shot.fps)
    progress = Progress(
        TextColumn("[progress.description]{task.description}"), BarColumn(),
        MofNCompleteColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    written = 0
    with FrameWriter(path, shot) as writer, progress:
        bar = progress.add_task(f"rendering {path.name}", total=len(moments))
        picture = np.empty(0)
        for picture in frames(replays, moments, shot):
            writer.add(picture)
            written += 1
            progress.advance(bar)
        for _ in range(held):
            writer.add(picture)
    return written + held


def frames(
    replays: Sequence[Replay], moments: Sequence[tuple[Clip, float]], shot: Shot
) -> Iterator[np.ndarray]:
    """Pictures [height, width, 3] of moments of clips, one after another."""
    size = WIDE_DRONE_SIZE if shot.camera == "wide" else 1.0
    top_speed = max(replay.top_speed for replay in replays)
    scene = build_scene([(r.vehicle, r.task) for r in replays], drone_size=size)
    wide = wide_camera(scene, shot.width / shot.height)
    trail = trail_width(wide) if shot.camera == "wide" else 0.3 * TRAIL_WIDTH
    names = [replay.name for replay in replays]
    words = distinct_words(names)
    small = (round(_INSET[0] * shot.width), round(_INSET[1] * shot.height))
    unit = shot.height / 360.0
    note = f"drone drawn {size:g} times its size" if size != 1.0 else ""
    with Renderer(scene.model, shot.width, shot.height) as renderer:
        for clip, time in moments:
            now = [flight.at(time) for flight in clip.flights]
            scene.place(now)

            def draw(target, option, clip=clip, now=now) -> None:  # noqa: ANN001
                del option
                for stage, flight, moment in zip(scene.stages, clip.flights, now, strict=True):
                    draw_stage(target, stage, flight, moment, top_speed, width=trail)
                if len(replays) > 1:
                    for stage, word in zip(scene.stages, words, strict=True):
                        draw_label(target, stage.path.min(axis=0) + LABEL_OFFSET, word)

            camera = wide
            if shot.camera == "follow":
                camera = follow_camera(clip.flights[0], time, scene.stages[0].offset)
            picture = renderer.render(scene.data, camera, draw)
            shown = list(zip(names, clip.flights, now, strict=True))
            wind = float(np.linalg.norm(now[0].wind))
            footnote = [f"wind {wind:.1f} m/s"] if wind > LEAST_WIND else []
            small_print = " · ".join(part for part in (*footnote, note) if part)
            rows = legend(clip.flights, now)
            picture = annotate(picture, shown, top_speed, small_print, rows)
            if shot.camera == "wide" and len(replays) == 1:
                close = close_camera(clip.flights[0], time, scene.stages[0].offset, size)
                near = renderer.render(scene.data, close, draw, small, shadows=False)
                inset = framed(near, unit, "close-up")
                whole = Image.fromarray(picture)
                gap = round(10 * unit)
                corner = (shot.width - inset.width - gap, shot.height - inset.height - gap)
                whole.paste(inset, corner)
                picture = np.asarray(whole)
            yield picture


def distinct_words(names: Sequence[str]) -> list[str]:
    """What tells the names of runs apart, e.g. the method; their numbers if nothing does."""
    parts = [name.split(" · ") for name in names]
    for words in zip(*parts, strict=False):
        if len(set(words)) == len(words) > 1:
            return list(words)
    return [f"{i + 1}" for i in range(len(names))]


class FrameWriter:
    """Pipes pictures into ffmpeg; the file appears when it is finished, also when cut short."""

    def __init__(self, path: Path, shot: Shot) -> None:
        import imageio_ffmpeg

        self._path = path
        self._partial = path.with_name(f".{path.stem}.partial{path.suffix}")
        self._count = 0
        command = [
            imageio_ffmpeg.get_ffmpeg_exe(), "-y", "-loglevel", "error", "-f", "rawvideo",
            "-pix_fmt", "rgb24", "-s", f"{shot.width}x{shot.height}", "-r", str(shot.fps),
            "-i", "-", *_encoding(path), str(self._partial),
        ]  # fmt: skip
        # A session of its own: Ctrl-C must reach us and not ffmpeg, which has a file to finish.
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )

    def add(self, picture: np.ndarray) -> None:
        """One more picture."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(np.ascontiguousarray(picture).tobytes())
        except BrokenPipeError as error:
            raise RunError(f"{self._path}: {self._complaint()}") from error
        self._count += 1

    def _complaint(self) -> str:
        _, said = self._process.communicate()
        lines = said.decode(errors="replace").strip().splitlines()
        return f"ffmpeg cannot write it: {lines[-1] if lines else 'no reason given'}"

    def __enter__(self) -> FrameWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        keep = kind is None or (issubclass(kind, KeyboardInterrupt) and self._count > 0)
        complaint = "ffmpeg ended early"
        if self._process.poll() is None:
            complaint = self._complaint()  # closes the pipe and waits
        if keep and self._process.returncode == 0:
            self._partial.replace(self._path)
            if kind is not None:
                print(f"Interrupted; {self._path} has the {self._count} frames that were ready.")
            return
        self._partial.unlink(missing_ok=True)
        if kind is None:
            raise RunError(f"{self._path}: {complaint}")


def _encoding(path: Path) -> list[str]:
    if path.suffix.lower() == ".gif":
        # One palette for all frames, and only what changed is stored: small files.
        rate, size = "fps=12", "scale='min(560,iw)':-2:flags=lanczos"
        return [
            "-filter_complex",
            f"[0:v]{rate},{size},split[a][b];[a]palettegen=max_colors=128:stats_mode=full[p];"
            f"[b][p]paletteuse=dither=none:diff_mode=rectangle",
            "-loop", "0",
        ]  # fmt: skip
    return ["-c:v", "libx264", "-crf", "21", "-preset", "medium", "-pix_fmt", "yuv420p",
            "-movflags", "+faststart"]  # fmt: skip
