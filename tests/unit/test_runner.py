"""Many jobs: wherever they run, none is lost, and what failed is told at the end."""

from __future__ import annotations

import io
import multiprocessing
import pickle
import subprocess
import sys

import numpy as np
import pytest
from plugin_source import SOURCE
from rich.console import Console
from runner_jobs import FLIGHT, job

from lafr_mjx.ablation import work
from lafr_mjx.ablation.chunk import FlownRun
from lafr_mjx.adaptation import folder_runs
from lafr_mjx.commands.ablate import Ablate
from lafr_mjx.control.policy import create_policy
from lafr_mjx.errors import RunError
from lafr_mjx.run_spec import RunSpec
from lafr_mjx.runner.display import Display, run_line
from lafr_mjx.runner.here import Here
from lafr_mjx.runner.job import Outcome
from lafr_mjx.runner.processes import Processes
from lafr_mjx.runner.run_all import run_all
from lafr_mjx.runs.run_folder import RunFolder

LOST = FLIGHT | {"lap_time_s": None, "crashed": True}


class Counting(Display):
    """A display that remembers the flights."""

    def __init__(self, console, *numbers):
        super().__init__(console, *numbers)
        self.flights = []

    def flown(self, flights):
        super().flown(flights)
        self.flights.append(flights)


def run(backend, names, store=lambda result: result):
    """Runs jobs; returns what was printed, the flights that were told, and the error."""
    console = Console(file=io.StringIO(), highlight=False)
    error = None
    with Counting(console, len(names), 0, 2 * len(names)) as display:
        try:
            run_all([(backend, [job(name) for name in names])], display, store)
        except RunError as failure:
            error = str(failure)
    return console.file.getvalue().splitlines(), display.flights, error


@pytest.mark.parametrize("backend", [Here(), Processes(2)])
def test_one_that_fails_does_not_stop_the_others(backend):
    names = ["a", "lost1", "b", "odd", "lost2", "lost3", "lost4", "lost5"]
    lines, _, error = run(backend, names)
    assert {line.split(": ")[1] for line in lines} == {"a by drone", "b by drone"}
    assert [line.split(": ")[0] for line in lines] == ["1 of 8", "2 of 8"]
    assert error is not None
    head, *reasons = error.splitlines()
    assert head.startswith("6 runs not flown; what is finished is stored")
    told = {reason.split(": ", 1)[1]: reason.split(": ", 1)[0] for reason in reasons}
    assert set(told) == {"out of battery", "ValueError: no such thing"}
    assert told["ValueError: no such thing"] == "odd"
    assert told["out of battery"].endswith(" and 2 more")


def test_flights_are_told_when_they_are_made():
    assert run(Here(), ["a", "b"])[1] == [1, 1, 1, 1]
    assert run(Processes(1), ["a", "b"])[1] == [2, 2]


def test_an_interruption_ends_what_still_runs():
    console = Console(file=io.StringIO(), highlight=False)

    def store(result):
        raise KeyboardInterrupt

    with (
        pytest.raises(KeyboardInterrupt),
        Display(console, 3, 1, 4) as display,
    ):
        run_all([(Processes(2), [job("endless"), job("a")])], display, store)
    assert multiprocessing.active_children() == []
    assert console.file.getvalue() == (  # pyright: ignore
        "Interrupted: 1 of 3 runs stored. Go on with the same command.\n"
    )


def test_a_result_that_cannot_be_stored_is_an_error_at_once():
    def store(result):
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        run(Here(), ["a", "endless"], store)


@pytest.fixture
def nothing_flies(monkeypatch):
    def fly(chunk, devices, flown):
        flown(len(chunk.names))
        return [FlownRun(name, [FLIGHT] * chunk.specs[0].iterations, {}) for name in chunk.names]

    monkeypatch.setattr(work, "fly_chunk", fly)
    monkeypatch.setattr(work, "base_policies", lambda plan, runs, status: {"figure8": {}})


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


NETWORK = """
from typing import Any, NamedTuple
import numpy as np

class Plain(NamedTuple):
    weight: Any

    @classmethod
    def create(cls, rng, inputs, outputs):
        return cls(np.float32(0.01 * rng.standard_normal((inputs, outputs))))

    def __call__(self, seen):
        return seen @ self.weight
"""
UNDERSTOOD = """
import pickle, sys
from lafr_mjx.control.policy_file import from_bytes
from lafr_mjx.plant import user_plugins

job = pickle.load(sys.stdin.buffer)
(spec,) = job.arguments[0].specs
(plugin,) = user_plugins.build(spec.plugins).values()
print(type(plugin).__name__, from_bytes(job.shared[0]).network.weight.sum())
"""


def test_a_users_own_parts_are_understood_by_other_processes(tmp_path, monkeypatch):
    """Which have not read the user's file before."""
    file = tmp_path / "mine.py"
    file.write_text(SOURCE + NETWORK)

    def policies(plan, runs, status):
        limits, network = plan.vehicle.limits, plan.asked.common.policy
        return {"figure8": {0: create_policy(np.random.default_rng(0), limits, network)}}

    class Sent(Exception):
        """The jobs."""

    def send(stages, display, store):
        raise Sent(*stages[0][1])

    monkeypatch.setattr(work, "base_policies", policies)
    monkeypatch.setattr(work, "run_all", send)
    own = {"policy": f"{file}:Plain()", "plugins": (f"draught={file}:Draught(share=0.5)",)}
    with pytest.raises(Sent) as sent:
        ablate(tmp_path / "x", methods=("ours",), **own)
    (one,) = sent.value.args
    done = subprocess.run([sys.executable, "-c", UNDERSTOOD], input=pickle.dumps(one),
                          capture_output=True, check=True)  # fmt: skip
    name, weight = done.stdout.decode().split()
    wanted = np.float32(0.01 * np.random.default_rng(0).standard_normal((61, 4))).sum()
    assert name == "Draught" and float(weight) == pytest.approx(wanted, rel=1e-4)


def test_run_folders_go_on_and_the_first_may_fly_alone(tmp_path, monkeypatch, capsys):
    specs = [RunSpec("figure8", "nominal", seed=seed, iterations=2) for seed in (0, 1, 2)]
    stages = []

    def outcomes(self, jobs, flown):
        stages.append((self.count, len(jobs)))
        for one in jobs:
            spec, folder = one.arguments
            with RunFolder.create(folder / spec.name, {"run": spec.table()}) as made:
                for _ in range(spec.iterations):
                    made.append_iteration(FLIGHT)
            yield Outcome(one, spec)

    monkeypatch.setattr(Processes, "outcomes", outcomes)
    console = Console(highlight=False)
    folder_runs.fly_folders(specs[:2], tmp_path, 3, console, first_alone=True)
    folder_runs.fly_folders(specs, tmp_path, 3, console, first_alone=True)
    folder_runs.fly_folders(specs, tmp_path, 3, console)
    assert stages == [(1, 1), (3, 1), (3, 1)]
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(": last lap 2.50 s")[0] for line in lines] == [
        f"{which}: figure8-nominal-ours-seed{seed}"
        for which, seed in (("1 of 2", 0), ("2 of 2", 1), ("3 of 3", 2))
    ]


def test_the_line_of_a_run_that_crashed():
    line = run_line(3, 9, "run", [LOST])
    assert line == "3 of 9: run: no lap, peak 3.00 m/s, 1 of 1 flight crashed"
