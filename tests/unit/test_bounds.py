"""Time-optimal bounds against closed forms, published figures and each other."""

from __future__ import annotations

import json
import math
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from needs import require_module

from lafr_mjx.commands.bounds import Bounds
from lafr_mjx.errors import InputError, RunError
from lafr_mjx.plant.vehicle import load_vehicle
from lafr_mjx.reference.flatness import reference_state
from lafr_mjx.reference.path import derivatives
from lafr_mjx.tasks import load_task
from lafr_mjx.time_optimal import (
    ideal_vehicle,
    motion,
    task_bounds,
    uniform_scaling,
)
from lafr_mjx.time_optimal import (
    solution_check as check,
)
from lafr_mjx.time_optimal.free_path import solve_free
from lafr_mjx.time_optimal.geometry import Gates, Tube, default_geometry, evenly_spaced
from lafr_mjx.types import GRAVITY

require_module("casadi", "bounds")
VEHICLE = load_vehicle("lafr192")
IDEAL = ideal_vehicle.ideal_vehicle(VEHICLE)


def line_time(distance, thrust, rate, from_hover):
    """Shortest time along a level line, in closed form: turn, pull, turn over, pull, turn.

    The pitch changes at the largest rate or stands at the angle where the thrust is used up.
    While it turns, a = g tan(rate t): the speed gained is (g/rate) ln(1/cos), and the way by
    quadrature of that.
    """
    tilt = math.acos(GRAVITY / thrust)
    pull, turn = GRAVITY * math.tan(tilt), tilt / rate
    angle = (np.arange(200_000) + 0.5) / 200_000 * tilt
    gained = GRAVITY / rate * math.log(1.0 / math.cos(tilt))
    started = float(np.mean(GRAVITY / rate * -np.log(np.cos(angle)))) * turn  # out of hover
    ended = gained * turn - started  # from the full tilt to level
    before_speed, before_way = (gained, started) if from_hover else (0.0, 0.0)
    # Half the way: before + v t + pull t²/2 + (v + pull t) turn + ended.
    constant = before_way + before_speed * turn + ended - 0.5 * distance
    linear, square = before_speed + pull * turn, 0.5 * pull
    time = (-linear + math.sqrt(linear**2 - 4.0 * square * constant)) / (2.0 * square)
    return 2.0 * (time + turn + (turn if from_hover else 0.0))


def exact(name, model, nodes=100, ideal=IDEAL, band=None):
    path = load_task(name).path
    if band is None:
        band = task_bounds.YAW_BAND if model == "rotor" else 0.0
    slow = 1.5 * uniform_scaling.uniform_ceiling(path, ideal)
    return task_bounds.exact_bound(path, ideal, model, nodes, slow, band)


@pytest.mark.parametrize(("name", "lap"), [("figure8", 2.564), ("shuttle", 2.241)])
def test_uniform_ceiling_is_the_calibrated_one_and_tight(name, lap):
    task = load_task(name)
    found = uniform_scaling.uniform_ceiling(task.path, IDEAL)
    assert found == pytest.approx(lap, rel=0.001)
    phase = np.linspace(0.0, task.lap_s, 9973)
    reference = reference_state(task.path, phase, task.lap_s / found)
    used = max(np.abs(reference.rates).max() / 6.0, reference.thrust.max() / 25.0)
    assert used == pytest.approx(1.0, abs=1e-4)


def test_uniform_ceiling_of_the_shuttle_in_closed_form():
    # x = A sin(w t): pitch = atan(A w² sin / g), so the rate peaks at A w³ / g in the middle.
    expected = 2.0 * math.pi / (6.0 * GRAVITY / 2.67) ** (1.0 / 3.0)
    assert uniform_scaling.uniform_ceiling(load_task("shuttle").path, IDEAL) == pytest.approx(
        expected, rel=2e-3
    )


def test_exact_line_there_and_back_is_the_closed_form():
    expected = 2.0 * line_time(5.34, 25.0, 6.0, from_hover=False)
    assert expected == pytest.approx(2.007, abs=0.001)
    errors = [exact("shuttle", "ctbr", n)[0].seconds / expected - 1.0 for n in (100, 200, 400)]
    assert 0.0 < errors[2] < 0.002
    # Refinement halves the error.
    assert errors[1] < 0.65 * errors[0]
    assert errors[2] < 0.65 * errors[1]


