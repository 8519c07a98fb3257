"""Figures of a run, drawn from its folder.

The records of the iterations carry, besides the figures of the flight itself (see
`metrics.FlightMetrics`), `time_scale` and, where they are known, `predicted_peak_error_m` (what was
predicted for this flight before it was flown), `candidates`, `candidate_nominal_errors_m` and
`candidate_stressed_errors_m` (what was verified after it, for the next). What is missing is
left out of the figures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, NullLocator, ScalarFormatter

from lafr_mjx.errors import InputError, RunError
from lafr_mjx.view.course_shapes import leaves_path, outline
from lafr_mjx.view.drawing import (
    BLUE,
    DARK,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    array,
    column,
    drawn_figure,
    joined,
    label_line,
    largest,
    mark_assisted,
    mark_beyond,
    sliding_mean,
)
from lafr_mjx.view.tracks import draw_tracks, track_of, view_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from lafr_mjx.runs.run_folder import RunFolder
    from lafr_mjx.tasks import Task
    from lafr_mjx.types import Rollout

ITERATION_MAP = "viridis_r"
MEAN_S = 2.0
_SIDE_FROM_M = 0.5  # of height between a course's lowest and highest point
_STACKED_BELOW = 0.55  # height over width of a path below which views go one above another


def make_plots(
    folder: RunFolder,
    task: Task,
    rate_limit: float,
) -> list[Path]:
    """Draw all figures of a run into its folder `plots`.

    Args:
        folder: the run.
        task: what was flown.
        rate_limit: largest body rate that may be commanded [rad/s].

    Returns:
        The files, those without data left out.
    """
    records = folder.iterations()
    flights = {number: folder.load_rollout(number) for number in folder.rollout_numbers()}
    if not records and not flights:
        raise InputError(f"{folder.path}: no iteration is finished yet; there is nothing to draw")
    plots = folder.path / "plots"
    drawn: list[Path] = []
    try:
        plots.mkdir(exist_ok=True)
        if records:
            planned = any(leaves_path(task, track_of(f).reference) for f in flights.values())
            drawn.append(plot_progress(plots, records, task, planned=planned))
        if flights:
            shown = {number: flights[number] for number in (min(flights), max(flights))}
            drawn.append(plot_paths(plots, shown, task))
            rates = [commanded_rates(rollout) for rollout in flights.values()]
            title = f"Commanded body rates on {task.name}"
            drawn.append(plot_rates(plots / "body_rates.png", {title: rates}, rate_limit))
        if any(record.get("candidates") for record in records):
            drawn.append(plot_ats(plots, records, task.name, task.error_threshold_m))
    except OSError as error:
        raise RunError(f"{plots}: cannot be written: {error.strerror or error}") from error
    return drawn


def plot_progress(
    plots: Path, records: Sequence[Mapping[str, Any]], task: Task, *, planned: bool = False
) -> Path:
    """`progress.png`: speed, lap and errors over the iterations.

    Where the reference is planned off the task's path, the distance from that path, too.
    """
    error_threshold = task.error_threshold_m
    number = column(records, "iteration")
    crashed = np.array([bool(record.get("crashed")) for record in records])
    with drawn_figure(plots / "progress.png", (7.2, 5.2)) as (figure, path):
        axes = figure.subplots(2, 2, sharex=True)
        figure.suptitle(f"Progress of the adaptation on {task.name}", x=0.01, ha="left")

        def panel(axis: Axes, label: str, name: str) -> np.ndarray:
            values = column(records, name)
            axis.plot(number, values, "o-", color=BLUE, label="flown")
            if crashed.any():
                axis.plot(
                    number[crashed], values[crashed], "x", color="black", ms=8, mew=1.6,
                    label="crash",
                )  # fmt: skip
            mark_assisted(axis, number, values, records, "assisted")
            axis.set_ylabel(label)
            return values

        panel(axes[0, 0], "peak speed [m/s]", "peak_speed_mps")
        panel(axes[0, 1], "lap time [s]", "lap_time_s")
        rmse = panel(axes[1, 0], "RMS tracking error [m]", "rmse_m")
        errors = axes[1, 1]
        peak = panel(errors, "peak tracking error [m]", "peak_error_m")
        predicted = column(records, "predicted_peak_error_m")
        if np.isfinite(predicted).any():
            errors.plot(
                number, predicted, "s--", color=ORANGE, mfc="white", lw=1.2, label="predicted"
            )
        away = column(records, "peak_path_distance_m")
        if planned and np.isfinite(away).any():
            errors.plot(number, away, "^-", color=PURPLE, lw=1.2, label="off the task's path")
            peak = np.fmax(peak, away)
        # In the legend, for beside the line there may be data anywhere.
        errors.axhline(error_threshold, color=RED, ls=(0, (4, 2)), lw=1.2,
                       label=f"$E_{{th}}$ = {error_threshold:g} m")  # fmt: skip
        top = max(1.2 * error_threshold, 1.1 * largest(peak), 1.1 * largest(predicted))
        errors.set_ylim(0.0, min(top, 3.0 * error_threshold))
        mark_beyond(errors, number, peak)
        figure.legend(*errors.get_legend_handles_labels(), loc="outside lower center", ncols=5)
        axes[1, 0].set_ylim(0.0, 1.15 * largest(rmse) or 1.0)
        for axis in axes[0]:
            # Room around the curve, but no zoom into noise.
            low, high = axis.get_ylim()
            axis.set_ylim(min(low, 0.9 * high), max(high, 1.05 * low))
        for axis in axes[1]:
            axis.set_xlabel("iteration")
            axis.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        figure.align_ylabels(axes)
        if len(records) == 1:
            axes[0, 0].set_xlim(number[0] - 0.5, number[0] + 0.5)
        return path


def plot_paths(plots: Path, flights: Mapping[int, Rollout], task: Task) -> Path:
    """`paths.png`: flown paths from above, coloured by speed, on one scale.

    A course with gates, or with heights, is seen from the side, too.
    """
    tracks = {number: track_of(rollout) for number, rollout in flights.items()}
    view = view_of(tracks.values(), task)
    titled = [(f"Flight {i}: up to {t.speed.max():.1f} m/s", t) for i, t in tracks.items()]
    high = task.gates or np.ptp(outline(task)[:, 2]) > _SIDE_FROM_M
    stacked = view.aspect < _STACKED_BELOW and not high
    rows = [[one] for one in titled] if stacked else [titled]
    views = [view] * len(rows)
    if high:
        rows.append([("", track) for track in tracks.values()])
        views.append(view_of(tracks.values(), task, (0, 2)))
    columns = len(rows[0])
    width = 5.8 if stacked else min(3.8 if columns > 1 else 5.0, 5.5 / view.aspect)  # inches, each
    heights = [each.aspect * width + 0.4 for each in views]
    size = (max(columns * width + 1.4, 4.8), sum(heights) + 1.2)
    with drawn_figure(plots / "paths.png", size) as (figure, path):
        axes = figure.subplots(len(rows), columns, squeeze=False, sharex=True, sharey="row",
                               height_ratios=heights)  # fmt: skip
        where = "above and from the side" if high else "above"
        figure.suptitle(f"Flown paths on {task.name}, seen from {where}", x=0.01, ha="left")
        known = draw_tracks(figure, axes, rows, views, task, size[1])
        figure.legend(known.values(), known, loc="outside lower center", ncols=4)
        return path


def commanded_rates(rollout: Rollout) -> tuple[np.ndarray, float]:
    """Largest of the three commanded body rates [T] and the duration of a tick [s]."""
    flying = np.asarray(rollout.valid) & ~np.asarray(rollout.crashed)
    rates = np.abs(np.asarray(rollout.command, float)[flying, 1:]).max(axis=-1, initial=0.0)
    time = np.asarray(rollout.time, float)
    return rates, float(time[1] - time[0]) if len(time) > 1 else 0.0


def plot_rates(
    path: Path, runs: Mapping[str, Sequence[tuple[np.ndarray, float]]], rate_limit: float
) -> Path:
    """Commanded body rates of whole runs, a panel for each with its title."""
    with drawn_figure(path, (7.6, 2.3 * len(runs) + 0.5)) as (figure, path):
        axes = np.atleast_1d(figure.subplots(len(runs), 1))
        for axis, (title, flights) in zip(axes, runs.items(), strict=True):
            _draw_body_rates(axis, flights, rate_limit)
            axis.set_title(title)
        axes[-1].set_xlabel("accumulated flight time [s]")
        axes[0].legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, borderaxespad=0.2)
        return path


def _draw_body_rates(
    axis: Axes, flights: Sequence[tuple[np.ndarray, float]], rate_limit: float
) -> None:
    """Rates of flights in a row, with their mean over 2 s and the limit."""
    rates = np.concatenate([rates for rates, _ in flights])
    steps = np.concatenate([np.full(len(rates), step) for rates, step in flights])
    time = np.cumsum(steps) - steps
    axis.plot(time, rates, color="#9CC7E4", lw=0.5, label="raw")
    if len(rates):
        mean = sliding_mean(rates, max(1, round(MEAN_S / steps[0])))
        axis.plot(time, mean, color=BLUE, lw=1.8, label=f"mean over {MEAN_S:g} s")
    axis.axhline(rate_limit, color=RED, ls=(0, (4, 2)), lw=1.2)
    axis.set_ylim(0.0, 1.15 * max(rate_limit, largest(rates)))
    ends = np.cumsum([len(rates) * step for rates, step in flights])
    axis.set_xlim(0.0, ends[-1] if ends[-1] > 0.0 else 1.0)
    label_line(axis, rate_limit, f"limit {rate_limit:g} rad/s")
    for end in ends[:-1]:
        axis.axvline(end, color="#BBBBBB", lw=0.6, zorder=0.9)
    axis.grid(visible=False, axis="x")
    axis.set_ylabel(r"$\|\omega_{cmd}\|_\infty$ [rad/s]")


def plot_ats(
    plots: Path, records: Sequence[Mapping[str, Any]], task_name: str, error_threshold: float
) -> Path:
    """`ats.png`: what the model predicted for the time scales that were verified."""
    numbers = column(records, "iteration")
    scales, flown = column(records, "time_scale"), column(records, "peak_error_m")
    diamond = 5.5 if len(records) <= 12 else 4.0
    colours = mpl.colormaps[ITERATION_MAP]
    norm = Normalize(numbers.min(), max(numbers.max(), numbers.min() + 1))
    panels = (
        ("Nominal model", "candidate_nominal_errors_m"),
        ("Stressed model", "candidate_stressed_errors_m"),
    )
    with drawn_figure(plots / "ats.png", (7.2, 4.0)) as (figure, path):
        axes = figure.subplots(1, 2, sharex=True, sharey=True)
        figure.suptitle(f"Time scales verified on {task_name}", x=0.01, ha="left")
        for axis, (title, key) in zip(axes, panels, strict=True):
            for i, record in enumerate(records):
                scale, error = array(record.get("candidates")), array(record.get(key))
                if len(scale) == 0 or len(scale) != len(error):
                    continue
                colour = colours(norm(numbers[i]))
                order = np.argsort(scale)
                axis.plot(scale[order], error[order], ".-", color=colour, lw=1.1, ms=3, alpha=0.8)
                following = scales[i + 1] if i + 1 < len(scales) else np.nan
                known = np.isfinite(error[order])
                inside = 0.999 * scale.min() <= following <= 1.001 * scale.max()
                if inside and known.any():  # else the choice was to keep the time scale or retreat
                    at = np.interp(following, scale[order][known], error[order][known])
                    axis.plot(following, at, "D", color=colour, mec=DARK, mew=0.7, ms=diamond)
            axis.scatter(scales, flown, c=numbers, cmap=colours, norm=norm, s=46, marker="*",
                         edgecolors=DARK, linewidths=0.6, zorder=4)  # fmt: skip
            mark_assisted(axis, scales, flown, records, "assisted")
            axis.set_title(title)
            axis.set_xlabel("time scale α  (faster →)")
            axis.set_yscale("log")
            axis.yaxis.set_major_formatter(ScalarFormatter())
        axes[1].axhline(error_threshold, color=RED, ls=(0, (4, 2)), lw=1.2)
        _finish_ats(axes, [*flown, error_threshold, *joined(records, panels[0][1]),
                           *joined(records, panels[1][1])])  # fmt: skip
        label_line(axes[1], error_threshold, f"$E_{{th}}$ = {error_threshold:g} m", left=True)
        axes[0].set_ylabel("peak tracking error [m]")
        mark: dict[str, Any] = {"color": "#CCCCCC", "mec": DARK, "mew": 0.7, "ls": ""}
        handles = [
            Line2D([], [], color=GREY, marker=".", ms=4, lw=1.1, label="predicted"),
            Line2D([], [], marker="D", ms=5.5, label="chosen next", **mark),
            Line2D([], [], marker="*", ms=8, label="flown", **mark),
        ]
        handles += [line for line in axes[0].lines if line.get_label() == "assisted"]
        figure.legend(handles=handles, loc="outside upper right", ncols=4)
        bar = figure.colorbar(
            ScalarMappable(norm, colours), ax=list(axes), pad=0.02, aspect=28,
            ticks=MaxNLocator(integer=True),
        )  # fmt: skip
        bar.set_label("iteration")
        bar.outline.set_visible(False)  # type: ignore[operator]
        return path


def _finish_ats(axes: Sequence[Axes], errors: Sequence[float]) -> None:
    seen = [error for error in errors if np.isfinite(error) and error > 0.0]
    low, high = max(min(seen) / 1.3, 0.005), min(max(seen) * 1.3, 6.0)
    axes[0].set_ylim(low, high)
    steps = np.array([0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 3.0, 5.0])
    axes[0].set_yticks(steps[(steps >= low) & (steps <= high)])
    axes[0].yaxis.set_minor_locator(NullLocator())
    axes[0].invert_xaxis()
