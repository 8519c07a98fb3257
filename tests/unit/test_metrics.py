"""Figures of a flight on constructed rollouts, where the answer is known."""

from __future__ import annotations

from dataclasses import asdict
from types import SimpleNamespace

import numpy as np
import pytest
from view_runs import flown

from lafr_mjx.metrics import event_in, flight_metrics, landmark_miss, lap_time, missed_gates
from lafr_mjx.reference.path import derivatives
from lafr_mjx.tasks import load_task
from lafr_mjx.types import CONTROL_DT, CommandLimits

LIMITS = CommandLimits(np.array([0.0, -6.0, -6.0, -6.0]), np.array([25.0, 6.0, 6.0, 6.0]))


def perfect(task, time_scale=1.0, seconds=None, offset=(0.0, 0.0, 0.0)):
    """A rollout that is on its reference (or beside it) at every tick."""
    return flown(time_scale, offset, task, seconds=seconds)


def moved(rollout, offset):
    """The rollout with a displacement [T, 3] of the true position."""
    truth = rollout.truth
    return rollout._replace(truth=truth._replace(position=truth.position + offset))


@pytest.fixture(scope="module", params=["figure8", "shuttle", "inspection"])
def closed(request):
    return load_task(request.param)


@pytest.fixture(scope="module")
def figure8():
    return load_task("figure8")


@pytest.fixture(scope="module")
def dash():
    return load_task("dash")


# ---------------------------------------------------------------- laps


@pytest.mark.parametrize("time_scale", [0.25, 0.31, 0.5, 0.77, 1.0, 1.6, 3.0])
def test_lap_of_a_perfect_flight(closed, time_scale):
    """Fast flights cross the start plane often, slow ones once: both within 0.1 %."""
    rollout = perfect(closed, time_scale)
    assert lap_time(rollout, closed) == pytest.approx(time_scale * closed.lap_s, rel=1e-3)
    figures = flight_metrics(rollout, closed, LIMITS)
    assert figures.reference_lap_s == pytest.approx(time_scale * closed.lap_s)


def test_lag_and_offset_do_not_change_the_lap(figure8):
    """A vehicle that flies 50 ms behind, 0.1 m beside, laps in the same time."""
    rollout = perfect(figure8, 0.4, seconds=12.0)
    late = perfect(figure8, 0.4, seconds=12.0, offset=(0.0, 0.1, 0.05))
    position = np.asarray(late.truth.position)
    shifted = np.concatenate([np.repeat(position[:1], 3, axis=0), position[:-3]])
    late = late._replace(truth=late.truth._replace(position=shifted))
    assert lap_time(late, figure8) == pytest.approx(lap_time(rollout, figure8), rel=1e-3)


def test_noise_at_the_plane_is_no_lap(figure8):
    """To and fro across the plane within one pass counts once."""
    rollout = perfect(figure8, 0.4, seconds=12.0)
    shaken = moved(rollout, 0.08 * (-1.0) ** np.arange(len(rollout.time))[:, None] * [1, 0, 0])
    assert lap_time(shaken, figure8) == pytest.approx(0.4 * figure8.lap_s, rel=0.03)


def test_no_lap_without_a_lap(figure8):
    assert lap_time(perfect(figure8, 1.0, seconds=5.0), figure8) is None
    still = perfect(figure8, 1.0)
    there = np.broadcast_to(figure8.start_position, still.truth.position.shape)
    still = still._replace(truth=still.truth._replace(position=there))
    assert lap_time(still, figure8) is None


def test_laps_end_with_the_crash(figure8):
    rollout = perfect(figure8, 0.3, seconds=12.0)
    rollout.crashed[rollout.time > 6.0] = True
    early = lap_time(rollout, figure8)
    assert early == pytest.approx(0.3 * figure8.lap_s, rel=1e-3)
    rollout.crashed[rollout.time > 2.0] = True
    assert lap_time(rollout, figure8) is None


def test_rest_to_rest(dash):
    """From the phase's start until within 0.1 m and 0.2 m/s of the goal, for 0.3 s."""
    rollout = perfect(dash, 0.5)
    took = lap_time(rollout, dash)
    distance = np.linalg.norm(rollout.truth.position - dash.goal_position, axis=-1)
    speed = np.linalg.norm(rollout.truth.velocity, axis=-1)
    first = rollout.time[np.argmax((distance < 0.1) & (speed < 0.2))]
    assert took == pytest.approx(first)
    assert 0.4 * dash.lap_s < took < 0.5 * dash.lap_s
    assert lap_time(perfect(dash, 0.5, seconds=0.4 * dash.lap_s), dash) is None


