"""What is watched: flights at any moment, runs read from disk, and what is refused."""

from __future__ import annotations

from collections import namedtuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from view_runs import TASK, flown, write_run

from lafr_mjx import so3
from lafr_mjx.errors import InputError
from lafr_mjx.plant.scenario import load_scenario
from lafr_mjx.plant.vehicle import load_vehicle
from lafr_mjx.reference import clock as clocks
from lafr_mjx.reference.path import derivatives
from lafr_mjx.run_spec import RunSpec
from lafr_mjx.runs.rollout_file import save_rollout
from lafr_mjx.runs.run_folder import RunFolder
from lafr_mjx.view.replay import load_replay
from lafr_mjx.view.shown_flight import SPIN_SHOWN, flight_of

VEHICLE = load_vehicle("lafr192")


def shown(rollout, scenario=None, number=0, task=TASK):
    return flight_of(rollout, task, VEHICLE, scenario, number, "a flight")


FLIGHT = shown(flown(0.5, offset=(0.1, 0.0, 0.0)))


@settings(deadline=None)
@given(st.floats(0.0, 7.98))
def test_a_moment_between_two_ticks_is_where_the_path_is(time):
    phase, *_ = clocks.shifted(TASK.start_clock(0.5), time)
    expected = np.asarray(derivatives(TASK.path, phase))[0, :3]
    moment = FLIGHT.at(time)
    # Chords of 20 ms at 20 m/s²: a t²/8 = 1 mm.
    np.testing.assert_allclose(moment.reference_position, expected, atol=1e-3)
    np.testing.assert_allclose(moment.position - moment.reference_position, [0.1, 0, 0], atol=1e-9)
    assert moment.error == pytest.approx(0.1)
    assert np.linalg.norm(moment.quaternion) == pytest.approx(1.0)


@given(st.floats(-5.0, 50.0))
def test_beyond_its_ends_a_flight_stands_still(time):
    moment = FLIGHT.at(time)
    assert 0.0 <= moment.time <= FLIGHT.time[-1]
    if time >= FLIGHT.time[-1]:
        np.testing.assert_array_equal(moment.position, FLIGHT.position[-1])


def test_attitudes_do_not_jump_when_the_quaternion_changes_sign():
    rollout = flown()
    ticks = len(rollout.time)
    angles = np.linspace(0.0, 4.0 * np.pi, ticks)  # two turns about z
    turning = so3.exp(np.stack([0 * angles, 0 * angles, angles], axis=-1))
    flight = shown(rollout._replace(truth=rollout.truth._replace(rotation=turning)))
    steps = np.abs(np.diff(flight.quaternion, axis=0)).max()
    assert steps < 1.1 * 0.5 * (angles[1] - angles[0])
    middle = flight.at(0.5 * (flight.time[100] + flight.time[101]))
    expected = so3.exp(np.array([0.0, 0.0, 0.5 * (angles[100] + angles[101])]))
    np.testing.assert_allclose(so3.quaternion_to_matrix(middle.quaternion), expected, atol=1e-6)


def test_propellers_turn_against_their_torque_and_as_fast_as_they_should():
    Diagnostics = namedtuple("Diagnostics", ["rotor_speed"])
    rollout = flown()
    speed = np.tile([1000.0, 2000.0, 0.0, 500.0], (len(rollout.time), 1))
    flight = shown(rollout._replace(diagnostics=Diagnostics(speed)))
    turned = flight.at(2.0).blade_angle - flight.at(1.0).blade_angle
    np.testing.assert_allclose(turned, -SPIN_SHOWN * VEHICLE.rotors.spin * speed[0], rtol=1e-6)


def test_trail_ends_at_the_drone_and_is_as_long_as_asked():
    points, speeds = FLIGHT.trail(5.013, 2.0)
    np.testing.assert_allclose(points[-1], FLIGHT.at(5.013).position)
    assert len(points) == len(speeds) == 101
    assert speeds.max() <= FLIGHT.speed.max()


def test_a_crash_is_shown_from_its_moment_on():
    flight = shown(flown(crash_at=3.0))
    assert flight.at(2.9).event == ""
    assert flight.at(3.1).event == "crash"
    assert flight.metrics.crashed


def test_wind_is_that_of_the_plant_that_was_flown(tmp_path):
    run = write_run(tmp_path / "run", [flown()], scenario="randomised", seed=5, plant=3)
    wanted = load_scenario("randomised").drawn(5, 3).settings.wind_mps
    np.testing.assert_allclose(load_replay(run).flights[0].wind[0], wanted)


def test_wind_rises_as_the_scenario_says():
    scenario = load_scenario("wind-midway")
    (change,) = scenario.changes
    before = shown(flown(), scenario, change.flight - 1)
    during = shown(flown(), scenario, change.flight)
    after = shown(flown(), scenario, change.flight + 1)
    goal = np.array(change.values["wind_mps"])
    assert np.all(before.wind == 0.0)
    np.testing.assert_allclose(after.wind, np.tile(goal, (len(after.time), 1)))
    middle = during.at(change.time_s + 0.5 * change.over_s)
    np.testing.assert_allclose(middle.wind, 0.5 * goal, rtol=0.02)


