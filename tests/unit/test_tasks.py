"""Shipped tasks keep their calibration; a bad task file gives one clear error."""

from __future__ import annotations

import numpy as np
import pytest

from lafr_mjx.errors import InputError
from lafr_mjx.reference.flatness import reference_state
from lafr_mjx.reference.path import derivatives
from lafr_mjx.tasks import load_task
from lafr_mjx.types import CommandLimits

LIMITS = CommandLimits(np.array([0.0, -6.0, -6.0, -6.0]), np.array([25.0, 6.0, 6.0, 6.0]))
SHIPPED = {"dash": 16, "figure8": 16, "inspection": 16, "race": 32, "shuttle": 16}  # segments

GOOD = """
description = "test"
start_time_scale = {time_scale}
[path]
kind = "harmonics"
lap_s = 6.0
centre = [0.0, 0.0, {altitude}]
sine = [[{x}, 0.0, 0.0]]
cosine = [[0.0, {y}, {z}]]
"""
CIRCLE = {"time_scale": 1.0, "altitude": 1.5, "x": 1.0, "y": 1.0, "z": 0.0}


def peaks(task, lap_s):
    phase = np.linspace(0.0, task.lap_s, 20_001)
    reference = reference_state(task.path, phase, task.lap_s / lap_s)
    speed = np.linalg.norm(reference.velocity, axis=1).max()
    return speed, np.abs(reference.rates).max(), reference.thrust.max()


def written(folder, text, name="task.toml"):
    file = folder / name
    file.write_text(text)
    return str(file)


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_tasks_load_within_limits_and_share_a_program(name):
    task = load_task(name, LIMITS)
    assert task.name == name
    assert task.path.coefficients.shape == (SHIPPED[name], 4, 8)
    assert task.error_threshold_m == 0.35
    assert task.start_time_scale == 1.0
    assert task.ramp_s == (1.5 if task.periodic else 0.0)
    assert task.flight_s(0.1) == 8.0
    assert task.flight_s(2.0) == pytest.approx(task.ramp_s + 2.0 * task.lap_s)
    assert np.linalg.norm(task.start_normal) == pytest.approx(1.0)
    yaw = derivatives(task.path, np.linspace(0.0, task.lap_s, 100))[:, 0, 3]
    np.testing.assert_allclose(yaw, 0.0, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "lap_s", "expected"),
    [
        ("figure8", 2.60, (7.19, 5.75, 20.0)),
        ("shuttle", 2.30, (7.29, 5.55, 22.2)),
    ],
)
def test_calibration(name, lap_s, expected):
    np.testing.assert_allclose(peaks(load_task(name), lap_s), expected, rtol=0.005)


@pytest.mark.parametrize(
    ("name", "lap_s", "speed"),
    [("figure8", 8.34, 2.24), ("shuttle", 8.38, 2.0), ("dash", 11.27, 2.0)],
)
def test_first_laps(name, lap_s, speed):
    task = load_task(name)
    assert task.lap_s == pytest.approx(lap_s)
    assert peaks(task, task.lap_s)[0] == pytest.approx(speed, rel=0.005)


def test_dash_goes_one_way():
    task = load_task("dash")
    assert not task.periodic
    np.testing.assert_allclose(task.start_position, [-5.15, 0.0, 1.5], atol=1e-9)
    np.testing.assert_allclose(task.goal_position, [5.15, 0.0, 1.5], atol=1e-9)
    np.testing.assert_allclose(task.start_normal, [1.0, 0.0, 0.0], atol=1e-9)


def test_inspection_passes_its_landmarks_and_knows_its_fan():
    task = load_task("inspection")
    positions = derivatives(task.path, np.linspace(0.0, 12.0, 5001))[:, 0, :3]
    for landmark in ([-2.5, -1.0, 1.2], [0.0, 1.5, 1.6], [2.5, -1.0, 1.2]):
        assert np.linalg.norm(positions - np.array(landmark), axis=1).min() < 0.01
    (fan,) = task.fans
    np.testing.assert_allclose(fan.position, [3.2, 1.8, 1.4])
    np.testing.assert_allclose(fan.direction, [-0.8645, -0.5026, 0.0], atol=1e-4)
    assert fan.speed == 6.0
    assert np.degrees(fan.half_angle) == pytest.approx(12.0)


def test_start_clock_is_at_rest_at_the_start():
    task = load_task("figure8")
    clock = task.start_clock()
    assert clock.tempo == 1.0
    assert task.start_clock(0.5).tempo == 2.0
    np.testing.assert_allclose(task.start_position, [0.0, 0.0, 1.5], atol=1e-9)


