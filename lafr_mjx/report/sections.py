"""The sections of a report that compare runs: each says that it has no data by None."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lafr_mjx.report import claim_figures as claims
from lafr_mjx.report import flight_sections as flights
from lafr_mjx.report.material import TASK_WORDS, records, threshold
from lafr_mjx.report.paper_runs import FAULTS, METHODS, WORLDS
from lafr_mjx.run_spec import RunSpec
from lafr_mjx.view import report_plots
from lafr_mjx.view.drawing import METHOD_COLOURS
from lafr_mjx.view.page import Paragraph, Section, Table

if TYPE_CHECKING:
    from lafr_mjx.report.flown_runs import FlownRun
    from lafr_mjx.report.material import Material
    from lafr_mjx.view.page import Part


def learning(material: Material) -> Section | None:
    """Curves of every run: by task, scenario and what else is unusual; the usual ones first."""
    keys = sorted({(_unusual(r), r.task, r.scenario) for r in material.runs.runs},
                  key=lambda key: (key[0], key[2] in FAULTS, key))  # fmt: skip
    parts: list[Part] = []
    for number, (unusual, task, scenario) in enumerate(keys):
        everyone = sorted(
            (r for r in material.runs.runs if (_unusual(r), r.task, r.scenario) == keys[number]),
            key=lambda run: (run.spec.seed, run.spec.plant),
        )
        groups = {m: [r for r in everyone if r.spec.method == m] for m in METHOD_COLOURS}
        groups = {method: group for method, group in groups.items() if group}
        name = f"learning-{task}-{scenario}" + (f"-{number}" if unusual else "")
        words = ", ".join(filter(None, (TASK_WORDS.get(task, task), scenario, unusual)))
        report_plots.plot_learning(
            material.place(name), {m: records(g) for m, g in groups.items()}, METHOD_COLOURS,
            words[0].upper() + words[1:], threshold(everyone[0]),
        )  # fmt: skip
        count = max(len(group) for group in groups.values())
        caption = (
            f"Learning on {words}. Line: median of {count} runs; band: their range; thin: each run."
            if count > 1 else f"Learning on {words}: one run for each method."
        )  # fmt: skip
        if any(map(claims.assisted_flights, everyone)):
            caption += " A ring: assisted by the guard."
        parts.append(material.picture(name, f"Learning curves: {words}", caption, everyone))
    return Section("Learning curves", parts) if parts else None


def _unusual(run: FlownRun) -> str:
    """What a run has that others are not compared with; empty for a usual one."""
    ats = "" if run.spec.ats == "verified" else f"time scaling {run.spec.ats}"
    horizon = "" if run.spec.horizon == RunSpec().horizon else f"horizon {run.spec.horizon}"
    return ", ".join(filter(None, (ats, horizon, run.variant)))


def ablation(material: Material) -> Section | None:
    """The methods side by side."""
    scenarios: dict[str, dict[str, list[FlownRun]]] = {}
    for scenario in WORLDS:
        groups = {m: material.runs.matching(task="figure8", scenario=scenario, method=m)
                  for m in METHOD_COLOURS if m in METHODS}  # fmt: skip
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
             "RMSE m, worst", "> 0.35 m or assisted", "crashes")  # fmt: skip
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
    usual = RunSpec().horizon
    found = {(r.task, r.scenario, r.spec.horizon) for r in material.runs.runs
             if r.spec.ats == "verified" and not r.variant}  # fmt: skip
    for task, scenario, horizon in sorted(found):
        for one, other in (("ours", "residual-only"), ("anchor-only", "baseline")):
            here = {"task": task, "scenario": scenario, "horizon": horizon}
            both = claims.pairs(material.runs, {**here, "method": one}, {**here, "method": other})
            if not both:
                continue
            sides = claims.sides(both)
            laps = [[claims.last(r, "lap_time_s") for r in side] for side in sides]
            change = [a / b - 1.0 if np.isfinite(a) and np.isfinite(b) else np.nan
                      for a, b in zip(*laps, strict=True)]  # fmt: skip
            over = [sum(claims.beyond_threshold(r) for r in side) for side in sides]
            used += [run for pair in both for run in pair]
            rows.append(
                (f"{TASK_WORDS.get(task, task)}, {scenario}", f"{one} against {other}",
                 f"{0.02 * horizon:.1f}", str(len(both)), claims.spread(laps[0]),
                 claims.spread(laps[1]), claims.spread(change, "+.1%"), f"{over[0]} / {over[1]}")
            )  # fmt: skip
    if not rows:
        return None
    heads = ("runs", "anchored against reset", "horizon s", "pairs", "last lap s, anchored",
             "reset", "change of the lap", "> 0.35 m or assisted")  # fmt: skip
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
        words = f"{TASK_WORDS.get(task, task)}, {scenario}"
        name = f"horizons-{task}-{scenario}"
        report_plots.plot_horizons(material.place(name), horizons, groups, words)
        parts.append(material.picture(
            name, f"Anchoring over the training horizon: {words}",
            f"Ours (anchored) and residual-only (reset) on {words}, against the length of the "
            f"training flights. Line: median; dots: each seed.", drawn))  # fmt: skip
    return Section("When does anchoring help?", parts)


SECTIONS = {
    "Learning curves": learning,
    "Ablation: which part of the method matters": ablation,
    "When does anchoring help?": anchoring,
    "Wind: baseline against ours": flights.wind,
    "Hardware variations": flights.faults,
    "Body rates against their limit": flights.body_rates,
    "Time scaling: the landscape": flights.potential,
    "Inspection: before and after": flights.inspection,
    "Time-optimal lower bounds": flights.lower_bounds,
}
"""All that may be in a report besides the summary and the appendix, in their order."""
