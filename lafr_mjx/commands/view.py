"""`lafr-mjx view`: watch a run, a recorded flight, or a flight as it happens."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, arg

from lafr_mjx.errors import InputError
from lafr_mjx.output import check_range, check_writable

if TYPE_CHECKING:
    from lafr_mjx.view.replay import Replay
    from lafr_mjx.view.video import Shot

_PICTURES = {"--video": (".mp4", ".gif"), "--strobe": (".png", ".jpg", ".jpeg")}


@dataclass
class View:
    """Watch a run in the MuJoCo viewer, in a browser, or as a video.

    lafr-mjx view runs/figure8-wind5-ours-0

    lafr-mjx view runs/figure8-wind5-ours-0 --compare runs/figure8-wind5-baseline-0

    lafr-mjx view runs/figure8-wind5-ours-0 --video flight.mp4 --strobe flight.png

    lafr-mjx view runs/figure8-wind5-ours-0 --web

    lafr-mjx view --task figure8 --scenario wind5 --policy policy.npz

    Without RUN it flies live: wind and time scale can be changed while it flies.
    """

    run_folder: Positional[Annotated[Path | None, arg(metavar="[RUN]")]] = None
    """Folder of a run; the .npz of one recorded flight, or a drone's flight.bag (with --task)."""
    compare: Path | None = None
    """Another run, flown beside the first."""
    flights: tuple[int, ...] = ()
    """Only these flights (iterations) of the run."""
    video: Path | None = None
    """Write a video (.mp4, or .gif); no screen is needed."""
    strobe: Path | None = None
    """Write one picture (.png, .jpg): the drone every 0.5 s, first flight above the last."""
    web: bool = False
    """Show it in a browser (needs the extra 'web')."""
    seconds: float = 10.0
    """Length of the video, shared by its flights; 0 shows whole flights."""
    size: str = "640x360"
    """Width and height of the video."""
    fps: int = 30
    """Frames per second of the video."""
    speed: float = 1.0
    """Speed of the replay; 0.5 is slow motion."""
    camera: Literal["wide", "follow"] = "wide"
    """The whole path, or with the drone."""
    host: str = "127.0.0.1"
    """Address of the web view; by default only this machine can open it."""
    port: int = 8080
    """Port of the web view."""
    task: str | None = None
    """Task of a live or a recorded flight."""
    scenario: str | None = None
    """Scenario of a live flight; by default the task's own."""
    vehicle: str | None = None
    """Vehicle of a live or a recorded flight; by default lafr192."""
    policy: Path | None = None
    """Policy of a live flight (policy.npz of a run); by default the geometric controller."""
    time_scale: float | None = None
    """Time scale of a live flight; smaller is faster; by default the task's first."""
    engine: Literal["mjx", "freebody"] = "freebody"
    """Physics of a live flight."""
    seed: int = 0
    """Seed of a live flight."""

    def run(self) -> None:
        """Load, then show or render."""
        shot = self._checked()
        if self.run_folder is None:
            self._live(shot)
            return
        replays = self._replays()
        for replay in replays:
            if replay.note:
                print(replay.note)
        self._show(replays, shot)

    def _checked(self) -> Shot:
        """Everything about the request that can be wrong, before any work is done."""
        from lafr_mjx.view.video import Shot

        if self.run_folder is None and self.task is None:
            raise InputError("give the folder of a run, or --task to fly live")
        if self.run_folder is None and (self.compare or self.flights):
            raise InputError("--compare and --flights need the folder of a run")
        if self.web and (self.video or self.strobe):
            raise InputError("--web shows, --video and --strobe write files: give one or the other")
        if self.compare and self.strobe:
            raise InputError("--strobe: a picture of one run; leave --compare out, or give --video")
        live_only = ("scenario", "policy", "time_scale")
        if self.run_folder is not None:
            for name in live_only:
                if getattr(self, name) is not None:
                    option = name.replace("_", "-")
                    raise InputError(
                        f"--{option}: is for live flights; {self.run_folder} has its own"
                    )
        for option, path in (("--video", self.video), ("--strobe", self.strobe)):
            _check_target(option, path)
        for option, value, low, high in (
            ("seconds", self.seconds, 0.0, 3600.0), ("fps", self.fps, 1, 120),
            ("speed", self.speed, 0.01, 100.0), ("port", self.port, 1, 65535),
            ("seed", self.seed, 0, 2**31 - 1),
        ):  # fmt: skip
            check_range(option, value, low, high)
        width, height = _size(self.size)
        return Shot(width, height, self.fps, self.camera, self.speed)

    def _replays(self) -> list[Replay]:
        from lafr_mjx.view.replay import load_replay

        assert self.run_folder is not None
        replays = [load_replay(self.run_folder, self.task, self.vehicle)]
        if self.compare is not None:
            replays.append(load_replay(self.compare, self.task, self.vehicle))
            one, other = (replay.task.name for replay in replays)
            if one != other:
                raise InputError(
                    f"--compare {self.compare}: flies the task '{other}'; only runs of "
                    f"{self.run_folder}'s task, '{one}', can fly beside it"
                )
        return [replay.chosen(self.flights) for replay in replays]

    def _show(self, replays: list[Replay], shot: Shot) -> None:
        if self.video is not None or self.strobe is not None:
            self._write(replays, shot)
        elif self.web:
            from lafr_mjx.view.web.server import serve

            serve(replays, self.host, self.port, self.speed)
        else:
            from lafr_mjx.view.viewer import watch

            watch(replays, self.speed, follow=self.camera == "follow")

    def _write(self, replays: list[Replay], shot: Shot) -> None:
        from lafr_mjx.view.strobe import make_strobe
        from lafr_mjx.view.video import make_video, plan_clips

        if self.video is not None:
            chosen = bool(self.flights)
            clips = plan_clips(replays, self.seconds, self.speed, all_flights=chosen)
            started = time.monotonic()
            count = make_video(self.video, replays, clips, shot)
            taken = time.monotonic() - started
            print(f"Video: {self.video} ({count / self.fps:.1f} s, {taken:.0f} s to render)")
        if self.strobe is not None:
            make_strobe(self.strobe, replays[0])
            print(f"Picture: {self.strobe}")

    def _live(self, shot: Shot) -> None:
        from lafr_mjx.view.live import LiveFlight, load_live

        assert self.task is not None
        setup = load_live(
            self.task, self.scenario, self.vehicle or "lafr192", self.policy, self.time_scale,
            self.engine, self.seed,
        )  # fmt: skip
        if self.video is not None or self.strobe is not None or self.web:
            print(f"Flying {setup.task.name} in {setup.scenario.name} ...", flush=True)
            self._show([setup.fly()], shot)
            return
        from lafr_mjx.view.viewer import watch_live

        watch_live(LiveFlight(setup), follow=self.camera == "follow")


def _check_target(option: str, path: Path | None) -> None:
    """Fail before rendering, not after it."""
    if path is None:
        return
    endings = _PICTURES[option]
    if path.suffix.lower() not in endings:
        raise InputError(f"{option} {path}: must end in {' or '.join(endings)}")
    if path.exists():
        raise InputError(f"{option} {path}: exists already, and nothing is overwritten")
    check_writable(path, option)


def _size(text: str) -> tuple[int, int]:
    parts = text.lower().split("x")
    if len(parts) == 2 and all(part.isdecimal() for part in parts):
        width, height = (int(part) for part in parts)
        if 160 <= width <= 3840 and 90 <= height <= 2160 and width % 2 == 0 and height % 2 == 0:
            return width, height
    raise InputError(
        f"--size {text}: must be WIDTHxHEIGHT, even numbers from 160x90 to 3840x2160, e.g. 1280x720"
    )
