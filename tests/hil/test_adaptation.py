# pyright: reportOptionalMemberAccess=false, reportArgumentType=false, reportOptionalSubscript=false
"""Adaptations through the wire, in lockstep: the whole way, and a learner that diverges."""

import json

import numpy as np
from adaptation_rig import adapt, events
from own_network import written

from lafr_mjx.control.policy_file import load_policy, stored_network
from lafr_mjx.hil.recording.bags import flights as bagged
from lafr_mjx.hil.recording.bags import read_records
from lafr_mjx.runs.run_folder import RunFolder

KEYS = {
    "iteration", "flight_time_s", "time_scale", "lap_time_s", "reference_lap_s", "peak_speed_mps",
    "rmse_m", "peak_error_m", "peak_path_distance_m", "rate_saturation", "thrust_saturation",
    "crashed", "slow_down_factor", "fallback", "residual_loss", "predicted_peak_error_m",
    "bound_by", "inflation", "refused_time_scale", "new_policy", "candidates",
    "candidate_nominal_errors_m", "candidate_stressed_errors_m", "wall_s",
}  # fmt: skip


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
    assert all(np.isfinite(layer.weight).all() for layer in learned.network.layers)
    assert summary["iterations"] == 2 and summary["crashes"] == 0
    assert summary["hil"]["learning_frozen"] == "" and summary["hil"]["trips"] == []
    assert summary["last_rmse_m"] < summary["first_rmse_m"]
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
    assert "lapped on 0." in lines and 0.0 < summary["hil"]["most_laps_meanwhile"] < 1.0
    assert " laps meanwhile" in events(tmp_path)
    from lafr_mjx.view.replay import load_replay

    assert len(load_replay(folder.path).flights) == 2
    shown = load_replay(folder.path / "hil" / "flight.bag", "figure8")
    assert [flight.number for flight in shown.flights] == [0, 1]


def test_a_learner_that_diverges_is_frozen(tmp_path):
    summary = adapt(tmp_path, 3, ["learner-nan@0"])
    assert "not finite" in summary["hil"]["learning_frozen"]
    assert "learning is frozen" in events(tmp_path)
    records = RunFolder.open(tmp_path / "run").iterations()
    assert len(records) == 3 and records[1]["residual_loss"] is None
    assert {r["time_scale"] for r in records} == {1.0}, "the last good time scale"
    learned = load_policy(tmp_path / "run" / "policy.npz")
    assert all(np.isfinite(layer.weight).all() for layer in learned.network.layers)


def test_parts_of_ones_own_fly(tmp_path):
    network = f"{written(tmp_path)}:Twice(width=64)"
    summary = adapt(tmp_path, policy=network, features="body", ats="hold")
    assert summary["crashes"] == 0
    folder = RunFolder.open(tmp_path / "run")
    assert {record["time_scale"] for record in folder.iterations()} == {1.0}, "held"
    assert stored_network(folder.path / "policy.npz") == network
    assert stored_network(folder.path / "hil" / "leg-001-policy.npz") == network
    assert folder.config["run"]["policy"] == network and folder.config["run"]["ats"] == "hold"