def test_a_users_task_needs_no_code(tmp_path):
    task = load_task(written(tmp_path, GOOD.format(**CIRCLE), "mine.toml"), LIMITS)
    assert (task.name, task.path_kind, task.scenario) == ("mine", "harmonics", "nominal")
    np.testing.assert_allclose(task.start_position, [0.0, 1.0, 1.5], atol=1e-6)


@pytest.mark.parametrize("inline", [False, True])
def test_sampled_paths_inline_and_from_a_file(tmp_path, inline):
    angle = np.linspace(0.0, 2.0 * np.pi, 101)
    points = np.column_stack([np.cos(angle), np.sin(angle), 1.5 + 0.0 * angle]).round(6)
    (tmp_path / "data").mkdir()
    rows = "\n".join(", ".join(map(str, row)) for row in points.tolist())
    written(tmp_path / "data", f"# x, y, z\n{rows}\n", "curve.csv")
    source = f"points = {points.tolist()}" if inline else 'file = "data/curve.csv"'
    text = f'description = "t"\n[path]\nkind = "samples"\nlap_s = 6\nperiodic = true\n{source}\n'
    task = load_task(written(tmp_path, text))
    found = derivatives(task.path, 1.5)[0, :3]
    np.testing.assert_allclose(found, [0.0, 1.0, 1.5], atol=1e-4)


def test_yaw_of_waypoints(tmp_path):
    text = """
description = "turn"
[path]
kind = "waypoints"
lap_s = 6.0
periodic = false
points = [[0, 0, 1], [1, 0, 1], [2, 1, 1]]
yaw_rad = [0.0, 0.5, 1.5]
times = [0.0, 1.0, 3.0]
"""
    task = load_task(written(tmp_path, text))
    assert derivatives(task.path, 2.0)[0] == pytest.approx([1.0, 0.0, 1.0, 0.5])


INFEASIBLE = [
    (CIRCLE | {"altitude": 0.2}, None, r"the altitude is 0.2 m at phase τ = \d"),
    (CIRCLE | {"z": 1.3}, None, r"the altitude is 0.2 m at phase τ = 3.000 s"),
    # Straight up and down, beyond free fall at the top; the phase of the top is 0.
    (
        CIRCLE | {"altitude": 12.0, "x": 0.0, "y": 0.0, "z": 9.0},
        None,
        r"force \|a \+ g\| is [\d.e-]+ m/s² at phase τ = \d",
    ),
    (
        CIRCLE | {"time_scale": 0.03 * 10, "y": 20.0, "x": 0.0},
        None,
        r"the yaw singularity is [\d.]+ degrees at phase τ",
    ),
    (
        CIRCLE | {"x": 2.67, "y": 0.0, "time_scale": 0.367},
        LIMITS,
        r"the y rate is .* rad/s at phase τ",
    ),
    (CIRCLE | {"y": 5.0, "x": 5.0, "time_scale": 0.4}, LIMITS, "the thrust is .* allows 0 to 25"),
]


@pytest.mark.parametrize(("values", "limits", "message"), INFEASIBLE)
def test_paths_that_cannot_be_flown_are_refused(tmp_path, values, limits, message):
    file = written(tmp_path, GOOD.format(**values))
    with pytest.raises(InputError, match=message) as caught:
        load_task(file, limits)
    assert file in str(caught.value)


HEAD = 'description = "t"\n'
SQUARE = "points = [[0, 0, 1], [1, 0, 1], [1, 1, 1], [0, 1, 1]]\n"
WAYPOINTS = f'[path]\nkind = "waypoints"\nlap_s = 9\nperiodic = true\n{SQUARE}'
SAMPLES = '[path]\nkind = "samples"\nlap_s = 9\nperiodic = true\n'
HARMONICS = '[path]\nkind = "harmonics"\nlap_s = 9\ncentre = [0, 0, 1]\n'

