"""What a run writes beside its own record."""

from __future__ import annotations

import csv
import json
import sys

import pytest
from needs import require_module
from test_full_disk import disk, flown, fly, quick  # noqa: F401 (fixtures)

import lafr_mjx as lm
from lafr_mjx.adaptation.adaptation_job import AdaptationJob
from lafr_mjx.commands.adapt import Adapt
from lafr_mjx.errors import InputError
from lafr_mjx.runs.run_folder import RunFolder, read_config

MINE = """
class Mine:
    def __init__(self, fails="never", name="mine.txt"):
        self.fails, self.name = fails, name

    def start(self, folder, config):
        self.file = (folder / self.name).open("w")
        self.say("start", config["run"]["seed"])

    def iteration(self, number, record, flight):
        self.say("iteration", number, record["iteration"], len(flight.time) > 100)

    def close(self):
        self.say("close")
        self.file.close()

    def say(self, method, *more):
        if method == self.fails:
            raise OSError("no more paper")
        print(method, *more, file=self.file, flush=True)

class Half:
    def start(self, folder, config): pass
"""


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return path


def job_of(*log: str, iterations: int = 2) -> AdaptationJob:
    spec = lm.RunSpec("figure8", "nominal", reference="fixed", engine="freebody",
                      iterations=iterations, log=log)  # fmt: skip
    spec.check()
    return AdaptationJob.build(spec)


def scalars(folder) -> dict[str, list[tuple[int, float]]]:
    """Curves of event files; each entry is a length, a checksum, an event and a checksum."""
    from tensorboardX.proto.event_pb2 import Event  # type: ignore[import-not-found]

    found: dict[str, list[tuple[int, float]]] = {}
    for file in folder.glob("events.*"):
        data = file.read_bytes()
        while data:
            size = int.from_bytes(data[:8], "little")
            event, data = Event.FromString(data[12 : 12 + size]), data[16 + size :]
            for value in event.summary.value:
                found.setdefault(value.tag, []).append((event.step, value.simple_value))
    return found


@pytest.mark.usefixtures("quick")
def test_a_run_that_goes_on_continues_its_logs(tmp_path, mine, disk, capfd):  # noqa: F811
    require_module("tensorboardX", "tensorboard")
    texts = ("csv", "tensorboard", f"{mine}:Mine(name='a.txt')")
    run = tmp_path / "run"
    fly(job_of(*texts, iterations=2), run, disk)
    with RunFolder.open(run, resume=True) as folder:
        longer = Adapt(resume=run, iterations=3)._resumed(folder)
    assert longer.spec.log == texts
    fly(longer, run, disk)
    records = [json.loads(line) for line in (run / "iterations.jsonl").read_text().splitlines()]
    with (run / "iterations.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["iteration"] for row in rows] == ["0", "1", "2"]
    assert [float(row["rmse_m"]) for row in rows] == [record["rmse_m"] for record in records]
    assert "candidates" not in rows[0] and rows[0]["bound_by"] == records[0]["bound_by"]
    curves = scalars(run / "tensorboard")
    assert [step for step, _ in curves["peak_speed_mps"]] == [0, 1, 2]
    speeds = [record["peak_speed_mps"] for record in records]
    assert [value for _, value in curves["peak_speed_mps"]] == pytest.approx(speeds)
    told = [f"iteration {i} {i} True" for i in range(3)]
    assert (run / "a.txt").read_text().splitlines() == ["start 0", *told, "close"]
    assert AdaptationJob.from_config(read_config(run / "config.toml")[0]).spec.log == texts
    assert "--log" not in capfd.readouterr().out


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("method", ["start", "iteration", "close"])
def test_a_writer_that_fails_is_named_and_the_run_goes_on(tmp_path, mine, disk, method, capfd):  # noqa: F811
    text, run = f"{mine}:Mine(fails='{method}')", tmp_path / "run"
    fly(job_of(text, "csv"), run, disk)
    lines = [line for line in capfd.readouterr().out.splitlines() if line.startswith("--log")]
    assert len(lines) == 1
    assert lines[0].startswith(f"--log {text}: '{method}' fails: OSError: no more paper (")
    assert [record["iteration"] for record in RunFolder.open(run).iterations()] == [0, 1]
    assert len((run / "iterations.csv").read_text().splitlines()) == 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("excel", "--log excel: must be one of csv, tensorboard, or your own as FILE.py:CLASS"),
        ("mine.py:Half", "has no 'iteration': it is no log writer"),
        ("mine.py:Mine(paper=3)", "its parameters are fails, name"),
        ("nowhere.py:Mine", "there is no file"),
    ],
)
def test_what_is_no_writer_is_refused_before_a_folder_is_made(mine, monkeypatch, text, words):
    monkeypatch.chdir(mine.parent)
    with pytest.raises(InputError, match=words):
        lm.adapt("figure8", log=text, out="run")
    assert not (mine.parent / "run").exists()


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(InputError, match=r"--log tensorboard: needs tensorboardX: pip install"):
        job_of("tensorboard")


def test_a_study_has_no_folders_to_write_logs_in():
    with pytest.raises(InputError, match="ablate: there is no option 'log'"):
        lm.ablate("figure8", log="csv")
