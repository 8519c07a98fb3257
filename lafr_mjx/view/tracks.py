"""Flown paths, coloured by speed, on their course: what figures of one run and of many share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib.collections import LineCollection, PatchCollection
from matplotlib.patches import Circle, FancyArrow
from matplotlib.ticker import MaxNLocator

from lafr_mjx.view.course_shapes import (
    AHEAD,
    MISSED,
    PASSED,
    gate_states,
    leaves_path,
    outline,
    path_points,
    ring,
    room_beside,
)
from lafr_mjx.view.drawing import DARK, GREEN, GREY, ORANGE, RED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.axes import Axes

    from lafr_mjx.tasks import Task
    from lafr_mjx.types import Rollout

SPEED_MAP = "viridis"
_CORRIDOR, _SPHERES = "#DCE9F5", 600
_GATES = {AHEAD: (DARK, "gate"), PASSED: (GREEN, "gate passed"), MISSED: (RED, "gate missed")}
_NARROWEST_M = 1.2  # smallest extent of a path's view, for paths along a line


class Track(NamedTuple):
    """A flight as it is drawn."""

    position: np.ndarray  # [T, 3] m, while it flew
    speed: np.ndarray  # [T] m/s
    reference: np.ndarray  # [N, 3] m, all of it


class View(NamedTuple):
    """From where, and the part of the course that all panels of a row show."""

    axes: tuple[int, int]  # which of x, y, z lead to the right and up
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


def view_of(tracks: Iterable[Track], task: Task, axes: tuple[int, int] = (0, 1)) -> View:
    """The part of the course with all tracks and what stands there, from above or another side."""
    tracks = list(tracks)
    points = [p for track in tracks for p in (track.position, track.reference)]
    if any(leaves_path(task, track.reference) for track in tracks):
        room = task.room().max()
        points += [path_points(task.path) + side for side in (-room, room)]
    fans = [fan.position[None] for fan in task.fans]
    everything = np.concatenate([*points, outline(task), task.landmarks, *fans])[:, axes]
    low, high = everything.min(axis=0), everything.max(axis=0)
    extent = np.maximum(1.06 * (high - low) + 0.1, _NARROWEST_M)
    return View(axes, 0.5 * (low + high), extent)


def draw_tracks(
    figure: Any, axes: np.ndarray, rows: Sequence[Sequence[tuple[str, Track]]],
    views: Sequence[View], task: Task, height: float,
) -> dict[str, Any]:  # fmt: skip
    """Titled paths with their references on axes [rows, columns], with one scale of colours.

    Each row has its view; the figure has this height [inches]. Returns what a legend can explain.
    """
    fastest = max(float(track.speed.max()) for row in rows for _, track in row)
    lines: Any = None
    known: dict[str, Any] = {}
    for axis_row, row, view in zip(axes, rows, views, strict=True):
        for axis, (title, track) in zip(axis_row, row, strict=False):
            _draw_course(axis, task, track, view)
            lines = _draw_track(axis, track, view, fastest)
            axis.set_title(title)
            handles, labels = axis.get_legend_handles_labels()
            known |= dict(zip(labels, handles, strict=True))
        for axis in axis_row[len(row) :]:
            axis.set_visible(False)
        axis_row[0].set_ylabel(f"{'xyz'[view.axes[1]]} [m]")
    for axis in axes[-1]:
        axis.set_xlabel("x [m]")
    bar = figure.colorbar(lines, ax=list(axes.flat), pad=0.02, aspect=7.0 * height)
    bar.set_label("speed [m/s]")
    bar.outline.set_visible(False)
    return known


def _draw_course(axis: Axes, task: Task, track: Track, view: View) -> None:
    """What is asked, where it is not the reference itself: path, corridor, gates and the rest."""
    right, up = view.axes
    if leaves_path(task, track.reference):
        path, room = path_points(task.path, _SPHERES), room_beside(task, _SPHERES)
        # Seen from any side a tube is all its spheres; opaque, so that they do not add up.
        spheres = [Circle((at[right], at[up]), wide) for at, wide in zip(path, room, strict=True)]
        axis.add_collection(PatchCollection(spheres, color=_CORRIDOR, zorder=0.5))
        axis.fill([], [], color=_CORRIDOR, label="corridor")  # for the legend
        axis.plot(path[:, right], path[:, up], "--", color=DARK, lw=0.9, label="task's path")
    for gate, state in zip(task.gates, gate_states(task.gates, track.position)[-1], strict=True):
        colour, name = _GATES[int(state)]
        edge = ring(gate)
        axis.plot(edge[:, right], edge[:, up], color=colour, lw=2.2, label=name)
    for landmark in task.landmarks:
        axis.add_patch(Circle((landmark[right], landmark[up]), task.landmark_radius_m, fill=False,
                              ec=ORANGE, lw=1.5))  # fmt: skip
    for fan in task.fans:
        place, blows = fan.position, 0.8 * fan.direction
        axis.add_patch(FancyArrow(place[right], place[up], blows[right], blows[up], width=0.08,
                                  color=RED, alpha=0.6, lw=0))  # fmt: skip


def _draw_track(axis: Axes, track: Track, view: View, fastest: float) -> LineCollection:
    """One path; returns the coloured line, for a colour bar."""
    points, speed = track.position[:, None, view.axes], track.speed
    lines = LineCollection(
        list(np.concatenate([points[:-1], points[1:]], axis=1)),
        array=0.5 * (speed[:-1] + speed[1:]), cmap=SPEED_MAP, lw=2.6, capstyle="round",
        clim=(0.0, fastest),
    )  # fmt: skip
    axis.add_collection(lines)
    axis.plot(*track.reference[:, view.axes].T, color=GREY, lw=0.9, label="reference")
    axis.plot(*track.position[0, view.axes], "o", color=DARK, mfc="white", ms=5, label="start")
    half = 0.5 * view.extent
    axis.set_xlim(view.middle[0] - half[0], view.middle[0] + half[0])
    axis.set_ylim(view.middle[1] - half[1], view.middle[1] + half[1])
    axis.set_aspect("equal")
    axis.yaxis.set_major_locator(MaxNLocator(5))
    return lines