def test_a_course_may_end_where_it_begins(tmp_path):
    file = tmp_path / "back.toml"
    gates = "".join(
        f"[[gates]]\nposition = [{x}, {y}, 1.5]\nnormal = [{u}, {v}, 0.0]\n"
        for x, y, u, v in ((0, 0, 1, 0), (4, 0, 0, 1), (0, 0, -1, 0))
    )
    file.write_text("periodic = false\n" + gates)
    task = load_task(str(file))
    np.testing.assert_allclose(task.goal_position, task.start_position, atol=0.01)
    lap = lap_time(perfect(task, 1.0), task)
    assert lap is not None and 0.8 * task.lap_s < lap <= task.lap_s


def test_passing_through_the_goal_is_no_arrival(dash):
    rollout = perfect(dash, 0.5)
    arrived = lap_time(rollout, dash)
    assert arrived is not None
    # Blown off again after 0.2 s at the goal, for a second: the later arrival counts.
    away = (rollout.time > arrived + 0.2) & (rollout.time < arrived + 1.2)
    blown = moved(rollout, away[:, None] * np.array([0.0, 0.5, 0.0]))
    again = lap_time(blown, dash)
    assert again is not None
    assert again == pytest.approx(arrived + 1.2, abs=1.5 * CONTROL_DT)
    # Too fast is not there yet.
    quick = rollout.truth._replace(velocity=np.full_like(rollout.truth.velocity, 0.2))
    assert lap_time(rollout._replace(truth=quick), dash) is None


# ---------------------------------------------------------------- errors and shares


def test_constant_offset(figure8):
    rollout = perfect(figure8, offset=(0.03, 0.0, 0.04))
    figures = flight_metrics(rollout, figure8, LIMITS)
    assert figures.rmse_m == pytest.approx(0.05)
    assert figures.peak_error_m == pytest.approx(0.05)
    assert figures.peak_speed_mps == pytest.approx(2.24, rel=0.005)
    assert figures.flight_time_s == pytest.approx(9.84)
    assert figures.rate_saturation == figures.thrust_saturation == 0.0
    assert not figures.crashed


def test_errors_count_after_the_ramp(figure8):
    rollout = perfect(figure8)
    ramp = (rollout.time < 1.5 - 1e-9)[:, None]
    assert flight_metrics(moved(rollout, ramp * [1.0, 0, 0]), figure8, LIMITS).rmse_m < 1e-9
    peak = np.zeros((len(rollout.time), 3))
    peak[300] = [0.0, 0.3, 0.4]
    figures = flight_metrics(moved(rollout, peak), figure8, LIMITS)
    counted = int((~ramp).sum())
    assert counted == 417
    assert figures.peak_error_m == pytest.approx(0.5)
    assert figures.rmse_m == pytest.approx(0.5 / np.sqrt(counted))


def test_invalid_ticks_do_not_count(figure8):
    rollout = moved(perfect(figure8, seconds=12.0), np.zeros(3))
    beyond = rollout.time > 9.8
    spoiled = moved(rollout, beyond[:, None] * [5.0, 0.0, 0.0])._replace(valid=~beyond)
    figures = flight_metrics(spoiled, figure8, LIMITS)
    assert figures.peak_error_m < 1e-9
    assert figures.flight_time_s == pytest.approx(9.82, abs=0.011)


def test_saturation_shares(figure8):
    rollout = perfect(figure8)
    after = np.flatnonzero(rollout.time >= 1.5)
    rollout.command[after[:100], 2] = -6.0  # at the limit
    rollout.command[after[:50], 1] = 5.9  # two axes at once count once
    rollout.command[after[100:200], 3] = 5.8  # 97 %: not yet
    rollout.command[after[:20], 0] = 24.9
    figures = flight_metrics(rollout, figure8, LIMITS)
    assert figures.rate_saturation == pytest.approx(100 / len(after))
    assert figures.thrust_saturation == pytest.approx(20 / len(after))


def test_a_crash_counts_from_the_first_moment(figure8):
    """Even in the ramp; what comes after it is not measured."""
    for when in (0.5, 5.0):
        rollout = perfect(figure8)
        late = rollout.time >= when
        rollout.crashed[late] = True
        rollout = moved(rollout, late[:, None] * [3.0, 0.0, 0.0])
        figures = flight_metrics(rollout, figure8, LIMITS)
        assert figures.crashed
        assert figures.peak_error_m < 1e-9


