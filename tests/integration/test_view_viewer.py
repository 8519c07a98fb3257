"""The MuJoCo viewer under a virtual screen, in a process of its own.

The viewer's teardown may end the process with a bad status; what it printed and what was on the
screen count.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import time

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
        for _ in range(300):
            time.sleep(0.3)
            picture = ImageGrab.grab().crop((0, 0, 600, 400))
            pixels = np.asarray(picture, int)[..., :3]
            moved = seen is None or (np.abs(pixels - seen).max(axis=-1) > 40).sum() > 50
            if pixels.std() > 10.0 and moved:
                break
        picture.save(f"{sys.argv[1]}/screen{number}.png")
        seen = pixels
    ended.set()

def until_grabbed(frames):
    def shorter(window, seconds):
        for elapsed in frames(window, seconds):
            if ended.is_set():
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
viewer.watch([load_replay(Path(p)) for p in sys.argv[2:]], seconds=200)
"""

_LIVE = """
from lafr_mjx.view import live, viewer
viewer._frames = until_grabbed(viewer._frames)
setup = live.load_live("figure8", "wind5", "lafr192", None, 0.6, "freebody", 0)
viewer.watch_live(live.LiveFlight(setup), follow=True, seconds=200)
"""


def run_under_xvfb(code, tmp_path, *arguments):
    """What the process printed; closing a window may hang under xvfb, and is not waited for."""
    printed, errors = tmp_path / "printed.txt", tmp_path / "errors.txt"
    command = [sys.executable, "-c", _GRAB + code, str(tmp_path), *map(str, arguments)]
    with virtual_screen() as environment, printed.open("w") as out, errors.open("w") as err:
        process = subprocess.Popen(command, stdout=out, stderr=err, env=environment)
        try:
            give_up = time.monotonic() + 300.0
            while process.poll() is None and time.monotonic() < give_up:
                if re.search("^(Shown|Flown): ", printed.read_text(), re.MULTILINE):
                    break
                time.sleep(0.2)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=5.0)
        finally:
            process.kill()
            process.wait()
    return printed.read_text(), errors.read_text()


def assert_something_moved(folder):
    one, two = (np.asarray(Image.open(folder / f"screen{i}.png"), int)[..., :3] for i in (1, 2))
    assert one.std() > 10.0, "the window is empty"
    assert (np.abs(one - two).max(axis=-1) > 40).sum() > 50, "nothing moves"


def test_a_replay_of_two_runs(tmp_path):
    run = write_run(tmp_path / "run", [flown(0.4), flown(0.3)])
    other = write_run(tmp_path / "other", [flown(1.0)], method="baseline")
    printed, errors = run_under_xvfb(_REPLAY, tmp_path, run, other)
    assert "Shown: iteration 0" in printed, errors
    assert_something_moved(tmp_path)


def test_a_live_flight(tmp_path):
    printed, errors = run_under_xvfb(_LIVE, tmp_path)
    assert "Flown: " in printed, errors
    assert float(printed.split("Flown: ")[1].split()[0]) > 0.0
    assert_something_moved(tmp_path)


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
