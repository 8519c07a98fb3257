"""Figures of runs, and the words and verdicts of a claim about them.

**reproduced**: every run reaches the figure as it is printed, or shows what is said.
**better**: every run is beyond the figure by more than 3 %.
**not reproduced**: at least one run is not, or only with the help of the guard in its last flight.
**too short**: the claim is about ten iterations, and there is only a run of fewer; or about the
ceiling of the speed, and the last flights have not settled.
**reached**, **missed**: the same of a target of our own.
**no data**: nothing was flown for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from lafr_mjx.metrics import assisted
from lafr_mjx.output import counted

if TYPE_CHECKING:
    from lafr_mjx.report.flown_runs import Collected, FlownRun

Verdict = Literal[
    "reproduced", "better", "not reproduced", "reached", "missed", "too short", "no data"
]
GOOD: tuple[Verdict, ...] = ("reproduced", "better", "reached")

THRESHOLD_M = 0.35
TEN_ITERATIONS = 11  # flights 0 to 10
REACHED: tuple[Verdict, ...] = ("reproduced", "better")

_SETTLED = 0.02  # share of a lap by which the last three may differ
_MARGIN = 0.03  # beyond the paper's figure that counts as better


class Claim(NamedTuple):
    """What is said, and what runs say about it."""

    topic: str
    claim: str
    paper: str  # as printed; of a target of our own: what is to be reached
    measured: str = "not flown"
    verdict: Verdict = "no data"

    def judged(self, measured: str, verdict: Verdict | bool) -> Claim:
        """With what was measured; a verdict that is only yes or no is about the paper."""
        if isinstance(verdict, bool):
            verdict = "reproduced" if verdict else "not reproduced"
        return self._replace(measured=measured, verdict=verdict)

    def target(self, measured: str, reached: bool) -> Claim:
        """With what was measured, for a target of our own."""
        return self._replace(measured=measured, verdict="reached" if reached else "missed")


class Evidence(NamedTuple):
    """What claims are judged by."""

    runs: Collected
    bounds: Sequence[Mapping[str, Any]] = ()  # what `lafr-mjx bounds --json` wrote
    base_s: float | None = None  # a base training whose program is compiled


Judgement = Callable[[Evidence], list[Claim]]


def judged(judgements: Iterable[Judgement], evidence: Evidence) -> list[Claim]:
    """All claims, those without data, too."""
    return [claim for judgement in judgements for claim in judgement(evidence)]


def judge(
    values: Sequence[float], printed: float, *, rounding: float, lower: bool = False
) -> Verdict:
    """Verdict on a figure of which more is better, or less with `lower`."""
    sign = -1.0 if lower else 1.0
    gains = [sign * (value - printed) for value in values]
    if not gains:
        return "no data"
    if min(gains) > _MARGIN * abs(printed):
        return "better"
    return "reproduced" if min(gains) >= -rounding else "not reproduced"


def spread(values: Sequence[float], form: str = ".2f") -> str:
    """Median, and the range if there are several."""
    known = [value for value in values if np.isfinite(value)]
    if not known:
        return "none"
    text = format(float(np.median(known)), form)
    low, high = format(min(known), form), format(max(known), form)
    if low != high:
        # A dash would be read as a sign.
        text += f" ({low} to {high})" if low[0] in "+-" else f" ({low}–{high})"
    lost = len(values) - len(known)
    return text + (f", {lost} without" if lost else "")


def figure(record: Mapping[str, Any], key: str) -> float:
    """A figure of a flight; what is not there is the worst: no lap lasts for ever."""
    value = record.get(key)
    if value is None:
        return 0.0 if key == "peak_speed_mps" else float("inf")
    return float(value)


def last(run: FlownRun, key: str) -> float:
    """A figure of the last flight."""
    return figure(run.records[-1], key)


def worst_rmse(run: FlownRun) -> float:
    """The largest RMSE of all flights of a run."""
    return max(figure(record, "rmse_m") for record in run.records)


def drop(run: FlownRun, updates: int) -> float:
    """How many times lower the RMSE is after so many updates."""
    return figure(run.records[0], "rmse_m") / max(figure(run.records[updates], "rmse_m"), 1e-6)


def crashes(run: FlownRun) -> int:
    """Flights of a run that crashed."""
    return sum(bool(record.get("crashed")) for record in run.records)


def assisted_flights(run: FlownRun) -> int:
    """Flights of a run that did not crash, but only with the help of the guard."""
    return sum(map(assisted, run.records))


def beyond_threshold(run: FlownRun) -> int:
    """Flights of a run whose peak error passed the threshold, or was kept below by the guard."""
    return sum(
        figure(record, "peak_error_m") > THRESHOLD_M or assisted(record) for record in run.records
    )


def pairs(
    runs: Collected, one: Mapping[str, Any], other: Mapping[str, Any]
) -> list[tuple[FlownRun, FlownRun]]:
    """Runs of two kinds that share seed and plant."""
    second = {(r.spec.seed, r.spec.plant): r for r in runs.matching(**other)}
    return [
        (run, second[key]) for run in runs.matching(**one)
        if (key := (run.spec.seed, run.spec.plant)) in second
    ]  # fmt: skip


def safe(verdict: Verdict, group: Sequence[FlownRun]) -> Verdict:
    """A figure with a crash on the way, or of a flight with help, is not what the paper reports."""
    bad = any(crashes(run) or assisted(run.records[-1]) for run in group)
    return "not reproduced" if bad else verdict


def long_enough(run: FlownRun) -> bool:
    """Whether a run says something about ten iterations; a crash does so at once."""
    return len(run.records) >= TEN_ITERATIONS or crashes(run) > 0


def settled(run: FlownRun) -> bool:
    """Whether a run has come to its ceiling: its last three laps are the same.

    A crash ends it wherever it was.
    """
    laps = [figure(record, "lap_time_s") for record in run.records[-3:]]
    return crashes(run) > 0 or max(laps) - min(laps) <= _SETTLED * min(laps) < np.inf


def longest_pairs(
    both: Sequence[tuple[FlownRun, FlownRun]],
) -> list[tuple[FlownRun, FlownRun]]:
    """Pairs of runs of ten iterations; shorter ones only where there is nothing else."""
    return [pair for pair in both if all(map(long_enough, pair))] or list(both)


def longest(runs: Sequence[FlownRun]) -> list[FlownRun]:
    """Runs of ten iterations; shorter ones only where there is nothing else."""
    return [run for run in runs if long_enough(run)] or list(runs)


def within_ten(
    verdict: Verdict | bool, group: Sequence[FlownRun], stands: Sequence[Verdict] = ()
) -> Verdict:
    """A verdict about ten iterations; `stands` are those that fewer can give.

    What was reached early is reached, and what was exceeded once is exceeded; where a run of
    three flights would have ended, nobody knows.
    """
    if isinstance(verdict, bool):
        verdict = "reproduced" if verdict else "not reproduced"
    known = verdict in stands or all(long_enough(run) for run in group)
    return verdict if known else "too short"


def sides(pairs: Sequence[tuple[FlownRun, FlownRun]]) -> tuple[list[FlownRun], list[FlownRun]]:
    """The first and the second runs of pairs."""
    return [one for one, _ in pairs], [other for _, other in pairs]


def with_events(group: Sequence[FlownRun]) -> str:
    """Words about crashes and the guard's help, if there were any."""
    counts = {"crashed flight": crashes, "assisted flight": assisted_flights}
    numbers = {words: sum(map(count, group)) for words, count in counts.items()}
    return "".join(f"; {counted(number, words)}" for words, number in numbers.items() if number)
