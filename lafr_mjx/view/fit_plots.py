"""Plots of a fit: prediction against measurement, error against horizon, speed and data."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import numpy as np

from lafr_mjx.types import CONTROL_DT
from lafr_mjx.view.drawing import BLUE, DARK, GREEN, GREY, ORANGE, RED, drawn_figure

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_COLOURS = {"nominal": GREY, "scale_bias": DARK, "hybrid": BLUE, "online": ORANGE, "paper": RED,
            "online_body": GREEN, "body": BLUE}  # fmt: skip
_LABELS = {"nominal": "nominal", "scale_bias": "scale and bias", "hybrid": "hybrid, chosen",
           "online": "online learner", "online_body": "online, body inputs",
           "paper": "online, paper's inputs", "body": "linear, body frame"}  # fmt: skip
_QUANTITIES = ("position [mm]", "velocity [cm/s]", "attitude [°]")


def make_plots(folder: Path, result: Any) -> dict[str, Path]:
    """Draw what there is; returns the files by their titles."""
    places = folder / "plots"
    places.mkdir(exist_ok=True)
    made: dict[str, Path] = {}
    if result.predicted:
        made["Predicted 0.5 s ahead, and measured"] = _predicted(places, result)
    if result.errors:
        made["Error against horizon"] = _horizon(places, result)
    if result.residual:
        made["Error after 0.1 s against speed"] = _speed(places, result)
    if result.curve:
        made["Error against seconds of flight in training"] = _curve(places, result)
    if len(result.replay.get("time_s", [])) > 1:
        made["Refit each second, tested on the next"] = _replay(places, result)
    return made


def _predicted(folder: Path, result: Any) -> Path:
    time, measured = result.predicted["time"], result.predicted["measured"]
    with drawn_figure(folder / "predicted.png", (7.2, 6.0)) as (figure, path):
        axes = figure.subplots(3, 2, sharex=True)
        for i, name in enumerate("xyz"):
            for column, field in enumerate(("position", "velocity")):
                axis = axes[i, column]
                for model in ("nominal", "hybrid"):
                    error = np.asarray(getattr(result.predicted[model], field))[:, i]
                    axis.plot(time, error, color=_COLOURS[model], lw=1.0, label=_LABELS[model])
                axis.plot(time, np.asarray(getattr(measured, field))[:, i], color=DARK, lw=1.0,
                          ls="--", label="measured")  # fmt: skip
                axis.set_ylabel(f"{name} [m]" if column == 0 else f"v{name} [m/s]")
        axes[-1, 0].set_xlabel("time [s]")
        axes[-1, 1].set_xlabel("time [s]")
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper right", ncols=3)
        return path


def _log(axis: Any) -> None:
    """A logarithmic axis with plain numbers."""
    from matplotlib.ticker import FuncFormatter

    def minor(value: float, _: Any) -> str:
        return f"{value:g}" if f"{value:e}"[0] in "25" else ""

    axis.set_yscale("log")
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.yaxis.set_minor_formatter(FuncFormatter(minor))


@contextlib.contextmanager
def _three_panels(
    path: Path, lines: dict[str, tuple[Any, Any]], below: str, mark: str = "-", **style: Any
) -> Iterator[tuple[Any, Any]]:
    """Position, velocity and attitude errors [N, 3] of models over x [N], a panel each."""
    with drawn_figure(path, (7.2, 2.8)) as (figure, path):
        axes = figure.subplots(1, 3)
        for name, (x, table) in lines.items():
            for axis, column, label in zip(axes, np.asarray(table).T, _QUANTITIES, strict=True):
                axis.plot(x, column, mark, color=_COLOURS[name], label=_LABELS[name], **style)
                axis.set_title(label)
        for axis in axes:
            _log(axis)
            axis.set_xlabel(below)
        yield figure, axes


def _horizon(folder: Path, result: Any) -> Path:
    ahead = CONTROL_DT * np.arange(1, 1 + max(map(len, result.errors.values())))
    lines = {name: (ahead, errors) for name, errors in result.errors.items()}
    with _three_panels(folder / "horizon.png", lines, "horizon [s]") as (figure, axes):
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    return folder / "horizon.png"


def _speed(folder: Path, result: Any) -> Path:
    speed = result.residual["speed"]
    with drawn_figure(folder / "speed.png", (5.0, 3.2)) as (figure, path):
        axis = figure.subplots()
        edges = np.linspace(0.0, float(speed.max()) + 1e-6, 11)
        middle = 0.5 * (edges[1:] + edges[:-1])
        which = np.clip(np.digitize(speed, edges) - 1, 0, 9)
        for name in ("nominal", "hybrid"):
            error = 100.0 * result.residual[name]
            axis.plot(speed, error, ".", color=_COLOURS[name], ms=1.5, alpha=0.35)
            means = [
                np.sqrt(np.mean(error[which == k] ** 2)) if (which == k).any() else np.nan
                for k in range(10)
            ]
            axis.plot(middle, means, "o-", color=_COLOURS[name], label=_LABELS[name])
        axis.set_xlabel("speed [m/s]")
        axis.set_ylabel("velocity error after 0.1 s [cm/s]")
        _log(axis)
        axis.legend()
        return path


def _curve(folder: Path, result: Any) -> Path:
    lines = {
        name: ([seconds for seconds, _ in points], [errors for _, errors in points])
        for name, points in result.curve.items()
    }
    with _three_panels(folder / "learning_curve.png", lines, "training [s]", "o-") as (_, axes):
        for axis in axes:
            axis.set_xscale("log")
            for seconds, _ in lines.values():
                axis.set_xticks(seconds, [f"{s:.0f}" for s in seconds])
            axis.minorticks_off()
            _log(axis)
        axes[0].legend()
    return folder / "learning_curve.png"


def _replay(folder: Path, result: Any) -> Path:
    models = ("nominal", "body", "online", "online_body")
    lines = {name: (result.replay["time_s"], result.replay[name]) for name in models}
    path = folder / "replay.png"
    with _three_panels(path, lines, "time [s]", ".-", lw=0.8, ms=3) as (_, axes):
        axes[0].legend()
    return path
