"""Batches of adaptations: the numbers of single runs, on any number of devices, never lost."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import clustered_ablation
import local_cluster
import pytest
from interrupted_ablation import SMALL

from lafr_mjx.ablation.plan import Plan
from lafr_mjx.ablation.table import read_results
from lafr_mjx.commands.ablate import Ablate
from lafr_mjx.commands.fly import Fly
from lafr_mjx.metrics import flight_metrics
from lafr_mjx.runs.rollout_file import load_rollout

SCRIPT = Path(__file__).parents[1] / "batched_runs.py"
INTERRUPTED = Path(__file__).parents[1] / "interrupted_ablation.py"
CLUSTERED = Path(__file__).parents[1] / "clustered_ablation.py"
# What is compared is the arithmetic, not its speed: programs that compile quickly.
QUICK = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"

FIGURES = ("rmse_m", "peak_error_m", "peak_speed_mps", "time_scale", "predicted_peak_error_m",
           "flight_time_s")  # fmt: skip


def batched_runs(devices, singles=""):
    flags = f"--xla_force_host_platform_device_count={devices} {QUICK}"
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(devices), singles], env=os.environ | {"XLA_FLAGS": flags},
        capture_output=True, text=True, timeout=1200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def on_two_devices():
    """Four runs of four methods on four plants, two on each device; and the same one by one."""
    return batched_runs(2, "singles")


def assert_same(batch, others, flights, tolerance):
    assert len(batch) == len(others) == 4
    for run, other in zip(batch, others, strict=True):
        for one, two in list(zip(run, other, strict=True))[:flights]:
            for key in FIGURES:
                assert one[key] == pytest.approx(two[key], abs=tolerance, nan_ok=True), key
            assert one["crashed"] == two["crashed"]


@pytest.mark.long
def test_a_batch_gives_the_numbers_of_single_runs(on_two_devices):
    batch, singles = on_two_devices["batch"], on_two_devices["singles"]
    # The first flight, and what one iteration of learning made of it: the second.
    assert_same(batch, singles, flights=2, tolerance=1e-4)
    for run, single in zip(batch, singles, strict=True):
        assert run[-1]["lap_time_s"] == pytest.approx(single[-1]["lap_time_s"], rel=0.02)
    # The four differ from each other, or this would prove little.
    assert len({round(run[1]["rmse_m"], 5) for run in batch}) == 4
    first, last = on_two_devices["programs"]
    assert first == last


@pytest.mark.long
def test_a_batch_is_the_same_on_four_devices(on_two_devices):
    four = batched_runs(4)
    assert_same(four["batch"], on_two_devices["batch"], flights=2, tolerance=1e-4)


@pytest.fixture(scope="module")
def resumed(tmp_path_factory):
    """An ablation that was interrupted, lost half a line, and went on."""
    folder = tmp_path_factory.mktemp("ablation") / "x"
    done = subprocess.run(
        [sys.executable, str(INTERRUPTED), str(folder)], env=os.environ | {"XLA_FLAGS": QUICK},
        capture_output=True, text=True, timeout=1200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "was cut short (24 bytes)" in " ".join(done.stdout.split())
    return folder


def test_an_interrupted_ablation_goes_on(resumed):
    results = read_results(resumed)
    assert [(r.method, len(r.iterations)) for r in results] == [("ours", 2), ("lotf", 2)]
    ours, lotf = results
    # The same plant, policy and noise in the first flight; then the methods part.
    assert ours.iterations[0]["rmse_m"] == lotf.iterations[0]["rmse_m"]
    assert ours.iterations[1]["rmse_m"] != lotf.iterations[1]["rmse_m"]
    assert json.loads((resumed / "summary.json").read_text())["runs"] == 2


def test_kept_flights_are_the_flights_of_the_results(resumed, vehicle):
    plan = Plan.of(Ablate(**SMALL)._asked())
    for run in read_results(resumed):
        rollout = load_rollout(resumed / "flights" / run.name / "001.npz")
        metrics = flight_metrics(rollout, plan.tasks["figure8"], vehicle.limits)
        assert metrics.rmse_m == pytest.approx(run.iterations[1]["rmse_m"])


def test_a_finished_ablation_flies_nothing(resumed, capsys):
    before = (resumed / "results.jsonl").read_bytes()
    Ablate(out=resumed, **SMALL).run()
    assert (resumed / "results.jsonl").read_bytes() == before
    assert "2 of them finished already" in " ".join(capsys.readouterr().out.split())


def kill_a_busy_worker(nodes, driver):
    """Kill one of two workers, on two nodes, while both fly."""
    ends = time.monotonic() + local_cluster.LIFE_S
    while time.monotonic() < ends and driver.poll() is None:
        busy = [local_cluster.flying(node) for node in nodes]
        if all(busy):
            busy[1][0].kill()
            return
        time.sleep(0.05)
    driver.kill()
    raise AssertionError(f"two nodes never flew at once: {driver.communicate()}")


OWN = """
from typing import Any, NamedTuple
import numpy as np
import lafr_mjx as lm
from flax import struct