def test_a_crash_in_the_last_interval_counts(figure8):
    """The rollout's own flag comes a tick later than the plant's code."""
    rollout = perfect(figure8)
    codes = np.zeros(len(rollout.time), int)
    codes[-1] = 1
    rollout = rollout._replace(diagnostics=SimpleNamespace(crash=codes))
    assert not rollout.crashed.any()
    assert flight_metrics(rollout, figure8, LIMITS).crashed
    # A crash after the flight's end does not.
    rollout.valid[-5:] = False
    assert not flight_metrics(rollout, figure8, LIMITS).crashed


# ---------------------------------------------------------------- landmarks


def test_only_tasks_with_landmarks_have_a_miss_distance(figure8):
    assert landmark_miss(perfect(figure8), figure8) is None


@pytest.mark.parametrize("time_scale", [0.2, 0.31, 0.6, 1.0])
def test_a_perfect_flight_passes_its_landmarks(time_scale):
    task = load_task("inspection")
    # The path goes through them; at speed the samples lie beside them.
    assert landmark_miss(perfect(task, time_scale), task) == pytest.approx(0.0, abs=0.01)
    beside = perfect(task, time_scale, offset=(0.0, 0.0, 0.2))
    assert landmark_miss(beside, task) == pytest.approx(0.2, abs=0.005)
    assert flight_metrics(beside, task, LIMITS).landmark_miss_m == landmark_miss(beside, task)


def test_the_worst_landmark_of_the_worst_lap_counts():
    task = load_task("inspection")
    rollout = perfect(task, 0.2, seconds=1.5 + 3 * 2.4)
    first = rollout.phase[np.searchsorted(rollout.time, task.ramp_s)]
    lap = (rollout.phase - first) // task.lap_s
    distance = np.linalg.norm(np.asarray(rollout.truth.position) - task.landmarks[2], axis=-1)
    away = ((lap == 1) & (distance < 1.0))[:, None] * [0.0, 0.0, 0.4]
    assert landmark_miss(moved(rollout, away), task) == pytest.approx(0.4, abs=0.01)
    # What happens during the ramp, or in a lap that is not complete, does not count.
    outside = ((lap < 0) | (lap >= 3))[:, None]
    still = moved(rollout, outside * [0.0, 0.0, 5.0])
    assert landmark_miss(still, task) == pytest.approx(0.0, abs=0.01)


def test_a_crash_before_the_landmarks_is_a_miss():
    task = load_task("inspection")
    rollout = perfect(task, 0.5)
    crashed = rollout._replace(crashed=rollout.time > 2.5)
    missed = landmark_miss(crashed, task)
    assert missed is not None
    assert missed > 0.5
    assert landmark_miss(rollout._replace(crashed=rollout.time > 1.0), task) is None


# ---------------------------------------------------------------- events


def test_what_the_guard_did_is_a_figure_of_the_flight(figure8):
    rollout = perfect(figure8, 0.5)
    figures = flight_metrics(rollout, figure8, LIMITS)
    assert (figures.slow_down_factor, figures.fallback) == (1.0, False)
    assert event_in(asdict(figures)) == ""
    late = rollout.time > 3.0
    slowed = rollout._replace(time_scale=np.where(late, 2.1, 1.0) * rollout.time_scale)
    figures = flight_metrics(slowed, figure8, LIMITS)
    assert figures.slow_down_factor == pytest.approx(2.1) and not figures.fallback
    assert event_in(asdict(figures)) == "slowed 2.1"
    figures = flight_metrics(slowed._replace(fallback=late), figure8, LIMITS)
    assert figures.fallback and event_in(asdict(figures)) == "fallback"


def test_what_a_crashed_vehicle_was_told_is_no_event(figure8):
    """It lies still while the reference goes on: the guard is at its end then."""
    rollout = perfect(figure8, 0.5)
    late = rollout.time > 3.0
    crashed = rollout._replace(
        crashed=late, fallback=late, time_scale=np.where(late, 3.0, 1.0) * rollout.time_scale
    )
    figures = flight_metrics(crashed, figure8, LIMITS)
    assert (figures.slow_down_factor, figures.fallback) == (1.0, False)
    assert event_in(asdict(figures)) == "crash"


def test_figures_of_earlier_versions_have_no_events():
    assert event_in({"peak_error_m": 0.1, "crashed": False}) == ""
    assert event_in({"slow_down_factor": None, "crashed": False}) == ""


# ---------------------------------------------------------------- gates


@pytest.fixture(scope="module")
def race():
    return load_task("race")


def gates_of(rollout, task):
    figures = asdict(flight_metrics(rollout, task, LIMITS))
    return tuple(figures[key] for key in ("gates_passed", "gates_due", "gate_clearance_m"))


