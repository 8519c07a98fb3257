"""What a task asks for, as shapes: corridor and gates stand where the task says."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from view_runs import TASK, flown, planned_path, write_run

from lafr_mjx.plant.vehicle import load_vehicle
from lafr_mjx.reference.path import derivatives
from lafr_mjx.runs.rollout_file import save_rollout
from lafr_mjx.tasks import Gate, load_task
from lafr_mjx.view import course_shapes as course
from lafr_mjx.view.decorations import legend
from lafr_mjx.view.replay import load_replay
from lafr_mjx.view.shown_flight import flight_of

VEHICLE = load_vehicle("lafr192")


def gate_at(share, beside=0.0, radius=0.4):
    """A gate of the figure-8 at a share of the lap, moved up."""
    there = np.asarray(derivatives(TASK.path, share * TASK.lap_s))
    normal = there[1, :3] / np.linalg.norm(there[1, :3])
    return Gate(there[0, :3] + np.array([0.0, 0.0, beside]), normal, radius)


@pytest.mark.parametrize("name", ["figure8", "inspection", "dash"])
def test_the_corridor_is_as_wide_as_the_room(name):
    task = load_task(name)
    corners, faces = course.corridor(task)
    rings = corners.reshape(len(course.path_points(task.path)), -1, 3)
    off = np.linalg.norm(rings - course.path_points(task.path)[:, None], axis=-1)
    wide = np.broadcast_to(course.room_beside(task)[:, None], off.shape)
    np.testing.assert_allclose(off, wide, atol=1e-9)
    assert course.room_beside(task).max() == pytest.approx(task.error_threshold_m)
    # All triangles are seen from outside: they look away from the middle of their ring.
    a, b, c = (corners[faces[:, k]] for k in range(3))
    centre = course.path_points(task.path)[faces[:, 0] // rings.shape[1]]
    outward = np.sum(np.cross(b - a, c - a) * ((a + b + c) / 3.0 - centre), axis=-1)
    assert (outward > 0.0).mean() > 0.99  # but where a tight turn folds the tube


@pytest.mark.parametrize("normal", [(1.0, 0.0, 0.0), (0.0, 0.0, -1.0), (0.6, 0.0, 0.8)])
def test_a_gate_is_a_ring_across_its_normal(normal):
    gate = Gate(np.array([1.0, 2.0, 3.0]), np.array(normal), 0.5)
    ring = course.ring(gate)
    np.testing.assert_allclose((ring - gate.position) @ gate.normal, 0.0, atol=1e-12)
    frame, _ = course.gate_frame(gate)
    assert np.linalg.norm(frame - gate.position, axis=-1).min() == pytest.approx(0.5, abs=0.005)
    start, end = course.arrow(gate)
    along = (end - start) / np.linalg.norm(end - start)
    np.testing.assert_allclose(along, gate.normal, atol=1e-12)


def test_gates_are_passed_or_missed_when_the_flight_comes_there():
    gates = (gate_at(0.25), gate_at(0.5, beside=0.6), gate_at(0.75), gate_at(0.6, beside=5.0))
    task = dataclasses.replace(TASK, gates=gates)
    rollout = flown(1.0, offset=(0.0, 0.0, 0.0))
    flight = flight_of(rollout, task, VEHICLE, None, 0, "one")
    phase = np.asarray(rollout.phase) / task.lap_s
    for share, states in ((0.2, [0, 0, 0, 0]), (0.4, [1, 0, 0, 0]), (0.6, [1, -1, 0, 0]),
                          (0.8, [1, -1, 1, 0])):  # fmt: skip
        moment = flight.at(float(rollout.time[np.searchsorted(phase, share)]))
        assert list(moment.gates) == states
        names = [name for name, _ in legend([flight], [moment])]
        assert ("gate missed" in names) == (-1 in states)
    back = rollout._replace(truth=rollout.truth._replace(position=rollout.truth.position[::-1]))
    against = flight_of(back, task, VEHICLE, None, 0, "the other way round")
    assert not against.gates[:, [0, 2]].any()


def test_a_planned_reference_is_shown_and_the_tasks_own_path_is_not_one(tmp_path):
    planned = planned_path()
    run = write_run(tmp_path / "run", [flown(), flown()])
    save_rollout(run / "rollouts" / "000.npz", flown(), TASK.path)
    save_rollout(run / "rollouts" / "001.npz", flown(), planned)
    own, other = load_replay(run).flights
    assert own.planned is None and not legend([own], [own.at(1.0)])
    assert other.planned is not None
    np.testing.assert_allclose(other.planned, course.path_points(planned))
    shown = [name for name, _ in legend([other], [other.at(1.0)])]
    assert shown == ["reference", "task's path, dashed", "corridor"]


def test_events_are_shown_while_they_last():
    rollout = flown(1.0)
    late = np.asarray(rollout.time) >= 4.0
    slow = rollout._replace(time_scale=np.where(late, 2.1, 1.0))
    flight = flight_of(slow, TASK, VEHICLE, None, 0, "slowed")
    assert [flight.at(t).event for t in (3.9, 4.1)] == ["", "slowed 2.1"]
    taken = flight_of(slow._replace(fallback=late), TASK, VEHICLE, None, 0, "taken over")
    assert taken.at(5.0).event == "fallback"