def test_exact_line_from_hover_to_hover_is_the_closed_form():
    found = exact("dash", "ctbr", 400)[0].seconds
    assert 0.0 < found / line_time(10.3, 25.0, 6.0, from_hover=True) - 1.0 < 0.002


@settings(max_examples=4, deadline=None)
@given(thrust=st.floats(14.0, 45.0), rate=st.floats(3.0, 12.0))
def test_other_limits_follow_the_closed_form(thrust, rate):
    ideal = IDEAL._replace(thrust_high=thrust, rates_high=np.full(3, rate))
    found = exact("shuttle", "ctbr", 200, ideal)[0].seconds
    assert found == pytest.approx(2.0 * line_time(5.34, thrust, rate, False), rel=0.01)


def test_figure8_on_the_exact_path():
    ctbr = exact("figure8", "ctbr", 400)[0]
    assert ctbr.seconds == pytest.approx(2.24, rel=0.01)
    assert ctbr.status == "Solve_Succeeded"
    assert ctbr.check.peak_rate_radps == pytest.approx(6.0, rel=0.005)
    rotor = exact("figure8", "rotor", 200)[0]
    assert rotor.seconds == pytest.approx(2.162, rel=0.005)
    assert rotor.check.peak_rate_radps > 20.0
    # To hold the heading costs rotors more than the rate limit's absence gains.
    held = exact("figure8", "rotor", 100, band=0.0)[0].seconds
    assert rotor.seconds < held < ctbr.seconds
    nimble = IDEAL._replace(inertia=0.5 * IDEAL.inertia)
    assert exact("figure8", "rotor", 100, nimble, band=0.0)[0].seconds < held


def test_free_paths_of_the_straight_tasks():
    expected: dict[tuple[str, ideal_vehicle.ModelName], float] = {
        ("shuttle", "ctbr"): 1.91,
        ("dash", "ctbr"): 1.490,
        ("dash", "rotor"): 1.419,
    }
    ideal = ideal_vehicle.ideal_vehicle(VEHICLE, 0.07, (1.5e-4,))
    for (name, model), seconds in expected.items():
        task = load_task(name)
        band = task_bounds.YAW_BAND if model == "rotor" else 0.0
        start = exact(name, model, 100, ideal)
        bound = task_bounds.free_bound(
            task.path, default_geometry(task), ideal, model, 60, start, band
        )
        assert bound.seconds == pytest.approx(seconds, rel=0.01)
        assert bound.seconds < start[0].seconds
        assert bound.check.position_error_m < 1e-3


def test_a_wider_tube_is_never_slower():
    task = load_task("figure8")
    start = exact("figure8", "ctbr", 100)
    times = [start[0].seconds]
    for radius in (0.1, 0.35):
        bound = task_bounds.free_bound(task.path, Tube(radius), IDEAL, "ctbr", 40, start, 0.0)
        assert bound.check.geometry_excess_m <= check.MAX_GEOMETRY_EXCESS
        times.append(bound.seconds)
    assert times == sorted(times, reverse=True)
    assert times[-1] < 0.9 * times[0]


def test_gates_on_the_inspection_tour():
    task = load_task("inspection")
    gates = default_geometry(task)
    assert isinstance(gates, Gates)
    assert gates.radius == 0.25
    np.testing.assert_allclose(gates.points, task.landmarks)
    start = exact("inspection", "ctbr", 100)
    bound = task_bounds.free_bound(task.path, gates, IDEAL, "ctbr", 60, start, 0.0)
    assert bound.seconds < start[0].seconds
    # To pass more points of the path, and these exactly, takes longer.
    many = evenly_spaced(task, 6, 0.0)
    assert (
        task_bounds.free_bound(task.path, many, IDEAL, "ctbr", 60, start, 0.0).seconds
        > bound.seconds
    )


RING = """
periodic = {periodic}
[[gates]]
position = [2.0, 0.0, 1.5]
normal = [0.0, 1.0, 0.0]
radius_m = 0.4
[[gates]]
position = [0.0, 2.0, 2.0]
normal = [-1.0, 0.0, 0.3]
[[gates]]
position = [-2.0, 0.0, 1.5]
normal = [0.0, -1.0, 0.0]
"""


