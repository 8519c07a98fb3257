"""The figures of one iteration, as a run keeps them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from lafr_mjx.learner.references import REFUSALS

if TYPE_CHECKING:
    from lafr_mjx.learner.loop import Flown


def record_of(metrics: Any, flown: Flown, iteration: int) -> dict[str, Any]:
    """One line of `iterations.jsonl`."""
    progress = flown.progress
    return {
        "iteration": iteration,
        "time_scale": flown.time_scale,
        **asdict(metrics),
        "residual_loss": float(progress.residual_loss),
        "predicted_peak_error_m": flown.predicted_error,
        "bound_by": flown.outcome,
        **{key: float(value) for key, value in progress.notes.items()},
        "new_policy": bool(progress.new_policy),
        "plan_refused": REFUSALS[int(progress.plan_refused)],
        "velocity_lag_s": float(progress.velocity_lag),
        "steps_not_taken": int(progress.steps_not_taken),
        "candidates": [float(x) for x in progress.candidates],
        "candidate_nominal_errors_m": [float(x) for x in progress.nominal_errors],
        "candidate_stressed_errors_m": [float(x) for x in progress.stressed_errors],
        "wall_s": flown.wall_s,
    }
