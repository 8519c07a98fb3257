"""The results of an ablation on disk: nothing lost, nothing double, nothing misread."""

from __future__ import annotations

import json

import numpy as np
import pytest

from lafr_mjx.ablation.plan import Asked, Block, Plan
from lafr_mjx.ablation.summary import groups_of, table_rows
from lafr_mjx.ablation.table import AblationTable, RunResult, read_results
from lafr_mjx.commands.ablate import Ablate
from lafr_mjx.errors import InputError
from lafr_mjx.runs.run_folder import RunFolder

PLAN = Plan.of(Asked((Block("figure8", ("nominal",), ("ours", "lotf")),), seeds=(0,)))


def opened(folder, plan=PLAN):
    return AblationTable.open(folder, plan.config(), plan.scenario_files())


def result(name, lap: float | None = 2.5, crashed=False, **changes):
    record = {"iteration": 0, "lap_time_s": lap, "peak_speed_mps": 3.0, "rmse_m": 0.1,
              "crashed": crashed}  # fmt: skip
    fields = {
        "name": name, "method": "ours", "task": "figure8", "scenario": "nominal", "seed": 0,
        "plant": 0, "sweep": {}, "command": "lafr-mjx adapt",
        "iterations": [record, record | {"iteration": 1}],
    }  # fmt: skip
    return RunResult(**(fields | changes))


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "ablation"
    with opened(path) as table:
        table.append([result("one"), result("two", lap=float("nan"))])
    return path


def test_results_are_read_back(folder):
    one, two = read_results(folder)
    assert one == result("one")
    assert two.iterations[0]["lap_time_s"] is None  # what is not finite
    assert one.table["lap_time_s"].tolist() == [2.5, 2.5] and one.table["crashed"].dtype == bool
    assert np.isnan(two.table["lap_time_s"]).all()


def test_a_second_call_goes_on(folder):
    with opened(folder) as table:
        assert table.done == {"one", "two"}
        table.append([result("two"), result("three")])
    assert [run.name for run in read_results(folder)] == ["one", "two", "three"]


@pytest.mark.parametrize("cut", [1, 40])
def test_half_a_line_is_dropped_and_told(folder, cut):
    file = folder / "results.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole[:-cut])
    assert [run.name for run in read_results(folder)] == ["one"]
    with opened(folder) as table:
        assert table.done == {"one"}
        assert table.dropped_bytes == len(whole.splitlines()[1]) + 1 - cut
        table.append([result("two", lap=float("nan"))])
    assert file.read_bytes() == whole


def test_a_line_lost_with_the_power_is_dropped(folder):
    with (folder / "results.jsonl").open("ab") as file:
        file.write(b"\0\0\0\0\n")
    with opened(folder) as table:
        assert table.dropped_bytes == 5
    assert len(read_results(folder)) == 2


def test_a_broken_line_in_the_middle_is_named_and_kept(folder):
    file = folder / "results.jsonl"
    lines = file.read_text().splitlines()
    file.write_text("\n".join(["nonsense", *lines]) + "\n")
    before = file.read_bytes()
    with pytest.raises(InputError, match="line 1 is not the result of a run"):
        opened(folder)
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"iterations": []}, "'iterations'"),
        ({"iterations": [{"lap_time_s": 2.0}]}, "'peak_speed_mps'"),
        ({"seed": "0"}, "'seed'"),
        (None, "has no keys"),
    ],
)
def test_a_whole_line_of_another_kind_is_named_and_kept(folder, changes, named):
    file = folder / "results.jsonl"
    lines = file.read_text().splitlines()
    lines[-1] = json.dumps([1] if changes is None else json.loads(lines[-1]) | changes)
    file.write_text("\n".join(lines) + "\n")
    before = file.read_bytes()
    for attempt in (lambda: read_results(folder), lambda: opened(folder)):
        with pytest.raises(InputError, match=f"line 2 is not the result of a run: {named}"):
            attempt()
    assert file.read_bytes() == before


def test_other_arguments_are_refused(folder):
    other = Plan.of(Asked((Block("figure8", ("nominal",), ("ours", "lotf")),), seeds=(0, 1)))
    with pytest.raises(InputError, match=r"seeds = \[0\], not \[0, 1\]"):
        opened(folder, other)
    assert len(read_results(folder)) == 2


def test_an_edited_scenario_is_refused(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('base = "nominal"\nmass_scale = 1.1\n')

    def plan():
        return Plan.of(Asked((Block("figure8", (str(file),), ("ours",)),), seeds=(0,)))

    opened(tmp_path / "x", plan()).close()
    file.write_text('base = "nominal"\nmass_scale = 1.2\n')
    with pytest.raises(InputError, match=r"mine\.toml is not what it was"):
        opened(tmp_path / "x", plan())


@pytest.mark.parametrize("name", ["config.toml", "results.jsonl"])
def test_another_schema_version_is_refused_and_kept(folder, name):
    file = folder / name
    old = file.read_text().replace("schema_version = 1", "schema_version = 0")
    file.write_text(old.replace('"schema_version": 1', '"schema_version": 0'))
    before = file.read_bytes()
    for attempt in (lambda: read_results(folder), lambda: opened(folder)):
        with pytest.raises(InputError, match="schema version 0; this program reads 1"):
            attempt()
    assert file.read_bytes() == before


def test_a_folder_with_other_things_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(InputError, match="holds other things"):
        opened(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_only_one_writes(folder):
    with opened(folder), pytest.raises(InputError, match="another process"):
        opened(folder)


def test_no_results(tmp_path):
    with pytest.raises(InputError, match=r"has no config\.toml"):
        read_results(tmp_path)
    opened(tmp_path / "x").close()
    with pytest.raises(InputError, match="no results yet"):
        read_results(tmp_path / "x")
    with pytest.raises(InputError, match="no results yet"):
        Ablate(out=tmp_path / "x", only_print=True).run()


@pytest.mark.parametrize("resume", [False, True])
def test_it_is_no_run_and_says_who_reads_it(folder, resume):
    with pytest.raises(InputError, match=r"of an ablation.*ablate --only-print --out") as caught:
        RunFolder.open(folder, resume=resume)
    assert "schema" not in str(caught.value)


def test_the_table_says_what_the_results_say(tmp_path, capsys):
    with opened(tmp_path / "x") as table:
        table.append(
            [
                result("a", 2.0), result("b", 3.0, seed=1), result("c", None, True, seed=2),
                result("d", 4.0, method="lotf"),
            ]
        )  # fmt: skip
    Ablate(out=tmp_path / "x", only_print=True, json=tmp_path / "figures.json").run()
    figures = json.loads((tmp_path / "figures.json").read_text())
    ours, lotf = figures["groups"]
    assert ours["final_lap_s"] == pytest.approx(2.5)
    assert ours["final_lap_s_sd"] == pytest.approx(0.5**0.5)
    assert (ours["final_lap_s_n"], ours["runs"], ours["no_lap"]) == (2, 3, 1)
    assert (ours["crashed_flights"], ours["crashed_runs"]) == (2, 1)
    assert (lotf["method"], lotf["final_lap_s_sd"]) == ("lotf", None)
    columns, rows, _ = table_rows(groups_of(read_results(tmp_path / "x")))
    row = dict(zip(columns, rows[0], strict=True))
    assert row["last lap s"] == "2.50 ± 0.71 (2 of 3)"
    assert row["crashed flights"] == "2 of 6"
    printed = capsys.readouterr().out
    assert "4 adaptations" in printed and "lotf" in printed
