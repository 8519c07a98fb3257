"""What is told while many runs fly and there is no terminal: a line for each of them."""

from __future__ import annotations

import pytest
from rich.console import Console

from lafr_mjx.ablation import batch_progress, work
from lafr_mjx.ablation.chunk import FlownRun
from lafr_mjx.commands.ablate import Ablate
from lafr_mjx.run_spec import RunSpec
from lafr_mjx.runs.run_folder import RunFolder

FLIGHT = {"lap_time_s": 2.5, "peak_speed_mps": 3.0, "rmse_m": 0.1, "crashed": False}
LOST = FLIGHT | {"lap_time_s": None, "crashed": True}


@pytest.fixture
def nothing_flies(monkeypatch):
    def fly(chunk, devices, told):
        told(len(chunk.names))
        return [FlownRun(name, [FLIGHT] * chunk.specs[0].iterations, {}) for name in chunk.names]

    monkeypatch.setattr(work, "fly_chunk", fly)
    monkeypatch.setattr(work, "base_policies", lambda plan, runs, told: {"figure8": {}})


def ablate(folder, **changes):
    given = {"methods": ("ours", "lotf"), "scenarios": ("nominal",), "seeds": (0,)} | changes
    Ablate(out=folder, iterations=2, chunk=1, **given).run()


def test_each_finished_run_of_an_ablation_is_a_line(tmp_path, capsys, nothing_flies):
    ablate(tmp_path / "x")
    lines = capsys.readouterr().out.splitlines()
    figures = "last lap 2.50 s, peak 3.00 m/s, 0 of 2 flights crashed"
    assert f"1 of 2: figure8-nominal-ours-seed0: {figures}" in lines
    assert f"2 of 2: figure8-nominal-lotf-seed0: {figures}" in lines


def test_one_is_not_many(tmp_path, capsys, nothing_flies):
    ablate(tmp_path / "x", methods=("ours",))
    told = " ".join(capsys.readouterr().out.split())
    assert told.startswith("1 adaptation of 2 flights in ")
    assert "1 adaptation; mean" in told
    assert "1 adaptations" not in told


def test_each_finished_run_of_a_reproduction_is_a_line(tmp_path, monkeypatch, capsys):
    specs = [RunSpec("figure8", "nominal", seed=seed, iterations=2) for seed in (0, 1)]

    def fly_all(specs, folder, processes, told):
        for spec in specs:
            with RunFolder.create(folder / spec.name, {"run": spec.table()}) as run:
                for _ in range(spec.iterations):
                    run.append_iteration(FLIGHT)
            told(spec, None)

    monkeypatch.setattr(batch_progress, "fly_all", fly_all)
    batch_progress.fly_with_progress(specs, tmp_path, 1, Console(highlight=False))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(": last lap 2.50 s")[0] for line in lines] == [
        "1 of 2: figure8-nominal-ours-seed0", "2 of 2: figure8-nominal-ours-seed1",
    ]  # fmt: skip


def test_the_line_of_a_run_that_crashed():
    line = batch_progress.run_line(3, 9, "run", [LOST])
    assert line == "3 of 9: run: no lap, peak 3.00 m/s, 1 of 1 flight crashed"
