"""Figures of recorded flights side by side: paths in wind, inspection, potential."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from lafr_mjx.view.drawing import (
    BLUE,
    DARK,
    GREY,
    RED,
    array,
    column,
    drawn_figure,
    mark_assisted,
)
from lafr_mjx.view.tracks import draw_tracks, track_of, view_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from lafr_mjx.tasks import Task
    from lafr_mjx.types import Rollout


class Shown(NamedTuple):
    """A flight with its caption."""

    rollout: Rollout
    title: str


def plot_path_grid(path: Path, rows: Mapping[str, Sequence[Shown]], task: Task) -> Path:
    """One row for each method, one column for each version of its policy, one colour scale."""
    tracks = [[(shown.title, track_of(shown.rollout, task.ramp_s)) for shown in row]
              for row in rows.values()]  # fmt: skip
    view = view_of((track for row in tracks for _, track in row), task)
    columns = max(map(len, tracks))
    size = (8.2, len(rows) * (view.aspect * 7.4 / columns + 0.55) + 0.5)
    with drawn_figure(path, size) as (figure, path):
        axes = figure.subplots(len(rows), columns, squeeze=False, sharex=True, sharey=True)
        draw_tracks(figure, axes, tracks, [view] * len(rows), task, size[1])
        for axis, name in zip(axes[:, 0], rows, strict=True):
            axis.set_ylabel(f"{name}\ny [m]")
        return path


def plot_inspection(
    path: Path, flights: Sequence[Shown], task: Task, groups: Sequence[Any]
) -> Path:
    """The tour before and after from above; motion time and landmark distance over iterations."""
    tracks = [(shown.title, track_of(shown.rollout, task.ramp_s)) for shown in flights]
    view = view_of((track for _, track in tracks), task)
    top = 3.6 * view.aspect + 0.5
    with drawn_figure(path, (8.2, top + 2.4)) as (figure, path):
        upper, lower = np.asarray(figure.subfigures(2, 1, height_ratios=(top, 2.4)))
        axes = upper.subplots(1, len(flights), squeeze=False, sharex=True, sharey=True)
        draw_tracks(upper, axes, [tracks], [view], task, top)
        panels = (("lap_time_s", "motion time [s]", None),
                  ("landmark_miss_m", "farthest landmark [m]", task.landmark_radius_m))  # fmt: skip
        for axis, (key, label, limit) in zip(lower.subplots(1, 2), panels, strict=True):
            for records in groups:
                number, values = column(records, "iteration"), column(records, key)
                axis.plot(number, values, "o-", color=BLUE, ms=3.5, lw=1.2, alpha=0.8)
                mark_assisted(axis, number, values, records)
            if limit is not None:
                axis.axhline(limit, color=RED, ls=(0, (4, 2)), lw=1.2)
            axis.set_ylim(0.0, 1.12 * max(axis.get_ylim()[1], limit or 0.0))
            axis.set_ylabel(label)
            axis.set_xlabel("iteration")
            axis.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        return path


def plot_potential(
    path: Path,
    records: Sequence[Mapping[str, Any]],
    potential: Callable[[np.ndarray, np.ndarray], np.ndarray],
    error_threshold: float,
    title: str,
) -> Path:
    """J over time scale and error, the flights that were flown, and what was predicted for others.

    Args:
        path: of the picture.
        records: of the iterations of one run.
        potential: J of time scale and error, arrays that broadcast.
        error_threshold: E_th [m].
        title: of the picture.
    """
    scales, flown = column(records, "time_scale"), column(records, "peak_error_m")
    numbers = column(records, "iteration")
    low, high = 0.88 * np.nanmin(scales), 1.06 * np.nanmax(scales)
    top = min(max(2.0 * error_threshold, 1.1 * np.nanmax(flown)), 1.2)
    grid_scale, grid_error = np.meshgrid(np.linspace(low, high, 240), np.linspace(0.0, top, 200))
    with drawn_figure(path, (7.6, 4.0)) as (figure, path):
        left, right = figure.subplots(1, 2, width_ratios=(1.25, 1.0))
        figure.suptitle(title, x=0.01, ha="left")
        values = potential(grid_scale, grid_error)
        mesh = left.pcolormesh(grid_scale, grid_error, values, cmap="RdYlBu_r", shading="auto",
                               norm=LogNorm(values.min(), values.max()))  # fmt: skip
        left.axhline(error_threshold, color=DARK, ls=":", lw=1.4)
        left.annotate(f"$E_{{th}}$ = {error_threshold:g} m", (0.98, error_threshold),
                      xycoords=("axes fraction", "data"), xytext=(0, 3), fontsize=8, ha="right",
                      textcoords="offset points")  # fmt: skip
        for record in records:
            left.plot(array(record.get("candidates")),
                      array(record.get("candidate_stressed_errors_m")), ".", color=GREY, ms=2.5,
                      alpha=0.8)  # fmt: skip
        left.plot(scales, flown, "-", color=DARK, lw=1.0)
        left.scatter(scales, flown, s=58, c="white", edgecolors=DARK, zorder=4)
        for number, x, y in zip(numbers, scales, flown, strict=True):
            if np.isfinite(y) and y <= top:
                left.annotate(f"{number:.0f}", (x, y), ha="center", va="center", fontsize=6.5,
                              zorder=5)  # fmt: skip
        left.set(xlim=(high, low), ylim=(0.0, top), xlabel="time scale α  (faster →)",
                 ylabel="peak tracking error E [m]")  # fmt: skip
        left.grid(visible=False)
        bar = figure.colorbar(mesh, ax=left, pad=0.02)
        _plain_ticks(bar.ax)
        bar.set_label("J")
        bar.outline.set_visible(False)  # type: ignore[operator]
        _slices(right, records, potential, numbers)
        return path


def _plain_ticks(axis: Any) -> None:
    """Few round numbers on a logarithmic axis, not powers."""
    axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.yaxis.set_minor_locator(NullLocator())


def _slices(axis: Any, records: Sequence[Mapping[str, Any]], potential: Any,
            numbers: np.ndarray) -> None:  # fmt: skip
    colours = mpl.colormaps["viridis_r"]
    count = max(float(np.nanmax(numbers)), 1.0)
    for number, record in zip(numbers, records, strict=True):
        scale = array(record.get("candidates"))
        error = array(record.get("candidate_stressed_errors_m"))
        colour = colours(number / count)
        if len(scale) and len(scale) == len(error):
            order = np.argsort(scale)
            axis.plot(scale[order], potential(scale, error)[order], ".-", color=colour, lw=1.0,
                      ms=3)  # fmt: skip
        flown = potential(array([record.get("time_scale")]), array([record.get("peak_error_m")]))
        axis.plot(record.get("time_scale"), flown[0], "*", color=colour, mec=DARK, mew=0.6, ms=9)
    axis.set_yscale("log")
    _plain_ticks(axis)
    axis.invert_xaxis()
    axis.set_title("J(α): predicted (lines), flown (stars)")
    axis.set_xlabel("time scale α  (faster →)")
