"""All claims of the paper beside what runs say; here those of its real flights and its bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lafr_mjx.report.claim_figures import (
    REACHED,
    Claim,
    Verdict,
    drop,
    figure,
    judge,
    last,
    longest,
    longest_pairs,
    missing,
    pairs,
    safe,
    spread,
    with_crashes,
    within_ten,
)
from lafr_mjx.report.simulation_claims import ablation_claims, wind_claims

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lafr_mjx.report.flown_runs import Collected

FAULTS = ("payload", "propeller", "combined")
LANDMARK_M = 0.25
SATURATED = 0.05  # share of a flight with a rate at its limit that counts as persistent
_TOPICS = {"figure8": "Figure-8", "shuttle": "Shuttle"}


def paper_claims(runs: Collected, bounds: Sequence[Mapping[str, Any]] = ()) -> list[Claim]:
    """All claims of the paper; those that nothing was flown for say so."""
    parts: list[Callable[[], list[Claim]]] = [
        lambda: [*_speed(runs, "figure8", 2.2, 7.2, 2.60), _saturation(runs, "figure8")],
        lambda: [*_speed(runs, "shuttle", 2.0, 7.3, 2.30), _saturation(runs, "shuttle")],
        lambda: _iteration_time(runs),
        lambda: _faults(runs),
        lambda: _inspection(runs),
        *(lambda scenario=s: ablation_claims(runs, scenario) for s in ("nominal", "wind5")),
        lambda: wind_claims(runs),
        lambda: _bounds(bounds),
    ]
    return [claim for part in parts for claim in part()]


def _speed(runs: Collected, task: str, first: float, final: float, lap: float) -> list[Claim]:
    topic = _TOPICS[task]
    words = ("peak speed, from the first to the last flight", "lap of the last flight")
    papers = (f"{first} → {final} m/s in about 100 s", f"{lap:.2f} s")
    group = longest(runs.matching(task=task, scenario="nominal", method="ours"))
    if not group:
        return [missing(topic, w, p) for w, p in zip(words, papers, strict=True)]
    speeds = [last(run, "peak_speed_mps") for run in group]
    starts = [figure(run.records[0], "peak_speed_mps") for run in group]
    seconds = [sum(figure(record, "flight_time_s") for record in run.records) for run in group]
    laps = [last(run, "lap_time_s") for run in group]
    crash = with_crashes(group)
    return [
        Claim(topic, words[0], papers[0],
              f"{spread(starts, '.1f')} → {spread(speeds)} m/s in {spread(seconds, '.0f')} s"
              f"{crash}",
              safe(within_ten(judge(speeds, final, rounding=0.05), group, REACHED), group)),
        Claim(topic, words[1], papers[1], f"{spread(laps)} s{crash}",
              safe(within_ten(judge(laps, lap, rounding=0.005, lower=True), group, REACHED),
                   group)),
    ]  # fmt: skip


def _saturation(runs: Collected, task: str) -> Claim:
    words = "body rates at their limit in the last flight"
    paper = "persistent saturation at 6 rad/s"
    group = longest(runs.matching(task=task, scenario="nominal", method="ours"))
    if not group:
        return missing(_TOPICS[task], words, paper)
    shares = [last(run, "rate_saturation") for run in group]
    thrust = [last(run, "thrust_saturation") for run in group]
    return Claim(
        _TOPICS[task], words, paper,
        f"{spread(shares, '.1%')} of the commands; thrust at its limit in {spread(thrust, '.1%')}",
        within_ten("reproduced" if min(shares) >= SATURATED else "not reproduced", group, REACHED),
    )  # fmt: skip


def _iteration_time(runs: Collected) -> list[Claim]:
    words, paper = "one iteration of learning", "9 s on an RTX 4090"
    group = runs.matching(task="figure8", scenario="nominal", method="ours")
    # The first three compile.
    seconds = [
        record["wall_s"] for run in group for record in run.records[3:] if "wall_s" in record
    ]
    if not seconds:
        return [missing("Computation", words, paper)]
    median = float(np.median(seconds))
    return [Claim("Computation", words, paper,
                  f"{median:.1f} s in the median, with the flight, on this computer's processor as "
                  f"busy as it was", judge([median], 9.0, rounding=0.5, lower=True))]  # fmt: skip


def _faults(runs: Collected) -> list[Claim]:
    claims = []
    for fault in FAULTS:
        ours = {"task": "figure8", "method": "ours"}
        both = longest_pairs(
            pairs(runs, {**ours, "scenario": "nominal"}, {**ours, "scenario": fault})
        )
        words, paper = f"{fault}: ceiling of the speed", "lower than of the intact vehicle"
        if both:
            speeds = [
                [last(run, "peak_speed_mps") for run in side] for side in zip(*both, strict=True)
            ]
            lower = all(b < a for a, b in zip(*speeds, strict=True))
            verdict = within_ten("reproduced" if lower else "not reproduced",
                                 [run for pair in both for run in pair])  # fmt: skip
            claims.append(
                Claim("Hardware", words, paper,
                      f"{spread(speeds[1])} m/s, intact {spread(speeds[0])} m/s"
                      + with_crashes([run for _, run in both]),
                      safe(verdict, [r for _, r in both]))
            )  # fmt: skip
        else:
            claims.append(missing("Hardware", words, paper))
        words, paper = f"{fault}: tracking error after one update", "drops precipitously"
        held = [run for run in runs.matching(task="figure8", scenario=fault, method="ours",
                                             ats="hold") if len(run.records) > 1]  # fmt: skip
        if held:
            drops = [drop(run, 1) for run in held]
            second = [drop(run, 2) for run in held if len(run.records) > 2]
            claims.append(
                Claim("Hardware", words, paper,
                      f"RMSE {spread(drops, '.1f')} × lower at the same time scale"
                      + (f", {spread(second, '.1f')} × after two" if second else ""),
                      "reproduced" if min(drops) >= 2.0 else "not reproduced")
            )  # fmt: skip
        else:
            claims.append(missing("Hardware", words, paper))
    return claims


def _inspection(runs: Collected) -> list[Claim]:
    words = ("motion time of the tour", "landmarks passed in the last flight")
    papers = ("12 → 7 s, 42 % less", "within the safety constraints")
    group = [run for run in longest(runs.matching(task="inspection", scenario="fan",
                                                  method="ours"))
             if run.records[0].get("lap_time_s")]  # fmt: skip
    if not group:
        return [missing("Inspection", w, p) for w, p in zip(words, papers, strict=True)]
    first = [float(run.records[0]["lap_time_s"]) for run in group]
    final = [last(run, "lap_time_s") for run in group]
    less = [1.0 - b / a for a, b in zip(first, final, strict=True)]
    misses = [last(run, "landmark_miss_m") for run in group]
    told = all("landmark_miss_m" in run.records[-1] for run in group)
    return [
        Claim("Inspection", words[0], papers[0],
              f"{spread(first, '.1f')} → {spread(final)} s, {spread(less, '.0%')} less, on a "
              f"course of our own (the paper prints none){with_crashes(group)}",
              safe(within_ten(judge(less, 0.42, rounding=0.005), group, REACHED), group)),
        Claim("Inspection", words[1], papers[1],
              f"at {spread(misses)} m, {LANDMARK_M} m allowed",
              "reproduced" if max(misses) <= LANDMARK_M else "not reproduced")
        if told else missing("Inspection", words[1], papers[1]),
    ]  # fmt: skip


_BOUNDS = (
    ("figure8", "ctbr_exact_path_s", "figure-8, CTBR limits", 2.24),
    ("figure8", "rotor_exact_path_s", "figure-8, rotor limits", 2.02),
    ("dash", "ctbr_free_s", "shuttle, CTBR limits (10.3 m one way, which fits it best)", 1.49),
    ("dash", "rotor_free_s", "shuttle, rotor limits (10.3 m one way, which fits it best)", 1.42),
)


def _bounds(files: Sequence[Mapping[str, Any]]) -> list[Claim]:
    claims = []
    for task, key, words, printed in _BOUNDS:
        found = [float(f[key]) for f in files if f.get("task") == task and f.get(key) is not None]
        if not found:
            claims.append(missing("Lower bounds", words, f"{printed} s")._replace(
                measured="not computed"))  # fmt: skip
            continue
        near = min(found, key=lambda value: abs(value - printed))
        verdict: Verdict = "reproduced" if abs(near / printed - 1.0) <= 0.01 else "not reproduced"
        claims.append(Claim("Lower bounds", words, f"{printed} s", f"{near:.3f} s", verdict))
    return claims
