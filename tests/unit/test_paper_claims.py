"""Verdicts on the paper's claims: each follows from the records, and can go any way."""

from __future__ import annotations

from dataclasses import replace

import pytest
from report_runs import collected

from lafr_mjx.report.claim_figures import Evidence, judge, judged, spread
from lafr_mjx.report.paper_claims import FLIGHTS, PAPER
from lafr_mjx.report.paper_runs import PaperRuns
from lafr_mjx.run_spec import RunSpec

PLAN = PaperRuns((0, 1), "freebody").reproduced()
NOMINAL = ("Figure-8", "lap of the last flight")


def verdicts(changes=None, specs=PLAN, bounds=()):
    found = judged(PAPER, Evidence(collected(specs, changes), bounds))
    return {(c.topic, c.claim): c.verdict for c in found}


def by(**wanted):
    return lambda spec: all(getattr(spec, key) == value for key, value in wanted.items())


@pytest.mark.parametrize(
    ("values", "expected"),
    [((7.2, 7.3), "reproduced"), ((7.16, 7.2), "reproduced"), ((7.1, 9.0), "not reproduced"),
     ((7.5, 8.0), "better"), ((), "no data")],
)  # fmt: skip
def test_more_is_better(values, expected):
    assert judge(values, 7.2, rounding=0.05) == expected


def test_less_is_better():
    assert judge([2.6, 2.5], 2.6, rounding=0.005, lower=True) == "reproduced"
    assert judge([2.4, 2.5], 2.6, rounding=0.005, lower=True) == "better"
    assert judge([2.4, 2.61], 2.6, rounding=0.005, lower=True) == "not reproduced"
    assert judge([2.4, float("inf")], 2.6, rounding=0.005, lower=True) == "not reproduced"


def test_spread_names_runs_without_a_figure():
    assert spread([1.0, 3.0, 2.0]) == "2.00 (1.00–3.00)"
    assert spread([1.0]) == "1.00"
    assert spread([-0.02, 0.01], "+.1%") == "-0.5% (-2.0% to +1.0%)"
    assert spread([1.0, float("inf")]) == "1.00, 1 without"
    assert spread([float("inf")]) == "none"


def test_a_good_set_of_runs():
    found = verdicts()
    without = {key for key, verdict in found.items() if verdict == "no data"}
    assert {topic for topic, _ in without} == {"Lower bounds"}
    assert [key for key, verdict in found.items() if verdict == "not reproduced"] == []
    assert found[NOMINAL] == "better"
    assert found["Inspection", "motion time of the tour"] == "better"


def test_one_seed_is_not_many():
    found = judged(PAPER, Evidence(collected(PaperRuns((0,), "freebody").reproduced())))
    assert any("in 1 of 1 seed;" in claim.measured for claim in found)


def test_nothing_flown_is_no_verdict():
    assert set(verdicts(specs=[]).values()) == {"no data"}


