"""Stepping through flights, clips of a video, colours, and the command's checks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from view_runs import TASK, flown, write_run

from lafr_mjx.commands.view import View
from lafr_mjx.errors import InputError, RunError
from lafr_mjx.plant.vehicle import load_vehicle
from lafr_mjx.tasks import load_task
from lafr_mjx.view import offscreen, player
from lafr_mjx.view.decorations import speed_colour
from lafr_mjx.view.replay import Replay
from lafr_mjx.view.shown_flight import flight_of
from lafr_mjx.view.video import distinct_words, plan_clips

VEHICLE = load_vehicle("lafr192")


def replay(*scales, name="figure8 · wind5 · ours"):
    flights = [
        flight_of(flown(scale), TASK, VEHICLE, None, i, f"iteration {i}")
        for i, scale in enumerate(scales)
    ]
    return Replay(name, TASK, VEHICLE, tuple(flights))


RUN = replay(1.0, 0.8, 0.6, 0.5, 0.4)
KEYS = (32, 257, 259, 262, 263, 264, 265, 54, 55, 56, 57, 65)


def test_keys_do_what_the_overlay_says():
    shown = player.Player([RUN])
    shown.advance(2.0)
    assert shown.time == pytest.approx(2.0)
    shown.on_key(player.SPACE)
    shown.advance(1.0)
    assert shown.time == pytest.approx(2.0)
    shown.on_key(player.SEVEN)
    assert shown.time == pytest.approx(2.02)
    shown.on_key(player.SIX)
    assert shown.time == pytest.approx(2.0)
    shown.on_key(player.RIGHT)
    assert (shown.index, shown.time) == (1, 0.0)
    shown.on_key(player.LEFT)
    shown.on_key(player.LEFT)
    assert shown.index == 4
    shown.on_key(player.UP)
    assert shown.speed == 2.0
    shown.on_key(player.DOWN)
    shown.on_key(player.DOWN)
    assert shown.speed == 0.5
    shown.on_key(player.NINE)
    assert not shown.corridor
    shown.on_key(player.ENTER)
    assert shown.follow


def test_after_a_flight_comes_the_next_and_after_the_last_the_first():
    shown = player.Player([RUN])
    for expected in (1, 2, 3, 4, 0):
        shown.advance(shown.duration + 1.5)
        assert shown.index == expected


def test_speed_of_the_replay():
    shown = player.Player([RUN], speed=0.25)
    shown.advance(2.0)
    assert shown.moments()[0].time == pytest.approx(0.5)


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(KEYS), st.floats(0.0, 3.0)), max_size=40))
def test_whatever_is_pressed_there_is_something_to_show(presses):
    shown = player.Player([RUN, replay(1.0)])
    for key, seconds in presses:
        shown.on_key(key)
        shown.advance(seconds)
        assert 0 <= shown.index < 5
        assert all(np.isfinite(moment.position).all() for moment in shown.moments())


def test_clips_share_the_time_and_show_first_and_last():
    clips = plan_clips([RUN], 10.0)
    assert [clip.flights[0].number for clip in clips] == [0, 2, 4]
    assert sum(clip.seconds for clip in clips) == pytest.approx(10.0)
    assert all(clip.start == pytest.approx(1.0) for clip in clips)  # the ramp takes 1.5 s
    whole = plan_clips([RUN], 0.0)
    assert [clip.flights[0].number for clip in whole] == [0, 1, 2, 3, 4]
    assert whole[0].seconds == pytest.approx(9.82)
    (one,) = plan_clips([replay(1.0)], 60.0)
    assert (one.start, one.seconds) == (0.0, pytest.approx(9.82))
    both = plan_clips([RUN, replay(1.0, 0.5)], 10.0)
    assert [[f.number for f in clip.flights] for clip in both] == [[0, 0], [2, 1], [4, 1]]


def test_runs_are_told_apart_by_what_differs():
    assert distinct_words(["a · b · ours", "a · b · baseline"]) == ["ours", "baseline"]
    assert distinct_words(["a · b", "a · b"]) == ["1", "2"]


@given(st.floats(0.0, 8.0), st.floats(0.0, 8.0))
def test_faster_is_lighter(one, other):
    """The map's lightness grows with the speed, also for those who see no colours."""
    weights = np.array([0.2126, 0.7152, 0.0722])
    light = [speed_colour(speed, 8.0)[:3] @ weights for speed in (one, other)]
    if one < other - 0.5:
        assert light[0] < light[1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "give the folder of a run"),
        ({"task": "figure8", "size": "640"}, "--size 640"),
        ({"task": "figure8", "size": "641x360"}, "even numbers"),
        ({"task": "figure8", "fps": 0}, "--fps 0"),
        ({"task": "figure8", "seconds": float("nan")}, "--seconds nan"),
        ({"task": "figure8", "speed": 0.0}, "--speed 0"),
        ({"task": "figure8", "port": 0}, "--port 0"),
        ({"task": "figure8", "flights": (1,)}, "--flights need the folder"),
        ({"run_folder": "RUN", "policy": "p.npz"}, "--policy: is for live flights"),
        ({"run_folder": "RUN", "time_scale": 1.0}, "--time-scale: is for live flights"),
        ({"run_folder": "RUN", "video": "clip.avi"}, "must end in .mp4 or .gif"),
        ({"run_folder": "RUN", "strobe": "nowhere/a.png"}, "does not exist"),
        ({"run_folder": "RUN", "strobe": "taken.png"}, "exists already"),
        ({"run_folder": "RUN", "video": "a.mp4", "web": True}, "one or the other"),
        ({"run_folder": "RUN", "compare": "nowhere"}, "there is no such folder"),
        ({"run_folder": "RUN", "compare": "RUN", "strobe": "a.png"}, "leave --compare out"),
        ({"run_folder": "RUN", "compare": "OTHER"}, "flies the task 'shuttle'"),
        ({"run_folder": "RUN", "flights": (7,)}, "--flights 7"),
        ({"task": "figure8", "time_scale": 99.0}, "--time-scale 99"),
        ({"task": "figure8", "policy": "taken.png"}, "cannot be read as a policy"),
    ],
)
def test_bad_requests_are_refused_in_words(tmp_path, monkeypatch, options, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken.png").write_bytes(b"something")
    if options.get("run_folder") == "RUN":
        write_run(tmp_path / "RUN", [flown()])
    if options.get("compare") == "OTHER":
        write_run(tmp_path / "OTHER", [flown(task=load_task("shuttle"))], task="shuttle")
    paths = ("run_folder", "policy", "video", "strobe", "compare")
    given_options = {k: tmp_path / v if k in paths else v for k, v in options.items()}
    with pytest.raises(InputError) as caught:
        View(**given_options).run()
    assert words in str(caught.value)
    assert (tmp_path / "taken.png").read_bytes() == b"something"


def test_without_a_screen_the_viewer_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    run = write_run(tmp_path / "run", [flown()])
    with pytest.raises(InputError, match="--video FILE or --web"):
        View(run).run()


def test_a_policy_of_another_vehicle_is_refused(tmp_path):
    from lafr_mjx.control.policy import create_policy
    from lafr_mjx.control.policy_file import save_policy

    other = load_vehicle("kingfisher")
    save_policy(tmp_path / "policy.npz", create_policy(np.random.default_rng(0), other.limits))
    with pytest.raises(InputError, match=r"policy\.npz: has the limits .*, the vehicle \[0.0"):
        View(task="figure8", policy=tmp_path / "policy.npz").run()


def test_without_a_backend_the_packages_are_named(monkeypatch):
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    monkeypatch.setattr(offscreen, "_trouble_with", lambda name: f"no {name} here")
    offscreen.backend.cache_clear()
    try:
        with pytest.raises(RunError) as caught:
            offscreen.backend()
        for word in ("no egl here", "no osmesa here", "libegl1", "libosmesa6", "apt install"):
            assert word in str(caught.value)
        monkeypatch.setattr(offscreen, "_trouble_with", lambda name: name == "egl" and "broken")
        assert offscreen.backend() == "osmesa"
    finally:
        offscreen.backend.cache_clear()
