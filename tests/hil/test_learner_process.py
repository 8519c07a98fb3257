# pyright: reportOptionalMemberAccess=false, reportArgumentType=false
"""The learner's process seen from the operator's, without a flight; what `compare` judges by."""

import json
import subprocess
import sys
import threading
import time

import pytest
from waiting import has_ended, wait_for

from lafr_mjx.errors import InputError, RunError
from lafr_mjx.hil.commands.compare import compared
from lafr_mjx.hil.commands.fly_drone import Fly
from lafr_mjx.hil.operator.learner_faults import split
from lafr_mjx.hil.operator.learner_setup import LearnerSetup
from lafr_mjx.hil.safety.drone_profile import load_profile
from lafr_mjx.learner.improve import Sizes
from lafr_mjx.run_spec import RunSpec


def test_faults_of_the_learner_are_told_from_the_drones():
    drone, learner = split(["mocap-drop@12:0.5", "learner-kill@20", "learner-nan@3"])
    assert drone == ["mocap-drop@12:0.5"]
    assert [(f.kind, f.at) for f in learner] == [("learner-kill", 20.0), ("learner-nan", 3.0)]
    for bad in ("learner-kill", "learner-kill@x", "learner-kill@1e9", "learner-dance@3"):
        with pytest.raises(InputError, match="KIND@SECONDS"):
            split([bad])


def test_setup_through_a_file(tmp_path):
    spec = RunSpec("shuttle", method="lotf", ats="hold", horizon=12, seed=3, engine="hil")
    setup = LearnerSetup("sim", spec, effort=(1, 2, 3), break_at=4)
    setup.write(tmp_path / "learner.json")
    assert LearnerSetup.read(tmp_path / "learner.json") == setup
    told = json.loads((tmp_path / "learner.json").read_text())
    assert told["run"] == spec.table(), "in the words of a run's configuration"
    worse = json.dumps(told | {"run": told["run"] | {"horizon": 3}})
    for bad in ('{"profile": 3', "[]", '{"profile": "sim"}', worse):
        (tmp_path / "learner.json").write_text(bad, encoding="utf-8")
        with pytest.raises(InputError, match="setup of a learner"):
            LearnerSetup.read(tmp_path / "learner.json")


def test_effort_of_a_setup():
    assert LearnerSetup("sim", RunSpec()).sizes() == Sizes()
    assert LearnerSetup("sim", RunSpec(horizon=12)).sizes() == Sizes(horizon=12)
    assert LearnerSetup("sim", RunSpec(), (1, 2, 3, 4, 5)).sizes() == Sizes(1, 2, 3, 4, 5)


def test_a_learner_that_cannot_start_says_why(tmp_path):
    from lafr_mjx.hil.operator.drone_adaptation import wait_warm
    from lafr_mjx.hil.operator.learner_process import LearnerProcess

    setup = LearnerSetup("sim", RunSpec("no-such-task", engine="hil"))
    with (
        LearnerProcess(setup, tmp_path) as learner,
        pytest.raises(RunError, match="no-such-task"),
    ):
        wait_warm(learner, lambda text: None, 120.0)


def test_comparison_is_judged_by_speed_crashes_and_trips(tmp_path):
    common = {
        "first_peak_speed_mps": 2.0, "last_peak_speed_mps": 8.0, "last_lap_time_s": 2.3,
        "first_rmse_m": 0.3, "last_rmse_m": 0.05, "flight_time_s": 100.0, "iterations": 12,
        "crashes": 0,
    }  # fmt: skip

    def folder(name, speed, crashes=0, trips=()):
        path = tmp_path / name
        path.mkdir(exist_ok=True)
        hil = {"trips": list(trips), "missed_deadlines": 0}
        figures = common | {"last_peak_speed_mps": speed, "crashes": crashes, "hil": hil}
        (path / "summary.json").write_text(json.dumps(figures))
        return path

    simulated = folder("a", 8.0)
    assert compared(simulated, folder("b", 7.2))["good"]
    assert "89" in compared(simulated, folder("b", 7.15))["why"]
    assert "crash" in compared(simulated, folder("b", 8.0, crashes=1))["why"]
    assert "FENCE" in compared(simulated, folder("b", 8.0, trips=["fault FENCE: x"]))["why"]


def test_options_that_contradict(tmp_path):
    command = [sys.executable, "-m", "lafr_mjx.hil", "fly", "--fixed", "--fault", "learner-kill@3"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=600)
    assert done.returncode == 2 and "no learner" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_learner_that_hangs_is_not_told_from_a_dead_one(tmp_path):
    """Signs of life come from its main thread: whoever stands still is silent."""
    from lafr_mjx.hil.operator.learner_process import LearnerProcess

    class Watcher:
        heard: list[str]

        def __init__(self):
            self.heard, self.stage = [], ""

        def learner(self, state):
            self.heard.append(state)

    learner = LearnerProcess(LearnerSetup("sim", RunSpec()), tmp_path)
    try:
        watcher = Watcher()
        learner.watch_by(watcher)
        assert watcher.heard == ["cold"]
        learner._take({"beat": True})
        assert watcher.heard == ["cold"], "a cold learner's beat does not make it warm"
        learner._take({"warm": True})
        learner._take({"beat": True})
        assert watcher.heard == ["cold", "warm", "warm"]
        learner.hang()
        before = len(watcher.heard)
        time.sleep(1.0)
        assert len(watcher.heard) == before
    finally:
        learner.close()
    assert watcher.heard[-1] == "none"
    assert not any(t.name == "learner" and t.is_alive() for t in threading.enumerate())


def test_no_learner_is_left_behind(tmp_path):
    """The operator's process is killed while the learner prepares, which takes long."""
    script = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from lafr_mjx.hil.operator.learner_process import LearnerProcess\n"
        "from lafr_mjx.hil.operator.learner_setup import LearnerSetup\n"
        "from lafr_mjx.run_spec import RunSpec\n"
        "learner = LearnerProcess(LearnerSetup('sim', RunSpec(seed=123)), Path(sys.argv[1]))\n"
        "print(learner.process.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    operator = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    learner = int(operator.stdout.readline())
    time.sleep(5.0)
    assert not has_ended(learner)
    operator.kill()
    operator.wait()
    wait_for(lambda: has_ended(learner), what="the learner's end")


def test_a_flight_cannot_be_resumed():
    from lafr_mjx.adaptation.adaptation_job import AdaptationJob

    config = Fly(scenario="wind5", seed=100)._config(load_profile("sim"))
    assert config["run"]["engine"] == "hil" and config["hil"]["learns"]
    with pytest.raises(InputError, match="cannot be resumed"):
        AdaptationJob.from_config(config)
