"""Made-up runs for the tests of reports: records whose verdicts are known, and flights."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from view_runs import flown

from lafr_mjx.report.flown_runs import Collected, FlownRun, _unusual
from lafr_mjx.runs.run_folder import RunFolder
from lafr_mjx.tasks import load_task as read_task

load_task = lru_cache(read_task)
# Last lap [s] and RMSE [m] of each method.
SKILL = {"ours": (2.2, 0.06), "residual-only": (2.3, 0.07), "lotf": (2.8, 0.09),
         "anchor-only": (4.6, 0.12), "baseline": (5.4, 0.14), "geometric": (4.0, 0.1)}  # fmt: skip
FAULTS = {"payload": 1.2, "propeller": 1.1, "combined": 1.6}


def record(iteration, spec, **changes):
    """Figures of a flight on the way to the method's last lap."""
    lap_s = load_task(spec.task).lap_s
    lap, rmse = SKILL[spec.method]
    lap *= FAULTS.get(spec.scenario, 1.0) * (1.0 + 0.01 * (spec.seed % 7))
    first = 0.3 if spec.scenario != "nominal" else 0.1
    # The last three flights are the same.
    share = 1.0 if spec.iterations < 5 else min(iteration / (spec.iterations - 3), 1.0) ** 0.5
    now = lap_s + share * (lap - lap_s)
    if spec.ats == "hold":
        now = lap_s
    scale = now / lap_s
    if spec.ats == "hold" and spec.method == "ours":
        rmse *= 0.5
    scales = scale * np.geomspace(0.8, 1.0, 8)
    return {
        "iteration": iteration, "flight_time_s": 8.0, "time_scale": scale, "lap_time_s": now,
        "reference_lap_s": now, "peak_speed_mps": 18.6 / now,
        "rmse_m": first if iteration == 0 else rmse,
        "peak_error_m": 1.4 * (first if iteration == 0 else rmse) * (0.7 if first > 0.2 else 1.0),
        "rate_saturation": 0.08 * share, "thrust_saturation": 0.1 * share, "crashed": False,
        "landmark_miss_m": 0.05 if spec.task == "inspection" else None, "residual_loss": 6.0,
        "peak_path_distance_m": 0.2, "gates_due": 7 if spec.task == "race" else None,
        "gates_passed": 7, "gate_clearance_m": 0.1,
        "predicted_peak_error_m": 0.1, "bound_by": "trust region", "wall_s": 3.0,
        "candidates": list(scales), "candidate_nominal_errors_m": list(0.03 / scales),
        "candidate_stressed_errors_m": list(0.06 / scales),
    } | changes  # fmt: skip


def made(spec, change=None, **more):
    """A run that lies on no disk."""
    lines = [record(i, spec, **(change(i) if change else {})) for i in range(spec.iterations)]
    return FlownRun(spec, lines, **more)._replace(variant=", ".join(_unusual(spec)))


def collected(specs, changes=None):
    """Runs by specs; `changes` alters the records of those that its test accepts."""
    changes = changes or {}

    def change(spec):
        for accepts, altered in changes.items():
            if accepts(spec):
                return lambda i: altered(i) if callable(altered) else altered
        return None

    return Collected([made(spec, change(spec)) for spec in specs], [])


def write_run(folder, spec, flights=(), change=None):
    """A run folder with the flights of these numbers."""
    task = load_task(spec.task)
    config = {
        "run": spec.table(),
        "task": {"name": task.name, "error_threshold_m": task.error_threshold_m,
                 "ramp_s": task.ramp_s},
        "vehicle": {"name": spec.vehicle, "limits_high": [25.0, 6.0, 6.0, 6.0]},
    }  # fmt: skip
    path = folder / spec.name
    with RunFolder.create(path, config) as run:
        for i in range(spec.iterations):
            line = record(i, spec, **(change(i) if change else {}))
            if i in flights:
                rollout = flown(line["time_scale"], (0.0, line["rmse_m"], 0.0), task)
                rates = 6.0 * np.sin(3.0 * rollout.time) * (i + 1) / spec.iterations
                command = np.asarray(rollout.command) + 0.0
                command[:, 1] = rates
                run.save_rollout(i, rollout._replace(command=command))
            run.append_iteration(line)
    return path
