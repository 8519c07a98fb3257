"""Figures over many runs: learning curves, methods, faults, horizons. Spread is over the seeds.

A group of runs is given as the records of its iterations, one list for each run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from lafr_mjx.view.drawing import (
    DARK,
    METHOD_COLOURS,
    RED,
    SCENARIO_COLOURS,
    column,
    drawn_figure,
    label_line,
    largest,
    mark_assisted,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

Group = "Sequence[Sequence[Mapping[str, Any]]]"
"""Runs of one kind, each the records of its iterations."""


class Panel(NamedTuple):
    """One figure of a flight over the iterations."""

    key: str
    label: str
    threshold: bool = False  # draw E_th


PANELS = (
    Panel("peak_speed_mps", "peak speed [m/s]"),
    Panel("lap_time_s", "lap time [s]"),
    Panel("rmse_m", "RMS tracking error [m]"),
    Panel("peak_error_m", "peak tracking error [m]", threshold=True),
)


def plot_learning(
    path: Path, groups: Mapping[str, Any], colours: Mapping[str, str], title: str,
    error_threshold: float,
) -> Path:  # fmt: skip
    """Four figures over the iterations: median, range over the seeds, each run as a thin line."""
    with drawn_figure(path, (7.6, 5.4)) as (figure, path):
        axes = figure.subplots(2, 2, sharex=True)
        figure.suptitle(title, x=0.01, ha="left")
        for axis, panel in zip(axes.flat, PANELS, strict=True):
            for name, group in groups.items():
                _curves(axis, group, panel.key, colours.get(name, DARK), name)
            axis.set_ylabel(panel.label)
            _limits(axis, groups, panel, error_threshold)
        for axis in axes[1]:
            axis.set_xlabel("iteration")
            axis.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 6))
        figure.align_ylabels(axes)
        return path


def _table(group: Any, key: str) -> np.ndarray:
    """[runs, iterations], NaN where there is none."""
    rows = [column(records, key) for records in group]
    table = np.full((len(rows), max(len(row) for row in rows)), np.nan)
    for i, row in enumerate(rows):
        table[i, : len(row)] = row
    return table


def _curves(axis: Axes, group: Any, key: str, colour: str, name: str) -> None:
    table = _table(group, key)
    number = np.arange(table.shape[1])
    known = np.isfinite(table).any(axis=0)
    if not known.any():
        return
    at, seen = number[known], table[:, known]
    if len(table) > 1:
        axis.fill_between(at, np.nanmin(seen, axis=0), np.nanmax(seen, axis=0), color=colour,
                          alpha=0.16, lw=0)  # fmt: skip
        for row in table:
            axis.plot(number, row, color=colour, lw=0.5, alpha=0.5)
    axis.plot(at, np.nanmedian(seen, axis=0), "o-", color=colour, ms=3.5, label=name)
    for row, records in zip(table, group, strict=True):
        mark_assisted(axis, number[: len(records)], row[: len(records)], records)
    crashed = _table(group, "crashed") == 1.0
    if crashed.any():
        axis.plot(np.nonzero(crashed)[1], table[crashed], "x", color="black", ms=7, mew=1.5)


def _limits(axis: Axes, groups: Mapping[str, Any], panel: Panel, error_threshold: float) -> None:
    seen = np.concatenate([_table(group, panel.key).ravel() for group in groups.values()])
    if panel.threshold:
        axis.axhline(error_threshold, color=RED, ls=(0, (4, 2)), lw=1.2)
        label_line(axis, error_threshold, f"$E_{{th}}$ = {error_threshold:g} m", left=True)
        # A crash ends at 2 m and more, which would squeeze all the rest.
        top = min(max(1.2 * error_threshold, 1.08 * largest(seen)), 3.0 * error_threshold)
        axis.set_ylim(0.0, top)
    else:
        axis.set_ylim(0.0, 1.08 * largest(seen) or 1.0)


def plot_methods(
    path: Path, scenarios: Mapping[str, Mapping[str, Any]], error_threshold: float
) -> Path:
    """RMSE and lap of the last flight for each method: a bar at the median, a dot for each run."""
    count = len(scenarios)
    with drawn_figure(path, (max(3.9 * count, 4.6), 5.2)) as (figure, path):
        axes = figure.subplots(2, count, squeeze=False, sharey="row", sharex="col")
        figure.suptitle("Last flight of each method", x=0.01, ha="left")
        for j, (scenario, methods) in enumerate(scenarios.items()):
            for row, (key, label) in enumerate(
                (("rmse_m", "RMS tracking error [m]"), ("lap_time_s", "lap time [s]"))
            ):
                axis = axes[row, j]
                for i, (method, group) in enumerate(methods.items()):
                    values = np.array([column(records, key)[-1] for records in group])
                    _dots(axis, i, values, METHOD_COLOURS.get(method, DARK), ".3f" if row == 0
                          else ".2f")  # fmt: skip
                if j == 0:
                    axis.set_ylabel(label)
                axis.grid(visible=False, axis="x")
                axis.set_xlim(-0.6, len(methods) - 0.4)
            axes[0, j].set_title(scenario)
            axes[0, j].axhline(error_threshold, color=RED, ls=(0, (4, 2)), lw=1.2)
            axes[1, j].xaxis.set_major_locator(FixedLocator(list(range(len(methods)))))
            axes[1, j].set_xticklabels([m.replace("-", "-\n") for m in methods])
        for row in axes:
            row[0].set_ylim(0.0, 1.12 * row[0].get_ylim()[1])
        for axis in axes[0]:
            label_line(axis, error_threshold, f"$E_{{th}}$ = {error_threshold:g} m", left=True)
        return path


def _dots(axis: Axes, at: float, values: np.ndarray, colour: str, form: str) -> None:
    known = values[np.isfinite(values)]
    if not len(known):
        axis.annotate("none", (at, 0.0), ha="center", va="bottom", fontsize=8, color=colour)
        return
    median = float(np.median(known))
    axis.bar(at, median, width=0.62, color=colour, alpha=0.28)
    axis.plot([at - 0.31, at + 0.31], [median, median], color=colour, lw=2.0)
    shift = 0.09 * (np.arange(len(known)) - 0.5 * (len(known) - 1))
    axis.plot(at + shift, known, "o", color=colour, ms=4, mec="white", mew=0.5)
    axis.annotate(format(median, form), (at, known.max()), xytext=(0, 4),
                  textcoords="offset points", ha="center", fontsize=8)  # fmt: skip


def plot_faults(path: Path, flown: Mapping[str, Any], held: Mapping[str, Any]) -> Path:
    """Speed with altered hardware, and the error of the first flights at one time scale."""
    with drawn_figure(path, (7.6, 3.1)) as (figure, path):
        axes = np.atleast_1d(figure.subplots(1, 2 if held else 1))
        panels = (
            (flown, "peak_speed_mps", "Adaptation", "peak speed [m/s]", "iteration"),
            (held, "rmse_m", "Same time scale throughout", "RMS tracking error [m]", "updates"),
        )
        for axis, (groups, key, title, label, below) in zip(axes, panels, strict=False):
            for name, group in groups.items():
                _curves(axis, group, key, SCENARIO_COLOURS.get(name, DARK), name)
            axis.set(title=title, ylabel=label, xlabel=below)
            axis.set_ylim(bottom=0.0)
        for axis in axes:
            axis.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
        return path


def plot_horizons(
    path: Path, horizons: Sequence[int], groups: Mapping[str, Mapping[int, Any]], title: str
) -> Path:
    """Last lap and its RMSE against the length of the training flights."""
    with drawn_figure(path, (7.6, 3.1)) as (figure, path):
        axes = figure.subplots(1, 2)
        figure.suptitle(title, x=0.01, ha="left")
        for k, (method, by_horizon) in enumerate(groups.items()):
            colour = METHOD_COLOURS.get(method, DARK)
            for axis, key in zip(axes, ("lap_time_s", "rmse_m"), strict=True):
                medians = {}
                for horizon, group in by_horizon.items():
                    values = np.array([column(records, key)[-1] for records in group])
                    known = values[np.isfinite(values)]
                    # Beside each other, so that equal figures do not hide one another.
                    at = 0.02 * horizon * (1.02 if k else 0.98)
                    axis.plot([at] * len(known), known, "o", color=colour, ms=3.5, alpha=0.6)
                    if len(known):
                        medians[at] = float(np.median(known))
                axis.plot(list(medians), list(medians.values()), "-", color=colour, label=method)
        for axis, label in zip(axes, ("last lap [s]", "RMSE of the last flight [m]"), strict=True):
            axis.set_xscale("log")
            axis.xaxis.set_major_locator(FixedLocator([0.02 * h for h in horizons]))
            axis.xaxis.set_minor_locator(NullLocator())
            axis.set_xlim(0.02 * horizons[0] / 1.15, 0.02 * horizons[-1] * 1.15)
            axis.set_xticklabels([f"{0.02 * h:g}" for h in horizons])
            axis.set_xlabel("training horizon [s]")
            axis.set_ylabel(label)
            axis.set_ylim(0.0, 1.1 * axis.get_ylim()[1])
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper right", ncols=2)
        return path
