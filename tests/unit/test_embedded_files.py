"""A run can be repeated from its configuration alone, the user's own files included."""

from __future__ import annotations

import math
import shutil
import tomllib
from dataclasses import replace

import pytest

from lafr_mjx.adaptation.adaptation_job import AdaptationJob
from lafr_mjx.errors import InputError
from lafr_mjx.resources import data_folder
from lafr_mjx.run_spec import RunSpec
from lafr_mjx.runs import embedded_files
from lafr_mjx.runs.toml_text import toml_text

RUN = RunSpec("figure8", "wind5", seed=100, iterations=3, engine="freebody").table()


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LAFR_MJX_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def own_files(tmp_path):
    """A task, a scenario on top of another one, and a vehicle with its MJCF."""
    folder = tmp_path / "mine"
    (folder / "parts").mkdir(parents=True)
    shutil.copy(data_folder("tasks") / "figure8.toml", folder / "eight.toml")
    (folder / "parts" / "windy.toml").write_text("wind_mps = [1.0, 2.0, 0.0]\n")
    (folder / "late.toml").write_text('base = "parts/windy.toml"\ncommand_delay_ms = 30.0\n')
    for name in ("lafr192.toml", "quad.xml"):
        shutil.copy(data_folder("assets") / name, folder / name)
    names = {"task": "eight.toml", "scenario": "late.toml", "vehicle": "lafr192.toml"}
    return folder, RUN | {role: str(folder / name) for role, name in names.items()}


def as_read(job: AdaptationJob) -> dict:
    return tomllib.loads(toml_text(job.config()))


def test_shipped_files_are_not_carried():
    assert "files" not in AdaptationJob.build(RunSpec(**RUN)).config()


def test_a_run_is_rebuilt_after_its_files_are_gone(own_files):
    folder, run = own_files
    job = AdaptationJob.build(RunSpec(**run))
    config = as_read(job)
    assert set(config["files"]["scenario"]["contents"]) == {"late.toml", "parts/windy.toml"}
    assert set(config["files"]["vehicle"]["contents"]) == {"lafr192.toml", "quad.xml"}
    shutil.rmtree(folder)
    again = AdaptationJob.from_config(config)
    assert again.digests() == job.digests()
    assert again.task.name == "eight"
    assert again.scenario.settings.wind_mps == (1.0, 2.0, 0.0)
    assert again.vehicle.mjcf_path.is_file()  # the general engine reads it again
    assert as_read(again) == config


def test_a_course_is_carried_and_its_gates_count(tmp_path):
    """Another opening is another task, though the path that is found is the same."""
    digests = []
    for radius in (0.5, 0.4):
        file = tmp_path / "course.toml"
        gates = (f"[[gates]]\nposition = [{x}, 0, 1]\nnormal = [0, {x}, 0]\nradius_m = {radius}\n"
                 for x in (2, -2))  # fmt: skip
        file.write_text("".join(gates))
        job = AdaptationJob.build(RunSpec(task=str(file), scenario="nominal"))
        config = as_read(job)
        file.unlink()
        again = AdaptationJob.from_config(config)
        assert [gate.radius for gate in again.task.gates] == [radius, radius]
        digests.append(again.digests()["task"])
    assert digests[0] != digests[1]


def test_an_edited_file_does_not_change_the_run(own_files):
    folder, run = own_files
    config = as_read(AdaptationJob.build(RunSpec(**run)))
    (folder / "parts" / "windy.toml").write_text("wind_mps = [9.0, 9.0, 0.0]\n")
    assert AdaptationJob.from_config(config).scenario.settings.wind_mps == (1.0, 2.0, 0.0)


def test_a_run_of_another_version_names_it():
    config = as_read(AdaptationJob.build(RunSpec()))
    config["digests"]["scenario"] = "0123"
    with pytest.raises(InputError, match=r"conditions \(lafr-mjx 0\.2\.0 began it"):
        AdaptationJob.from_config(config, "0.2.0")
    with pytest.raises(InputError, match=r"conditions$"):
        AdaptationJob.from_config(config)


def test_what_is_too_large_is_known_by_its_fingerprint_only(own_files):
    folder, run = own_files
    with (folder / "eight.toml").open("a") as file:
        file.write("# " + "x" * 300_000 + "\n")
    config = as_read(AdaptationJob.build(RunSpec(**run)))
    assert "task" not in config["files"]
    assert AdaptationJob.from_config(config).task.name == "eight"
    (folder / "eight.toml").unlink()
    with pytest.raises(InputError, match=r"eight\.toml"):
        AdaptationJob.from_config(config)


@pytest.mark.parametrize(
    "table",
    [
        {"main": "../x.toml", "contents": {"../x.toml": "a = 1"}},
        {"main": "/x.toml", "contents": {"/x.toml": "a = 1"}},
        {"main": "x.toml", "contents": {"y.toml": "a = 1"}},
        {"main": "x.toml", "contents": {"x.toml": 3}},
        {"contents": {}},
        3,
    ],
)
def test_damaged_tables_are_refused(table, tmp_path):
    with pytest.raises(InputError, match=r"files\.task"):
        embedded_files.located({"run": dict(RUN), "files": {"task": table}})
    assert not list(tmp_path.rglob("x.toml"))


def test_the_samples_of_a_task_are_carried(tmp_path):
    angles = [2.0 * math.pi * k / 200 for k in range(200)]
    lines = [f"{2 * math.cos(a):.6f}, {2 * math.sin(a):.6f}, 1.5" for a in angles]
    (tmp_path / "ring.csv").write_text("\n".join(lines))
    (tmp_path / "ring.toml").write_text(
        'description = "ring"\n[path]\nkind = "samples"\nperiodic = true\nlap_s = 8.0\n'
        'file = "ring.csv"\n'
    )
    job = AdaptationJob.build(replace(RunSpec(**RUN), task=str(tmp_path / "ring.toml")))
    config = as_read(job)
    assert set(config["files"]["task"]["contents"]) == {"ring.toml", "ring.csv"}
    (tmp_path / "ring.csv").unlink()
    assert AdaptationJob.from_config(config).digests() == job.digests()


@pytest.mark.parametrize("table", ["run", "files", "digests"])
def test_a_table_that_is_none_is_named(table):
    config = as_read(AdaptationJob.build(RunSpec(**RUN)))
    with pytest.raises(InputError, match=rf"'{table}' is 3; it must be a table"):
        AdaptationJob.from_config(config | {table: 3})
