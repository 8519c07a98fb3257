"""The figures of one iteration, as a run keeps them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lafr_mjx.learner.loop import Flown


def record_of(metrics: Any, flown: Flown, iteration: int) -> dict[str, Any]:
    """One line of `iterations.jsonl`."""
    progress = flown.progress
    figures = asdict(metrics)
    return {
        "iteration": iteration,
        "flight_time_s": figures["flight_time_s"],
        "time_scale": flown.time_scale,
        "lap_time_s": figures["lap_time_s"],
        "reference_lap_s": figures["reference_lap_s"],
        "peak_speed_mps": figures["peak_speed_mps"],
        "rmse_m": figures["rmse_m"],
        "peak_error_m": figures["peak_error_m"],
        "rate_saturation": figures["rate_saturation"],
        "thrust_saturation": figures["thrust_saturation"],
        "crashed": figures["crashed"],
        "slow_down_factor": figures["slow_down_factor"],
        "fallback": figures["fallback"],
        "landmark_miss_m": figures["landmark_miss_m"],
        "residual_loss": float(progress.residual_loss),
        "predicted_peak_error_m": flown.predicted_error,
        "bound_by": flown.outcome,
        **{key: float(value) for key, value in progress.notes.items()},
        "new_policy": bool(progress.new_policy),
        "candidates": [float(x) for x in progress.candidates],
        "candidate_nominal_errors_m": [float(x) for x in progress.nominal_errors],
        "candidate_stressed_errors_m": [float(x) for x in progress.stressed_errors],
        "wall_s": flown.wall_s,
    }
