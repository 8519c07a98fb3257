"""Figures of groups of runs against closed forms."""

from __future__ import annotations

import pytest

from lafr_mjx.ablation.summary import Rate, Spread, groups_of, lines_about_plants, table_rows
from lafr_mjx.ablation.table import RunResult


def plant(number, lap, crashes=0):
    records = [
        {"lap_time_s": lap, "peak_speed_mps": 5.0, "rmse_m": 0.02, "crashed": i < crashes}
        for i in range(3)
    ]
    return RunResult(f"plant{number}", "ours", "figure8", "randomised", 0, number, {},
                     f"lafr-mjx adapt --plant {number}", records)  # fmt: skip


def test_the_crash_rate_has_an_exact_interval():
    """Where so many or more, and so many or fewer, have a chance of 2.5 %."""
    runs = [plant(i, 2.0 + 0.1 * i, crashes=int(i == 4)) for i in range(10)]
    (group,) = groups_of(runs)
    rate = group.crashed_runs
    assert (rate.count, rate.of) == (1, 10)
    assert 1.0 - (1.0 - rate.low) ** 10 == pytest.approx(0.025, abs=1e-6)
    high = rate.high
    assert (1 - high) ** 10 + 10 * high * (1 - high) ** 9 == pytest.approx(0.025, abs=1e-6)
    assert Rate.at([False] * 64).high == pytest.approx(1.0 - 0.025 ** (1 / 64), abs=1e-6)
    plain = group.plain()
    assert plain["crashed_runs"] == 1 and plain["crash_rate_interval"] == (rate.low, rate.high)


def test_the_worst_plants_come_first_with_their_commands():
    runs = [plant(0, 2.0), plant(1, 2.9), plant(2, None), plant(3, 2.1, crashes=2)]
    (group,) = groups_of(runs)
    assert [run.plant for run in group.worst] == [3, 2, 1, 0]
    text = "\n".join(lines_about_plants(group))
    assert text.index("--plant 3") < text.index("--plant 2") < text.index("--plant 1")
    assert "1 without a last lap" in text
    assert group.lap_quantiles_s["50%"] == pytest.approx(2.1)


def test_no_lap_at_all_is_told_and_not_invented():
    (group,) = groups_of([plant(0, None), plant(1, None)])
    assert group.final_lap_s == Spread(None, None, 0)
    assert group.final_lap_s.text(2, 2) == "-"
    assert "2 without a last lap" in "\n".join(lines_about_plants(group))


def test_swept_values_make_groups_of_their_own():
    runs = [plant(0, 2.0)._replace(sweep={"delay_ms": x}) for x in (0.0, 20.0)]
    assert [group.sweep for group in groups_of(runs)] == ["delay_ms=0", "delay_ms=20"]


def test_missed_gates_are_counted_where_there_are_gates():
    without, raced = plant(0, 2.0), plant(1, 2.0)._replace(task="race")
    for i, record in enumerate(raced.iterations):
        record |= {"gates_due": 7, "gates_passed": 7 - i}
    assert "missed a gate" not in table_rows(groups_of([without]))[0]
    columns, rows, _ = table_rows(groups_of([without, raced]))
    assert [row[columns.index("missed a gate")] for row in rows] == ["-", "2 of 3"]
