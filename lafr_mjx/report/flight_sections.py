"""The sections of a report that show flights: wind, hardware, rates, time scaling, inspection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lafr_mjx.report import claim_figures as claims
from lafr_mjx.report.material import TASK_WORDS, records, threshold
from lafr_mjx.report.paper_runs import FAULTS
from lafr_mjx.tasks import load_task
from lafr_mjx.view import report_flights, report_plots
from lafr_mjx.view.drawing import SCENARIO_COLOURS
from lafr_mjx.view.page import Section, Table
from lafr_mjx.view.plots import commanded_rates, plot_rates

if TYPE_CHECKING:
    from lafr_mjx.report.flown_runs import FlownRun
    from lafr_mjx.report.material import Material

_POTENTIAL_TICKS = 400  # of a flight of 8 s


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
    report_flights.plot_path_grid(material.place("wind"), rows, load_task(ours.spec.task))
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
    if not any(fault in flown for fault in FAULTS):
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
                words = TASK_WORDS.get(task, task)
                tasks[f"{words[0].upper()}{words[1:]}, seed {run.spec.seed}"] = rates
                used.append(run)
                high = run.config.get("vehicle", {}).get("limits_high")
                limit = float(high[1]) if high else limit
    if not tasks:
        return None
    plot_rates(material.place("body_rates"), tasks, limit)
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
    from lafr_mjx.learner.ats_paper import Paper

    weights = Paper()
    barrier = np.logaddexp(0.0, weights.sharpness * (error - limit)) / weights.sharpness
    return weights.speed_weight * scale + weights.safe_weight * _POTENTIAL_TICKS * barrier


def inspection(material: Material) -> Section | None:
    """The tour of the landmarks before and after."""
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
    report_flights.plot_inspection(material.place("inspection"), shown, task, records(runs))
    return Section("Inspection: before and after", [
        material.picture("inspection", "Tour of the landmarks before and after",
                         "Closed tour of three landmarks (circles: within 0.25 m of each) past a "
                         "fan (arrow). Above: the first and the last flight of one run. Below: "
                         "motion time and the largest distance at which a landmark was passed, all "
                         "runs; a ring: assisted by the guard.", runs)])  # fmt: skip


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
