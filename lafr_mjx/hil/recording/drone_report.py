"""Figures of flights on the wire, for tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lafr_mjx.adaptation.adaptation_report import AdaptationReport
from lafr_mjx.metrics import event_in

if TYPE_CHECKING:
    from lafr_mjx.hil.safety.drone_profile import Profile
    from lafr_mjx.runs.run_folder import RunFolder
    from lafr_mjx.tasks import Task
    from lafr_mjx.types import Rollout

COLUMNS = ("flight", "s", "lap s", "peak m/s", "RMSE m", "peak error m", "state age ms", "event")


def flight_rows(
    found: dict[int, Rollout], task: str | None, profile: Profile
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """One row for each flight; without a task there is no lap and no ramp to leave out."""
    rows = []
    for number, rollout in found.items():
        figures = flight_figures(rollout, task, profile)
        lap = "-" if figures["lap_time_s"] is None else f"{figures['lap_time_s']:.2f}"
        rows.append(
            (
                str(number), f"{figures['flight_time_s']:.2f}", lap,
                f"{figures['peak_speed_mps']:.2f}", f"{figures['rmse_m']:.3f}",
                f"{figures['peak_error_m']:.3f}", f"{figures['state_age_ms']:.1f}",
                event_in(figures),
            )
        )  # fmt: skip
    return COLUMNS, rows


def flight_figures(rollout: Rollout, task: str | None, profile: Profile) -> dict[str, Any]:
    """The project's figures of a flight, and the median age of the states it was flown on."""
    age = 1e3 * float(np.median(np.asarray(rollout.time) - np.asarray(rollout.stamp)))
    if task is not None:
        from dataclasses import asdict

        from lafr_mjx.metrics import flight_metrics
        from lafr_mjx.tasks import load_task

        metrics = flight_metrics(rollout, load_task(task), profile.command.limits)
        return {**asdict(metrics), "state_age_ms": age}
    error = np.linalg.norm(rollout.sensed.position - rollout.reference.position, axis=-1)
    return {
        "flight_time_s": float(rollout.time[-1]),
        "lap_time_s": None,
        "peak_speed_mps": float(np.linalg.norm(rollout.sensed.velocity, axis=-1).max()),
        "rmse_m": float(np.sqrt(np.mean(error**2))),
        "peak_error_m": float(error.max()),
        "slow_down_factor": float(np.max(rollout.slow_down)),
        "fallback": bool(np.any(rollout.fallback)),
        "state_age_ms": age,
    }


def unlearned_record(
    rollout: Rollout, task: Task, profile: Profile, number: int, time_scale: float
) -> dict[str, Any]:
    """The line of `iterations.jsonl` of a flight that nothing was learned from."""
    from dataclasses import asdict

    from lafr_mjx.metrics import flight_metrics

    figures = asdict(flight_metrics(rollout, task, profile.command.limits))
    nothing = dict.fromkeys(("residual_loss", "predicted_peak_error_m", "inflation",
                             "refused_time_scale"))  # fmt: skip
    lists = ("candidates", "candidate_nominal_errors_m", "candidate_stressed_errors_m")
    return {
        "iteration": number,
        "time_scale": time_scale,
        **figures,
        **nothing,
        "bound_by": "not learned",
        "new_policy": False,
        **{name: [] for name in lists},
        "wall_s": figures["flight_time_s"],
    }


class AdaptationTable(AdaptationReport):
    """The report of an adaptation, made when the flight is over."""

    def __init__(self, folder: RunFolder) -> None:
        from rich.console import Console

        from lafr_mjx.adaptation.adaptation_job import AdaptationJob
        from lafr_mjx.run_spec import RunSpec

        self.folder = folder
        given = folder.config["run"]
        # A fixed controller has no method that could be run again.
        method = given["method"] if folder.config["hil"]["learns"] else "geometric"
        self.job = AdaptationJob.build(RunSpec(**{**given, "method": method}))
        self.console = Console(highlight=False)
        self.flown_s = 0.0
        self._status = None
