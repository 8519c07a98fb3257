"""Targets for references that are planned in space and time: laps, and the room they keep to."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lafr_mjx.metrics import assisted, missed_gates
from lafr_mjx.report.claim_figures import (
    THRESHOLD_M,
    Claim,
    Evidence,
    Judgement,
    crashes,
    figure,
    last,
    pairs,
    spread,
    with_events,
)
from lafr_mjx.report.paper_runs import FAULTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lafr_mjx.report.flown_runs import FlownRun

VARIANT = "reference space-time"
"""What sets these runs apart from the usual ones."""

RACE_BOUND_S = 2.690
"""CTBR bound of the race through its gates, as `lafr-mjx bounds race` prints it."""

_TOPIC = "Planned in space and time"
_LAPS = {
    ("figure8", "nominal"): 2.02, ("figure8", "wind5"): 2.08, ("shuttle", "nominal"): 1.90,
    ("inspection", "fan"): 2.10, ("race", "nominal"): 1.20 * RACE_BOUND_S,
}  # fmt: skip
_LANDMARK_M = 0.25
_UNTRAINED = {"wind5": 2}
"""Flights in which the policy does not know the wind yet."""


def _planned(evidence: Evidence, task: str, scenario: str) -> list[FlownRun]:
    found = evidence.runs.matching(task=task, scenario=scenario, method="ours", variant=VARIANT)
    return [run for run in found if run.complete]


def _safe(runs: Sequence[FlownRun]) -> bool:
    """No crash, and no help where a run ends."""
    return not any(crashes(run) or any(map(assisted, run.records[-3:])) for run in runs)


def lap(evidence: Evidence, task: str, scenario: str) -> list[Claim]:
    """The last lap, and what it must keep to."""
    target, gates = _LAPS[task, scenario], task == "race"
    kept = {"race": "all gates", "inspection": f"landmarks within {_LANDMARK_M} m"}.get(
        task, f"never {THRESHOLD_M} m off the path"
    )
    claim = Claim(_TOPIC, f"{task} {scenario}: last lap", f"≤ {target:.2f} s, {kept}, no crash")
    runs = _planned(evidence, task, scenario)
    if not runs:
        return [claim]
    laps = [last(run, "lap_time_s") for run in runs]
    if gates:
        missed = [missed_gates(run.records[-1]) for run in runs]
        clear = [last(run, "gate_clearance_m") for run in runs]
        words, within = f"smallest clearance {spread(clear)} m", not any(missed)
    elif task == "inspection":
        miss = [last(run, "landmark_miss_m") for run in runs]
        words, within = f"landmarks at {spread(miss)} m", max(miss) <= _LANDMARK_M
    else:
        off = [max(figure(record, "peak_path_distance_m")
                   for record in run.records[_UNTRAINED.get(scenario, 0):])
               for run in runs]  # fmt: skip
        words, within = f"at most {spread(off)} m off the path", max(off) <= THRESHOLD_M
    return [claim.target(f"{spread(laps)} s; {words}{with_events(runs)}",
                         max(laps) <= target and within and _safe(runs))]  # fmt: skip


def faults(evidence: Evidence) -> list[Claim]:
    """With altered hardware, against the task's own path."""
    claims = []
    for fault in FAULTS:
        claim = Claim(_TOPIC, f"figure8 {fault}: last lap",
                      "shorter than along the fixed path, no crash")  # fmt: skip
        here = {"task": "figure8", "scenario": fault, "method": "ours"}
        both = pairs(evidence.runs, here, {**here, "variant": VARIANT})
        both = [pair for pair in both if all(run.complete for run in pair)]
        if both:
            laps = [[last(run, "lap_time_s") for run in side] for side in zip(*both, strict=True)]
            planned = [run for _, run in both]
            shorter = all(b < a for a, b in zip(*laps, strict=True))
            claim = claim.target(
                f"{spread(laps[1])} s against {spread(laps[0])} s{with_events(planned)}",
                shorter and _safe(planned))  # fmt: skip
        claims.append(claim)
    return claims


PLANNED_TARGETS: tuple[Judgement, ...] = (
    *(partial(lap, task=task, scenario=scenario) for task, scenario in _LAPS),
    faults,
)
