"""Our own targets, which the paper does not state: random plants, changes in mid-run, seconds.

They are judged like its claims, from complete runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lafr_mjx.metrics import assisted
from lafr_mjx.output import counted
from lafr_mjx.report.claim_figures import (
    TEN_ITERATIONS,
    THRESHOLD_M,
    Claim,
    Evidence,
    Judgement,
    beyond_threshold,
    crashes,
    figure,
    last,
    settled,
    worst_rmse,
)
from lafr_mjx.report.paper_runs import FAULTS, MIDWAY, RANDOM_TASKS
from lafr_mjx.report.planned_targets import PLANNED_TARGETS

if TYPE_CHECKING:
    from lafr_mjx.report.flown_runs import FlownRun

CHANGE_AT = 6  # flight before which the midway scenarios change


def _ours(evidence: Evidence, task: str, scenario: str) -> list[FlownRun]:
    found = evidence.runs.matching(task=task, scenario=scenario, method="ours")
    return [run for run in found if run.complete]


def seconds(evidence: Evidence) -> list[Claim]:
    """What learning costs; the first run of `check-claims` has the computer to itself."""
    base = Claim("Computation", "base policy, without compiling", "< 60 s")
    one = Claim("Computation", "one iteration, without compiling", "< 4 s")
    if evidence.base_s is not None:
        base = base.target(f"{evidence.base_s:.0f} s", evidence.base_s < 60.0)
    for run in _ours(evidence, "figure8", "nominal")[:1]:
        times = [record["wall_s"] for record in run.records[3:] if "wall_s" in record]
        if times:  # the first three compile
            median = float(np.median(times))
            one = one.target(f"{median:.1f} s", median < 4.0)
    return [base, one]


def wind(evidence: Evidence) -> list[Claim]:
    """How far off at most, within ten iterations."""
    claim = Claim("Wind of 5 m/s", "safety",
                  "no crash, RMSE < 0.35 m, peak > 0.35 m or assisted at most once")  # fmt: skip
    runs = [run._replace(records=run.records[:TEN_ITERATIONS])
            for run in _ours(evidence, "figure8", "wind5")]  # fmt: skip
    if not runs:
        return [claim]
    lost = [crashes(run) for run in runs]
    worst = [worst_rmse(run) for run in runs]
    beyond = [beyond_threshold(run) for run in runs]
    return [claim.target(
        f"crashes {_each(lost)}, RMSE ≤ {_each(worst, '.3f')} m, peaks beyond {_each(beyond)}",
        not any(lost) and max(worst) < THRESHOLD_M and max(beyond) <= 1)]  # fmt: skip


def ceilings(evidence: Evidence) -> list[Claim]:
    """Two faults are worse than one."""
    claim = Claim("Hardware", "ceilings: nominal > single faults > combined", "ordered")
    groups = {name: _ours(evidence, "figure8", name) for name in ("nominal", *FAULTS)}
    tops = {
        name: {run.spec.seed: last(run, "peak_speed_mps") for run in group}
        for name, group in groups.items()
    }
    seeds = sorted(set.intersection(*map(set, tops.values())))
    if not seeds:
        return [claim]
    ordered = all(
        tops["nominal"][s] > max(tops["payload"][s], tops["propeller"][s])
        and min(tops["payload"][s], tops["propeller"][s]) > tops["combined"][s]
        for s in seeds
    ) and not any(assisted(run.records[-1]) for group in groups.values() for run in group)
    text = "; ".join(f"{name} {_each([by[s] for s in seeds], '.1f')}" for name, by in tops.items())
    unsettled = not all(settled(run) for group in groups.values() for run in group)
    judged = claim.target(f"{text} m/s", ordered)
    return [judged._replace(verdict="too short") if unsettled else judged]


def random_plants(evidence: Evidence) -> list[Claim]:
    """Plants that nobody has seen, on two tasks."""
    return [claim for task in RANDOM_TASKS for claim in _random_plants(evidence, task)]


def _random_plants(evidence: Evidence, task: str) -> list[Claim]:
    runs = _ours(evidence, task, "randomised")
    topic = f"{len(runs) or ''} random plants, {task}".strip()
    wanted = {
        "crashes": "none", "flights > 0.35 m or assisted": "≤ 1 per run",
        "last over first speed": "≥ 1.8, without help in the last",
        "spread of the last 3 laps": "< 5 %",
        "flown over predicted error": "median ≤ 1.4, p90 ≤ 2",
    }  # fmt: skip
    claims = [Claim(topic, words, target) for words, target in wanted.items()]
    if not runs:
        return claims
    crashed = sum(crashes(run) > 0 for run in runs)
    beyond = [beyond_threshold(run) for run in runs]
    laps = [last(run, "lap_time_s") for run in runs]
    gains = [last(run, "peak_speed_mps") / max(figure(run.records[0], "peak_speed_mps"), 1e-6)
             for run in runs]  # fmt: skip
    helped = sum(assisted(run.records[-1]) for run in runs)
    spreads = [_spread([figure(r, "lap_time_s") for r in run.records[-3:]]) for run in runs]
    later = [record for run in runs for record in run.records[1:]]
    # What the guard kept the error of a flight from, nobody knows.
    ratios = [np.inf if assisted(r) else figure(r, "peak_error_m") / r["predicted_peak_error_m"]
              for r in later if r.get("predicted_peak_error_m")] or [np.inf]  # fmt: skip
    median, high = float(np.median(ratios)), float(np.percentile(ratios, 90))
    found = (
        (f"{counted(crashed, 'run')}; laps {min(laps):.2f} to {max(laps):.2f} s", crashed == 0),
        (f"at most {max(beyond)}, {counted(sum(b > 1 for b in beyond), 'run')} with more than 1",
         max(beyond) <= 1),
        (f"at least {min(gains):.2f}, {counted(helped, 'last flight')} with help",
         min(gains) >= 1.8 and not helped),
        (f"at most {max(spreads):.1%}, {counted(sum(s >= 0.05 for s in spreads), 'run')} beyond",
         max(spreads) < 0.05),
        (f"{median:.2f}, {high:.2f}", median <= 1.4 and high <= 2.0),
    )  # fmt: skip
    return [claim.target(*each) for claim, each in zip(claims, found, strict=True)]


def noisy_plants(evidence: Evidence) -> list[Claim]:
    """The same with twice the noise."""
    claim = Claim("Random plants, noise × 2", "runs that crashed", "none")
    groups = {task: _ours(evidence, task, "randomised-noisy") for task in RANDOM_TASKS}
    if not all(groups.values()):
        return [claim]
    lost = {task: sum(crashes(run) > 0 for run in runs) for task, runs in groups.items()}
    text = ", ".join(f"{task} {count} of {len(groups[task])}" for task, count in lost.items())
    return [claim.target(text, not any(lost.values()))]


def midway(evidence: Evidence) -> list[Claim]:
    """The time scale rises at once when the world changes, and falls again."""
    claims = []
    for what in MIDWAY:
        claim = Claim("Changes in mid-run", f"{what} at flight {CHANGE_AT}",
                      "α rises within one iteration, then recovers; no crash")  # fmt: skip
        runs = [run for run in _ours(evidence, "figure8", f"{what}-midway")
                if len(run.records) > CHANGE_AT + 1]  # fmt: skip
        if runs:
            scales = [[figure(r, "time_scale") for r in run.records] for run in runs]
            rises = [run[CHANGE_AT + 1] / run[CHANGE_AT] - 1.0 for run in scales]
            # Faster at the end than at the slowest since the change.
            recovers = [run[-1] < max(run[CHANGE_AT + 1 :]) for run in scales]
            lost = [crashes(run) for run in runs]
            claim = claim.target(
                f"α {_each(rises, '+.0%')}, recovers in {sum(recovers)} of "
                f"{counted(len(runs), 'run')}, crashes {_each(lost)}",
                min(rises) > 0.0 and all(recovers) and not any(lost))  # fmt: skip
        claims.append(claim)
    return claims


TARGETS: tuple[Judgement, ...] = (
    seconds, wind, ceilings, random_plants, noisy_plants, midway, *PLANNED_TARGETS,
)  # fmt: skip
"""All targets of our own, in the order in which they are told."""


def _spread(laps: list[float]) -> float:
    """Of laps, as a share of their mean; without a lap it has no end."""
    known = np.array(laps, float)
    return float((known.max() - known.min()) / known.mean()) if np.isfinite(known).all() else np.inf


def _each(values: list, form: str = "d") -> str:
    """A figure for each seed."""
    return " / ".join(format(value, form) for value in values)
