"""The whole loop on the simulated drone: it learns, it is repeatable, it survives interruption."""

import json
from dataclasses import replace

import jax
import numpy as np
import pytest

from lafr_mjx import batching
from lafr_mjx.adaptation.adaptation_job import AdaptationJob
from lafr_mjx.adaptation.adaptation_report import Report
from lafr_mjx.control.policy_file import load_policy
from lafr_mjx.errors import RunError
from lafr_mjx.learner import loop
from lafr_mjx.learner.ats_paper import Paper
from lafr_mjx.run_spec import RunSpec
from lafr_mjx.runs.run_folder import RunFolder

SPEC = RunSpec("figure8", "wind5", iterations=4, seed=100, engine="freebody")


def flown(path, job, stop_before=None):
    """Begin a run, without a word, and fly it; `stop_before` plays a user who interrupts."""

    class Quiet(Report):
        def before(self, iteration):
            if iteration == stop_before:
                raise KeyboardInterrupt

    resumed = (path / "config.toml").exists()
    with (
        RunFolder.open(path, resume=True) if resumed else RunFolder.create(path, job.config())
    ) as folder:
        (AdaptationJob.from_config(folder.config) if resumed else job).work(folder, Quiet())
    return without_wall_time(path)


def job_of(**changes):
    return AdaptationJob.build(replace(SPEC, **changes))


def without_wall_time(folder):
    lines = (folder / "iterations.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k != "wall_s"} for line in lines]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "whole"
    flown(path, job_of())
    return path


def test_one_update_removes_most_of_the_wind_error(finished):
    records = without_wall_time(finished)
    assert [r["iteration"] for r in records] == [0, 1, 2, 3]
    assert not any(r["crashed"] for r in records)
    # The claim of the paper: 0.06 m after a single update, at the same time scale.
    assert records[0]["rmse_m"] > 0.2
    assert records[1]["time_scale"] == records[0]["time_scale"]
    assert records[1]["rmse_m"] <= 0.06
    assert records[3]["peak_speed_mps"] > records[0]["peak_speed_mps"]


def test_records_carry_the_promised_keys(finished):
    promised = {
        "iteration", "flight_time_s", "time_scale", "lap_time_s", "reference_lap_s",
        "peak_speed_mps", "rmse_m", "peak_error_m", "rate_saturation", "thrust_saturation",
        "crashed", "slow_down_factor", "fallback", "residual_loss", "predicted_peak_error_m",
        "bound_by", "wall_s",
    }  # fmt: skip
    for line in (finished / "iterations.jsonl").read_text().splitlines():
        assert promised <= set(json.loads(line))


def test_an_interrupted_run_ends_as_an_undisturbed_one(finished, tmp_path):
    job, path = job_of(), tmp_path / "interrupted"
    with pytest.raises(KeyboardInterrupt):
        flown(path, job, stop_before=2)
    # An iteration that was flown and written, but whose learning was not stored, is flown again.
    with (path / "iterations.jsonl").open("a") as file:
        file.write('{"iteration": 2, "rmse_m"')
    assert flown(path, job) == without_wall_time(finished)
    first, second = load_policy(finished / "policy.npz"), load_policy(path / "policy.npz")
    for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_learner_gets_nothing_but_what_was_sensed(finished):
    """Truth and diagnostics of the flight are blanked before the learner sees it."""
    with RunFolder.open(finished) as folder:
        rollout = folder.load_rollout(1)
    seen = loop._seen(rollout)
    assert seen.diagnostics is None
    np.testing.assert_array_equal(seen.truth.position, seen.sensed.position)
    # And the truth differs from what was sensed, or this test would prove nothing.
    assert np.abs(np.asarray(rollout.truth.position) - rollout.sensed.position).max() > 1e-3


def test_all_methods_share_one_program(finished):
    """Switching parts of the method off changes leaves, not the program."""
    from lafr_mjx.learner import methods

    count = batching.compiled()
    job = job_of(method="lotf", iterations=1)
    structures = {
        str(jax.tree.structure(methods.settings_of(name)))
        for name in ("ours", "baseline", "lotf", "anchor-only", "residual-only")
    }
    assert len(structures) == 1
    flown(finished.parent / "lotf", job)
    assert batching.compiled() == count


def test_hold_keeps_the_time_scale(finished):
    job = job_of(ats="hold", iterations=3)
    records = flown(finished.parent / "hold", job)
    assert {r["time_scale"] for r in records} == {job.task.start_time_scale}
    assert {r["bound_by"] for r in records} == {"held"}
    assert records[2]["rmse_m"] < records[0]["rmse_m"] / 2.0


def test_the_printed_rule_steps_by_its_gradient(finished):
    records = flown(finished.parent / "paper", job_of(ats="paper", iterations=3))
    scales = [r["time_scale"] for r in records]
    # Far below the threshold: nearly a step of η λ_speed in α, of which the barrier takes some.
    largest = Paper().learning_rate * Paper().speed_weight
    assert -largest <= scales[2] - scales[1] < -0.75 * largest
    assert records[1]["bound_by"] == "speed"


def test_the_classical_controller_learns_only_its_speed(finished):
    path = finished.parent / "geometric"
    records = flown(path, job_of(method="geometric", reference="fixed", iterations=3))
    assert not any(r["crashed"] for r in records)
    assert records[-1]["time_scale"] < 0.95 * records[0]["time_scale"]
    assert records[-1]["peak_speed_mps"] > 1.1 * records[0]["peak_speed_mps"]
    # What the model predicts of the controller is what it then does.
    for record in records[1:]:
        assert record["peak_error_m"] < 2.0 * record["predicted_peak_error_m"] + 0.02
    assert not (path / "policy.npz").exists()


@pytest.mark.long
def test_a_rule_that_gives_no_number_ends_the_run_in_a_line(tmp_path):
    (tmp_path / "rules.py").write_text(
        "from lafr_mjx.learner.ats_hold import Hold\n\n\nclass Lost(Hold):\n"
        "    def choose(self, *seen):\n"
        "        choice = super().choose(*seen)\n"
        "        return choice._replace(pace=choice.pace._replace(time_scale=float('nan')))\n"
    )
    job = job_of(ats=f"{tmp_path}/rules.py:Lost()", iterations=2)
    with pytest.raises(RunError, match=r"Lost\(\): gave the time scale nan after flight 0"):
        flown(tmp_path / "run", job)
    assert len(without_wall_time(tmp_path / "run")) == 1
