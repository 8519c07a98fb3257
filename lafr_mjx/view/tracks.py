"""Flown paths from above, coloured by speed: what figures of one run and of many share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.ticker import MaxNLocator

from lafr_mjx.view.drawing import DARK, GREY

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.axes import Axes

    from lafr_mjx.types import Rollout

SPEED_MAP = "viridis"
_NARROWEST_M = 1.2  # smallest extent of a path's view, for paths along a line


class Track(NamedTuple):
    """A flight as it is drawn."""

    position: np.ndarray  # [T, 3] m, while it flew
    speed: np.ndarray  # [T] m/s
    reference: np.ndarray  # [N, 3] m, all of it


class View(NamedTuple):
    """The part of the ground that all panels of a figure show."""

    middle: np.ndarray  # [2] m
    extent: np.ndarray  # [2] m

    @property
    def aspect(self) -> float:
        """Height over width."""
        return float(self.extent[1] / self.extent[0])


def track_of(rollout: Rollout, since_s: float = 0.0) -> Track:
    """What a flight's true path looks like, from a moment on."""
    valid = np.asarray(rollout.valid) & (np.asarray(rollout.time) >= since_s)
    flying = valid & ~np.asarray(rollout.crashed)
    position = np.asarray(rollout.truth.position, float)[flying]
    speed = np.linalg.norm(np.asarray(rollout.truth.velocity, float)[flying], axis=-1)
    reference = np.asarray(rollout.reference.position, float)[valid]
    good = np.isfinite(position).all(axis=-1) & np.isfinite(speed)
    if not good.any():  # it never flew: nothing but its start
        reference = np.asarray(rollout.reference.position, float)
        return Track(reference[:1], np.zeros(1), reference)
    return Track(position[good], speed[good], reference)


def view_of(tracks: Iterable[Track], also: np.ndarray | None = None) -> View:
    """The part of the ground with all tracks, and with more points [N, 2] if given."""
    points = [p[:, :2] for track in tracks for p in (track.position, track.reference)]
    everything = np.concatenate([*points, *([] if also is None else [also])])
    low, high = everything.min(axis=0), everything.max(axis=0)
    extent = np.maximum(1.06 * (high - low) + 0.1, _NARROWEST_M)
    return View(0.5 * (low + high), extent)


def draw_tracks(
    figure: Any, axes: np.ndarray, rows: Sequence[Sequence[tuple[str, Track]]], view: View,
    height: float,
) -> None:  # fmt: skip
    """Titled paths with their references on axes [rows, columns], with one scale of colours.

    The figure has this height [inches].
    """
    fastest = max(float(track.speed.max()) for row in rows for _, track in row)
    lines: Any = None
    for axis_row, row in zip(axes, rows, strict=True):
        for axis, (title, track) in zip(axis_row, row, strict=False):
            lines = _draw_track(axis, track, view, fastest)
            axis.set_title(title)
        for axis in axis_row[len(row) :]:
            axis.set_visible(False)
        axis_row[0].set_ylabel("y [m]")
    for axis in axes[-1]:
        axis.set_xlabel("x [m]")
    bar = figure.colorbar(lines, ax=list(axes.flat), pad=0.02, aspect=7.0 * height)
    bar.set_label("speed [m/s]")
    bar.outline.set_visible(False)


def _draw_track(axis: Axes, track: Track, view: View, fastest: float) -> LineCollection:
    """One path; returns the coloured line, for a colour bar."""
    points, speed = track.position[:, None, :2], track.speed
    lines = LineCollection(
        list(np.concatenate([points[:-1], points[1:]], axis=1)),
        array=0.5 * (speed[:-1] + speed[1:]), cmap=SPEED_MAP, lw=2.6, capstyle="round",
        clim=(0.0, fastest),
    )  # fmt: skip
    axis.add_collection(lines)
    axis.plot(track.reference[:, 0], track.reference[:, 1], color=GREY, lw=0.9, label="reference")
    axis.plot(*track.position[0, :2], "o", color=DARK, mfc="white", ms=5, label="start")
    half = 0.5 * view.extent
    axis.set_xlim(view.middle[0] - half[0], view.middle[0] + half[0])
    axis.set_ylim(view.middle[1] - half[1], view.middle[1] + half[1])
    axis.set_aspect("equal")
    axis.yaxis.set_major_locator(MaxNLocator(5))
    return lines