BAD = [
    ("", "'description' is missing"),
    (HEAD, "'path' is missing"),
    (HEAD + "path = 3", "'path' is 3; it must be a table"),
    (HEAD + '[path]\nkind = "spiral"', "'path.kind' is 'spiral'; it must be one of"),
    (HEAD + '[path]\nkind = "waypoints"', "'path.lap_s' is missing"),
    (HEAD + "start_time_scle = 1\n" + WAYPOINTS, "did you mean 'start_time_scale'"),
    (HEAD + "start_time_scale = -1\n" + WAYPOINTS, "'start_time_scale' is -1"),
    (HEAD + "start_time_scale = true\n" + WAYPOINTS, "'start_time_scale' is True"),
    (HEAD + "error_threshold_m = nan\n" + WAYPOINTS, "'error_threshold_m' is nan"),
    (HEAD + "ramp_s = 0\n" + WAYPOINTS, "'ramp_s' is 0; it must be > 0 on a closed path"),
    (HEAD + "scenario = 3\n" + WAYPOINTS, "'scenario' is 3; it must be a string"),
    (HEAD + "landmarks = [[9, 9, 9]]\n" + WAYPOINTS, r"passes 'landmarks\[0\]' at"),
    (HEAD + "landmarks = [[9, 9]]\n" + WAYPOINTS, "lists of 3 numbers"),
    (HEAD + WAYPOINTS + "segments = 3", "unknown key 'path.segments'"),
    (HEAD + WAYPOINTS + "times = [0, 1]", "'path.times' .* list of 5 numbers"),
    (HEAD + WAYPOINTS + "times = [0, 1, 1, 2, 3]", "'path': times must begin with 0"),
    (HEAD + WAYPOINTS + "yaw_rad = [0]", "'path.yaw_rad' .* list of 4 numbers"),
    (HEAD + WAYPOINTS.replace("true", "1"), "'path.periodic' is 1; it must be true or false"),
    (HEAD + WAYPOINTS.replace("[1, 1, 1]", "[1, 0, 1]"), "waypoints 1 and 2 coincide"),
    (HEAD + WAYPOINTS.replace("[1, 1, 1]", "[1e9, 0, 1]"), "coordinates up to 1e\\+09"),
    (HEAD + WAYPOINTS + "[[fans]]\nposition = [0, 0, 1]", r"'fans\[0\].direction' is missing"),
    (
        HEAD + WAYPOINTS + "[[fans]]\nposition = [0, 0, 1]\ndirection = [0, 0, 0]",
        r"'fans\[0\].direction' .* not zero",
    ),
    (
        HEAD
        + WAYPOINTS
        + "[[fans]]\nposition=[0,0,1]\ndirection=[1,0,0]\nspeed_m_s=1\nhalf_angle_deg=9\nx=1",
        r"unknown key 'fans\[0\].x'",
    ),
    (HEAD + HARMONICS, "'path.sine' is missing"),
    (HEAD + HARMONICS + "sine = [[0, 0, 0]]", "must differ from zero"),
    (HEAD + HARMONICS + "sine = [[1, 0]]", "'path.sine' .* lists of 3 numbers"),
    (HEAD + SAMPLES, "either 'points' or 'file'"),
    (HEAD + SAMPLES + SQUARE + 'file = "a.csv"', "either 'points' or 'file'"),
    (HEAD + SAMPLES + SQUARE, "4 samples are too few"),
    (HEAD + SAMPLES + 'file = "absent.csv"', "an existing CSV file"),
    (HEAD + SAMPLES + 'file = "../outside.csv"', "in the folder of the task"),
    (HEAD + SAMPLES + 'file = "/etc/hostname"', "in the folder of the task"),
    (HEAD + SAMPLES + 'file = "link.csv"', "in the folder of the task"),
    (HEAD + SAMPLES + 'file = "words.csv"', "line 2: 'a, b, c' is not"),
    (HEAD + SAMPLES + 'file = "narrow.csv"', "line 1: '1, 2' is not"),
    (HEAD + SAMPLES + 'file = "empty.csv"', "holds no points"),
    (HEAD + SAMPLES + 'file = "binary.csv"', "cannot be read"),
    ("description = ", "is not valid TOML"),
]


@pytest.mark.parametrize(("text", "message"), BAD)
def test_bad_files_are_refused_with_a_clear_message(tmp_path, text, message):
    folder = tmp_path / "tasks"
    folder.mkdir()
    written(tmp_path, "0, 0, 1\n", "outside.csv")
    (folder / "link.csv").symlink_to(tmp_path / "outside.csv")
    written(folder, "1, 2, 3\na, b, c\n", "words.csv")
    written(folder, "1, 2\n", "narrow.csv")
    written(folder, "# nothing\n", "empty.csv")
    (folder / "binary.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=message) as caught:
        load_task(written(folder, text))
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize("name", ["./absent.toml", "nowhere/absent"])
def test_absent_files_are_refused(name):
    with pytest.raises(InputError, match="absent"):
        load_task(name)


def test_distance_is_from_the_nearest_point_of_the_path():
    task = load_task("figure8")
    phases = np.linspace(0.0, task.lap_s, 77)
    on_path = np.asarray(derivatives(task.path, phases))[:, 0, :3]
    np.testing.assert_allclose(task.distance(on_path + np.array([0.0, 0.0, 0.2])), 0.2, atol=1e-4)
    assert task.distance(on_path).max() < 1e-3
    assert np.isinf(task.distance(np.array([[np.nan, 0.0, 1.0]]))).all()


def test_there_is_less_room_around_landmarks():
    inspection, figure8 = load_task("inspection"), load_task("figure8")
    assert inspection.room().min() <= inspection.landmark_radius_m < inspection.room().max()
    assert (figure8.room() == figure8.error_threshold_m).all()