@struct.dataclass
class Breeze(lm.AirPlugin):
    speed: float = 0.0

    def velocity(self, memory, point):
        return lm.Vec3(self.speed, 0.0, 0.0)

class Linear(NamedTuple):
    weight: Any

    @classmethod
    def create(cls, rng, inputs, outputs):
        return cls(np.float32(0.01 * rng.standard_normal((inputs, outputs))))

    def __call__(self, seen):
        return seen @ self.weight
"""


@pytest.mark.long
def test_a_users_own_parts_fly_in_other_processes_as_in_this_one(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(OWN)

    def flown(name, methods, **where):
        own = {"policy": f"{file}:Linear()", "plugins": (f"breeze={file}:Breeze(speed=4.0)",)}
        given = SMALL | own | {"methods": methods, "devices": None} | where
        return {run.method: run for run in Ablate(out=tmp_path / name, **given).run()}

    calm = Fly("figure8", scenario="nominal", engine="freebody", seed=100).fly()
    two = flown("two", ("ours", "lotf"), processes=2)
    (here,) = flown("here", ("ours",), devices=1).values()
    assert two.keys() == {"ours", "lotf"} and "Linear" in here.command
    for key in FIGURES[:3]:
        first, there = here.table[key][0], two["ours"].table[key][0]
        assert there == pytest.approx(first, rel=1e-3), key
    for run in two.values():
        assert run.table["rmse_m"][0] > 2.0 * calm["rmse_m"], "the breeze is felt"
        assert run.table["rmse_m"][1] < run.table["rmse_m"][0], "and learned"


@pytest.mark.long
def test_a_cluster_loses_nothing_when_a_worker_is_killed(resumed, tmp_path):
    folder = tmp_path / "x"
    env = local_cluster.environment() | {"XLA_FLAGS": QUICK}
    with local_cluster.two_nodes(env) as (address, nodes):
        driver = subprocess.Popen(
            [sys.executable, str(CLUSTERED), str(folder), address], env=env, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            kill_a_busy_worker(nodes, driver)
            # None was finished: what the killed one flew was lost with it.
            assert not (folder / "results.jsonl").exists()
            _, errors = driver.communicate(timeout=local_cluster.LIFE_S)
        finally:
            driver.kill()
    assert driver.returncode == 0, errors
    results = {run.name: run for run in read_results(folder)}  # refuses doubles
    assert sorted(run.method for run in results.values()) == sorted(clustered_ablation.METHODS)
    # What the cluster flew is what this computer flew.
    here = read_results(resumed)
    assert {run.name for run in here} < set(results)
    for run in here:
        for one, two in zip(results[run.name].iterations, run.iterations, strict=True):
            assert one["rmse_m"] == pytest.approx(two["rmse_m"], abs=1e-4)


@pytest.mark.parametrize("silent", [False, pytest.param(True, marks=pytest.mark.long)])
def test_no_cluster_is_a_clear_message(tmp_path, silent):
    """At a port where nobody listens, and at one that takes connections and says nothing."""
    with socket.create_server(("", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1] if silent else 1}"
        code = (
            f"from lafr_mjx.cli import main; main(['ablate', '--ray', {address!r}, '--seeds', "
            f"'100', '--out', {str(tmp_path / 'x')!r}])"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=900
        )
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith(f"lafr-mjx: --ray {address}: no connection to a Ray cluster")
    assert len(done.stderr.splitlines()) == 1
