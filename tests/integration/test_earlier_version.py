"""What version 0.2 wrote still opens: a run folder and the table of an ablation, as it left them.

Flown by its last commit, two flights each; checkpoints, plots and the first flight are left out.

    lafr-mjx adapt figure8 --scenario wind5 --iterations 2 --engine freebody
    lafr-mjx ablate figure8 --methods ours baseline --scenarios nominal --seeds 0 --iterations 2
        --engine freebody --sweep delay_ms=0,40
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import lafr_mjx as lm
from lafr_mjx.view.replay import load_replay

STORED = Path(__file__).parents[1] / "data" / "version_0_2"


@pytest.fixture
def folder(tmp_path):
    shutil.copytree(STORED, tmp_path / "0.2")
    return tmp_path / "0.2"


def test_a_run_opens_from_a_script(folder):
    run, summary = lm.Run(folder / "run"), json.loads((folder / "run/summary.json").read_text())
    assert run.config["run"]["scenario"] == "wind5"
    assert run.table["rmse_m"].tolist() == [summary["first_rmse_m"], summary["last_rmse_m"]]
    assert not run.table["crashed"].any() and np.isnan(run.table["landmark_miss_m"]).all()
    flight, policy = run.flight(-1), run.policy
    speeds = np.linalg.norm(flight.truth.velocity, axis=1)
    assert speeds.max() == pytest.approx(summary["last_peak_speed_mps"], rel=1e-5)
    np.testing.assert_array_equal(policy.limits.high, run.config["vehicle"]["limits_high"])
    assert np.all(np.isfinite(policy.network(np.zeros(61, np.float32))))


def test_a_run_is_watched_and_reported(folder, tmp_path):
    replay = load_replay(folder / "run")
    assert replay.name == "figure8 · wind5 · ours"
    (flight,) = replay.flights
    assert flight.speed.max() == pytest.approx(2.244, abs=0.001)
    lm.make_report(folder, out=tmp_path / "report.html")
    page = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "5 adaptation runs on figure8" in page, "the run, and those of the ablation"
    assert "2.2 → 2.24 m/s" in page


def test_a_table_is_printed_and_not_gone_on_with(folder, capsys):
    results = lm.ablate(out=folder / "ablation", only_print=True)
    assert [(one.method, one.sweep["delay_ms"]) for one in results] == [
        ("ours", 0.0), ("baseline", 0.0), ("ours", 40.0), ("baseline", 40.0)
    ]  # fmt: skip
    assert results[0].iterations[-1]["peak_speed_mps"] == pytest.approx(2.794, abs=0.01)
    shown = capsys.readouterr().out
    assert "4 adaptations" in shown and "Pair by pair" in shown
    with pytest.raises(lm.InputError, match="scenario nominal delay_ms=0 is not what it was"):
        lm.ablate("figure8", methods=["ours", "baseline"], scenarios=["nominal"], seeds=[0],
                  iterations=2, engine="freebody", sweep=["delay_ms=0,40"],
                  out=folder / "ablation")  # fmt: skip


def test_a_run_is_not_gone_on_with(folder):
    with pytest.raises(lm.InputError, match=r"lafr-mjx 0\.2\.0 began it, and can go on with it"):
        lm.adapt(resume=folder / "run")
