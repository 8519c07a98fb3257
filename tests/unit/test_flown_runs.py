"""What a report reads: run folders, folders full of them, and what is wrong with either."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from report_runs import record, write_run

from lafr_mjx.ablation.table import AblationTable, RunResult
from lafr_mjx.adaptation.folder_runs import finished
from lafr_mjx.errors import InputError
from lafr_mjx.report.flown_runs import collect
from lafr_mjx.run_spec import RunSpec
from lafr_mjx.runs.run_folder import RunFolder

SHORT = RunSpec("figure8", "wind5", reference="fixed", iterations=2, engine="freebody")


def test_a_run_and_a_folder_of_runs(tmp_path):
    one = write_run(tmp_path, SHORT)
    write_run(tmp_path / "more", replace(SHORT, method="baseline"))
    write_run(tmp_path / "more" / "deeper", replace(SHORT, seed=1))
    assert [run.spec for run in collect([one]).runs] == [SHORT]
    found = collect([tmp_path, one])
    assert {(r.spec.method, r.spec.seed) for r in found.runs} == {
        ("ours", 0), ("baseline", 0), ("ours", 1)}  # fmt: skip
    assert found.notes == []
    assert [r.spec.seed for r in found.matching(method="ours")] == [0, 1]
    assert found.matching(method="ours", horizon=10) == []


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(InputError, match="no run is given"):
        collect([])
    with pytest.raises(InputError, match="there is no such folder"):
        collect([tmp_path / "missing"])
    with pytest.raises(InputError, match=r"it has no config\.toml"):
        collect([tmp_path])
    with RunFolder.create(tmp_path / "new", {"run": SHORT.table()}):
        pass
    with pytest.raises(InputError, match="no iteration of this run is finished"):
        collect([tmp_path / "new"])
    with pytest.raises(InputError, match=r"holds no run that can be reported: .*no iteration"):
        collect([tmp_path])


CONFIG, LINES = "config.toml", "iterations.jsonl"


@pytest.mark.parametrize(
    ("file", "spoil", "message"),
    [(CONFIG, lambda t: t.replace("schema_version = 2", "schema_version = 1"), "schema_version 1"),
     (CONFIG, lambda t: t[:-30], "cut short"),
     (LINES, lambda t: t.replace('"rmse_m"', '"other"'), "'rmse_m' is missing"),
     (CONFIG, lambda t: t.replace("seed = 1", 'seed = "one"'), "'run.seed' is 'one'")],
)  # fmt: skip
def test_a_bad_run_is_told_alone_and_left_out_among_others(tmp_path, file, spoil, message):
    write_run(tmp_path, SHORT)
    bad = write_run(tmp_path, replace(SHORT, seed=1))
    (bad / file).write_text(spoil((bad / file).read_text()))
    with pytest.raises(InputError, match=message):
        collect([bad])
    found = collect([tmp_path])
    assert len(found.runs) == 1
    (note,) = found.notes
    assert note.startswith("Left out:") and message in note


def test_what_looks_odd_is_noted(tmp_path):
    write_run(tmp_path / "a", SHORT)
    write_run(tmp_path / "b", SHORT)  # the same once more
    write_run(tmp_path / "c", replace(SHORT, seed=1, engine="mjx"))
    cut = write_run(tmp_path / "d", replace(SHORT, seed=2))
    lines = (cut / "iterations.jsonl").read_text().splitlines()
    (cut / "iterations.jsonl").write_text(lines[0] + "\n" + lines[1][:20])
    found = collect([tmp_path])
    assert len(found.runs) == 3
    text = "\n".join(found.notes)
    assert "repeats" in text
    assert "has 1 of 2 iterations" in text
    assert "several engines stand side by side: freebody, mjx" in text


def test_runs_that_differ_in_more_are_not_compared(tmp_path):
    changes: list[dict[str, Any]] = [
        {"features": "body"}, {"vehicle": "kingfisher"}, {"reference": "space-time"},
        {"cost": "tracking(yaw=2)"}, {"policy": "mlp(hidden=[8])"},
    ]  # fmt: skip
    paths = [write_run(tmp_path, replace(SHORT, seed=i, **x)) for i, x in enumerate(changes)]
    found = collect(paths)
    assert [run.variant for run in found.runs] == [
        f"{k} {v}" for x in changes for k, v in x.items()
    ]
    assert found.matching(method="ours") == []


def test_a_finished_run_of_something_else_is_not_taken_for_this_one(tmp_path):
    write_run(tmp_path, SHORT)
    assert finished(SHORT, tmp_path)
    assert finished(replace(SHORT, iterations=1), tmp_path)
    assert not finished(replace(SHORT, seed=5), tmp_path)
    with pytest.raises(InputError, match="was flown with engine freebody, not mjx"):
        finished(replace(SHORT, engine="mjx"), tmp_path)
    with pytest.raises(InputError, match="was flown with iterations 2, not 3"):
        finished(replace(SHORT, iterations=3), tmp_path)


def _ablation(folder, *sweeps):
    config = {"ablation": {"ats": "verified", "engine": "freebody", "iterations": 2}}
    with AblationTable.open(folder, config, {}) as table:
        table.append([
            RunResult(f"run{i}", "lotf", "figure8", "wind5", i, 0, sweep, "lafr-mjx adapt",
                      [record(k, SHORT) for k in range(2)])
            for i, sweep in enumerate(sweeps)
        ])  # fmt: skip


def test_an_ablation_is_read_like_its_runs(tmp_path):
    write_run(tmp_path, SHORT)
    _ablation(tmp_path / "ablation", {}, {"delay_ms": 40.0})
    found = collect([tmp_path])
    (plain,) = found.matching(method="lotf")
    assert plain.spec == replace(SHORT, method="lotf", seed=0)
    assert plain.rollout(0) is None
    assert sorted(run.variant for run in found.runs) == ["", "", "delay_ms 40"]
    assert len(collect([tmp_path / "ablation"]).runs) == 2
    results = tmp_path / "ablation" / "results.jsonl"
    results.write_text(results.read_text().replace('"peak_error_m"', '"error"'))
    with pytest.raises(InputError, match="run0: 'peak_error_m' is missing"):
        collect([tmp_path / "ablation"])
