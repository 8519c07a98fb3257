"""The paper's claims about flights and bounds, each beside what runs say.

`PAPER` is all of them; those of the simulation section are in `simulation_claims`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from lafr_mjx.adaptation.adaptation_report import PRINTED
from lafr_mjx.metrics import assisted
from lafr_mjx.report.claim_figures import (
    REACHED,
    Claim,
    Evidence,
    Judgement,
    Verdict,
    drop,
    figure,
    judge,
    last,
    longest,
    longest_pairs,
    pairs,
    safe,
    sides,
    spread,
    with_events,
    within_ten,
)
from lafr_mjx.report.paper_runs import FAULTS, WORLDS
from lafr_mjx.report.simulation_claims import ablation_claims, wind_claims

if TYPE_CHECKING:
    from lafr_mjx.report.flown_runs import FlownRun

LANDMARK_M = 0.25
SATURATED = 0.05  # share of a flight with a rate at its limit that counts as persistent
_TOPICS = {"figure8": "Figure-8", "shuttle": "Shuttle"}


def _ours(evidence: Evidence, task: str, scenario: str) -> list[FlownRun]:
    return longest(evidence.runs.matching(task=task, scenario=scenario, method="ours"))


def speed_claims(evidence: Evidence, task: str) -> list[Claim]:
    """How fast it gets, and what holds it there."""
    topic, (first, final, lap) = _TOPICS[task], PRINTED[task, "nominal"]
    speed = Claim(topic, "peak speed, from the first to the last flight",
                  f"{first} → {final} m/s in about 100 s")  # fmt: skip
    time = Claim(topic, "lap of the last flight", f"{lap:.2f} s")
    rates = Claim(topic, "body rates at their limit in the last flight",
                  "persistent saturation at 6 rad/s")  # fmt: skip
    group = _ours(evidence, task, "nominal")
    if not group:
        return [speed, time, rates]
    speeds = [last(run, "peak_speed_mps") for run in group]
    starts = [figure(run.records[0], "peak_speed_mps") for run in group]
    seconds = [sum(figure(record, "flight_time_s") for record in run.records) for run in group]
    laps = [last(run, "lap_time_s") for run in group]
    shares = [last(run, "rate_saturation") for run in group]
    thrust = [last(run, "thrust_saturation") for run in group]
    crash = with_events(group)
    return [
        speed.judged(
            f"{spread(starts, '.1f')} → {spread(speeds)} m/s in {spread(seconds, '.0f')} s{crash}",
            safe(within_ten(judge(speeds, final, rounding=0.05), group, REACHED), group)),
        time.judged(
            f"{spread(laps)} s{crash}",
            safe(within_ten(judge(laps, lap, rounding=0.005, lower=True), group, REACHED), group)),
        rates.judged(
            f"{spread(shares, '.1%')} of the commands; thrust at its limit in "
            f"{spread(thrust, '.1%')}", within_ten(min(shares) >= SATURATED, group, REACHED)),
    ]  # fmt: skip


def computation_claims(evidence: Evidence) -> list[Claim]:
    """How long an iteration takes."""
    claim = Claim("Computation", "one iteration of learning", "9 s on an RTX 4090")
    group = evidence.runs.matching(task="figure8", scenario="nominal", method="ours")
    # The first three compile.
    seconds = [
        record["wall_s"] for run in group for record in run.records[3:] if "wall_s" in record
    ]
    if not seconds:
        return [claim]
    median = float(np.median(seconds))
    return [claim.judged(
        f"{median:.1f} s in the median, with the flight, on this computer's processor as busy as "
        f"it was", judge([median], 9.0, rounding=0.5, lower=True))]  # fmt: skip


def hardware_claims(evidence: Evidence) -> list[Claim]:
    """Payload, clipped propellers, both."""
    runs, claims = evidence.runs, []
    for fault in FAULTS:
        ceiling = Claim("Hardware", f"{fault}: ceiling of the speed",
                        "lower than of the intact vehicle")  # fmt: skip
        update = Claim("Hardware", f"{fault}: tracking error after one update",
                       "drops precipitously")  # fmt: skip
        ours = {"task": "figure8", "method": "ours"}
        both = longest_pairs(
            pairs(runs, {**ours, "scenario": "nominal"}, {**ours, "scenario": fault})
        )
        if both:
            intact, faulty = sides(both)
            fast = [last(run, "peak_speed_mps") for run in intact]
            slow = [last(run, "peak_speed_mps") for run in faulty]
            lower = all(b < a for a, b in zip(fast, slow, strict=True))
            ceiling = ceiling.judged(
                f"{spread(slow)} m/s, intact {spread(fast)} m/s" + with_events(faulty),
                safe(within_ten(lower, intact + faulty), faulty))  # fmt: skip
        held = [run for run in runs.matching(**ours, scenario=fault, ats="hold")
                if len(run.records) > 1]  # fmt: skip
        if held:
            drops = [drop(run, 1) for run in held]
            helped = any(assisted(run.records[1]) for run in held)
            second = [drop(run, 2) for run in held if len(run.records) > 2]
            update = update.judged(
                f"RMSE {spread(drops, '.1f')} × lower at the same time scale"
                + (f", {spread(second, '.1f')} × after two" if second else ""),
                min(drops) >= 2.0 and not helped)  # fmt: skip
        claims += [ceiling, update]
    return claims


def inspection_claims(evidence: Evidence) -> list[Claim]:
    """The tour of the landmarks."""
    time = Claim("Inspection", "motion time of the tour", "12 → 7 s, 42 % less")
    marks = Claim("Inspection", "landmarks passed in the last flight",
                  "within the safety constraints")  # fmt: skip
    group = [run for run in _ours(evidence, "inspection", "fan")
             if run.records[0].get("lap_time_s")]  # fmt: skip
    if not group:
        return [time, marks]
    first = [float(run.records[0]["lap_time_s"]) for run in group]
    final = [last(run, "lap_time_s") for run in group]
    less = [1.0 - b / a for a, b in zip(first, final, strict=True)]
    misses = [last(run, "landmark_miss_m") for run in group]
    time = time.judged(
        f"{spread(first, '.1f')} → {spread(final)} s, {spread(less, '.0%')} less, on a course of "
        f"our own (the paper prints none){with_events(group)}",
        safe(within_ten(judge(less, 0.42, rounding=0.005), group, REACHED), group))  # fmt: skip
    if all("landmark_miss_m" in run.records[-1] for run in group):
        within: Verdict = "reproduced" if max(misses) <= LANDMARK_M else "not reproduced"
        marks = marks.judged(f"at {spread(misses)} m, {LANDMARK_M} m allowed{with_events(group)}",
                             safe(within, group))  # fmt: skip
    return [time, marks]


_BOUNDS = (
    ("figure8", "ctbr_exact_path_s", "figure-8, CTBR limits", 2.24),
    ("figure8", "rotor_exact_path_s", "figure-8, rotor limits", 2.02),
    ("dash", "ctbr_free_s", "shuttle, CTBR limits (10.3 m one way, which fits it best)", 1.49),
    ("dash", "rotor_free_s", "shuttle, rotor limits (10.3 m one way, which fits it best)", 1.42),
)


def bound_claims(evidence: Evidence) -> list[Claim]:
    """What is possible at all."""
    claims = []
    for task, key, words, printed in _BOUNDS:
        claim = Claim("Lower bounds", words, f"{printed} s", "not computed")
        found = [float(file[key]) for file in evidence.bounds
                 if file.get("task") == task and file.get(key) is not None]  # fmt: skip
        if found:
            near = min(found, key=lambda value: abs(value - printed))
            claim = claim.judged(f"{near:.3f} s", abs(near / printed - 1.0) <= 0.01)
        claims.append(claim)
    return claims


FLIGHTS: tuple[Judgement, ...] = (
    *(partial(speed_claims, task=task) for task in _TOPICS),
    computation_claims,
    hardware_claims,
    wind_claims,
)
"""What `check-claims` judges, besides our own targets."""

PAPER: tuple[Judgement, ...] = (
    *FLIGHTS[:-1],
    inspection_claims,
    *(partial(ablation_claims, scenario=world) for world in WORLDS),
    wind_claims,
    bound_claims,
)
"""All claims of the paper, in the order in which they are told."""
