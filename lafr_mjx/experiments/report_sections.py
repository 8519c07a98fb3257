"""The sections of a report over runs: each takes what it needs, or says that it has no data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from lafr_mjx.errors import InputError
from lafr_mjx.experiments import paper_claims as claims
from lafr_mjx.experiments.adaptation_batch import RunSpec
from lafr_mjx.view import report_flights, report_plots
from lafr_mjx.view.drawing import METHOD_COLOURS, SCENARIO_COLOURS
from lafr_mjx.view.page import Badge, Listing, Paragraph, Picture, Section, Table
from lafr_mjx.view.plots import commanded_rates

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from lafr_mjx.experiments.flown_runs import Collected, FlownRun
    from lafr_mjx.types import Rollout
    from lafr_mjx.view.page import Part, Tone

_TONES: dict[str, Tone] = {
    "reproduced": "good", "better": "better", "not reproduced": "bad", "no data": "plain"
}  # fmt: skip
_TASK_WORDS = {"figure8": "figure-8"}
_POTENTIAL_TICKS = 400  # of a flight of 8 s


@dataclass
class Material:
    """What the sections are made from, and what they found missing."""

    runs: Collected
    bounds: Sequence[Mapping[str, Any]]
    drawings: Path  # folder for pictures
    notes: list[str] = field(default_factory=list)

    def rollout(self, run: FlownRun, number: int) -> Rollout | None:
        """A recorded flight; if it is missing or broken, a note says so."""
        try:
            rollout = run.rollout(number)
        except InputError as error:
            self.notes.append(f"Not drawn: {error}")
            return None
        if rollout is None:
            where = run.folder or run.spec.name
            self.notes.append(f"Not drawn: {where} has no recorded flight {number}")
        return rollout

    def picture(self, name: str, alt: str, caption: str, runs: Sequence[FlownRun]) -> Picture:
        """A picture that was drawn into the folder."""
        png = (self.drawings / f"{name}.png").read_bytes()
        return Picture(name, png, alt, caption, made_by(runs))

    def place(self, name: str) -> Path:
        """Where to draw a picture."""
        return self.drawings / f"{name}.png"


def made_by(runs: Sequence[FlownRun]) -> str:
    """The command of the first run, and what varies over the others."""
    first = runs[0].spec
    varied = []
    for key in ("task", "scenario", "method", "ats", "horizon", "seed", "plant", "iterations"):
        values = sorted({getattr(run.spec, key) for run in runs}, key=str)
        if len(values) > 1:
            varied.append(f"{key} {', '.join(map(str, values))}")
    return first.command + (f"    [{'; '.join(varied)}]" if varied else "")


def threshold(run: FlownRun) -> float:
    """E_th of a run's task."""
    return float(run.config.get("task", {}).get("error_threshold_m", claims.THRESHOLD_M))


def ramp(run: FlownRun) -> float:
    """Seconds until figures of a flight count."""
    return float(run.config.get("task", {}).get("ramp_s", 1.5))


def records(runs: Sequence[FlownRun]) -> list[list[dict[str, Any]]]:
    """What the figures are drawn from."""
    return [run.records for run in runs]


