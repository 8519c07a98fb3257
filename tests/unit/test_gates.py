"""Courses: gates in task files, the path that is found through them, and the room they leave."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lafr_mjx.errors import InputError
from lafr_mjx.gates import Gate, crossings, passed_at
from lafr_mjx.reference.course import through_gates
from lafr_mjx.reference.path import derivatives
from lafr_mjx.tasks import MIN_ALTITUDE_M, load_task
from lafr_mjx.types import CommandLimits

LIMITS = CommandLimits(np.array([0.0, -6.0, -6.0, -6.0]), np.array([25.0, 6.0, 6.0, 6.0]))


def gate(position, normal, more=""):
    return f"[[gates]]\nposition = {list(position)}\nnormal = {list(normal)}\n{more}\n"


RING = [((2, 0, 1.5), (0, 1, 0)), ((0, 2, 1.5), (-1, 0, 0)), ((-2, 0, 1.5), (0, -1, 0)),
        ((0, -2, 1.5), (1, 0, 0))]  # fmt: skip
COURSE = "".join(gate(*each) for each in RING)
CIRCLE = """
[path]
kind = "harmonics"
lap_s = 6.0
centre = [0.0, 0.0, 1.5]
sine = [[{start}, 2.0, 0.0]]
cosine = [[1.0, {start}, 0.0]]
"""


def written(folder, text):
    file = folder / "course.toml"
    file.write_text(text)
    return str(file)


def test_a_file_of_gates_is_a_task(tmp_path):
    task = load_task(written(tmp_path, COURSE), LIMITS)
    assert (task.name, task.path_kind, task.description) == ("course", "gates", "Course of 4 gates")
    assert task.periodic and task.room_m == 1.5 and len(task.gates) == 4
    assert task.gates[0].radius == 0.5
    order = derivatives(task.path, task.gate_phases)
    np.testing.assert_allclose(order[:, 0, :3], [p for p, _ in RING], atol=0.02)
    along = order[:, 1, :3] / np.linalg.norm(order[:, 1, :3], axis=1, keepdims=True)
    np.testing.assert_allclose(along, [n for _, n in RING], atol=0.1)
    assert np.linalg.norm(order[:, 1, :3], axis=1).max() < 2.2
    # Midway between the last gate and the first.
    np.testing.assert_allclose(task.start_position, [1.41, -1.41, 1.5], atol=0.05)


def test_a_course_may_go_from_rest_to_rest(tmp_path):
    task = load_task(written(tmp_path, "periodic = false\n" + COURSE), LIMITS)
    assert not task.periodic and task.ramp_s == 0.0
    np.testing.assert_allclose(task.start_position, [2.0, -1.5, 1.5], atol=0.05)
    np.testing.assert_allclose(task.goal_position, [1.5, -2.0, 1.5], atol=0.05)


def test_the_race_is_for_a_hall_and_for_a_learner():
    task = load_task("race", LIMITS)
    order = derivatives(task.path, np.linspace(0.0, task.lap_s, 5001))
    position, speed = order[:, 0, :3], np.linalg.norm(order[:, 1, :3], axis=1)
    assert (np.ptp(position, axis=0) < [12.0, 8.0, 4.0]).all() and position[:, 2].max() < 4.0
    assert task.flight_s(task.start_time_scale) <= 15.0
    assert speed.max() < 2.4
    slope = np.degrees(np.arcsin(order[:, 1, 2] / speed))
    assert slope.min() < -45.0 and slope.max() > 45.0, "a dive and a climb"


@pytest.mark.parametrize("periodic", [True, False])
def test_most_gates(periodic):
    """64 of them, on two storeys."""
    angle = np.linspace(0.0, 4.0 * np.pi, 64, endpoint=False)
    centres = np.column_stack([8 * np.cos(angle), 8 * np.sin(angle), 2 + np.sin(angle / 2)])
    normals = np.column_stack([-np.sin(angle), np.cos(angle), np.zeros(64)])
    path = through_gates(centres, normals, periodic=periodic)
    gates = tuple(Gate(*each, 0.3) for each in zip(centres, normals, strict=True))
    assert np.nanmax(passed_at(path, gates)[1]) < 0.05


numbers = st.floats(-1.0, 1.0)
triples = st.tuples(numbers, numbers, numbers)


@settings(deadline=None, max_examples=40)
@given(
    jitter=st.lists(st.tuples(triples, triples), min_size=3, max_size=9),
    waves=st.integers(1, 2),
    periodic=st.booleans(),
)
def test_a_path_is_found_through_sane_courses(jitter, waves, periodic):
    """Once round a hall, up and down, gates turned by up to 40 degrees: all passed, timidly."""
    shift, turn = np.array([a for a, _ in jitter]), np.array([b for _, b in jitter])
    angle = 2.0 * np.pi * np.arange(len(jitter)) / len(jitter)
    level = np.column_stack([5.0 * np.cos(angle), 4.0 * np.sin(angle), 0.0 * angle])
    centres = level + [0.0, 0.0, 2.2] + 0.6 * shift
    centres[:, 2] += 0.8 * np.sin(waves * angle)
    normals = np.column_stack([-5.0 * np.sin(angle), 4.0 * np.cos(angle), 0.0 * angle])
    normals = normals / np.linalg.norm(normals, axis=1, keepdims=True) + 0.4 * turn
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    path = through_gates(centres, normals, periodic=periodic)
    gates = tuple(Gate(*each, 0.4) for each in zip(centres, normals, strict=True))
    phases, offsets = passed_at(path, gates)
    assert (np.diff(phases) > 0.0).all() and offsets.max() < 0.1
    order = derivatives(path, np.linspace(0.0, path.breaks[-1], 2001))
    assert order[:, 0, 2].min() > MIN_ALTITUDE_M
    assert np.linalg.norm(order[:, 1, :3], axis=1).max() < 6.5
    assert np.linalg.norm(order[:, 2, :3], axis=1).max() < 8.0
    along = derivatives(path, phases)[:, 1, :3]
    cosine = np.sum(along * normals, axis=1) / np.linalg.norm(along, axis=1)
    assert cosine.min() > np.cos(np.radians(30.0))


# ---------------------------------------------------------------- crossings and room


def test_crossings_are_interpolated_and_have_a_direction():
    opening = Gate(np.array([1.0, 0.0, 1.0]), np.array([1.0, 0.0, 0.0]), 0.5)
    track = np.array([[0.0, 0.0, 1.0], [2.0, 0.8, 1.0], [0.0, 0.0, 1.0], [4.0, 0.0, 1.0]])
    where, away = crossings(track, opening)
    np.testing.assert_allclose(where, [0.5, 2.25])
    np.testing.assert_allclose(away, [0.4, 0.0])


def test_room_narrows_to_the_gates(tmp_path):
    task = load_task("race")
    room = task.room()
    at_gates = room[(task.gate_phases / task.lap_s * len(room)).astype(int)]
    np.testing.assert_allclose(at_gates, 0.6, atol=0.02)
    assert 1.2 < room.max() <= 1.5
    wide = load_task(written(tmp_path, "room_m = 0.8\n" + COURSE))
    assert wide.room().max() == 0.8


def test_room_does_not_reach_below_the_lowest_altitude(tmp_path):
    low = COURSE.replace("1.5]", "0.8]")
    task = load_task(written(tmp_path, low))
    assert task.room().max() < 0.8 - MIN_ALTITUDE_M + 0.02


def test_a_path_off_centre_leaves_less_room(tmp_path):
    gates = gate((1.2, 0, 1.5), (0, 1, 0)) + gate((-1, 0, 1.5), (0, -1, 0))
    task = load_task(written(tmp_path, gates + CIRCLE.format(start=-0.1)))
    assert task.path_kind == "harmonics"
    assert task.room().min() == pytest.approx(0.3, abs=0.06)


def test_where_a_path_crosses_itself_only_the_branch_with_the_gate_is_narrow(tmp_path):
    eight = [((0, 0, 1.5), (1, 1, 0)), ((2.5, 0, 1.5), (0, -1, 0)), ((-2.5, 0, 1.5), (0, -1, 0))]
    task = load_task(written(tmp_path, "".join(gate(*each) for each in eight)))
    room = task.room()
    shares = (np.arange(len(room)) + 0.5) / len(room)
    positions = np.asarray(derivatives(task.path, shares * task.lap_s))[:, 0, :3]
    near = np.linalg.norm(positions - [0.0, 0.0, 1.5], axis=1) < 0.3
    assert room[near].min() < 0.52, "through the gate"
    assert room[near].max() > 1.0, "across it"


# ---------------------------------------------------------------- bad input

ONE = gate((0, 0, 1), (1, 0, 0))
BAD = [
    (ONE, "'gates' is .*; it must be 2 to 64 gates, not 1"),
    ("gates = []", "2 to 64 gates, not 0"),
    ("gates = 3", "'gates' is 3; it must be an array of tables"),
    ("".join(gate((i, 0, 1), (1, 0, 0)) for i in range(65)), "2 to 64 gates, not 65"),
    (COURSE + gate((0, 0, 1), (0, 0, 0)), r"'gates\[4\].normal' .* not zero"),
    (COURSE + gate((0, 0, 1), (1, "nan", 0)), r"'gates\[4\].normal' is"),
    (COURSE + "[[gates]]\nposition = [0, nan, 1]\nnormal = [1, 0, 0]",
     r"'gates\[4\].position' is \[0, nan, 1\]; it must be a list of 3 numbers"),
    (COURSE + gate((1001, 0, 1), (1, 0, 0)), r"'gates\[4\].position' .* <= 1000"),
    (COURSE + gate((0, 0), (1, 0, 0)), r"'gates\[4\].position' .* a list of 3 numbers"),
    (COURSE + "[[gates]]\nnormal = [1, 0, 0]", r"'gates\[4\].position' is missing"),
    (COURSE + "[[gates]]\nposition = [0, 0, 1]", r"'gates\[4\].normal' is missing"),
    (COURSE + gate((0, 0, 1), (1, 0, 0), "radius_m = 0"), r"'gates\[4\].radius_m' is 0; .* > 0"),
    (COURSE + gate((0, 0, 9), (1, 0, 0), "radius_m = 5.1"), r"'gates\[4\].radius_m' .* <= 5"),
    (COURSE + gate((0, 0, 1), (1, 0, 0), "radius_m = nan"), r"'gates\[4\].radius_m' is nan"),
    (COURSE + gate((0, 0, 1), (1, 0, 0), "size = 1"), r"unknown key 'gates\[4\].size'"),
    (COURSE + gate((0, 0, 0.5), (1, 0, 0)), r"'gates\[4\].position' .* at 0.55 m of altitude"),
    (COURSE + gate((0, 0, 0.2), (0, 0, 1)), r"'gates\[4\].position' .* at 0.3 m of altitude"),
    (COURSE + gate((2.1, 0, 1.5), (0.2, 1, 0)), r"'gates\[4\].position' .* clear of gates\[0\]"),
    (COURSE + gate((0, 0, 1.5), (1, 0, 0)) + gate((0, 0, 1.5), (-1, 0, 0)),
     r"'gates\[5\].position' .* 0.3 m or more from the gate before it, gates\[4\]"),
    (gate((0, 0, 1.5), (1, 0, 0)) + gate((4, 0, 1.5), (0, 1, 0)) + gate((0, 0, 1.5), (-1, 0, 0)),
     r"'gates\[0\].position' .* 0.3 m or more from the gate before it, gates\[2\]"),
    (COURSE.replace("gates", "gate"), "unknown key 'gate'; did you mean 'gates'"),
    ('description = "t"\nroom_m = 1\n' + CIRCLE.format(start=0), "unknown key 'room_m'"),
    ("room_m = 0\n" + COURSE, "'room_m' is 0"),
    ("periodic = 1\n" + COURSE, "'periodic' is 1; it must be true or false"),
    ("periodic = true\n" + COURSE + CIRCLE.format(start=0), "unknown key 'periodic'"),
    # A given path that passes them otherwise.
    (gate((-1, 0, 1.5), (0, -1, 0)) + gate((0, 2, 1.5), (-1, 0, 0)) + CIRCLE.format(start=0),
     r"passes 'gates\[1\]' at \[0.0, 2.0, 1.5\] only before gates\[0\]"),
    (gate((-1, 0, 1.5), (0, 1, 0)) + gate((1, 0, 1.5), (0, 1, 0)) + CIRCLE.format(start=0),
     r"passes 'gates\[0\]' .* from behind"),
    (gate((-1, 0, 1.5), (0, -1, 0)) + gate((3, 0, 1.5), (0, 1, 0)) + CIRCLE.format(start=0),
     r"passes 'gates\[1\]' .* not at all"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), BAD)
def test_bad_gates_are_refused_in_one_line(tmp_path, text, message):
    with pytest.raises(InputError, match=message) as caught:
        load_task(written(tmp_path, text))
    assert str(tmp_path) in str(caught.value) and "\n" not in str(caught.value)


def test_a_gate_may_be_passed_both_ways(tmp_path):
    """The same opening in another direction, and gates one behind the other, are two gates."""
    there_and_back = [((0, 0, 1.5), (1, 0, 0)), ((4, 0, 1.5), (0, 1, 0)), ((0, 0, 1.5), (-1, 0, 0)),
                      ((-4, 0, 1.5), (0, -1, 0))]  # fmt: skip
    assert len(load_task(written(tmp_path, "".join(gate(*g) for g in there_and_back))).gates) == 4
    tunnel = COURSE + gate((2, 0.6, 1.5), (0, 1, 0))
    lines = tunnel.split("[[gates]]")
    in_order = "[[gates]]".join([lines[0], lines[1], lines[-1], *lines[2:-1]])
    assert len(load_task(written(tmp_path, in_order)).gates) == 5
