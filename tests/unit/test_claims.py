"""The table of claims: each verdict follows from the records, and can go either way."""

from __future__ import annotations

import json

import pytest

from lafr_mjx.report import claims
from lafr_mjx.run_spec import MethodName, RunSpec
from lafr_mjx.runs.run_folder import RunFolder

PLAN = claims.Plan(seeds=(0,), plants=2, engine="freebody")


def record(iteration, **changes):
    return {
        "iteration": iteration, "flight_time_s": 8.0, "time_scale": 1.0 - 0.05 * iteration,
        "lap_time_s": 2.5, "reference_lap_s": 2.5, "peak_speed_mps": 2.0 + 0.5 * iteration,
        "rmse_m": 0.03, "peak_error_m": 0.1, "rate_saturation": 0.1, "thrust_saturation": 0.0,
        "crashed": False, "residual_loss": 6.0, "predicted_peak_error_m": 0.1,
        "bound_by": "trust region", "wall_s": 3.0,
    } | changes  # fmt: skip


def write(folder, spec, change=None):
    with RunFolder.create(folder / spec.name, {"run": {}}) as run:
        for i in range(spec.iterations):
            run.append_iteration(record(i, **(change(i) if change else {})))


@pytest.fixture
def runs(tmp_path):
    return tmp_path


def verdicts(rows):
    return {row.claim: row.reached for row in rows}


def test_names_and_commands_are_unique():
    specs = claims.Plan((0, 1, 2), 16, "mjx").specs()
    assert len({spec.name for spec in specs}) == len(specs)
    assert len({spec.command for spec in specs}) == len(specs)
    assert "--plant 3" in RunSpec("figure8", "randomised", plant=3).command


def test_what_was_not_flown_is_said(runs):
    rows = claims.rows(claims.Evidence(runs, PLAN), None)
    assert rows and not any(row.reached for row in rows)
    assert all("not flown yet" in row.measured for row in rows)


@pytest.mark.parametrize(
    ("change", "failing"),
    [
        (None, None),
        (lambda i: {"crashed": i == 5}, "crashes"),
        (lambda i: {"peak_error_m": 0.5 if i in (2, 3) else 0.1,
                    "predicted_peak_error_m": 0.4 if i in (2, 3) else 0.1}, "flights > 0.35 m"),
        (lambda i: {"peak_speed_mps": 4.0 + 0.1 * i}, "last over first speed"),
        (lambda i: {"lap_time_s": 2.5 - 0.1 * i}, "spread of the last 3 laps"),
        (lambda i: {"lap_time_s": None}, "spread of the last 3 laps"),
        (lambda i: {"predicted_peak_error_m": 0.04}, "flown over predicted error"),
    ],
)  # fmt: skip
def test_random_plants(runs, change, failing):
    for plant in range(PLAN.plants):
        spec = RunSpec("figure8", "randomised", plant=plant, engine="freebody")
        write(runs, spec, change if plant == 1 else None)
    found = verdicts(claims._random_plants(claims.Evidence(runs, PLAN), "figure8"))
    assert len(found) == 5
    for claim, reached in found.items():
        wrong = failing is not None and claim.endswith(failing)
        # One of two plants with a ratio of 2.5 moves the 90th percentile.
        assert reached == (not wrong), claim


def test_midway_needs_a_rise_and_a_recovery(runs):
    spec = RunSpec("figure8", "payload-midway", engine="freebody")
    rising = [1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.5, 0.48, 0.47, 0.46, 0.45]
    write(runs / "good", spec, lambda i: {"time_scale": rising[i]})
    flat = [*rising[:7], 0.4, 0.4, 0.4, 0.4, 0.4]
    write(runs / "flat", spec, lambda i: {"time_scale": flat[i]})
    stuck = [*rising[:8], 0.5, 0.5, 0.5, 0.5]
    write(runs / "stuck", spec, lambda i: {"time_scale": stuck[i]})
    for name, expected in (("good", True), ("flat", False), ("stuck", False)):
        row = claims._midway(claims.Evidence(runs / name, PLAN), (0,), "payload")
        assert row.reached is expected, name


def test_updates_are_compared_with_the_baseline_at_the_same_time_scale(runs):
    cases: list[tuple[MethodName, float]] = [("ours", 0.05), ("baseline", 0.16)]
    for method, rmse in cases:
        spec = RunSpec("figure8", "wind5", method=method, ats="hold", iterations=2,
                       engine="freebody")  # fmt: skip
        write(runs, spec, lambda i, rmse=rmse: {"rmse_m": rmse if i else 0.3})
    row = claims._after_one_update(claims.Evidence(runs, PLAN), (0,))
    assert row.reached
    assert "0.050 m, 3.2 ×" in row.measured
    assert json.dumps(row._asdict())
