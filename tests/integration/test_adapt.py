"""The whole loop on the simulated drone: it learns, it is repeatable, it survives interruption."""

import json

import jax
import numpy as np
import pytest

from lafr_mjx import batching
from lafr_mjx.adaptation.adaptation_job import AdaptationJob
from lafr_mjx.control.policy_file import load_policy
from lafr_mjx.errors import InputError, RunError
from lafr_mjx.learner import loop
from lafr_mjx.run_spec import RunSpec
from lafr_mjx.runs.run_folder import RunFolder

RUN = {
    "task": "figure8",
    "scenario": "wind5",
    "vehicle": "lafr192",
    "method": "ours",
    "iterations": 4,
    "seed": 100,
    "engine": "freebody",
    "ats": "verified",
    "plant": 0,
}


class Quiet:
    """A report that says nothing; `stop_before` plays a user who interrupts."""

    def __init__(self, stop_before=None):
        self.stop_before = stop_before

    def ready(self, text):
        pass

    def stage(self, name):
        pass

    def before(self, iteration):
        if iteration == self.stop_before:
            raise KeyboardInterrupt

    def after(self, record):
        pass


def without_wall_time(folder):
    lines = (folder / "iterations.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k != "wall_s"} for line in lines]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "whole"
    job = AdaptationJob.build(RunSpec(**RUN))
    with RunFolder.create(path, job.config()) as folder:
        job.work(folder, Quiet())
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
    job = AdaptationJob.build(RunSpec(**RUN))
    path = tmp_path / "interrupted"
    with RunFolder.create(path, job.config()) as folder, pytest.raises(KeyboardInterrupt):
        job.work(folder, Quiet(stop_before=2))
    # An iteration that was flown and written, but whose learning was not stored, is flown again.
    with (path / "iterations.jsonl").open("a") as file:
        file.write('{"iteration": 2, "rmse_m"')
    with RunFolder.open(path, resume=True) as folder:
        AdaptationJob.from_config(folder.config).work(folder, Quiet())
    assert without_wall_time(path) == without_wall_time(finished)
    first, second = load_policy(finished / "policy.npz"), load_policy(path / "policy.npz")
    for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
        np.testing.assert_array_equal(a, b)


def test_an_existing_run_is_never_overwritten(finished):
    job = AdaptationJob.build(RunSpec(**RUN))
    before = (finished / "iterations.jsonl").read_bytes()
    with pytest.raises(InputError, match="whole"):
        RunFolder.create(finished, job.config())
    assert (finished / "iterations.jsonl").read_bytes() == before


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
    job = AdaptationJob.build(RunSpec(**(RUN | {"method": "lotf", "iterations": 1})))
    structures = {
        str(jax.tree.structure(methods.settings_of(name)))
        for name in ("ours", "baseline", "lotf", "anchor-only", "residual-only")
    }
    assert len(structures) == 1
    with RunFolder.create(finished.parent / "lotf", job.config()) as folder:
        job.work(folder, Quiet())
    assert batching.compiled() == count


def test_hold_keeps_the_time_scale(finished):
    job = AdaptationJob.build(RunSpec(**(RUN | {"ats": "hold", "iterations": 3})))
    with RunFolder.create(finished.parent / "hold", job.config()) as folder:
        job.work(folder, Quiet())
    records = without_wall_time(finished.parent / "hold")
    assert {r["time_scale"] for r in records} == {job.task.start_time_scale}
    assert {r["bound_by"] for r in records} == {"held"}
    assert records[2]["rmse_m"] < records[0]["rmse_m"] / 2.0


def test_the_printed_rule_steps_by_its_gradient(finished):
    job = AdaptationJob.build(RunSpec(**(RUN | {"ats": "paper", "iterations": 3})))
    with RunFolder.create(finished.parent / "paper", job.config()) as folder:
        job.work(folder, Quiet())
    records = without_wall_time(finished.parent / "paper")
    scales = [r["time_scale"] for r in records]
    # Far below the threshold the barrier is silent: a step of η λ_speed in α.
    assert scales[2] - scales[1] == pytest.approx(-0.05, abs=5e-3)
    assert records[1]["bound_by"] == "speed"


def test_the_classical_controller_learns_only_its_speed(finished):
    job = AdaptationJob.build(RunSpec(**(RUN | {"method": "geometric", "iterations": 3})))
    path = finished.parent / "geometric"
    with RunFolder.create(path, job.config()) as folder:
        job.work(folder, Quiet())
    records = without_wall_time(path)
    assert not any(r["crashed"] for r in records)
    assert records[-1]["time_scale"] < 0.95 * records[0]["time_scale"]
    assert records[-1]["peak_speed_mps"] > 1.1 * records[0]["peak_speed_mps"]
    # What the model predicts of the controller is what it then does.
    for record in records[1:]:
        assert record["peak_error_m"] < 2.0 * record["predicted_peak_error_m"] + 0.02
    assert not (path / "policy.npz").exists()


def test_a_plant_of_a_random_batch_can_be_flown_again():
    first, second = (
        AdaptationJob.build(RunSpec(**(RUN | {"scenario": "randomised", "plant": plant})))
        for plant in (0, 3)
    )
    assert first.scenario.settings != second.scenario.settings
    again = AdaptationJob.build(second.spec)
    assert again.scenario.settings == second.scenario.settings


@pytest.mark.long
def test_a_rule_that_gives_no_number_ends_the_run_in_a_line(tmp_path):
    (tmp_path / "rules.py").write_text(
        "from lafr_mjx.learner.ats_hold import Hold\n\n\nclass Lost(Hold):\n"
        "    def propose(self, memory, last):\n"
        "        return memory, float('nan') * last.pace.time_scale\n"
    )
    spec = RunSpec(**(RUN | {"ats": f"{tmp_path}/rules.py:Lost()", "iterations": 2}))
    job = AdaptationJob.build(spec)
    with (
        RunFolder.create(tmp_path / "run", job.config()) as folder,
        pytest.raises(RunError, match=r"Lost\(\): gave the time scale nan after flight 0"),
    ):
        job.work(folder, Quiet())
    assert len(without_wall_time(tmp_path / "run")) == 1
