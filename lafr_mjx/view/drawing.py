"""What the figures have in common: style, marks, and columns of the records."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from lafr_mjx.metrics import assisted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

# Colours that remain distinct for colour-blind readers (Okabe and Ito).
BLUE, ORANGE, RED, GREY = "#0072B2", "#E69F00", "#D55E00", "#8C8C8C"
GREEN, PURPLE = "#009E73", "#CC79A7"
DARK = "#333333"

METHOD_COLOURS = {
    "ours": BLUE,
    "residual-only": PURPLE,
    "lotf": ORANGE,
    "anchor-only": GREEN,
    "baseline": GREY,
    "geometric": DARK,
}
"""The same colour for a method in all figures, in the order of their legends."""

SCENARIO_COLOURS = {"nominal": BLUE, "payload": ORANGE, "propeller": GREEN, "combined": RED}

_STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.0,
    "figure.titlesize": 10.5,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.labelsize": 9.0,
    "axes.edgecolor": DARK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.6,
    "legend.fontsize": 8.0,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "savefig.dpi": 200,
    "mathtext.default": "regular",
}


def sliding_mean(values: np.ndarray, width: int) -> np.ndarray:
    """Mean over `width` samples around each; over those that there are near the ends."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    middle = np.arange(len(values))
    low = np.maximum(middle - width // 2, 0)
    high = np.minimum(middle - width // 2 + width, len(values))
    return (total[high] - total[low]) / (high - low)


def array(values: Any) -> np.ndarray:
    """Numbers of a list of the records, NaN where there is none, [N]; empty if missing."""
    given = [] if values is None else values
    return np.array([np.nan if value is None else value for value in given], float)


def column(records: Sequence[Mapping[str, Any]], name: str) -> np.ndarray:
    """One figure of all iterations, [N]."""
    return array([record.get(name) for record in records])


def joined(records: Sequence[Mapping[str, Any]], name: str) -> np.ndarray:
    """A list of figures of all iterations, one after another."""
    return np.concatenate([array(record.get(name)) for record in records])


def largest(values: np.ndarray) -> float:
    """Largest finite value, 0 if there is none."""
    finite = values[np.isfinite(values)]
    return float(finite.max()) if len(finite) else 0.0


def mark_assisted(
    axis: Axes, x: np.ndarray, y: np.ndarray, records: Sequence[Mapping[str, Any]], label: str = ""
) -> None:
    """A ring around each flight that the guard had to help."""
    helped = np.array([assisted(record) for record in records])
    if helped.any():
        axis.plot(x[helped], y[helped], "o", mfc="none", mec=RED, mew=1.4, ms=10, zorder=5,
                  label=label or "_")  # fmt: skip


def mark_beyond(axis: Axes, number: np.ndarray, values: np.ndarray) -> None:
    """Tell values above the axis, which a crash would otherwise stretch, by number."""
    top = axis.get_ylim()[1]
    for x, value in zip(number, values, strict=True):
        if value > top:
            axis.plot(x, 0.97 * top, "^", color=DARK, ms=5)
            axis.annotate(
                f"{value:.1f} m", (x, 0.97 * top), xytext=(-5, 0), textcoords="offset points",
                ha="right", va="center", fontsize=8,
            )  # fmt: skip


def label_line(axis: Axes, height: float, text: str, *, left: bool = False) -> None:
    """Write above a horizontal line at the end of the axis."""
    axis.annotate(
        text, (0.01 if left else 0.99, height), xycoords=("axes fraction", "data"),
        xytext=(0, 2), textcoords="offset points", ha="left" if left else "right", va="bottom",
        color=RED, fontsize=8,
    )  # fmt: skip


@contextlib.contextmanager
def drawn_figure(path: Path, size: tuple[float, float]) -> Iterator[tuple[Figure, Path]]:
    """A figure in this module's style that is written at the end, whole or not at all."""
    with mpl.rc_context(_STYLE):
        figure = Figure(size, layout="constrained")
        yield figure, path
        partial = path.with_name(f".{path.name}.partial")
        figure.savefig(partial, format="png")
        partial.replace(path)
