"""Our own targets: each verdict follows from the records, and can go either way."""

from __future__ import annotations

import json

import pytest
from report_runs import collected, write_run

from lafr_mjx.commands.check_claims import CheckClaims
from lafr_mjx.report.claim_figures import Evidence, judged
from lafr_mjx.report.own_targets import TARGETS, midway, random_plants, seconds
from lafr_mjx.report.paper_runs import PaperRuns
from lafr_mjx.run_spec import RunSpec

CHECKED = PaperRuns((0, 1), "freebody").checked(2)
RISING = [1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.5, 0.48, 0.47, 0.46, 0.45]
STEADY = {"lap_time_s": 2.5, "peak_error_m": 0.1, "predicted_peak_error_m": 0.1}


def steady(i):
    return STEADY | {"peak_speed_mps": 2.0 + 0.5 * i}


def verdicts(change, judgement, specs=CHECKED, **more):
    runs = collected(specs, {lambda spec: True: change})
    return {claim.claim: claim.verdict for claim in judgement(Evidence(runs, **more))}


def test_nothing_flown_is_no_verdict():
    found = judged(TARGETS, Evidence(collected([])))
    assert {claim.verdict for claim in found} == {"no data"}


def test_all_that_is_flown_for_them_is_judged():
    runs = collected(CHECKED)
    assert "no data" not in {c.verdict for c in judged(TARGETS, Evidence(runs, base_s=20.0))}


@pytest.mark.parametrize(
    ("change", "failing"),
    [
        (lambda i: {}, None),
        (lambda i: {"crashed": True}, "crashes"),
        (lambda i: {"peak_error_m": 0.5, "predicted_peak_error_m": 0.4},
         "flights > 0.35 m or assisted"),
        (lambda i: {"fallback": i == 11}, "last over first speed"),
        (lambda i: {"peak_speed_mps": 4.0}, "last over first speed"),
        (lambda i: {"lap_time_s": 2.5 - 0.1 * i}, "spread of the last 3 laps"),
        (lambda i: {"lap_time_s": None}, "spread of the last 3 laps"),
        (lambda i: {"predicted_peak_error_m": 0.04}, "flown over predicted error"),
    ],
)  # fmt: skip
def test_random_plants(change, failing):
    def change_at(i):
        return steady(i) | change(i)

    figure8 = [spec for spec in CHECKED if (spec.task, spec.scenario) == ("figure8", "randomised")]
    # Both tasks have the same words; the shuttle was not flown.
    runs = collected(figure8, {lambda spec: True: change_at})
    found = [c for c in random_plants(Evidence(runs)) if c.topic == "2 random plants, figure8"]
    assert len(found) == 5
    for claim in found:
        assert claim.verdict == ("missed" if claim.claim == failing else "reached"), claim


@pytest.mark.parametrize(
    ("scales", "expected"),
    [(RISING, "reached"), ([*RISING[:7], *[0.4] * 5], "missed"),
     ([*RISING[:8], *[0.5] * 4], "missed")],
)  # fmt: skip
def test_midway_needs_a_rise_and_a_recovery(scales, expected):
    specs = [RunSpec("figure8", "payload-midway", reference="fixed", engine="freebody")]
    found = verdicts(lambda i: {"time_scale": scales[i]}, midway, specs)
    assert found == {"payload at flight 6": expected, "wind at flight 6": "no data"}


def test_seconds():
    found = verdicts(lambda i: {"wall_s": 40.0 if i < 3 else 3.0}, seconds, base_s=61.0)
    assert list(found.values()) == ["missed", "reached"]
    assert list(verdicts({"wall_s": 4.5}, seconds).values()) == ["no data", "missed"]


def test_the_table_of_what_is_there(tmp_path, capsys):
    """Only finished runs count, and what was not flown is said."""
    for spec in CHECKED:
        if spec.seed == 0 and spec.task == "figure8" and spec.scenario in ("nominal", "wind5"):
            write_run(tmp_path, spec)
    out = tmp_path / "more.json"
    CheckClaims(out=tmp_path, quick=True, engine="freebody", only_print=True, json=out).run()
    told = " ".join(capsys.readouterr().out.split())
    assert "7 of them finished already" in told and "not flown" in told
    figures = json.loads((tmp_path / "claims.json").read_text())
    assert figures == json.loads(out.read_text())
    by_words = {(c["topic"], c["claim"]): c["verdict"] for c in figures["claims"]}
    assert by_words["Figure-8", "lap of the last flight"] == "better"
    assert by_words["Shuttle", "lap of the last flight"] == "no data"
    page = (tmp_path / "claims.md").read_text()
    assert "## Summary against the paper" in page and "## Our own targets" in page
