"""`lafr-mjx fit`: on simulated flights with known truth, on bad logs, and on real ones.

The real logs are not part of the project. `LAFR_MJX_DATA` names the folder that holds them.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from lafr_mjx import cli
from lafr_mjx.adaptation.adaptation_job import AdaptationJob
from lafr_mjx.fitting import known_plants
from lafr_mjx.plant.scenario import load_scenario
from lafr_mjx.plant.vehicle import load_vehicle
from lafr_mjx.run_spec import RunSpec
from lafr_mjx.runs.rollout_file import save_rollout

RUNS, SEED = 40, 100


def _main(*arguments) -> int:
    with pytest.raises(SystemExit) as end:
        cli.main([*map(str, arguments)])
    return int(end.value.code or 0)


def _fit(*arguments) -> int:
    return _main("fit", *arguments)


@pytest.fixture(scope="module")
def truths():
    """Plants with known delay, drag and extra mass."""
    return known_plants.draw(RUNS, SEED)


@pytest.fixture(scope="module")
def rollouts(truths):
    flown = known_plants.fly(load_vehicle("lafr192"), truths, SEED)
    assert not any(rollout.crashed.any() for rollout in flown)
    return flown


def test_estimates_and_their_intervals(truths, rollouts):
    """Within 10 % (delay 3 ms), and covered in 9 of 10 runs, for each of the three."""
    vehicle = load_vehicle("lafr192")
    found = [known_plants.compare(vehicle, *pair) for pair in zip(truths, rollouts, strict=True)]
    for name in ("delay_ms", "drag_scale", "extra_kg"):
        several = [comparison[name] for comparison in found]
        for one in several:
            allowed = 3.0 if name == "delay_ms" else 0.1 * one.truth
            assert one.estimate.value == pytest.approx(one.truth, abs=allowed), name
            # An interval that covers everything would be no answer.
            assert one.estimate.high - one.estimate.low < (8.0 if name == "delay_ms" else
                                                           0.5 * one.truth)  # fmt: skip
        assert sum(one.covered for one in several) >= 0.9 * RUNS, (name, several)


def test_fit_of_a_simulated_flight(truths, rollouts, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    save_rollout(tmp_path / "flight.npz", rollouts[0])
    scenario = tmp_path / "mine.toml"
    arguments = ("flight.npz", "--seeds", 0, "--json", "f.json", "--export-scenario", scenario)
    assert _fit(*arguments) == 0
    figures = json.loads((tmp_path / "f.json").read_text())
    # The noise alone: 2 cm/s on each of three axes, at both ends.
    assert figures["hybrid_20ms_velocity_cmps"] < 6.0
    for quantity, share in (("position_mm", 0.15), ("velocity_cmps", 0.15), ("attitude_deg", 0.5)):
        ours, nominal = (figures[f"{m}_500ms_{quantity}"] for m in ("hybrid", "nominal"))
        assert ours < share * nominal
        assert ours < figures[f"scale_bias_500ms_{quantity}"]
    assert figures["train_s"] == pytest.approx(10.0, abs=0.1)
    assert 0.0 < figures["fit_s"] < figures["work_s"] <= figures["wall_s"]
    for name in ("online", "online_body", "paper"):
        assert figures[f"{name}_500ms_position_mm"] < 0.5 * figures["nominal_500ms_position_mm"]
    assert figures["hybrid_rates_dps"] < 0.6 * figures["nominal_rates_dps"]
    # The exported scenario loads, and is the plant that flew.
    settings = load_scenario(str(scenario)).settings
    delay, drag, mass = truths[0]
    assert settings.command_delay_ms == pytest.approx(delay, abs=3.0)
    assert settings.drag_scale == pytest.approx(drag, rel=0.1)
    assert 0.192 * (settings.mass_scale - 1.0) == pytest.approx(mass, rel=0.1)
    # The plant and the adaptation take it; a flight on it begins and ends.
    spec = RunSpec(
        "figure8", str(scenario), reference="fixed", iterations=1, seed=100, engine="freebody"
    )
    job = AdaptationJob.build(spec)
    assert job.scenario.settings == settings
    assert _main("fly", "figure8", "--scenario", scenario, "--engine", "freebody") == 0
    folder = tmp_path / "runs" / "fit-flight"
    page = (folder / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 4 and "http" not in page
    assert {p.name for p in folder.iterdir()} == {
        "report.html", "summary.json", "model.npz", "plots"}  # fmt: skip
    assert "0.5 s" in capsys.readouterr().out
    # Nothing is overwritten.
    assert _fit(*arguments) == 2
    assert "not overwritten" in capsys.readouterr().err


def _rates_log(path, seed=0, lag=3, **changes):
    """A log without attitude: rates that follow their commands three samples later."""
    rng = np.random.default_rng(seed)
    command = np.cumsum(rng.normal(size=(1200, 3)), axis=0) * 0.05
    rates = np.concatenate([command[:1].repeat(lag, 0), command[:-lag]])
    arrays = {"t": 0.01 * np.arange(1200), "w_cmd": command, "w": rates} | changes
    np.savez(path, **arrays)
    return path


def test_rates_only(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log = _rates_log(tmp_path / "rates.npz")
    assert _fit(log, "--json", "r.json", "--out", "here") == 0
    figures = json.loads((tmp_path / "r.json").read_text())
    # The command that held from 30 to 20 ms before.
    assert figures["rates_offset_ms"] == pytest.approx(25.0, abs=2.0)
    assert figures["hybrid_rates_dps"] < 0.1 * figures["nominal_rates_dps"]
    assert figures["memoryless_rates_dps"] > 0.5 * figures["nominal_rates_dps"]
    assert (tmp_path / "here" / "report.html").is_file()
    assert "hybrid_500ms_position_mm" not in figures


@pytest.mark.parametrize(
    ("changes", "options", "words"),
    [
        ({"t": -0.01 * np.arange(1200)}, (), "clock runs backwards at sample 1"),
        ({"w": np.full((1200, 3), np.nan)}, (), "1200 of 1200 samples are not numbers"),
        ({}, ("--train-share", 1.5), "--train-share 1.5"),
        ({}, ("--train-seconds", 0.5), "--train-seconds 0.5"),
        ({}, ("--test", "none.npz"), "none.npz: there is no such file"),
        ({"ok": np.arange(1200) < 700}, (), "to test with"),
        ({}, ("--export-scenario", "no.json"), "--export-scenario no.json"),
    ],
)  # fmt: skip
def test_bad_input_ends_with_2_and_one_line(changes, options, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    log = _rates_log(tmp_path / "bad.npz", **changes)
    assert _fit(log, *options) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1 and "Traceback" not in error
    assert not (tmp_path / "runs").exists()


def test_wrong_frames_stop_a_fit_unless_told_otherwise(rollouts, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    sample = rollouts[0].sample
    turned = rollouts[0]._replace(sample=sample._replace(rates=sample.rates * 180.0 / np.pi))
    save_rollout(tmp_path / "degrees.npz", turned)
    assert _fit("degrees.npz") == 2
    assert "the body rates are in °/s, not rad/s" in capsys.readouterr().err


DATA = os.environ.get("LAFR_MJX_DATA", "")
real = pytest.mark.skipif(not DATA, reason="LAFR_MJX_DATA names no folder with recorded flights")


@real
@pytest.mark.parametrize(
    ("options", "limits"), [((), (12.7, 5.0, 0.50)), (("--train-seconds", 10), (17.6, 7.4, 1.07))]
)
def test_blackbird(options, limits, tmp_path, monkeypatch):
    """First half (or its first 10 s), tested on the second half."""
    monkeypatch.chdir(tmp_path)
    log = Path(DATA) / "blackbird_clover_5mps.npz"
    assert _fit(log, "--seeds", 0, "--json", "b.json", *options) == 0
    figures = json.loads((tmp_path / "b.json").read_text())
    for quantity, limit in zip(("position_mm", "velocity_cmps", "attitude_deg"), limits,
                               strict=True):  # fmt: skip
        assert figures[f"hybrid_500ms_{quantity}"] <= limit


@real
def test_crazypad(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log = Path(DATA) / "weight_W3_M3_E9_log01.npz"
    assert _fit(log, "--train-part", "last", "--json", "c.json") == 0
    figures = json.loads((tmp_path / "c.json").read_text())
    assert figures["nominal_rates_dps"] == pytest.approx(9.15, abs=0.01)
    assert figures["hybrid_rates_dps"] <= 7.0