def summary(material: Material) -> Section:
    """Each claim of the paper with a verdict."""
    found = claims.paper_claims(material.runs, material.bounds)
    rows, topic = [], ""
    for claim in found:
        if claim.verdict != "no data":
            name = claim.topic if claim.topic != topic else ""
            rows.append((name, claim.claim, claim.paper, claim.measured,
                         Badge(claim.verdict, _TONES[claim.verdict])))  # fmt: skip
            topic = claim.topic
    missing = [f"{c.topic}: {c.claim}" for c in found if c.verdict == "no data"]
    counts = {v: sum(c.verdict == v for c in found) for v in _TONES}
    parts: list[Part] = [
        Paragraph(
            f"Of {len(found)} claims {counts['reproduced']} are **reproduced**, "
            f"{counts['better']} are **better** than printed, {counts['not reproduced']} are "
            f"**not reproduced**, and {counts['no data']} have no data here."
        )
    ]
    if rows:
        parts.append(Table(("", "claim", "paper", "measured: median (range over the seeds)",
                            "verdict"), rows, text_columns=5))  # fmt: skip
    parts.append(
        Paragraph(
            "Reproduced: every run reaches the figure as printed, or shows what is said. Better: "
            "every run is beyond it by more than 3 %. Not reproduced: at least one run is not. A "
            "run with a crash reproduces nothing. A comparison of two methods counts as reproduced "
            "if the last lap of the first is shorter by 2 % or more in every seed. The "
            "paper's figures for speed, laps, hardware and inspection come from real flights; "
            "everything here is simulated."
        )
    )
    if missing:
        words = "1 claim" if len(missing) == 1 else f"{len(missing)} claims"
        parts.append(Listing(f"{words} without data", "\n".join(missing)))
    return Section("Summary against the paper", parts)


def learning(material: Material) -> Section | None:
    """Curves of every task and scenario."""
    keys = sorted({(r.task, r.scenario) for r in material.runs.matching()},
                  key=lambda key: (key[1] in claims.FAULTS, key))  # fmt: skip
    parts: list[Part] = []
    for task, scenario in keys:
        groups = {m: material.runs.matching(task=task, scenario=scenario, method=m)
                  for m in METHOD_COLOURS}  # fmt: skip
        groups = {method: group for method, group in groups.items() if group}
        everyone = [run for group in groups.values() for run in group]
        name = f"learning-{task}-{scenario}"
        words = f"{_TASK_WORDS.get(task, task)}, {scenario}"
        report_plots.plot_learning(
            material.place(name), {m: records(g) for m, g in groups.items()}, METHOD_COLOURS,
            words[0].upper() + words[1:], threshold(everyone[0]),
        )  # fmt: skip
        count = max(len(group) for group in groups.values())
        caption = (
            f"Learning on {words}. Line: median of {count} runs; band: their range; thin: each run."
            if count > 1 else f"Learning on {words}: one run for each method."
        )  # fmt: skip
        parts.append(material.picture(name, f"Learning curves: {words}", caption, everyone))
    return Section("Learning curves", parts) if parts else None


def ablation(material: Material) -> Section | None:
    """The methods side by side."""
    scenarios: dict[str, dict[str, list[FlownRun]]] = {}
    for scenario in ("nominal", "wind5"):
        groups = {m: material.runs.matching(task="figure8", scenario=scenario, method=m)
                  for m in claims.METHODS}  # fmt: skip
        groups = {method: group for method, group in groups.items() if group}
        if len(groups) > 1:
            scenarios[scenario] = groups
    if not scenarios:
        return None
    everyone = [run for groups in scenarios.values() for group in groups.values() for run in group]
    report_plots.plot_methods(
        material.place("methods"),
        {s: {m: records(g) for m, g in groups.items()} for s, groups in scenarios.items()},
        threshold(everyone[0]),
    )
    rows = []
    for scenario, groups in scenarios.items():
        for i, (method, group) in enumerate(groups.items()):
            rows.append(
                (scenario if i == 0 else "", method, str(len(group)),
                 claims.spread([claims.last(r, "lap_time_s") for r in group]),
                 claims.spread([claims.last(r, "peak_speed_mps") for r in group]),
                 claims.spread([claims.last(r, "rmse_m") for r in group], ".3f"),
                 claims.spread([claims.worst_rmse(r) for r in group], ".3f"),
                 str(sum(claims.beyond_threshold(r) for r in group)),
                 str(sum(claims.crashes(r) for r in group)))
            )  # fmt: skip
    heads = ("scenario", "method", "runs", "last lap s", "peak m/s", "RMSE m, last",
             "RMSE m, worst", "flights > 0.35 m", "crashes")  # fmt: skip
    return Section("Ablation: which part of the method matters", [
        material.picture("methods", "RMSE and lap of each method",
                         "Figure-8, last flight of each method: bar at the median, a dot for each "
                         "seed. All methods share the time scaling, so a lower error shows as a "
                         "shorter lap.", everyone),
        Table(heads, rows, text_columns=2),
        Paragraph(
            "LOTF has no rate residual: its model learns accelerations and the lag of the thrust, "
            "but believes that body rates follow their commands. It also starts its training "
            "flights from reset states, so that its difference to residual-only is the rate "
            "residual alone, and its difference to ours is that and anchoring."
        ),
    ])  # fmt: skip


