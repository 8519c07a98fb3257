"""For the tests of the view: flights and runs made without flying, and what a machine must have."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess

import numpy as np
from needs import require

from lafr_mjx.reference import clock as clocks
from lafr_mjx.reference.flatness import reference_state
from lafr_mjx.runs.run_folder import RunFolder
from lafr_mjx.tasks import load_task
from lafr_mjx.types import CONTROL_DT, Rollout, State

TASK = load_task("figure8")


def flown(
    time_scale=1.0, offset=(0.0, 0.0, 0.2), task=TASK, crash_at=None, diagnostics=None, seconds=None
):
    """A flight that keeps a constant distance from its reference."""
    seconds = task.flight_s(time_scale) if seconds is None else seconds
    time = CONTROL_DT * np.arange(round(seconds / CONTROL_DT))
    phase, *rates = clocks.shifted(task.start_clock(time_scale), time)
    wanted = reference_state(task.path, phase, *rates)
    position = np.asarray(wanted.position) + np.asarray(offset)
    truth = State(position, wanted.velocity, wanted.rotation, wanted.rates)
    ticks = len(time)
    crashed = np.zeros(ticks, bool) if crash_at is None else time >= crash_at
    twice = State(*(np.repeat(np.asarray(leaf), 2, axis=0) for leaf in truth))
    return Rollout(
        time=time, valid=np.ones(ticks, bool), sensed=truth, stamp=time,
        command=np.tile([9.81, 0.0, 0.0, 0.0], (ticks, 1)), reference=wanted, phase=phase,
        phase_rate=rates[0], time_scale=np.full(ticks, time_scale), truth=truth, crashed=crashed,
        sample_time=np.repeat(time, 2), sample=twice, sample_received=np.ones(2 * ticks, bool),
        diagnostics=diagnostics,
    )  # fmt: skip


def planned_path(off=0.2, task=TASK):
    """A reference beside the task's path: so much higher throughout [m]."""
    coefficients = np.array(task.path.coefficients)
    coefficients[:, 2, 0] += off
    return task.path._replace(coefficients=coefficients)


def run_config(**given):
    run = {"task": "figure8", "scenario": "wind5", "vehicle": "lafr192", "method": "ours",
           "iterations": 3, "seed": 0, "engine": "freebody"}  # fmt: skip
    return {"run": run | given}


def write_run(path, rollouts, **given):
    """The folder of a run with these flights."""
    with RunFolder.create(path, run_config(**given)) as folder:
        for number, rollout in enumerate(rollouts):
            folder.save_rollout(number, rollout)
            folder.append_iteration({"iteration": number})
    return path


def projected(points, position, target, vertical_fov, aspect):
    """Where a camera over a level floor sees points: across and up, from -1 to 1 in the picture."""
    ahead = np.asarray(target, float) - np.asarray(position, float)
    ahead /= np.linalg.norm(ahead)
    right = np.cross(ahead, [0.0, 0.0, 1.0])
    right /= np.linalg.norm(right)
    offsets = np.asarray(points, float) - position
    height = np.tan(0.5 * vertical_fov) * (offsets @ ahead)
    return offsets @ right / (aspect * height), offsets @ np.cross(right, ahead) / height


def seen_by(camera, points, vertical_fov, aspect):
    """The same by one of MuJoCo's free cameras."""
    azimuth, elevation = np.radians([camera.azimuth, camera.elevation])
    level = np.cos(elevation)
    forward = [level * np.cos(azimuth), level * np.sin(azimuth), np.sin(elevation)]
    position = camera.lookat - camera.distance * np.array(forward)
    return projected(points, position, camera.lookat, vertical_fov, aspect)


def require_rendering():
    from lafr_mjx.errors import RunError
    from lafr_mjx.view.offscreen import PACKAGES, backend

    try:
        backend()
    except RunError:
        require(False, f"the Debian packages {PACKAGES['egl']}, or {PACKAGES['osmesa']}")


@contextlib.contextmanager
def virtual_screen(size="1000x640"):
    """The environment of a process that has a screen of its own; needs Xvfb.

    The server picks a free number itself and tells it when it is ready. It must not start anew
    when a client that took a picture leaves.
    """
    require(shutil.which("Xvfb"), "the Debian packages xvfb and libgl1-mesa-dri")
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", "1", "-screen", "0", f"{size}x24", "-nolisten", "tcp",
         "-noreset"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        assert server.stdout is not None
        number = server.stdout.readline().strip()
        assert number, "Xvfb did not start"
        unwanted = ("WAYLAND_DISPLAY", "MUJOCO_GL", "PYOPENGL_PLATFORM")
        inherited = {key: value for key, value in os.environ.items() if key not in unwanted}
        yield inherited | {"DISPLAY": f":{number}"}
    finally:
        server.terminate()
        server.wait(timeout=300)


@contextlib.contextmanager
def browser_page(*arguments, **options):
    """A page of a real browser, and the list of its complaints."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    require(path, "the Debian package chromium")
    from playwright.sync_api import sync_playwright

    complaints = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", *arguments]
        )
        page = browser.new_page(**options)
        page.set_default_timeout(600_000)
        page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("requestfailed", lambda request: complaints.append(request.url))
        yield page, complaints
        browser.close()