@pytest.mark.parametrize("periodic", [True, False])
def test_gates_are_passed_in_their_planes(tmp_path, periodic):
    (tmp_path / "ring.toml").write_text(RING.format(periodic=str(periodic).lower()))
    task = load_task(str(tmp_path / "ring.toml"))
    gates = default_geometry(task)
    assert isinstance(gates, Gates) and gates.normals is not None
    assert gates.words == "through the gates"
    start = exact(str(tmp_path / "ring.toml"), "ctbr", 400)
    found = task_bounds.free_bound(task.path, gates, IDEAL, "ctbr", 40, start, 0.0)
    assert found.seconds < 0.9 * start[0].seconds and not found.on_exact_path
    # Wider openings are never slower, and spheres about their centres are easier still to meet.
    narrow = gates._replace(radius=0.25 * gates.radii)
    slower = task_bounds.free_bound(task.path, narrow, IDEAL, "ctbr", 40, start, 0.0)
    assert slower.seconds > found.seconds
    balls = task_bounds.free_bound(
        task.path, gates._replace(normals=None), IDEAL, "ctbr", 40, start, 0.0
    )
    assert balls.seconds < found.seconds + 1e-3
    # Who passes them from behind, or beside, is found out.
    good = solve_free(task.path, gates, IDEAL, "ctbr", 40, start[1].motion, "ring").motion
    assert check.check(task.path, gates, IDEAL, good).geometry_excess_m < 0.005
    back = gates._replace(normals=-gates.normals)
    assert check.check(task.path, back, IDEAL, good).geometry_excess_m > 0.5
    beside = good._replace(position=good.position + np.array([0.0, 0.0, 0.6]))
    assert check.check(task.path, gates, IDEAL, beside).geometry_excess_m > 0.1


def test_default_geometries():
    shuttle = default_geometry(load_task("shuttle"))
    assert isinstance(shuttle, Gates)
    np.testing.assert_allclose(shuttle.points[:, 0], [2.67, -2.67], atol=1e-4)
    assert default_geometry(load_task("figure8")) == Tube(0.35)
    dash = default_geometry(load_task("dash"))
    assert isinstance(dash, Gates)
    np.testing.assert_allclose(dash.points, [[-5.15, 0.0, 1.5], [5.15, 0.0, 1.5]], atol=1e-9)


def test_the_check_sees_wrong_motions():
    solution = exact("figure8", "rotor", 200)[1]
    path, good = load_task("figure8").path, solution.motion
    sound = check.check(path, None, IDEAL, good)
    check.require_sound(sound, solution.seconds, "bound")
    assert good.rotors is not None
    weak = good._replace(rotors=0.99 * good.rotors)
    with pytest.raises(RunError, match="integrated motion"):
        check.require_sound(check.check(path, None, IDEAL, weak), solution.seconds, "bound")
    tight = IDEAL._replace(thrust_high=24.0)
    with pytest.raises(RunError, match="limit is exceeded"):
        check.require_sound(check.check(path, None, tight, good), solution.seconds, "bound")
    moved = good._replace(position=good.position + np.array([0.0, 0.0, 0.02]))
    with pytest.raises(RunError, match="path is left"):
        check.require_sound(check.check(path, None, IDEAL, moved), solution.seconds, "bound")
    with pytest.raises(RunError, match="duration"):
        check.require_sound(sound, 0.99 * solution.seconds, "bound")


def test_symbolic_flatness_is_the_projects():
    from lafr_mjx.time_optimal.symbolic import flat_function

    path = load_task("inspection").path
    clock = (4.0, 1.5, -20.0, 90.0)
    phase, step = 2.3, 1e-5

    def rates_after(t):
        shifted = [
            phase + sum(c * t ** (i + 1) / math.factorial(i + 1) for i, c in enumerate(clock)),
            *(
                sum(c * t ** (i - k) / math.factorial(i - k)
                    for i, c in enumerate(clock) if i >= k)
                for k in range(3)
            ),
        ]  # fmt: skip
        return reference_state(path, *shifted)

    table = np.asarray(derivatives(path, phase))
    found = flat_function()(table[1:].T, table[0, 3], np.array(clock))
    thrust, rates, growth, _ = (np.array(x).ravel() for x in found)
    reference = rates_after(0.0)
    np.testing.assert_allclose(thrust[0], reference.thrust, rtol=1e-12)
    np.testing.assert_allclose(rates, reference.rates, rtol=1e-10, atol=1e-12)
    slope = (rates_after(step).rates - rates_after(-step).rates) / (2.0 * step)
    np.testing.assert_allclose(growth, slope, rtol=1e-5, atol=1e-4)


