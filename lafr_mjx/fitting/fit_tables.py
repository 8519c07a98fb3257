"""Lines of the tables that the console and the page of a fit share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lafr_mjx.fitting.fit_job import QUANTITIES

if TYPE_CHECKING:
    from collections.abc import Iterable

NAMES = {
    "nominal": "nominal",
    "scale_bias": "nominal + scale/bias",
    "hybrid": "hybrid (chosen features)",
    "online": "online learner",
    "online_body": "online learner, body inputs",
    "paper": "online learner, paper's inputs",
    "body": "linear, body frame",
}
ERROR_HEADS = ("model", "position mm", "velocity cm/s", "attitude °")
HORIZON_TEXT = {"20ms": "one step (20 ms)", "100ms": "0.1 s", "500ms": "0.5 s"}


def error_table(
    metrics: dict[str, Any], models: Iterable[str], horizon: str
) -> tuple[str, list[tuple[str, ...]]]:
    """Title and rows of the models' errors at a horizon, with their spreads."""
    title = f"Error after {HORIZON_TEXT[horizon]}, {metrics['windows']} windows"
    return title, [
        (NAMES[name], *(_with_spread(metrics, f"{name}_{horizon}_{q}") for q in QUANTITIES))
        for name in models
    ]


def rate_rows(metrics: dict[str, Any]) -> list[tuple[str, ...]]:
    """Lines of the table of body rates."""
    labels = {
        "nominal": "as commanded",
        "memoryless": "linear, no history",
        "hybrid": f"linear, last {metrics['rates_taps']} commands",
    }
    return [
        (label, f"{metrics[f'{name}_rates_dps']:.2f}", f"{metrics[f'{name}_yaw_rate_dps']:.2f}")
        for name, label in labels.items()
    ]


def _with_spread(metrics: dict[str, Any], key: str) -> str:
    spread = metrics.get(f"{key}_spread")
    return f"{metrics[key]:.3g}" + (f" ± {spread:.2g}" if spread is not None else "")


def estimate_rows(metrics: dict[str, Any]) -> list[tuple[str, ...]]:
    """Lines of the table of estimates."""
    if "mass_scale" not in metrics:
        return []
    lines = (
        ("command delay without motors, ms", "delay_ms", 1.0, ".1f"),
        ("mass or weak rotors: mass offset, g", "mass_offset_kg", 1e3, ".1f"),
        ("mass over nominal", "mass_scale", 1.0, ".3f"),
        ("drag over the profile's", "drag_scale", 1.0, ".2f"),
        ("linear drag x, 1/s", "drag_x_per_s", 1.0, ".3f"),
        ("linear drag y, 1/s", "drag_y_per_s", 1.0, ".3f"),
        ("linear drag z, 1/s", "drag_z_per_s", 1.0, ".3f"),
        ("steady wind x, m/s", "wind_x_mps", 1.0, ".2f"),
        ("steady wind y, m/s", "wind_y_mps", 1.0, ".2f"),
    )
    rows = []
    for label, key, scale, form in lines:
        if metrics.get(key) is not None:
            low, high = metrics[f"{key}_interval"]
            values = (scale * metrics[key], scale * low, scale * high)
            rows.append((label, *(format(value, form) for value in values)))
    return rows
