"""The claims of the paper's simulation section: ablation and wind.

Of two methods the first must have a clearly shorter last lap in every seed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from lafr_mjx.output import counted
from lafr_mjx.report.claim_figures import (
    REACHED,
    TEN_ITERATIONS,
    Claim,
    Verdict,
    beyond_threshold,
    crashes,
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
    worst_rmse,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lafr_mjx.report.flown_runs import Collected, FlownRun

METHODS = ("ours", "residual-only", "lotf", "anchor-only", "baseline")
CLEARLY = 0.02  # by how much a lap must be shorter to speak for a method


class _Versus(NamedTuple):
    """A claim that one method ends with the shorter lap than another."""

    words: str
    paper: str
    one: str
    other: str


_COMPARED = (
    _Versus("residuals lift the ceiling: ours against anchor-only", "faster", "ours",
            "anchor-only"),
    _Versus("residuals lift the ceiling: residual-only against baseline", "faster",
            "residual-only", "baseline"),
    _Versus("the full residual: ours against LOTF (no rate residual, not anchored)",
            "better tracking, faster", "ours", "lotf"),
    _Versus("rate residual alone: residual-only against LOTF", "essential at high speed",
            "residual-only", "lotf"),
    _Versus("anchoring, without residual: anchor-only against baseline",
            "more stable convergence", "anchor-only", "baseline"),
    _Versus("anchoring, with residual: ours against residual-only", "shortest lap", "ours",
            "residual-only"),
)  # fmt: skip


def ablation_claims(runs: Collected, scenario: str) -> list[Claim]:
    """Which part of the method matters, on the figure-8."""
    topic = f"Ablation, {scenario}"
    here = {"task": "figure8", "scenario": scenario}
    claims = [_compared(runs, topic, here, versus) for versus in _COMPARED]
    groups = {method: longest(runs.matching(**here, method=method)) for method in METHODS}
    words, paper = "all methods keep the error below the threshold", "below 0.35 m"
    if not all(groups.values()):
        return [*claims, missing(topic, words, paper)]
    everything = [run for group in groups.values() for run in group]
    worst = {m: max(worst_rmse(run) for run in g) for m, g in groups.items()}
    count = sum(beyond_threshold(run) for run in everything)
    flights = sum(len(run.records) for run in everything)
    most = max(worst, key=lambda method: worst[method])
    claims.append(
        Claim(topic, words, paper,
              f"largest RMSE {worst[most]:.2f} m ({most}); peak error beyond it in {count} of "
              f"{counted(flights, 'flight')}{with_crashes(everything)}",
              safe(_below(count, everything), everything))
    )  # fmt: skip
    return claims


def _below(beyond: int, group: Sequence[FlownRun]) -> Verdict:
    """Whether the error stayed below the threshold: its peak, in every flight."""
    verdict: Verdict = "not reproduced" if beyond else "reproduced"
    return within_ten(verdict, group, ("not reproduced",))


def _compared(runs: Collected, topic: str, here: Mapping[str, Any], versus: _Versus) -> Claim:
    one, other = ({**here, "method": method} for method in (versus.one, versus.other))
    both = longest_pairs(pairs(runs, one, other))
    if not both:
        return missing(topic, versus.words, versus.paper)
    laps = [[last(run, "lap_time_s") for run in side] for side in zip(*both, strict=True)]
    errors = [[last(run, "rmse_m") for run in side] for side in zip(*both, strict=True)]
    over = [
        [beyond_threshold(run) + crashes(run) for run in side] for side in zip(*both, strict=True)
    ]
    shorter = sum(a < (1.0 - CLEARLY) * b for a, b in zip(*laps, strict=True))
    return Claim(
        topic, versus.words, versus.paper,
        f"last lap {spread(laps[0])} against {spread(laps[1])} s, shorter by {CLEARLY:.0%} or "
        f"more in {shorter} of {counted(len(both), 'seed')}; RMSE there "
        f"{spread(errors[0], '.3f')} against {spread(errors[1], '.3f')} m; flights "
        f"beyond 0.35 m {sum(over[0])} against {sum(over[1])}",
        within_ten("reproduced" if shorter == len(both) else "not reproduced",
                   [run for pair in both for run in pair]),
    )  # fmt: skip


def wind_claims(runs: Collected) -> list[Claim]:
    """Ours against the baseline in wind."""
    topic, here = "Wind of 5 m/s", {"task": "figure8", "scenario": "wind5"}
    claims = [_first_update(runs, topic, here)]
    ours = [run._replace(records=run.records[:TEN_ITERATIONS])
            for run in longest(runs.matching(**here, method="ours"))]  # fmt: skip
    words = ("peak speed within ten iterations", "tracking error on the way",
             "the baseline stays slower")  # fmt: skip
    papers = ("2.6 → 6.8 m/s", "below 0.35 m", "stuck at 4.7 m/s")
    if not ours:
        return claims + [missing(topic, w, p) for w, p in zip(words, papers, strict=True)]
    starts = [figure(run.records[0], "peak_speed_mps") for run in ours]
    speeds = [last(run, "peak_speed_mps") for run in ours]
    worst = [worst_rmse(run) for run in ours]
    peaks = [beyond_threshold(run) for run in ours]
    claims += [
        Claim(topic, words[0], papers[0],
              f"{spread(starts, '.1f')} → {spread(speeds)} m/s{with_crashes(ours)}",
              safe(within_ten(judge(speeds, 6.8, rounding=0.05), ours, REACHED), ours)),
        Claim(topic, words[1], papers[1],
              f"largest RMSE {spread(worst)} m; peak error beyond it in {sum(peaks)} of "
              f"{counted(sum(len(run.records) for run in ours), 'flight')}",
              safe(_below(sum(peaks), ours), ours)),
    ]  # fmt: skip
    both = longest_pairs(pairs(runs, {**here, "method": "ours"}, {**here, "method": "baseline"}))
    if not both:
        return [*claims, missing(topic, words[2], papers[2])]
    reached = [[max((figure(r, "peak_speed_mps") for r in run.records[:TEN_ITERATIONS]
                    if not r.get("crashed")), default=0.0) for run in side]
               for side in zip(*both, strict=True)]  # fmt: skip
    slower = [a - b for a, b in zip(*reached, strict=True)]
    claims.append(
        Claim(topic, words[2], papers[2],
              f"baseline {spread(reached[1])} m/s, {spread(slower, '.1f')} m/s slower than ours",
              within_ten("reproduced" if min(slower) >= 1.0 else "not reproduced",
                         [run for pair in both for run in pair]))
    )  # fmt: skip
    return claims


def _first_update(runs: Collected, topic: str, here: Mapping[str, Any]) -> Claim:
    words = "RMSE after one update, at the same time scale"
    paper = "0.06 m, about 4 × less than the baseline"
    both = pairs(runs, {**here, "method": "ours", "ats": "hold"},
                 {**here, "method": "baseline", "ats": "hold"})  # fmt: skip
    both = [side for side in both if all(len(run.records) > 1 for run in side)]
    if not both:
        return missing(topic, words, paper)
    ours, base = (
        [figure(run.records[1], "rmse_m") for run in side] for side in zip(*both, strict=True)
    )
    ratios = [b / max(a, 1e-6) for a, b in zip(ours, base, strict=True)]
    verdicts = {judge(ours, 0.06, rounding=0.005, lower=True), judge(ratios, 4.0, rounding=0.5)}
    verdict: Verdict = "reproduced"
    if "not reproduced" in verdicts:
        verdict = "not reproduced"
    elif verdicts == {"better"}:
        verdict = "better"
    return Claim(topic, words, paper,
                 f"{spread(ours, '.3f')} m, {spread(ratios, '.1f')} × less", verdict)  # fmt: skip