@pytest.mark.parametrize(
    ("which", "change", "topic", "words"),
    [
        (by(task="figure8", scenario="nominal", seed=1, method="ours"), {"lap_time_s": 2.7},
         "Figure-8", "lap of the last flight"),
        (by(task="figure8", scenario="nominal", seed=1, method="ours"), {"lap_time_s": None},
         "Figure-8", "lap of the last flight"),
        (by(task="figure8", scenario="nominal", seed=1, method="ours"),
         lambda i: {"crashed": i == 4}, "Figure-8", "peak speed, from the first"),
        (by(task="shuttle"), {"rate_saturation": 0.01}, "Shuttle", "body rates at their limit"),
        (by(task="figure8", scenario="nominal", method="ours"), {"wall_s": 20.0}, "Computation",
         "one iteration"),
        (by(scenario="payload", ats="verified"), {"peak_speed_mps": 12.0}, "Hardware",
         "payload: ceiling"),
        (by(scenario="combined", ats="hold"), {"rmse_m": 0.3}, "Hardware",
         "combined: tracking error"),
        (by(task="inspection", seed=0), {"lap_time_s": 8.0}, "Inspection", "motion time"),
        (by(task="inspection", seed=0), {"landmark_miss_m": 0.26}, "Inspection", "landmarks"),
        (by(scenario="nominal", method="lotf", seed=1), {"lap_time_s": 2.0},
         "Ablation, nominal", "the full residual"),
        (by(scenario="wind5", method="residual-only", horizon=30, seed=1), {"lap_time_s": 2.0},
         "Ablation, wind5", "anchoring, with residual"),
        (by(scenario="wind5", method="anchor-only", seed=0), {"lap_time_s": 9.0},
         "Ablation, wind5", "anchoring, without residual"),
        (by(scenario="wind5", method="baseline", ats="verified", seed=0), {"peak_error_m": 0.36},
         "Ablation, wind5", "all methods keep"),
        (by(scenario="wind5", method="ours", ats="hold", seed=0), {"rmse_m": 0.2},
         "Wind of 5 m/s", "RMSE after one update"),
        (by(scenario="wind5", method="ours", ats="verified", horizon=30),
         {"peak_speed_mps": 6.0}, "Wind of 5 m/s", "peak speed within"),
        (by(scenario="wind5", method="ours", ats="verified", horizon=30),
         lambda i: {"peak_error_m": 0.36 if i == 4 else 0.2},
         "Wind of 5 m/s", "tracking error on the way"),
        (by(scenario="wind5", method="baseline", ats="verified"), {"peak_speed_mps": 8.0},
         "Wind of 5 m/s", "the baseline stays slower"),
    ],
)  # fmt: skip
def test_one_bad_run_is_enough(which, change, topic, words):
    found = verdicts({which: change})
    at_stake = [v for (t, claim), v in found.items() if t == topic and claim.startswith(words)]
    assert at_stake == ["not reproduced"]


SHORT = [replace(spec, iterations=min(spec.iterations, 3)) for spec in PLAN]


def last_assisted(i):
    return {"slow_down_factor": 2.1} if i == 11 else {}


@pytest.mark.parametrize(
    ("which", "change", "topic", "words"),
    [
        (by(task="figure8", scenario="nominal", seed=1, method="ours"), last_assisted,
         "Figure-8", "peak speed, from the first"),
        (by(task="figure8", scenario="nominal", seed=1, method="ours"), last_assisted,
         "Figure-8", "lap of the last flight"),
        (by(task="figure8", scenario="payload", seed=1, ats="verified"), last_assisted,
         "Hardware", "payload: ceiling"),
        (by(task="figure8", scenario="payload", ats="hold"), {"fallback": True},
         "Hardware", "payload: tracking error after one update"),
        (by(task="inspection"), last_assisted, "Inspection", "motion time"),
        (by(task="inspection"), last_assisted, "Inspection", "landmarks passed"),
        (by(scenario="wind5", method="ours", seed=0, ats="verified"),
         lambda i: {"slow_down_factor": 1.3 if i == 4 else 1.0}, "Wind of 5 m/s",
         "tracking error on the way"),
        (by(scenario="wind5", method="ours", ats="hold"), {"slow_down_factor": 1.3},
         "Wind of 5 m/s", "RMSE after one update"),
        # The slower lap of the worse method is not the method's.
        (by(scenario="wind5", method="lotf", seed=1), last_assisted, "Ablation, wind5",
         "the full residual"),
        (by(scenario="wind5", method="lotf", seed=1), {"fallback": True}, "Ablation, wind5",
         "all methods keep the error"),
    ],
)  # fmt: skip
def test_a_flight_with_the_guards_help_is_not_counted_as_good(which, change, topic, words):
    def found(changes):
        (verdict,) = (v for (t, claim), v in verdicts(changes).items()
                      if t == topic and claim.startswith(words))  # fmt: skip
        return verdict

    assert found(None) in ("reproduced", "better")
    assert found({which: change}) == "not reproduced"


