"""The web view in a real browser: it loads, the drone moves, nothing complains."""

from __future__ import annotations

import io
import socket
import threading

import numpy as np
import pytest
from needs import require_module
from PIL import Image
from view_runs import browser_page, flown, planned_path, projected, write_run

from lafr_mjx.runs.rollout_file import save_rollout
from lafr_mjx.view.course_shapes import path_points
from lafr_mjx.view.replay import load_replay

viser = require_module("viser", "web")

ARGUMENTS = ("--use-angle=swiftshader", "--enable-unsafe-swiftshader")
WORLD = (0, 80, 190, 250)  # left, top, right, bottom of the scene, beside the controls


@pytest.fixture(scope="module")
def view(tmp_path_factory):
    from lafr_mjx.view.web.server import WebView

    folder = tmp_path_factory.mktemp("runs") / "run"
    replay = load_replay(write_run(folder, [flown(0.5), flown(0.4), flown(0.3)]))
    shown = WebView([replay], port=_free_port())
    ended = threading.Event()

    def play():
        while not ended.is_set():
            shown.run(seconds=0.2)

    thread = threading.Thread(target=play)
    thread.start()
    yield shown
    ended.set()
    thread.join()
    shown.close()


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_it_listens_on_this_machine_only(view):
    with socket.socket() as client:
        client.settimeout(120)
        assert client.connect_ex(("127.0.0.1", view.port)) == 0
    others = {a[4][0] for a in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for address in others - {"127.0.0.1", "127.0.1.1"}:
        with socket.socket() as client:
            client.settimeout(2)
            assert client.connect_ex((address, view.port)) != 0


def test_in_a_browser(view):
    view.player.paused = True  # a scene at rest is quick to be drawn
    # Triangles are drawn by the processor here: few pixels, and patience.
    few = {"viewport": {"width": 800, "height": 500}, "device_scale_factor": 0.5}
    with browser_page(*ARGUMENTS, **few) as (page, complaints):
        page.goto(f"http://127.0.0.1:{view.port}")
        page.wait_for_selector("canvas")
        page.get_by_text("figure8 · wind5 · ours").first.wait_for()
        _until(lambda: _path_is_in_the_picture(view, page))
        _until(lambda: _plots_are_drawn(page))

        def picture():
            data = page.screenshot(timeout=600_000)
            return np.asarray(Image.open(io.BytesIO(data)).convert("RGB").crop(WORLD), int)

        def differing(one, other):
            return int((np.abs(one - other).max(axis=-1) > 30).sum())

        # At two moments the drone is somewhere else, and nothing else has changed much.
        pictures = {}
        for time in (2.0, 2.0, 4.0):
            view.player.seek(time)
            pictures.setdefault(time, []).append(_settled(page, picture, differing))
        moved = differing(pictures[2.0][1], pictures[4.0][0])
        assert moved > 15, "the drone does not move"
        assert moved < 0.2 * pictures[4.0][0].shape[0] * pictures[4.0][0].shape[1]
        assert differing(*pictures[2.0]) < 0.3 * moved

        # The visitor's controls reach the player.
        page.get_by_role("button", name="Play").click()
        _until(lambda: not view.player.paused)
        page.get_by_role("button", name="Pause").click()
        _until(lambda: view.player.paused)
        page.locator("input[role='combobox'][value*='iteration']").click()
        page.get_by_role("option", name="2: iteration 2").click()
        _until(lambda: view.player.index == 2)
    assert complaints == []


def test_what_was_asked_and_what_happened_is_shown(tmp_path):
    """Of a flight along the task's path, and of one along a plan that the guard slowed down."""
    from lafr_mjx.view.web.server import WebView

    slowed = flown(0.5)
    slowed = slowed._replace(time_scale=np.where(np.asarray(slowed.time) > 3.0, 1.05, 0.5))
    run = write_run(tmp_path / "run", [flown(0.5), slowed])
    save_rollout(run / "rollouts" / "001.npz", slowed, planned_path())
    replay = load_replay(run)
    shown = WebView([replay], port=_free_port())
    try:
        shown.player.paused = True
        (stage,), panel = shown._stages, shown._panel
        path = shown._scene.stages[0].path
        planned = path_points(planned_path())
        for index, line in ((0, path), (1, planned)):
            shown.player.choose(index)
            shown.player.seek(4.0)
            panel._updated = 0.0
            shown.run(seconds=0.01)
            assert stage._corridor.visible == stage._path.visible == (index == 1)
            np.testing.assert_allclose(stage._reference.points[:, 0], line[:-1], atol=1e-5)
            assert ("slowed 2.1" in panel._text.content) == (index == 1)
            assert ("corridor" in panel._legend.content) == (index == 1)
        assert [("slowed 2.1" in title) for title in panel._flight.options] == [False, True]
        panel._corridor.value = False
        shown.run(seconds=0.01)
        assert not stage._corridor.visible
    finally:
        shown.close()


def _path_is_in_the_picture(view, page):
    """The camera has come home, to the shape of the picture that the panel has left."""
    clients = list(view._server.get_clients().values())
    world = page.locator("canvas").first.bounding_box()
    panel = page.get_by_text("LAFR-MJX", exact=True).first.bounding_box()
    if len(clients) != 1 or world is None or panel is None:
        return False
    camera, points = clients[0].camera, view._scene.stages[0].path
    if abs(camera.aspect * world["height"] / world["width"] - 1.0) > 0.02:
        return False
    x, y = projected(points, camera.position, camera.look_at, camera.fov, camera.aspect)
    beside = world["x"] + world["width"] <= panel["x"]
    return beside and np.abs(x).max() < 0.95 and np.abs(y).max() < 0.95 and np.ptp(x) > 1.2


def _plots_are_drawn(page):
    """Both plots have their lines, and their legends stand in one row."""
    coloured = page.evaluate(
        """() => [...document.querySelectorAll('.uplot canvas')].map(canvas => {
            const inner = canvas.parentElement.querySelector('.u-over');  // without the axes
            const area = [inner.offsetLeft, inner.offsetTop, inner.offsetWidth, inner.offsetHeight]
                .map(length => length * canvas.width / canvas.clientWidth);
            const pixels = canvas.getContext('2d').getImageData(...area).data;
            let blue = 0, red = 0;
            for (let i = 0; i < pixels.length; i += 4) {
                const [r, g, b, a] = pixels.slice(i, i + 4);
                if (a > 60 && b - r > 100) blue++;
                if (a > 60 && r - b > 100) red++;
            }
            return [blue, red];
        })"""
    )
    rows = page.evaluate(
        """() => [...document.querySelectorAll('.uplot .u-legend')].map(legend => new Set(
            [...legend.querySelectorAll('.u-series')].map(item => item.offsetTop)).size)"""
    )
    return len(coloured) == 2 and np.min(coloured) > 60 and rows == [1, 1]


def _settled(page, picture, differing):
    """A picture of a scene that has come to rest."""
    before = picture()
    for _ in range(600):
        page.wait_for_timeout(500)
        after = picture()
        if differing(before, after) < 3:
            return after
        before = after
    raise AssertionError("the paused scene does not come to rest")


def _until(condition):
    import time

    for _ in range(6000):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("the browser's click did not arrive")


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid"])
def test_an_address_of_another_machine_is_refused(tmp_path, host):
    from lafr_mjx.errors import InputError
    from lafr_mjx.view.web.server import WebView

    replay = load_replay(write_run(tmp_path / "run", [flown()]))
    with pytest.raises(InputError, match="cannot listen there"):
        WebView([replay], host=host, port=_free_port())