def anchoring(material: Material) -> Section | None:
    """Anchored against equally perturbed reset rollouts, and over the training horizon."""
    rows, used = [], []
    usual = RunSpec("", "").horizon
    found = {(r.task, r.scenario, r.spec.horizon) for r in material.runs.runs
             if r.spec.ats == "verified" and not r.variant}  # fmt: skip
    for task, scenario, horizon in sorted(found):
        for one, other in (("ours", "residual-only"), ("anchor-only", "baseline")):
            here = {"task": task, "scenario": scenario, "horizon": horizon}
            both = claims.pairs(material.runs, {**here, "method": one}, {**here, "method": other})
            if not both:
                continue
            laps = [
                [claims.last(r, "lap_time_s") for r in side] for side in zip(*both, strict=True)
            ]
            change = [a / b - 1.0 if np.isfinite(a) and np.isfinite(b) else np.nan
                      for a, b in zip(*laps, strict=True)]  # fmt: skip
            over = [
                sum(claims.beyond_threshold(r) for r in side) for side in zip(*both, strict=True)
            ]
            used += [run for pair in both for run in pair]
            rows.append(
                (f"{_TASK_WORDS.get(task, task)}, {scenario}", f"{one} against {other}",
                 f"{0.02 * horizon:.1f}", str(len(both)), claims.spread(laps[0]),
                 claims.spread(laps[1]), claims.spread(change, "+.1%"), f"{over[0]} / {over[1]}")
            )  # fmt: skip
    if not rows:
        return None
    heads = ("runs", "anchored against reset", "horizon s", "pairs", "last lap s, anchored",
             "reset", "change of the lap", "flights > 0.35 m")  # fmt: skip
    parts: list[Part] = [
        Paragraph(
            "An anchored training flight starts where the drone was in its last flight; a reset "
            "one starts beside the reference. Both are perturbed equally, at the same number of "
            "training flights. A negative change of the lap speaks for anchoring. Pairs share "
            "their seed; with a few pairs, changes of one or two per cent are not a finding."
        ),
        Table(heads, rows, text_columns=2),
    ]
    for task, scenario in sorted({(t, s) for t, s, h in found if h != usual}):
        groups: dict[str, dict[int, Any]] = {}
        drawn: list[FlownRun] = []
        for method in ("ours", "residual-only"):
            by_horizon = {
                h: material.runs.matching(task=task, scenario=scenario, method=method, horizon=h)
                for h in sorted({h for t, s, h in found if (t, s) == (task, scenario)})
            }
            groups[method] = {h: records(group) for h, group in by_horizon.items() if group}
            drawn += [run for group in by_horizon.values() for run in group]
        horizons = sorted({h for by in groups.values() for h in by})
        if len(horizons) < 2:
            continue
        words = f"{_TASK_WORDS.get(task, task)}, {scenario}"
        name = f"horizons-{task}-{scenario}"
        report_plots.plot_horizons(material.place(name), horizons, groups, words)
        parts.append(material.picture(
            name, f"Anchoring over the training horizon: {words}",
            f"Ours (anchored) and residual-only (reset) on {words}, against the length of the "
            f"training flights. Line: median; dots: each seed.", drawn))  # fmt: skip
    return Section("When does anchoring help?", parts)


