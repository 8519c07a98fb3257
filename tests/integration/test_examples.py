"""Every example runs, in small: fewer flights and seeds, in a folder of its own."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from needs import require_module

import lafr_mjx as lm

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
LONGER = ("dm_control_flight.py", "gym_search.py", "rotorpy_plant.py")
SHORT = [p for p in EXAMPLES if p.name not in LONGER]
SMALLER = [(r"iterations=\d+", "iterations=1"), (r"range\(30?\)", "range(1)"),
           (r"\[0, 40\]", "[40]"), (r"docs/examples", f"{ROOT}/docs/examples")]  # fmt: skip


@pytest.mark.parametrize("example", SHORT, ids=lambda path: path.stem)
def test_an_example_runs(example, tmp_path):
    text = example.read_text()
    for pattern, small in SMALLER:
        text = re.sub(pattern, small, text)
    (tmp_path / example.name).write_text(text)
    done = subprocess.run([sys.executable, example.name], cwd=tmp_path, capture_output=True,
                          text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip()


@pytest.mark.parametrize("example", SHORT, ids=lambda path: path.stem)
def test_an_example_is_short(example):
    lines = [line for line in example.read_text().splitlines() if line.strip()]
    assert len(lines) <= 20


def test_another_simulator_is_a_file_of_its_own():
    lines = (ROOT / "examples" / "rotorpy_plant.py").read_text().splitlines()
    assert len(lines) < 120


def test_another_simulator_flies_in_the_plants_place(tmp_path, monkeypatch):
    require_module("rotorpy", "rotorpy")
    monkeypatch.chdir(ROOT / "examples")
    engine = "rotorpy_plant.py:RotorPyPlant(wind=3.0)"
    run = lm.adapt("figure8", engine=engine, iterations=1, out=tmp_path / "run")
    assert run.table["peak_speed_mps"][0] == pytest.approx(2.2, abs=0.2)
    assert 0.15 < run.table["rmse_m"][0] < 0.5 and not run.table["crashed"].any(), "wind is felt"
    flight = run.flight(0)
    assert np.isfinite(flight.truth.position).all()
    assert (np.diff(flight.sample_time) > 0.0).all()
    assert flight.stamp[10] == pytest.approx(flight.time[10] - 0.01)
    longer = lm.adapt(resume=tmp_path / "run", iterations=2)
    assert longer.table["rmse_m"][1] < 0.5 * longer.table["rmse_m"][0], "it has learned the wind"


def test_the_profile_has_the_figures_of_the_other_simulators_vehicle():
    require_module("rotorpy", "rotorpy")
    spec = importlib.util.spec_from_file_location("plant", ROOT / "examples" / "rotorpy_plant.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    theirs, ours = module.HUMMINGBIRD, lm.load_vehicle(str(ROOT / "docs/examples/hummingbird.toml"))
    rotors, order = ours.rotors, ("r2", "r4", "r3", "r1")
    assert ours.mass == pytest.approx(theirs["mass"])
    np.testing.assert_allclose(
        np.diag(ours.inertia), [theirs[f"I{a}{a}"] for a in "xyz"], rtol=1e-5
    )
    arms = [theirs["rotor_pos"][name] for name in order]
    np.testing.assert_allclose(ours.rotor_positions, arms, atol=1e-4)
    assert rotors.thrust_coefficient == pytest.approx(theirs["k_eta"])
    assert rotors.torque_per_thrust == pytest.approx(theirs["k_m"] / theirs["k_eta"], rel=0.01)
    assert rotors.time_constant == theirs["tau_m"]
    assert (np.asarray(ours.rate_loop.gains.proportional) == theirs["k_w"]).all()
    at_hover = 4.0 * ours.hover_speed / ours.mass
    drag = at_hover * np.array([theirs["k_d"], theirs["k_d"], theirs["k_z"]])
    np.testing.assert_allclose(ours.drag.rotor, drag, rtol=0.01)
    assert ours.drag.body == pytest.approx(theirs["c_Dx"] / theirs["mass"])