# ---------------------------------------------------------------- runs on disk


def test_a_run_is_read_with_its_figures(tmp_path):
    run = write_run(tmp_path / "run", [flown(1.0), flown(0.5), flown(0.4)])
    replay = load_replay(run)
    assert replay.name == "figure8 · wind5 · ours"
    assert [flight.title for flight in replay.flights] == [f"iteration {i}" for i in range(3)]
    assert replay.note == ""
    # 2.24 m/s at time scale 1: two harmonics give hypot(2.8, 1.0) 2π / 8.34.
    peak = np.hypot(2.8, 1.0) * 2.0 * np.pi / 8.34
    peaks = [flight.metrics.peak_speed_mps for flight in replay.flights]
    np.testing.assert_allclose(peaks, [peak, peak / 0.5, peak / 0.4], rtol=0.01)
    assert replay.top_speed == pytest.approx(peak / 0.4, rel=0.01)
    assert replay.flights[1].at(5.0).time_scale == pytest.approx(0.5)
    assert [f.number for f in replay.chosen((2, 0)).flights] == [2, 0]


def test_an_unfinished_run_is_shown_and_said_to_be(tmp_path):
    replay = load_replay(write_run(tmp_path / "run", [flown()], iterations=12))
    assert "1 of 12 iterations" in replay.note


def test_a_recorded_flight_alone(tmp_path):
    save_rollout(tmp_path / "log.npz", flown())
    replay = load_replay(tmp_path / "log.npz", task="figure8")
    assert replay.flights[0].title == "log"


def refused(path, words, **options):
    with pytest.raises(InputError) as caught:
        load_replay(path, **options)
    for word in words:
        assert word in str(caught.value)


def cut_config(run):
    config = (run / "config.toml").read_bytes()
    (run / "config.toml").write_bytes(config[: len(config) // 2])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, ("run", "there is no such folder")),
        (lambda path: path.mkdir(), ("is not the folder of a run", "config.toml")),
        (lambda path: write_run(path, []), ("no recorded flight", "--resume")),
        (lambda path: cut_config(write_run(path, [flown()])), ("config.toml",)),
        (lambda path: RunFolder.create(path, {"other": 1}).close(), ("[run]",)),
    ],
    ids=["nothing", "empty", "without flights", "cut short", "something else"],
)
def test_what_is_no_run_is_refused(tmp_path, make, words):
    make(tmp_path / "run")
    refused(tmp_path / "run", words)


def test_a_flight_on_a_drone_is_not_advised_to_be_resumed(tmp_path):
    with RunFolder.create(
        tmp_path / "hil", {"run": RunSpec(scenario="nominal", engine="hil").table(), "hil": {}}
    ):
        pass
    with pytest.raises(InputError, match="no recorded flight") as caught:
        load_replay(tmp_path / "hil")
    assert "--resume" not in str(caught.value)


def test_a_damaged_flight_is_named(tmp_path):
    run = write_run(tmp_path / "run", [flown(), flown()])
    file = run / "rollouts" / "001.npz"
    file.write_bytes(file.read_bytes()[:-2000])
    refused(run, ["001.npz", "cannot be read as a recorded flight", "cut short"])
    file.write_text("hello")  # of which NumPy would say how to open it unsafely
    refused(run, ["001.npz", "no .npz file"])


def test_flights_that_cannot_be_shown_are_refused(tmp_path):
    good = flown()
    none = np.zeros(len(good.time), bool)
    holes = np.asarray(good.truth.position).copy()
    holes[7] = np.nan
    for name, rollout, word in (
        ("short", good._replace(valid=none), "0 ticks"),
        ("nan", good._replace(truth=good.truth._replace(position=holes)), "not finite"),
        ("still", good._replace(time=0.0 * good.time), "does not increase"),
    ):
        save_rollout(tmp_path / f"{name}.npz", rollout)
        refused(tmp_path / f"{name}.npz", [f"{name}.npz", word], task="figure8")


def test_a_flight_of_another_task_is_refused(tmp_path):
    save_rollout(tmp_path / "log.npz", flown())
    refused(tmp_path / "log.npz", ["does not name its task", "--task"])
    refused(tmp_path / "log.npz", ["not a flight of the task 'shuttle'"], task="shuttle")


def test_a_run_whose_task_file_is_gone_says_so(tmp_path):
    run = write_run(tmp_path / "run", [flown()], task="/gone/mine.toml")
    refused(run, ["/gone/mine.toml", "--task"])
    assert load_replay(run, task="figure8").task.name == "figure8"


def test_unknown_flights_are_refused(tmp_path):
    replay = load_replay(write_run(tmp_path / "run", [flown()] * 4))
    with pytest.raises(InputError, match=r"--flights 9: .* has the flights 0 to 3"):
        replay.chosen((9,))
