# pyright: reportOptionalMemberAccess=false, reportArgumentType=false, reportOptionalSubscript=false
"""Adaptations through the wire, in real time: the whole way, and a learner that dies.

Small effort: what is learned in it is not much, but every step is there.
"""

import json
import re

import numpy as np
import pytest
from realtime_rig import PATIENT

from lafr_mjx.control.policy_file import load_policy
from lafr_mjx.errors import RunError
from lafr_mjx.hil.bags import flights as bagged
from lafr_mjx.hil.bags import read_records
from lafr_mjx.hil.commands.fly import Fly
from lafr_mjx.hil.flights import Flights, fly_adaptation
from lafr_mjx.hil.learner_faults import split
from lafr_mjx.hil.profile import load_profile
from lafr_mjx.resources import data_folder
from lafr_mjx.runs.run_folder import RunFolder
from lafr_mjx.tasks import load_task

EFFORT = (40, 32, 6, 8, 12)  # fields of Sizes: seconds instead of many seconds
KEYS = {
    "iteration", "flight_time_s", "time_scale", "lap_time_s", "reference_lap_s", "peak_speed_mps",
    "rmse_m", "peak_error_m", "rate_saturation", "thrust_saturation", "crashed", "residual_loss",
    "predicted_peak_error_m", "bound_by", "inflation", "trust_region", "new_policy", "candidates",
    "candidate_nominal_errors_m", "candidate_stressed_errors_m", "wall_s",
}  # fmt: skip


def adapt(tmp_path, iterations=2, faults=(), learner_s=60.0):
    text = (data_folder("hil") / "sim.toml").read_text(encoding="utf-8")
    file = tmp_path / "drone.toml"
    file.write_text(re.sub(r"learner_s = .*", f"learner_s = {learner_s}", text), encoding="utf-8")
    profile = load_profile(str(file))
    task = load_task("figure8", profile.command.limits)
    flights = Flights(profile, task, "figure8", "wind5", seed=100, patient=PATIENT)
    config = Fly(vehicle=str(file), scenario="wind5", seed=100, iterations=iterations)
    folder = RunFolder.create(tmp_path / "run", config._config(profile))
    (folder.path / "hil").mkdir()
    _, injected = split(list(faults))
    try:
        return fly_adaptation(flights, folder, "ours", iterations, injected, EFFORT)
    finally:
        folder.close()


def events(tmp_path):
    return (tmp_path / "run" / "hil" / "events.txt").read_text(encoding="utf-8")


def test_a_short_adaptation_and_what_it_leaves(tmp_path, capsys):
    summary = adapt(tmp_path)
    folder = RunFolder.open(tmp_path / "run")
    records = folder.iterations()
    assert [r["iteration"] for r in records] == [0, 1]
    assert set(records[0]) >= KEYS and records[0]["residual_loss"] > 0.0
    assert folder.rollout_numbers() == [0, 1]
    rollout = folder.load_rollout(1)
    assert np.array_equal(rollout.truth.position, rollout.sensed.position), "nobody knows better"
    learned = load_policy(folder.path / "policy.npz")
    assert all(np.isfinite(layer.weight).all() for layer in learned.layers)
    assert summary["iterations"] == 2 and summary["crashes"] == 0
    assert summary["hil"]["learning_frozen"] == ""
    assert json.loads((folder.path / "summary.json").read_text())["hil"]["trouble"] == ""
    assert any((folder.path / "plots").iterdir())
    # Laps between two legs are in the bag, and belong to no flight.
    records = list(read_records(folder.path / "hil" / "flight.bag"))
    commands = sum(r.topic.endswith("feedthrough_command") for r in records)
    in_flights = sum(len(r.time) for r in bagged(records).values())
    assert commands > in_flights + 100
    assert "CRASHED" not in (folder.path / "hil" / "drone.txt").read_text()
    lines = capsys.readouterr().out
    assert "2 of 2 flights" in lines and "bound by" in lines
    from lafr_mjx.view.replay import load_replay

    assert len(load_replay(folder.path).flights) == 2


def test_a_killed_learner_the_drone_laps_on_hovers_lands(tmp_path, capsys):
    with pytest.raises(RunError, match=r"learner's process has ended with status -9.*landed"):
        adapt(tmp_path, 5, ["learner-kill@16"], learner_s=6.0)
    told = events(tmp_path)
    moments = {
        name: float(re.search(rf"([0-9.]+) s  {what}", told)[1])
        for name, what in {
            "death": "the learner's process has ended",
            "hover": r"policy → hover \(the learner is silent",
            "off": "land → off",
        }.items()
    }
    lapped = moments["hover"] - moments["death"]
    assert "fault LEARNER" in told
    # Its last sign of life was up to a stage of its work before its death.
    assert 1.0 < lapped < 7.0, "the last good policy keeps flying, for a bounded time"
    assert moments["off"] - moments["hover"] < 20.0
    folder = RunFolder.open(tmp_path / "run")
    assert len(folder.iterations()) == len(folder.rollout_numbers()) >= 1
    ticks = [r for r in read_records(folder.path / "hil" / "flight.bag")
             if r.topic.endswith("feedthrough_command")]  # fmt: skip
    assert len(ticks) > 600, "the log is complete"
    log = (folder.path / "hil" / "drone.txt").read_text()
    assert "CRASHED" not in log and "idle, disarmed" in log.splitlines()[-2]
    with capsys.disabled():
        print(f"\n  learner killed: lapped on for {lapped:.1f} s, off "
              f"{moments['off'] - moments['hover']:.1f} s after that")  # fmt: skip


def test_a_learner_that_diverges_is_frozen(tmp_path):
    summary = adapt(tmp_path, 3, ["learner-nan@0"])
    assert "not finite" in summary["hil"]["learning_frozen"]
    assert "learning is frozen" in events(tmp_path)
    records = RunFolder.open(tmp_path / "run").iterations()
    assert len(records) == 3 and records[1]["residual_loss"] is None
    assert {r["time_scale"] for r in records} == {1.0}, "the last good time scale"
    learned = load_policy(tmp_path / "run" / "policy.npz")
    assert all(np.isfinite(layer.weight).all() for layer in learned.layers)