def beside_gate(rollout, task, number, offset):
    """The rollout displaced for a moment around the first pass of a gate."""
    at = float(np.interp(task.gate_phases[number], rollout.phase, rollout.time))
    bump = np.exp(-(((np.asarray(rollout.time) - at) / 0.2) ** 2))
    return moved(rollout, bump[:, None] * offset)


def test_only_tasks_with_gates_have_figures_of_them(figure8):
    assert gates_of(perfect(figure8), figure8) == (None, None, None)
    assert not missed_gates(asdict(flight_metrics(perfect(figure8), figure8, LIMITS)))


@pytest.mark.parametrize("time_scale", [1.0, 0.6, 0.25, 0.2])
def test_a_perfect_flight_passes_every_gate_of_every_lap(race, time_scale):
    rollout = perfect(race, time_scale)
    passed, due, clearance = gates_of(rollout, race)
    laps = np.arange(10)[:, None] * race.lap_s
    assert passed == due == (race.gate_phases + laps < rollout.phase[-1]).sum()
    assert clearance == pytest.approx(0.6, abs=0.03)


def test_a_miss_is_counted_and_measured(race):
    """0.2 m beside a gate is 0.4 m from its edge; 0.9 m beside is a miss by 0.3 m."""
    rollout = perfect(race, 0.5)
    gate = race.gates[2]
    side = np.cross(gate.normal, [1.0, 0.0, 0.0])
    side /= np.linalg.norm(side)
    passed, due, _ = gates_of(rollout, race)
    near = gates_of(beside_gate(rollout, race, 2, 0.2 * side), race)
    assert near == (passed, due, pytest.approx(0.4, abs=0.03))
    far = flight_metrics(beside_gate(rollout, race, 2, 0.9 * side), race, LIMITS)
    assert (far.gates_passed, far.gates_due) == (passed - 1, due)
    assert far.gate_clearance_m == pytest.approx(-0.3, abs=0.05)
    assert missed_gates(asdict(far)) and not far.crashed


def test_a_gate_counts_in_its_direction_only(race):
    """The same places backwards: no gate is passed, though every one is met at its centre."""
    rollout = perfect(race, 0.5, seconds=13.0)
    back = rollout._replace(
        truth=rollout.truth._replace(position=np.asarray(rollout.truth.position)[::-1])
    )
    passed, due, clearance = gates_of(back, race)
    assert (passed, due) == (0, gates_of(rollout, race)[1])
    assert clearance <= -0.6


def test_gates_count_in_their_order_only(race):
    """A vehicle half a lap ahead passes all gates, but never the one that is due."""
    rollout = perfect(race, 0.5, seconds=14.0)
    ahead = derivatives(race.path, np.asarray(rollout.phase) + 0.5 * race.lap_s)[:, 0, :3]
    other = rollout._replace(truth=rollout.truth._replace(position=ahead))
    passed, due, clearance = gates_of(other, race)
    assert passed == 0 and due > 10 and clearance < 0.0


def test_a_crash_misses_the_gates_behind_it(race):
    rollout = perfect(race, 0.5, seconds=9.0)
    third = float(np.interp(race.gate_phases[2], rollout.phase, rollout.time))
    passed, due, clearance = gates_of(
        rollout._replace(crashed=np.asarray(rollout.time) > third + 0.1), race
    )
    assert passed == 3 and due == gates_of(rollout, race)[1] and clearance < -0.6
    at_once = gates_of(rollout._replace(crashed=np.asarray(rollout.time) > 0.1), race)
    assert at_once[0] == 0 and at_once[2] < -0.6


def test_a_reference_that_leaves_the_gates_does_not_excuse_the_vehicle(race):
    rollout = perfect(race, 0.5)
    asked = rollout.reference._replace(
        position=np.asarray(rollout.reference.position) + np.array([0.0, 0.0, 20.0])
    )
    passed, due, _ = gates_of(rollout._replace(reference=asked), race)
    assert (passed, due) == (0, 7)


def test_who_is_late_at_the_end_has_missed_nothing(race):
    """The reference passes a gate, and the flight ends before the vehicle is there."""
    rollout = perfect(race, 0.5)
    at = float(np.interp(race.gate_phases[3], rollout.phase, rollout.time))
    short = perfect(race, 0.5, seconds=at + 0.05)
    position = np.asarray(short.truth.position)
    late = np.concatenate([np.repeat(position[:1], 6, axis=0), position[:-6]])
    short = short._replace(truth=short.truth._replace(position=late))
    assert gates_of(short, race)[:2] == (3, 3)