def wind(material: Material) -> Section | None:
    """Paths of baseline and ours in wind: before, after one update, after ten."""
    both = claims.pairs(material.runs, {"task": "figure8", "scenario": "wind5", "method": "ours"},
                        {"task": "figure8", "scenario": "wind5", "method": "baseline"})  # fmt: skip
    if not both:
        return None
    ours, base = both[0]
    rows: dict[str, list[report_flights.Shown]] = {}
    for run in (base, ours):
        last = min(10, len(run.records) - 1)
        shown = []
        for number in sorted({0, min(1, last), last}):
            rollout = material.rollout(run, number)
            if rollout is not None:
                figures = run.records[number]
                rmse = claims.figure(figures, "rmse_m")
                speed = claims.figure(figures, "peak_speed_mps")
                shown.append(report_flights.Shown(
                    rollout, f"V{number}: {speed:.1f} m/s, RMSE {rmse:.2f} m"))  # fmt: skip
        if shown:
            rows[run.spec.method] = shown
    if not rows:
        return None
    report_flights.plot_path_grid(material.place("wind"), rows, ramp(ours))
    caption = (
        f"Figure-8 in a wind of 5 m/s with gusts (seed {ours.spec.seed}), seen from above, after "
        f"the ramp: the policy before learning (V0), after one update (V1) and after the tenth. "
        f"The line below each path is its reference."
    )
    drawn = material.picture("wind", "Paths in wind coloured by speed", caption, [base, ours])
    return Section("Wind: baseline against ours", [drawn])


def faults(material: Material) -> Section | None:
    """Payload, propellers, both."""

    def groups(**more: Any) -> dict[str, list[FlownRun]]:
        found = {s: material.runs.matching(task="figure8", scenario=s, method="ours", **more)
                 for s in SCENARIO_COLOURS}  # fmt: skip
        return {s: group for s, group in found.items() if group}

    flown, held = groups(), groups(ats="hold")
    if not any(fault in flown for fault in claims.FAULTS):
        return None
    everyone = [run for group in (*flown.values(), *held.values()) for run in group]
    report_plots.plot_faults(material.place("hardware"),
                             {s: records(g) for s, g in flown.items()},
                             {s: records(g) for s, g in held.items()})  # fmt: skip
    return Section("Hardware variations", [
        material.picture("hardware", "Speed and error with altered hardware",
                         "Figure-8 with 60 g more (payload), clipped propellers, and both "
                         "(combined). Left: peak speed over the iterations. Right: what the first "
                         "updates do to the error while the time scale is held.",
                         everyone)])  # fmt: skip


def body_rates(material: Material) -> Section | None:
    """Commanded rates of one whole run for each task."""
    tasks, used = {}, []
    limit = 6.0
    for task in ("figure8", "shuttle"):
        for run in material.runs.matching(task=task, scenario="nominal", method="ours")[:1]:
            flights = [material.rollout(run, r["iteration"]) for r in run.records]
            rates = [commanded_rates(flight) for flight in flights if flight is not None]
            if rates:
                words = _TASK_WORDS.get(task, task)
                tasks[f"{words[0].upper()}{words[1:]}, seed {run.spec.seed}"] = rates
                used.append(run)
                high = run.config.get("vehicle", {}).get("limits_high")
                limit = float(high[1]) if high else limit
    if not tasks:
        return None
    report_flights.plot_rates(material.place("body_rates"), tasks, limit)
    return Section("Body rates against their limit", [
        material.picture("body_rates", "Commanded body rates",
                         "Largest of the three commanded body rates over all flights of a run; "
                         "vertical lines part the flights. The mean over 2 s is the paper's "
                         "measure.", used)])  # fmt: skip


