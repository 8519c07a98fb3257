"""What the paper claims, what runs say about it, and a verdict.

**reproduced**: every run reaches the figure as it is printed, or shows what is said.
**better**: every run is beyond the figure by more than 3 %.
**not reproduced**: at least one run is not.

Of two methods the first must have a clearly shorter last lap in every seed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from lafr_mjx.experiments.claims import THRESHOLD_M

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lafr_mjx.experiments.flown_runs import Collected, FlownRun

Verdict = Literal["reproduced", "not reproduced", "better", "no data"]

METHODS = ("ours", "residual-only", "lotf", "anchor-only", "baseline")
FAULTS = ("payload", "propeller", "combined")
LANDMARK_M = 0.25
SATURATED = 0.05  # share of a flight with a rate at its limit that counts as persistent
_MARGIN = 0.03  # beyond the paper's figure that counts as better
CLEARLY = 0.02  # by how much a lap must be shorter to speak for a method
_TOPICS = {"figure8": "Figure-8", "shuttle": "Shuttle"}
_TEN_ITERATIONS = 11  # flights 0 to 10


class Claim(NamedTuple):
    """One line of the summary."""

    topic: str
    claim: str
    paper: str
    measured: str
    verdict: Verdict


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


def beyond_threshold(run: FlownRun) -> int:
    """Flights of a run whose peak error passed the threshold."""
    return sum(figure(record, "peak_error_m") > THRESHOLD_M for record in run.records)


def pairs(
    runs: Collected, one: Mapping[str, Any], other: Mapping[str, Any]
) -> list[tuple[FlownRun, FlownRun]]:
    """Runs of two kinds that share seed and plant."""
    second = {(r.spec.seed, r.spec.plant): r for r in runs.matching(**other)}
    return [
        (run, second[key]) for run in runs.matching(**one)
        if (key := (run.spec.seed, run.spec.plant)) in second
    ]  # fmt: skip


def paper_claims(runs: Collected, bounds: Sequence[Mapping[str, Any]] = ()) -> list[Claim]:
    """All claims of the paper; those that nothing was flown for say so."""
    parts: list[Callable[[], list[Claim]]] = [
        lambda: [*_speed(runs, "figure8", 2.2, 7.2, 2.60), _saturation(runs, "figure8")],
        lambda: [*_speed(runs, "shuttle", 2.0, 7.3, 2.30), _saturation(runs, "shuttle")],
        lambda: _iteration_time(runs),
        lambda: _faults(runs),
        lambda: _inspection(runs),
        *(lambda scenario=s: _ablation(runs, scenario) for s in ("nominal", "wind5")),
        lambda: _wind(runs),
        lambda: _bounds(bounds),
    ]
    return [claim for part in parts for claim in part()]


def _missing(topic: str, claim: str, paper: str) -> Claim:
    return Claim(topic, claim, paper, "not flown", "no data")


def _safe(verdict: Verdict, group: Sequence[FlownRun]) -> Verdict:
    """A figure that was reached with a crash on the way is not what the paper reports."""
    return "not reproduced" if any(crashes(run) for run in group) else verdict


def _with_crashes(group: Sequence[FlownRun]) -> str:
    count = sum(crashes(run) for run in group)
    return f"; {count} crashed flights" if count else ""


def _speed(runs: Collected, task: str, first: float, final: float, lap: float) -> list[Claim]:
    topic = _TOPICS[task]
    words = ("peak speed, from the first to the last flight", "lap of the last flight")
    papers = (f"{first} → {final} m/s in about 100 s", f"{lap:.2f} s")
    group = runs.matching(task=task, scenario="nominal", method="ours")
    if not group:
        return [_missing(topic, w, p) for w, p in zip(words, papers, strict=True)]
    speeds = [last(run, "peak_speed_mps") for run in group]
    starts = [figure(run.records[0], "peak_speed_mps") for run in group]
    seconds = [sum(figure(record, "flight_time_s") for record in run.records) for run in group]
    laps = [last(run, "lap_time_s") for run in group]
    crash = _with_crashes(group)
    return [
        Claim(topic, words[0], papers[0],
              f"{spread(starts, '.1f')} → {spread(speeds)} m/s in {spread(seconds, '.0f')} s"
              f"{crash}",
              _safe(judge(speeds, final, rounding=0.05), group)),
        Claim(topic, words[1], papers[1], f"{spread(laps)} s{crash}",
              _safe(judge(laps, lap, rounding=0.005, lower=True), group)),
    ]  # fmt: skip


def _saturation(runs: Collected, task: str) -> Claim:
    words = "body rates at their limit in the last flight"
    paper = "persistent saturation at 6 rad/s"
    group = runs.matching(task=task, scenario="nominal", method="ours")
    if not group:
        return _missing(_TOPICS[task], words, paper)
    shares = [last(run, "rate_saturation") for run in group]
    thrust = [last(run, "thrust_saturation") for run in group]
    return Claim(
        _TOPICS[task], words, paper,
        f"{spread(shares, '.1%')} of the commands; thrust at its limit in {spread(thrust, '.1%')}",
        "reproduced" if min(shares) >= SATURATED else "not reproduced",
    )  # fmt: skip


def _iteration_time(runs: Collected) -> list[Claim]:
    words, paper = "one iteration of learning", "9 s on an RTX 4090"
    group = runs.matching(task="figure8", scenario="nominal", method="ours")
    # The first three compile.
    seconds = [
        record["wall_s"] for run in group for record in run.records[3:] if "wall_s" in record
    ]
    if not seconds:
        return [_missing("Computation", words, paper)]
    median = float(np.median(seconds))
    return [Claim("Computation", words, paper,
                  f"{median:.1f} s in the median, with the flight, on this computer's processor as "
                  f"busy as it was", judge([median], 9.0, rounding=0.5, lower=True))]  # fmt: skip


def _faults(runs: Collected) -> list[Claim]:
    claims = []
    for fault in FAULTS:
        both = pairs(runs, {"task": "figure8", "scenario": "nominal", "method": "ours"},
                     {"task": "figure8", "scenario": fault, "method": "ours"})  # fmt: skip
        words, paper = f"{fault}: ceiling of the speed", "lower than of the intact vehicle"
        if both:
            speeds = [
                [last(run, "peak_speed_mps") for run in side] for side in zip(*both, strict=True)
            ]
            lower = all(b < a for a, b in zip(*speeds, strict=True))
            claims.append(
                Claim("Hardware", words, paper,
                      f"{spread(speeds[1])} m/s, intact {spread(speeds[0])} m/s"
                      + _with_crashes([run for _, run in both]),
                      _safe("reproduced" if lower else "not reproduced", [r for _, r in both]))
            )  # fmt: skip
        else:
            claims.append(_missing("Hardware", words, paper))
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
            claims.append(_missing("Hardware", words, paper))
    return claims


def _inspection(runs: Collected) -> list[Claim]:
    words = ("motion time of the tour", "landmarks passed in the last flight")
    papers = ("12 → 7 s, 42 % less", "within the safety constraints")
    group = [run for run in runs.matching(task="inspection", scenario="fan", method="ours")
             if run.records[0].get("lap_time_s")]  # fmt: skip
    if not group:
        return [_missing("Inspection", w, p) for w, p in zip(words, papers, strict=True)]
    first = [float(run.records[0]["lap_time_s"]) for run in group]
    final = [last(run, "lap_time_s") for run in group]
    less = [1.0 - b / a for a, b in zip(first, final, strict=True)]
    misses = [last(run, "landmark_miss_m") for run in group]
    told = all("landmark_miss_m" in run.records[-1] for run in group)
    return [
        Claim("Inspection", words[0], papers[0],
              f"{spread(first, '.1f')} → {spread(final)} s, {spread(less, '.0%')} less, on a "
              f"course of our own (the paper prints none){_with_crashes(group)}",
              _safe(judge(less, 0.42, rounding=0.005), group)),
        Claim("Inspection", words[1], papers[1],
              f"at {spread(misses)} m, {LANDMARK_M} m allowed",
              "reproduced" if max(misses) <= LANDMARK_M else "not reproduced")
        if told else _missing("Inspection", words[1], papers[1]),
    ]  # fmt: skip


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


def _ablation(runs: Collected, scenario: str) -> list[Claim]:
    topic = f"Ablation, {scenario}"
    here = {"task": "figure8", "scenario": scenario}
    claims = [_compared(runs, topic, here, versus) for versus in _COMPARED]
    groups = {method: runs.matching(**here, method=method) for method in METHODS}
    words, paper = "all methods keep the error below the threshold", "below 0.35 m"
    if not all(groups.values()):
        return [*claims, _missing(topic, words, paper)]
    everything = [run for group in groups.values() for run in group]
    worst = {m: max(worst_rmse(run) for run in g) for m, g in groups.items()}
    count = sum(beyond_threshold(run) for run in everything)
    flights = sum(len(run.records) for run in everything)
    most = max(worst, key=lambda method: worst[method])
    claims.append(
        Claim(topic, words, paper,
              f"largest RMSE {worst[most]:.2f} m ({most}); peak error beyond it in {count} of "
              f"{flights} flights{_with_crashes(everything)}",
              _safe("reproduced" if worst[most] < THRESHOLD_M else "not reproduced", everything))
    )  # fmt: skip
    return claims


def _compared(runs: Collected, topic: str, here: Mapping[str, Any], versus: _Versus) -> Claim:
    both = pairs(runs, {**here, "method": versus.one}, {**here, "method": versus.other})
    if not both:
        return _missing(topic, versus.words, versus.paper)
    laps = [[last(run, "lap_time_s") for run in side] for side in zip(*both, strict=True)]
    errors = [[last(run, "rmse_m") for run in side] for side in zip(*both, strict=True)]
    over = [
        [beyond_threshold(run) + crashes(run) for run in side] for side in zip(*both, strict=True)
    ]
    shorter = sum(a < (1.0 - CLEARLY) * b for a, b in zip(*laps, strict=True))
    return Claim(
        topic, versus.words, versus.paper,
        f"last lap {spread(laps[0])} against {spread(laps[1])} s, shorter by {CLEARLY:.0%} or "
        f"more in {shorter} of {len(both)} seeds; RMSE there {spread(errors[0], '.3f')} against "
        f"{spread(errors[1], '.3f')} m; flights beyond 0.35 m {sum(over[0])} against "
        f"{sum(over[1])}",
        "reproduced" if shorter == len(both) else "not reproduced",
    )  # fmt: skip


def _wind(runs: Collected) -> list[Claim]:
    topic, here = "Wind of 5 m/s", {"task": "figure8", "scenario": "wind5"}
    claims = [_first_update(runs, topic, here)]
    ours = [run._replace(records=run.records[:_TEN_ITERATIONS])
            for run in runs.matching(**here, method="ours")]  # fmt: skip
    words = ("peak speed within ten iterations", "tracking error on the way",
             "the baseline stays slower")  # fmt: skip
    papers = ("2.6 → 6.8 m/s", "below 0.35 m", "stuck at 4.7 m/s")
    if not ours:
        return claims + [_missing(topic, w, p) for w, p in zip(words, papers, strict=True)]
    starts = [figure(run.records[0], "peak_speed_mps") for run in ours]
    speeds = [last(run, "peak_speed_mps") for run in ours]
    worst = [worst_rmse(run) for run in ours]
    peaks = [beyond_threshold(run) for run in ours]
    claims += [
        Claim(topic, words[0], papers[0],
              f"{spread(starts, '.1f')} → {spread(speeds)} m/s{_with_crashes(ours)}",
              _safe(judge(speeds, 6.8, rounding=0.05), ours)),
        Claim(topic, words[1], papers[1],
              f"largest RMSE {spread(worst)} m; peak error beyond it in {sum(peaks)} of "
              f"{sum(len(run.records) for run in ours)} flights",
              _safe("reproduced" if max(worst) < THRESHOLD_M else "not reproduced", ours)),
    ]  # fmt: skip
    both = pairs(runs, {**here, "method": "ours"}, {**here, "method": "baseline"})
    if not both:
        return [*claims, _missing(topic, words[2], papers[2])]
    reached = [[max((figure(r, "peak_speed_mps") for r in run.records[:_TEN_ITERATIONS]
                    if not r.get("crashed")), default=0.0) for run in side]
               for side in zip(*both, strict=True)]  # fmt: skip
    slower = [a - b for a, b in zip(*reached, strict=True)]
    claims.append(
        Claim(topic, words[2], papers[2],
              f"baseline {spread(reached[1])} m/s, {spread(slower, '.1f')} m/s slower than ours",
              "reproduced" if min(slower) >= 1.0 else "not reproduced")
    )  # fmt: skip
    return claims


def _first_update(runs: Collected, topic: str, here: Mapping[str, Any]) -> Claim:
    words = "RMSE after one update, at the same time scale"
    paper = "0.06 m, about 4 × less than the baseline"
    both = pairs(runs, {**here, "method": "ours", "ats": "hold"},
                 {**here, "method": "baseline", "ats": "hold"})  # fmt: skip
    both = [side for side in both if all(len(run.records) > 1 for run in side)]
    if not both:
        return _missing(topic, words, paper)
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
            claims.append(_missing("Lower bounds", words, f"{printed} s")._replace(
                measured="not computed"))  # fmt: skip
            continue
        near = min(found, key=lambda value: abs(value - printed))
        verdict: Verdict = "reproduced" if abs(near / printed - 1.0) <= 0.01 else "not reproduced"
        claims.append(Claim("Lower bounds", words, f"{printed} s", f"{near:.3f} s", verdict))
    return claims
