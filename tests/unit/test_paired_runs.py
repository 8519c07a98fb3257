"""Runs beside runs, pair by pair, against closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from lafr_mjx.ablation.paired import Change, against, by_method, table_rows
from lafr_mjx.ablation.table import RunResult
from lafr_mjx.errors import InputError


def run(method, seed, lap, **more):
    records = [{"lap_time_s": lap, "crashed": lap is None, "slow_down_factor": 1.0}]
    return RunResult(f"{method}-{seed}", method, "figure8", "nominal", seed, 0, {}, "",
                     records)._replace(**more)  # fmt: skip


def test_the_interval_is_student_s_of_paired_logarithms():
    before = np.array([2.2, 2.3, 2.6, 2.4])
    now = before * [0.9, 0.95, 0.92, 0.97]
    change = Change.of(now, before)
    assert change is not None
    test = stats.ttest_1samp(np.log(now / before), 0.0)
    assert change.mean == pytest.approx(np.expm1(np.log(now / before).mean()))
    interval = test.confidence_interval(0.95)
    assert (change.low, change.high) == pytest.approx(tuple(np.expm1([*interval])))
    assert Change.of([2.0, 2.1], [2.0, 2.1]) is None


def test_methods_are_compared_on_the_seeds_that_they_share():
    runs = [run("ours", seed, 2.0) for seed in range(4)]
    runs += [run("baseline", seed, 2.5) for seed in (1, 2, 3, 9)]
    (found,) = by_method(runs)
    assert (found.one, found.other, found.pairs, found.laps) == ("baseline", "ours", 3, 3)
    assert found.change is not None and found.change.mean == pytest.approx(0.25)
    assert by_method(runs[:4]) == []


def test_a_run_without_a_lap_is_told_and_not_averaged():
    runs = [run("ours", seed, 2.0) for seed in range(4)]
    runs += [run("baseline", seed, None if seed == 0 else 4.0) for seed in range(4)]
    (found,) = by_method(runs)
    assert (found.pairs, found.laps, found.crashed_flights) == (4, 3, (1, 0))
    columns, ((*_, pairs, laps, _change, crashed, _assisted),), _ = table_rows([found])
    assert (pairs, laps, crashed) == ("4 (3 with laps)", "4.00 / 2.00", "1 / 0")
    assert "sweep" not in columns


def test_two_ablations_are_compared_by_what_was_asked():
    here = [run("ours", seed, 2.0) for seed in range(3)]
    there = [run("ours", seed, 2.2) for seed in range(3)]
    asked = {"ats": "paper", "noise_prior": 1.0, "seeds": [0]}
    (found,) = against(here, asked, there, {**asked, "ats": "verified", "seeds": [1]})
    assert (found.one, found.other) == ("ours ats=paper", "ours ats=verified")
    with pytest.raises(InputError, match="--against: no run there"):
        against(here, asked, [one._replace(seed=77) for one in there], asked)