def test_help_on_the_way_is_told_and_what_was_reached_alone_counts():
    helped = {by(task="figure8", scenario="nominal", method="ours", ats="verified"):
              lambda i: {"slow_down_factor": 2.0 if i == 3 else 1.0}}  # fmt: skip
    found = judged(PAPER, Evidence(collected(PLAN, helped)))
    (lap,) = (claim for claim in found if (claim.topic, claim.claim) == NOMINAL)
    assert lap.verdict == "better" and lap.measured.endswith("; 2 assisted flights")


def test_a_run_of_three_flights_says_nothing_about_ten():
    slow = {by(ats="verified"): {"peak_speed_mps": 4.0, "lap_time_s": 4.0, "rate_saturation": 0.0}}
    found = verdicts(slow, SHORT)
    assert "not reproduced" not in found.values()
    for topic, words in (
        NOMINAL,
        ("Wind of 5 m/s", "peak speed within ten iterations"),
        ("Wind of 5 m/s", "tracking error on the way"),
        ("Hardware", "payload: ceiling of the speed"),
        ("Ablation, wind5", "all methods keep the error below the threshold"),
    ):
        assert found[topic, words] == "too short"
    # What one update does is seen in two flights.
    assert found["Wind of 5 m/s", "RMSE after one update, at the same time scale"] == "better"


def test_what_three_flights_can_settle():
    fast = verdicts({by(method="ours"): {"lap_time_s": 2.2}}, SHORT)
    assert fast[NOMINAL] == "better"
    off = verdicts({by(scenario="wind5"): {"peak_error_m": 0.4}}, SHORT)
    assert off["Wind of 5 m/s", "tracking error on the way"] == "not reproduced"
    lost = verdicts({by(scenario="nominal"): {"crashed": True}}, SHORT)
    assert lost[NOMINAL] == "not reproduced"


def test_short_runs_do_not_count_beside_long_ones():
    more = [replace(spec, seed=7) for spec in SHORT if spec.seed == 0]
    slow = {by(seed=7): {"lap_time_s": 4.0}}
    assert verdicts(slow, PLAN + more)[NOMINAL] == "better"


def test_the_inspection_of_an_older_record_is_not_judged():
    runs = collected([RunSpec("inspection", "fan")])
    del runs.runs[0].records[-1]["landmark_miss_m"]
    found = {c.claim: c.verdict for c in judged(PAPER, Evidence(runs))}
    assert found["landmarks passed in the last flight"] == "no data"


def test_bounds():
    files = [{"task": "figure8", "ctbr_exact_path_s": 2.234, "rotor_exact_path_s": 2.16},
             {"task": "dash", "ctbr_free_s": 1.488, "rotor_free_s": None}]  # fmt: skip
    found = [v for (topic, _), v in verdicts(bounds=files).items() if topic == "Lower bounds"]
    assert found == ["reproduced", "not reproduced", "reproduced", "no data"]


def test_what_check_claims_flies_is_enough_for_what_it_judges():
    runs = collected(PaperRuns((0,), "freebody").checked(2))
    assert "no data" not in {claim.verdict for claim in judged(FLIGHTS, Evidence(runs))}


def test_the_list_names_each_run_once_and_its_parts_share_them():
    runs = PaperRuns((0, 1, 2))
    specs, checked = runs.reproduced(), runs.checked(16)
    assert len({spec.name for spec in specs}) == len(set(specs)) == len(specs) == 93
    assert len({spec.name for spec in checked}) == len(set(checked)) == len(checked) == 130
    assert len(set(specs) & set(checked)) == 36
    assert len({spec.name for spec in (*specs, *checked)}) == 93 + 130 - 36
    # The first has the computer to itself: its seconds are told.
    assert checked[0] == RunSpec("figure8", "nominal", reference="fixed")
    fewer = PaperRuns((0,)).reproduced(anchoring=False)
    assert len(fewer) == 20 and {spec.horizon for spec in fewer} == {30}
