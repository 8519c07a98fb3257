"""Pictures, rendered without a screen: what is on them is where the numbers say."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from itertools import pairwise

import imageio_ffmpeg
import mujoco
import numpy as np
import pytest
from PIL import Image
from view_runs import TASK, flown, planned_path, require_rendering, seen_by, write_run

from lafr_mjx.commands.view import View
from lafr_mjx.plant.vehicle import load_vehicle
from lafr_mjx.tasks import Gate, load_task
from lafr_mjx.view import video
from lafr_mjx.view.camera import follow_camera, wide_camera
from lafr_mjx.view.course_shapes import MISSED, PASSED, path_points
from lafr_mjx.view.decorations import draw_course, draw_jet, draw_line, draw_wind, speed_colour
from lafr_mjx.view.offscreen import Renderer, camera_at
from lafr_mjx.view.replay import load_replay
from lafr_mjx.view.scene import build_scene
from lafr_mjx.view.shown_flight import flight_of
from lafr_mjx.view.strobe import one_lap, strobe_picture

WIDTH, HEIGHT = 480, 270
VEHICLE = load_vehicle("lafr192")


@pytest.fixture(scope="module", autouse=True)
def _rendering():
    require_rendering()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    return write_run(folder, [flown(1.0), flown(0.5), flown(0.3)])


@pytest.fixture(scope="module")
def stage():
    scene = build_scene([(VEHICLE, TASK)], drone_size=3.0)
    with Renderer(scene.model, WIDTH, HEIGHT) as renderer:
        yield scene, renderer


def project(point, camera):
    """Column and row of a point: a pinhole with 45° from top to bottom (MuJoCo's free camera)."""
    across, up = seen_by(camera, point, np.radians(45.0), WIDTH / HEIGHT)
    return 0.5 * WIDTH * (1.0 + across), 0.5 * HEIGHT * (1.0 - up)


def centre_of(mask):
    rows, columns = np.nonzero(mask)
    return columns.mean(), rows.mean()


def changed(one, other):
    return np.abs(one.astype(int) - other.astype(int)).max(axis=-1) > 40


FAR = np.array([0.0, 60.0, 1.0])
UPRIGHT = np.array([1.0, 0.0, 0.0, 0.0])


@pytest.mark.parametrize("place", [(0.0, 0.0, 1.5), (2.3, 0.4, 1.2), (-2.5, -0.5, 1.9)])
def test_the_drone_is_where_the_state_says(stage, place):
    scene, renderer = stage
    camera = wide_camera(scene, WIDTH / HEIGHT)
    drone, ghost = scene.stages[0].drone, scene.stages[0].ghost
    scene.pose(ghost, FAR, UPRIGHT)
    scene.pose(drone, FAR, UPRIGHT)
    empty = renderer.render(scene.data, camera, shadows=False)
    scene.pose(drone, np.array(place), UPRIGHT)
    found = centre_of(changed(renderer.render(scene.data, camera, shadows=False), empty))
    # The shape's middle is a little above the body's origin; a pixel is 1.5 cm here.
    np.testing.assert_allclose(found, project(place, camera), atol=4.0)


def test_the_ghost_is_where_the_reference_is(stage):
    scene, renderer = stage
    flight = flight_of(flown(0.5, offset=(0.0, 0.0, 40.0)), TASK, VEHICLE, None, 0, "high up")
    camera = wide_camera(scene, WIDTH / HEIGHT)
    moment = flight.at(4.0)  # the drone itself is out of sight
    away = moment._replace(reference_position=FAR)
    scene.place([away])
    empty = renderer.render(scene.data, camera, shadows=False)
    scene.place([moment])
    found = centre_of(changed(renderer.render(scene.data, camera, shadows=False), empty))
    np.testing.assert_allclose(found, project(moment.reference_position, camera), atol=4.0)


def test_the_drone_turns_as_the_state_says(stage):
    """Rolled by 90° it is seen as tall as it was wide."""
    scene, renderer = stage
    camera = camera_at([0.0, 0.0, 1.5], 2.0, azimuth=0.0, elevation=0.0)  # along +x
    drone, ghost = scene.stages[0].drone, scene.stages[0].ghost
    scene.pose(ghost, FAR, UPRIGHT)
    scene.pose(drone, FAR, UPRIGHT)
    empty = renderer.render(scene.data, camera, shadows=False)
    sizes = []
    for quaternion in (UPRIGHT, np.array([np.sqrt(0.5), np.sqrt(0.5), 0.0, 0.0])):
        scene.pose(drone, np.array([0.0, 0.0, 1.5]), quaternion)
        rows, columns = np.nonzero(
            changed(renderer.render(scene.data, camera, shadows=False), empty)
        )
        sizes.append((np.ptp(columns), np.ptp(rows)))
    (width, height), (turned_width, turned_height) = sizes
    assert width > 1.4 * height  # the antenna is tall
    assert turned_height == pytest.approx(width, rel=0.1)
    assert turned_width == pytest.approx(height, rel=0.25)


def test_propellers_turn(stage):
    scene, renderer = stage
    flight = flight_of(flown(0.5), TASK, VEHICLE, None, 0, "one")
    moment = flight.at(4.0)
    camera = camera_at(moment.position, 0.6)
    pictures = []
    for angles in (np.zeros(4), np.full(4, 0.7), np.full(4, np.pi)):
        scene.place([moment._replace(blade_angle=angles)])
        pictures.append(renderer.render(scene.data, camera, shadows=False))
    assert changed(pictures[0], pictures[1]).sum() > 100
    # Two blades: half a turn looks the same.
    assert changed(pictures[0], pictures[2]).sum() < 20


def test_a_trail_has_the_colour_of_its_speed(stage):
    """On the picture, along the line: hue and order as on the scale."""
    scene, renderer = stage
    scene.pose(scene.stages[0].drone, FAR, UPRIGHT)
    scene.pose(scene.stages[0].ghost, FAR, UPRIGHT)
    camera = wide_camera(scene, WIDTH / HEIGHT)
    points = np.stack([np.linspace(-2.0, 2.0, 41), np.zeros(41), np.full(41, 1.5)], axis=-1)
    speeds = np.linspace(0.0, 7.0, 41)

    def draw(target, _):
        draw_line(target, points, speed_colour(speeds, 7.0), 0.03)

    picture = renderer.render(scene.data, camera, draw, shadows=False)
    for index in (4, 20, 38):
        column, row = project(points[index], camera)
        found = picture[round(row), round(column)].astype(float)
        wanted = 255.0 * speed_colour(speeds[index], 7.0)[:3]
        similarity = found @ wanted / (np.linalg.norm(found) * np.linalg.norm(wanted))
        assert similarity > 0.97, (index, found, wanted)


def test_wind_is_drawn_along_the_wind():
    scene = mujoco.MjvScene(build_scene([(VEHICLE, TASK)]).model, 100)
    wind = np.array([4.0, 3.0, 0.0])
    draw_wind(scene, path_points(TASK.path), wind)
    assert scene.ngeom == 4
    for geom in scene.geoms[:4]:
        np.testing.assert_allclose(np.asarray(geom.mat)[:, 2], wind / 5.0, atol=1e-6)
    lengths = [geom.size[2] for geom in scene.geoms[:4]]
    scene.ngeom = 0
    draw_wind(scene, path_points(TASK.path), 2.0 * wind)
    assert scene.geoms[0].size[2] == pytest.approx(2.0 * lengths[0])
    scene.ngeom = 0
    draw_wind(scene, path_points(TASK.path), 0.01 * wind)
    assert scene.ngeom == 0


def test_the_inspection_has_its_landmarks_and_its_fan():
    task = load_task("inspection")
    scene = build_scene([(VEHICLE, task)])
    names = [scene.model.body(i).name for i in range(scene.model.nbody)]
    for i, landmark in enumerate(task.landmarks):
        body = names.index(f"stage0/landmark{i}/landmark1")
        np.testing.assert_allclose(scene.data.xpos[body], landmark)
    fan = names.index("stage0/fan0/fan1")
    np.testing.assert_allclose(scene.data.xpos[fan], task.fans[0].position)
    along = scene.data.xmat[fan].reshape(3, 3)[:, 0]
    np.testing.assert_allclose(along, task.fans[0].direction, atol=1e-9)
    target = mujoco.MjvScene(scene.model, 200)
    draw_jet(target, task.fans[0], np.zeros(3), 0.0)
    assert target.ngeom == 0
    draw_jet(target, task.fans[0], np.zeros(3), 1.0)
    assert target.ngeom > 5


def test_gates_reference_and_corridor_are_seen_where_they_are():
    """A gate at the left end, one far above: both in the picture, in the colour of their state."""
    left, high = np.array([-2.6, 0.0, 1.5]), np.array([1.0, 0.0, 4.0])
    along = np.array([0.0, 1.0, 0.0])
    task = dataclasses.replace(TASK, gates=(Gate(left, along, 0.4), Gate(high, along, 0.4)))
    scene = build_scene([(VEHICLE, task)], ghosts=False)
    stage = scene.stages[0]
    scene.pose(stage.drone, FAR, UPRIGHT)
    camera = wide_camera(scene, WIDTH / HEIGHT)
    planned = path_points(planned_path(0.3))

    def seen(renderer, **given):
        def draw(target, _):
            draw_course(target, stage, gates=[PASSED, MISSED], **given)

        return renderer.render(scene.data, camera, draw, shadows=False).astype(int)

    with Renderer(scene.model, WIDTH, HEIGHT) as renderer:
        bare = seen(renderer, planned=planned, corridor=False)
        whole = seen(renderer, planned=planned)
        own = seen(renderer, planned=None)
    red, green, _ = np.moveaxis(whole, -1, 0)
    for mask, place in ((green - red > 80, left), (red - green > 80, high)):
        assert mask.sum() > 50
        # The arrow on its edge is in the same colour.
        np.testing.assert_allclose(centre_of(mask), project(place, camera), atol=8.0)
    # The corridor veils a wide area, but not the lines in it: the reference stays white.
    veiled = np.abs(whole - bare).max(axis=-1) > 5
    assert veiled.mean() > 0.03
    for points, picture in ((planned, whole), (path_points(TASK.path), own)):
        columns, rows = np.transpose([project(point, camera) for point in points[5:50:5]])
        near = [picture[round(r) - 2 : round(r) + 3, round(c) - 2 : round(c) + 3].max(axis=(0, 1))
                for c, r in zip(columns, rows, strict=True)]  # fmt: skip
        assert np.mean(np.min(near, axis=-1) > 200) > 0.8


@pytest.mark.parametrize("name", ["kingfisher", "crazyflie", "docs/examples/sparrow.toml"])
def test_other_vehicles_can_be_shown(name, pytestconfig):
    path = str(pytestconfig.rootpath / name) if "/" in name else name
    vehicle = load_vehicle(path)
    scene = build_scene([(vehicle, TASK)] * 2, drone_size=2.0)
    assert scene.model.nq == 4 * 7
    flight = flight_of(flown(), TASK, vehicle, None, 0, "one")
    scene.place([flight.at(3.0), flight.at(4.0)])
    first, second = (scene.data.xpos[stage.drone.body] for stage in scene.stages)
    np.testing.assert_allclose(first, flight.at(3.0).position)
    np.testing.assert_allclose(second, flight.at(4.0).position + scene.stages[1].offset)


def test_the_follow_camera_is_calm_and_keeps_the_drone_in_sight():
    """A mean under a bell of σ = 0.25 s leaves exp(-(2π f σ)²/2) of a wobble: 1.5e-5 at 3 Hz."""
    rollout = flown(0.3)
    wobble = 0.1 * np.sin(2.0 * np.pi * 3.0 * rollout.time)
    position = np.asarray(rollout.truth.position) + wobble[:, None] * np.array([0.0, 0.0, 1.0])
    rollout = rollout._replace(truth=rollout.truth._replace(position=position))
    flight = flight_of(rollout, TASK, VEHICLE, None, 0, "fast")
    times = np.arange(1.5, 6.5, 1.0 / 30.0)
    cameras = [follow_camera(flight, time, np.zeros(3)) for time in times]
    assert np.ptp([camera.lookat[2] for camera in cameras]) < 1e-4
    for time, camera in zip(times, cameras, strict=True):
        column, row = project(flight.at(time).position, camera)
        assert 0 < column < WIDTH
        assert 0 < row < HEIGHT


# ---------------------------------------------------------------- files


def read_video(path):
    frames = imageio_ffmpeg.read_frames(str(path))
    about = next(frames)
    width, height = about["size"]
    return about, [np.frombuffer(f, np.uint8).reshape(height, width, 3) for f in frames]


def test_a_video_shows_the_flights_one_after_another(run, tmp_path, capsys):
    target = tmp_path / "out.mp4"
    View(run, video=target, seconds=0.6, fps=10, size="320x180").run()
    about, frames = read_video(target)
    assert about["size"] == (320, 180)
    assert about["fps"] == 10
    assert len(frames) == 6 + 4  # the last picture is held for 0.4 s
    assert str(target) in capsys.readouterr().out
    # Two frames of one flight differ little, the cut between two flights differs more.
    steps = [changed(a, b).mean() for a, b in pairwise(frames[:6])]
    assert min(steps) > 0.0005
    assert [p.name for p in tmp_path.iterdir()] == ["out.mp4"]


def test_an_animated_picture_of_two_runs(run, tmp_path):
    target = tmp_path / "out.gif"
    View(run, compare=run, flights=(2,), video=target, seconds=0.5, fps=12, size="320x180").run()
    with Image.open(target) as picture:
        assert picture.size == (320, 180)
        assert picture.n_frames >= 6


def test_an_interrupted_video_keeps_what_is_there(run, tmp_path, monkeypatch, capsys):
    whole = video.frames

    def cut(*arguments):
        for i, frame in enumerate(whole(*arguments)):
            if i == 3:
                raise KeyboardInterrupt
            yield frame

    monkeypatch.setattr(video, "frames", cut)
    with pytest.raises(KeyboardInterrupt):
        View(run, video=tmp_path / "out.mp4", seconds=1.0, fps=10, size="320x180").run()
    assert len(read_video(tmp_path / "out.mp4")[1]) == 3
    assert "3 frames" in capsys.readouterr().out


def test_a_failed_video_leaves_nothing(run, tmp_path, monkeypatch):
    def fail(*_):
        yield np.zeros((180, 320, 3), np.uint8)
        raise ValueError("no more")

    monkeypatch.setattr(video, "frames", fail)
    with pytest.raises(ValueError, match="no more"):
        View(run, video=tmp_path / "out.mp4", fps=10, size="320x180").run()
    assert list(tmp_path.iterdir()) == []


def test_strobe_shows_the_drone_every_half_second(run, tmp_path):
    replay = load_replay(run)
    start, end = one_lap(replay.flights[-1], TASK.ramp_s)
    assert end - start == pytest.approx(0.3 * 8.34, abs=0.03)
    picture = np.asarray(strobe_picture(replay, width=640))
    height = picture.shape[0] // 2
    assert picture.shape == (2 * height, 640, 3)
    # Orange arms and propellers of the drone's front: more of them where it is slow.
    first, last = (row.astype(int) for row in (picture[:height, :, :], picture[height:, :, :]))
    orange = [
        ((p[..., 0] > 170) & (p[..., 2] < 90) & (p[..., 1] > 60) & (p[..., 1] < 150)).sum()
        for p in (first, last)
    ]
    assert orange[0] > 1.8 * orange[1] > 0
    View(run, strobe=tmp_path / "strobe.png").run()
    with Image.open(tmp_path / "strobe.png") as written:
        assert written.size[0] == 1280


def test_command_line_in_a_process_of_its_own(run, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "lafr_mjx", "view", str(run), "--video", "v.gif", "--seconds", "0.3",
         "--size", "160x90", "--fps", "12"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "v.gif").stat().st_size > 1000