@given(roll=st.floats(-1.5, 1.5), pitch=st.floats(-3.1, 3.1), yaw=st.floats(-3.0, 3.0))
def test_angles_and_matrices(roll, pitch, yaw):
    angles = np.array([roll, pitch, yaw])
    rotation = motion.rotation_of(angles)
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(3), atol=1e-12)
    back = motion.angles_of(rotation, np.asarray(yaw))
    np.testing.assert_allclose(motion.rotation_of(back), rotation, atol=1e-7)


def test_an_impossible_problem_gives_no_number():
    task = load_task("figure8")
    start = exact("figure8", "ctbr", 100)
    weak = IDEAL._replace(thrust_high=9.0)  # cannot even hover
    with pytest.raises(RunError, match="IPOPT ended with '") as caught:
        task_bounds.free_bound(task.path, Tube(0.35), weak, "ctbr", 20, start, 0.0)
    assert "no bound was found" in str(caught.value)


def test_the_command_writes_what_it_prints(tmp_path, capsys):
    file = tmp_path / "bounds.json"
    Bounds("shuttle", nodes=40, json=file).run()
    figures = json.loads(file.read_text())
    assert figures["ctbr_exact_path_s"] == pytest.approx(2.007, rel=0.01)
    assert figures["ctbr_free_s"] == pytest.approx(1.91, rel=0.01)
    assert figures["uniform_ceiling_s"] == pytest.approx(2.241, rel=0.001)
    assert figures["rotor_free_s"] <= figures["rotor_exact_path_s"]
    assert figures["rotor_exact_path_peak_rate_radps"] > 20.0
    assert {s["status"] for s in figures["solver"].values()} == {"Solve_Succeeded"}
    assert [r["intervals"] for r in figures["refinement"]["ctbr_free"]] == [20, 40]
    printed = capsys.readouterr().out
    assert f"{figures['ctbr_free_s']:.3f}" in printed
    assert "10.3 m one way" in printed


def test_a_failed_bound_is_null_and_the_others_are_kept(tmp_path, monkeypatch, capsys):
    def fails(*_args):
        raise RunError("rotor bound: IPOPT ended with 'Restoration_Failed'")

    monkeypatch.setattr(task_bounds, "free_bound", fails)
    file = tmp_path / "bounds.json"
    with pytest.raises(RunError, match="Restoration_Failed"):
        Bounds("shuttle", nodes=25, json=file).run()
    figures = json.loads(file.read_text())
    assert figures["ctbr_free_s"] is None
    assert figures["ctbr_exact_path_s"] > 0.0
    assert len(figures["failures"]) == 2
    assert "none" in capsys.readouterr().out


def test_without_casadi_the_uniform_ceiling_remains(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "casadi", None)
    file = tmp_path / "bounds.json"
    Bounds("figure8", only=("uniform",), json=file).run()
    figures = json.loads(file.read_text())
    assert figures["uniform_ceiling_s"] == pytest.approx(2.564, rel=0.001)
    assert figures["ctbr_exact_path_s"] is None
    with pytest.raises(InputError, match=r"lafr-mjx\[bounds\]"):
        Bounds("figure8").run()
    assert "2.564 s" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nodes": 5}, "--nodes 5"),
        ({"tube": 0.0}, "--tube 0.0"),
        ({"tube": float("nan")}, "--tube nan"),
        ({"tube": 0.1, "waypoints": 4}, "--tube and --waypoints"),
        ({"waypoints": 1}, "--waypoints 1"),
        ({"waypoint_radius": 0.1}, "--waypoint-radius"),
        ({"yaw": 1e9}, "--yaw"),
        ({"rate_max": 0.0}, "--rate-max"),
        ({"thrust_max": 9.0}, "--thrust-max"),
        ({"arm": -1.0}, "--arm"),
        ({"inertia": (1.0, 1.0, 1.0, 1.0)}, "--inertia"),
        ({"inertia": (1e-4, 1e-4, 9e-4)}, "belong to no body"),
        ({"only": ()}, "--only"),
        ({"task": "nowhere"}, "unknown task"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        Bounds(**options).run()
