"""Batches of adaptations: the numbers of single runs, on any number of devices, never lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from interrupted_ablation import SMALL

from lafr_mjx.experiments.ablate import Ablate
from lafr_mjx.experiments.ablation_plan import Plan
from lafr_mjx.experiments.ablation_table import read_results
from lafr_mjx.experiments.rollout_file import load_rollout
from lafr_mjx.metrics import flight_metrics

SCRIPT = Path(__file__).parents[1] / "batched_runs.py"
INTERRUPTED = Path(__file__).parents[1] / "interrupted_ablation.py"
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


def test_a_batch_gives_the_numbers_of_single_runs(on_two_devices):
    batch, singles = on_two_devices["batch"], on_two_devices["singles"]
    # The first flight, and what one iteration of learning made of it: the second.
    assert_same(batch, singles, flights=2, tolerance=1e-4)
    for run, single in zip(batch, singles, strict=True):
        assert run[-1]["lap_time_s"] == pytest.approx(single[-1]["lap_time_s"], rel=0.02)
    # The four differ from each other, or this would prove little.
    assert len({round(run[1]["rmse_m"], 3) for run in batch}) == 4
    assert on_two_devices["programs"] == 1


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


@pytest.fixture
def two_nodes(monkeypatch):
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("XLA_FLAGS", QUICK)  # for the workers
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "node_ip_address": "127.0.0.1", "object_store_memory": 100 * 2**20}
    cluster = Cluster(initialize_head=True, head_node_args=node | {"include_dashboard": False})
    cluster.add_node(**node)
    yield cluster
    cluster.shutdown()


def kill_a_busy_worker(found: list[int], over: threading.Event) -> None:
    """Kill one of this process's Ray workers while it flies a chunk."""
    import psutil

    while not over.is_set():
        for child in psutil.Process().children(recursive=True):
            try:
                title = " ".join(child.cmdline())
                if title.startswith("ray::") and "_fly" in title:
                    child.kill()
                    found.append(child.pid)
                    return
            except psutil.Error:
                continue
        time.sleep(0.05)


@pytest.mark.skipif(
    os.environ.get("LAFR_MJX_RAY") != "1",
    reason="LAFR_MJX_RAY=1 runs it: the driver was seen to hang while it connects to the cluster",
)
def test_a_cluster_loses_nothing_when_a_worker_is_killed(two_nodes, resumed, tmp_path):
    many = SMALL | {"methods": ("ours", "lotf", "baseline"), "devices": None}
    killed: list[int] = []
    over = threading.Event()
    killer = threading.Thread(target=kill_a_busy_worker, args=(killed, over))
    killer.start()
    try:
        Ablate(out=tmp_path / "x", ray=two_nodes.address, **many).run()
    finally:
        over.set()
        killer.join()
    assert len(killed) == 1
    results = {run.name: run for run in read_results(tmp_path / "x")}  # refuses doubles
    assert {run.method for run in results.values()} == set(many["methods"])
    # What the cluster flew is what this computer flew.
    for run in read_results(resumed):
        for one, two in zip(results[run.name].iterations, run.iterations, strict=True):
            assert one["rmse_m"] == pytest.approx(two["rmse_m"], abs=1e-4)


def test_no_cluster_is_a_clear_message(tmp_path):
    code = (
        "from lafr_mjx.cli import main; main(['ablate', '--ray', '127.0.0.1:1', '--seeds', '100', "
        f"'--out', {str(tmp_path / 'x')!r}])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2, done.stderr
    assert "--ray 127.0.0.1:1: no connection to a Ray cluster" in done.stderr
    assert "Traceback" not in done.stderr