def potential(material: Material) -> Section | None:
    """The landscape of the time scaling with the points that were visited."""
    for scenario in ("wind5", "nominal"):
        runs = material.runs.matching(task="figure8", scenario=scenario, method="ours")[:1]
        runs = [run for run in runs if any(r.get("candidates") for r in run.records)]
        if runs:
            break
    else:
        return None
    run, limit = runs[0], threshold(runs[0])
    report_flights.plot_potential(
        material.place("potential"), run.records,
        lambda scale, error: _potential(scale, error, limit), limit,
        f"Figure-8 in {run.scenario}, seed {run.spec.seed}",
    )  # fmt: skip
    return Section("Time scaling: the landscape", [
        material.picture(
            "potential", "Potential over time scale and error with the flights",
            f"The paper's potential J(α) = λ_speed α + λ_safe Σ Ψ(E - E_th), drawn as if the peak "
            f"error were held for all {_POTENTIAL_TICKS} control intervals of a flight, with the "
            f"weights of `--ats paper`. Numbers: the flights in their order. Grey dots and lines: "
            f"time scales that were verified in the stressed model before one of them was flown. "
            f"The default rule picks among these; it does not descend J.", [run])])  # fmt: skip


def _potential(scale: np.ndarray, error: np.ndarray, limit: float) -> np.ndarray:
    from lafr_mjx.learner.ats_paper import PaperSettings

    weights = PaperSettings()
    barrier = np.logaddexp(0.0, weights.sharpness * (error - limit)) / weights.sharpness
    return weights.speed_weight * scale + weights.safe_weight * _POTENTIAL_TICKS * barrier


def inspection(material: Material) -> Section | None:
    """The tour of the landmarks before and after."""
    from lafr_mjx.tasks import load_task

    runs = material.runs.matching(task="inspection", method="ours")
    if not runs:
        return None
    run = runs[0]
    task = load_task(run.spec.task)
    shown = []
    for record in (run.records[0], run.records[-1]):
        rollout = material.rollout(run, record["iteration"])
        if rollout is not None:
            lap = claims.figure(record, "lap_time_s")
            shown.append(report_flights.Shown(rollout, f"V{record['iteration']}: {lap:.1f} s"))
    if not shown:
        return None
    course = report_flights.Course(
        task.landmarks, task.landmark_radius_m, [(fan.position, fan.direction) for fan in task.fans]
    )
    report_flights.plot_inspection(material.place("inspection"), shown, course, records(runs),
                                   task.ramp_s)  # fmt: skip
    return Section("Inspection: before and after", [
        material.picture("inspection", "Tour of the landmarks before and after",
                         "Closed tour of three landmarks (circles: within 0.25 m of each) past a "
                         "fan (arrow). Above: the first and the last flight of one run. Below: "
                         "motion time and the largest distance at which a landmark was passed, all "
                         "runs.", runs)])  # fmt: skip


_BOUND_KEYS = ("uniform_ceiling_s", "ctbr_exact_path_s", "rotor_exact_path_s", "ctbr_free_s",
               "rotor_free_s")  # fmt: skip


def lower_bounds(material: Material) -> Section | None:
    """How far the last laps are from what is possible at all."""
    rows = []
    for figures in material.bounds:
        group = material.runs.matching(task=figures["task"], method="ours", scenario="nominal")
        laps = [claims.last(run, "lap_time_s") for run in group]
        values = (figures.get(key) for key in _BOUND_KEYS)
        rows.append((figures["task"], *("–" if v is None else f"{v:.3f}" for v in values),
                     claims.spread(laps) if laps else "–"))  # fmt: skip
    if not rows:
        return None
    heads = ("task", "uniform ceiling s", "CTBR, path s", "rotors, path s", "CTBR, free s",
             "rotors, free s", "ours, nominal s")  # fmt: skip
    return Section("Time-optimal lower bounds", [
        Table(heads, rows, caption="Printed by `lafr-mjx bounds TASK`; without delay and drag. A "
              "flight may be faster than the bound of the exact path, since it may leave the "
              "path.")])  # fmt: skip


SECTIONS = {
    "Learning curves": learning,
    "Ablation: which part of the method matters": ablation,
    "When does anchoring help?": anchoring,
    "Wind: baseline against ours": wind,
    "Hardware variations": faults,
    "Body rates against their limit": body_rates,
    "Time scaling: the landscape": potential,
    "Inspection: before and after": inspection,
    "Time-optimal lower bounds": lower_bounds,
}
"""All that may be in a report besides the summary and the appendix, in their order."""
