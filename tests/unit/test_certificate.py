"""Rates and figures over random plants, by hand."""

from __future__ import annotations

import pytest

from lafr_mjx.ablation.certificate import certificates, is_beyond, page_of, table_rows
from lafr_mjx.ablation.table import RunResult
from lafr_mjx.view.page import to_html, to_markdown


def flight(lap: float | None = 2.0, **changes):
    usual = {
        "lap_time_s": lap, "peak_speed_mps": 8.0, "rmse_m": 0.02, "crashed": False,
        "peak_error_m": 0.06, "predicted_peak_error_m": 0.05, "peak_path_distance_m": 0.1,
        "slow_down_factor": 1.0, "fallback": False, "gates_due": None, "gates_passed": None,
    }  # fmt: skip
    return usual | changes


def plant(number, *flights, task="figure8"):
    command = f"lafr-mjx adapt --plant {number}"
    return RunResult(f"{task}{number}", "ours", task, "randomised", 0, number, {}, command,
                     list(flights))  # fmt: skip


FAR = {"peak_path_distance_m": 0.36}
RUNS = [
    plant(0, *[flight()] * 5),
    plant(1, flight(**FAR), flight(**FAR), *[flight(2.1)] * 3),  # only while it is untrained
    plant(2, *[flight()] * 2, flight(**FAR), *[flight(3.0)] * 2),
    plant(3, *[flight()] * 4, flight(slow_down_factor=2.0)),
    plant(4, flight(None, crashed=True), *[flight(2.4)] * 4),
]


def test_rates_are_of_runs():
    (found,) = certificates(RUNS, {"figure8": 0.35})
    assert found.crashed[:2] == (1, 5)
    assert found.beyond[:2] == (2, 5)
    assert found.assisted[:2] == (1, 5)
    assert found.flights == 25
    assert found.last_lap_s == (2.0, 2.1, 3.0)
    assert found.surprise == (pytest.approx(1.2), pytest.approx(float("inf")))
    assert [run.plant for run in found.worst] == [4, 2, 3, 1, 0]


@pytest.mark.parametrize(
    ("changes", "beyond"),
    [({}, False), (FAR, True), ({"crashed": True}, True), ({"fallback": True}, True),
     ({"slow_down_factor": 1.5}, True), ({"peak_path_distance_m": None}, True),
     # Between gates a course leaves more room than its threshold.
     ({"gates_due": 7, "gates_passed": 7, **FAR}, False),
     ({"gates_due": 7, "gates_passed": 6}, True)],
)  # fmt: skip
def test_what_leaves_path_or_gates(changes, beyond):
    assert is_beyond(flight(**changes), 0.35) == beyond


def test_a_page_has_the_table_and_the_commands_of_the_worst():
    runs = [*RUNS, plant(9, *[flight(4.0)] * 4, task="race")]
    found = certificates(runs, {"figure8": 0.35, "race": 0.35})
    columns, rows = table_rows(found)
    assert [row[0] for row in rows] == ["figure8", "race"] and len(columns) == len(rows[0])
    assert rows[0][2] == "1 of 5 (0.51 to 72 %)"
    page = page_of(found, "lafr-mjx certify figure8", "1.2.3")
    for text in (to_html(page), to_markdown(page, lambda picture: picture.name)):
        assert "lafr-mjx adapt --plant 4" in text and "1 of 5 (0.51 to 72 %)" in text
