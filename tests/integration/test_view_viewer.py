"""The MuJoCo viewer under a virtual screen, in a process of its own, to its very end."""

from __future__ import annotations

import signal
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image
from view_runs import flown, virtual_screen, write_run

_GRAB = """
import sys, threading, time
from pathlib import Path
import numpy as np
from PIL import ImageGrab

def grab():
    # On a busy machine a window takes its time to open, and a picture to change.
    seen = None
    for number in (1, 2):
        for _ in range(3000):
            time.sleep(0.3)
            picture = ImageGrab.grab().crop((0, 0, 600, 400))
            pixels = np.asarray(picture, int)[..., :3]
            moved = seen is None or (np.abs(pixels - seen).max(axis=-1) > 40).sum() > 50
            if pixels.std() > 10.0 and moved:
                break
        picture.save(f"{sys.argv[1]}/screen{number}.png")
        seen = pixels
    ended.set()

def until_grabbed(frames, enough=lambda: True):
    def shorter(*arguments):
        for number, elapsed in enumerate(frames(*arguments)):
            if ended.is_set() and number > 10 and enough():
                return
            yield elapsed
    return shorter

ended = threading.Event()
threading.Thread(target=grab, daemon=True).start()
"""

_REPLAY = """
from lafr_mjx.view import viewer
viewer._frames = until_grabbed(viewer._frames)
from lafr_mjx.view.replay import load_replay
viewer.watch([load_replay(Path(p)) for p in sys.argv[2:]], seconds=3000)
"""

_LIVE = """
from lafr_mjx.view import live, viewer
setup = live.load_live("figure8", "wind5", "lafr192", None, 0.6, "freebody", 0)
flight = live.LiveFlight(setup)
viewer._frames = until_grabbed(viewer._frames, lambda: flight.time > 0.2)
viewer.watch_live(flight, follow=True, seconds=3000)
"""


_INTERRUPTED = """
import signal, sys
from lafr_mjx.cli import main
from lafr_mjx.view import viewer
frames = viewer._frames

def until_interrupted(*arguments):
    for number, elapsed in enumerate(frames(*arguments)):
        if number == int(sys.argv[1]):
            signal.raise_signal(int(sys.argv[2]))
        yield elapsed

viewer._frames = until_interrupted
main(["view", *sys.argv[3:]])
"""


def run_under_xvfb(code, *arguments):
    """The ended process; it must end by itself."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    with virtual_screen() as environment:
        return subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=3600, check=False
        )


def assert_something_moved(folder):
    one, two = (np.asarray(Image.open(folder / f"screen{i}.png"), int)[..., :3] for i in (1, 2))
    assert one.std() > 10.0, "the window is empty"
    assert (np.abs(one - two).max(axis=-1) > 40).sum() > 50, "nothing moves"


def test_a_replay_of_two_runs(tmp_path):
    run = write_run(tmp_path / "run", [flown(0.4), flown(0.3)])
    other = write_run(tmp_path / "other", [flown(1.0)], method="baseline")
    done = run_under_xvfb(_GRAB + _REPLAY, tmp_path, run, other)
    assert "Shown: iteration" in done.stdout and done.returncode == 0, done.stderr
    assert_something_moved(tmp_path)


def test_a_live_flight(tmp_path):
    done = run_under_xvfb(_GRAB + _LIVE, tmp_path)
    assert "Flown: " in done.stdout and done.returncode == 0, done.stderr
    assert float(done.stdout.split("Flown: ")[1].split()[0]) > 0.0
    assert_something_moved(tmp_path)


# The end of a process is a race: it is tried more than once.
@pytest.mark.parametrize(
    "frame", [5, *(pytest.param(k, marks=pytest.mark.long) for k in (0, 1, 30))]
)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_closes_the_window_before_the_process_ends(tmp_path, number, frame):
    run = write_run(tmp_path / "run", [flown(0.4)])
    done = run_under_xvfb(_INTERRUPTED, frame, int(number), run)
    assert done.returncode == 128 + number, done.stderr
    assert done.stderr.endswith("lafr-mjx: interrupted\n")


def test_a_signal_closes_the_window_of_a_live_flight():
    done = run_under_xvfb(_INTERRUPTED, 3, int(signal.SIGINT), "--task", "figure8")
    assert done.returncode == 130 and done.stderr.endswith("lafr-mjx: interrupted\n"), done.stderr


def test_live_flight_obeys_its_keys():
    from lafr_mjx.view import player
    from lafr_mjx.view.live import LiveFlight, load_live

    flight = LiveFlight(load_live("figure8", "nominal", "lafr192", None, 1.0, "freebody", 0))
    for _ in range(150):
        flight.tick()
    calm = flight.moment()
    assert flight.time == pytest.approx(3.0)
    assert calm.error < 0.1
    flight.on_key(player.SPACE)
    flight.tick()
    assert flight.moment().time == calm.time
    flight.on_key(player.SPACE)
    for _ in range(6):
        flight.on_key(player.SEVEN)
    assert np.linalg.norm(flight.wind) == pytest.approx(6.0, abs=0.01)
    flight.on_key(player.EIGHT)
    np.testing.assert_allclose(
        flight.wind, 6.0 * np.array([np.cos(np.pi / 6), 0.5, 0.0]), rtol=1e-3
    )
    for _ in range(25):
        flight.tick()
    blown = flight.moment()
    # A gust of 6 m/s from one moment to the next pushes it along the wind.
    assert (blown.position - blown.reference_position) @ flight.wind > 0.2
    for _ in range(3):
        flight.on_key(player.UP)
    assert flight.time_scale == pytest.approx(0.93**3)
    points, speeds = flight.trail(flight.time, 1.0)
    assert len(points) == len(speeds) == pytest.approx(50, abs=1)
    flight.on_key(player.BACKSPACE)
    assert flight.time == 0.0
    np.testing.assert_allclose(flight.moment().position, [0.0, 0.0, 1.5], atol=1e-6)


def test_a_live_flight_starts_again_after_a_crash():
    from lafr_mjx.view.live import LiveFlight, load_live

    flight = LiveFlight(load_live("figure8", "nominal", "lafr192", None, 1.0, "freebody", 0))
    flight.wind = np.array([60.0, 0.0, 0.0])
    crashed = False
    for _ in range(300):
        flight.tick()
        crashed = crashed or bool(flight.crash)
        if crashed and flight.time < 0.1:
            break
    assert crashed
    assert flight.time < 0.1
