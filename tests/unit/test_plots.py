"""Figures of a run: they show what is in its folder, also when little is in it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import view_runs
from matplotlib.figure import Figure
from matplotlib.image import imread

from lafr_mjx.errors import InputError, RunError
from lafr_mjx.runs.run_folder import RunFolder
from lafr_mjx.tasks import Gate, load_task
from lafr_mjx.types import CONTROL_DT
from lafr_mjx.view import plots
from lafr_mjx.view.drawing import sliding_mean

TASK = load_task("figure8")
NAMES = ["progress.png", "paths.png", "body_rates.png", "ats.png"]


def flown(time_scale, offset=0.1, rate=1.0, turned=False):
    """A flight beside its reference, with constant commands."""
    flight = view_runs.flown(time_scale, (0.0, offset, 0.0))
    if turned:
        wanted = np.asarray(flight.reference.position)[:, [1, 0, 2]]
        flight = flight._replace(
            reference=flight.reference._replace(position=wanted),
            truth=flight.truth._replace(position=wanted + np.array([0.0, offset, 0.0])),
        )
    return flight._replace(command=np.tile([9.81, 0.0, -rate, 0.5 * rate], (len(flight.time), 1)))


def record(time_scale, error=0.1, **more):
    candidates = 0.9 * time_scale * np.geomspace(1.0, 1.25, 8)
    return {
        "time_scale": time_scale,
        "peak_speed_mps": 2.24 / time_scale,
        "lap_time_s": 8.34 * time_scale,
        "rmse_m": 0.5 * error,
        "peak_error_m": error,
        "predicted_peak_error_m": 0.9 * error,
        "crashed": False,
        "candidates": candidates,
        "candidate_nominal_errors_m": 0.05 / candidates,
        "candidate_stressed_errors_m": 0.1 / candidates,
        **more,
    }


@pytest.fixture
def figures(monkeypatch):
    """The figures that are drawn, by the names of their files."""
    drawn = {}
    save = Figure.savefig

    def remember(self, path, **settings):
        drawn[path.name.strip(".").removesuffix(".partial")] = self
        save(self, path, **settings)

    monkeypatch.setattr(Figure, "savefig", remember)
    return drawn


def make(folder):
    return plots.make_plots(folder, TASK, 6.0)


def is_a_picture(path):
    pixels = imread(path)[..., :3]
    height, width = pixels.shape[:2]
    assert height > 300 and width > 900
    assert 0.02 < (pixels < 0.99).any(axis=-1).mean() < 0.9  # neither empty nor full


def test_all_figures_of_a_run(tmp_path, figures):
    scales = (1.0, 0.92, 0.85)
    with RunFolder.create(tmp_path, {}) as folder:
        for i, scale in enumerate(scales):
            folder.save_rollout(i, flown(scale, rate=1.0 + i))
            first = {"predicted_peak_error_m": None} if i == 0 else {}
            folder.append_iteration(record(scale, 0.1 + 0.05 * i, **first))
        made = make(folder)
    assert made == [tmp_path / "plots" / name for name in NAMES]
    for path in made:
        is_a_picture(path)
    assert sorted(p.name for p in (tmp_path / "plots").iterdir()) == sorted(NAMES)

    speed, lap, rmse, error = figures["progress.png"].axes
    assert speed.lines[0].get_ydata() == pytest.approx([2.24 / s for s in scales])
    assert lap.get_ylabel() == "lap time [s]"
    assert rmse.lines[0].get_ydata() == pytest.approx([0.05, 0.075, 0.1])
    shown = {line.get_label(): line.get_ydata() for line in error.lines}
    assert shown["flown"] == pytest.approx([0.1, 0.15, 0.2])
    assert shown["predicted"][1:] == pytest.approx([0.135, 0.18])
    assert np.isnan(shown["predicted"][0])
    assert any(set(line.get_ydata()) == {0.35} for line in error.lines)
    assert "off the task's path" not in shown  # the reference is on it

    before, after = figures["paths.png"].axes[:2]
    assert before.get_title("left").startswith("Flight 0")
    assert after.get_title("left").startswith("Flight 2")
    assert before.collections[0].get_clim() == after.collections[0].get_clim()
    assert before.get_position().y0 > after.get_position().y0  # a wide path: one above the other
    assert before.collections[0].get_array().max() < after.collections[0].get_array().max()

    (rates,) = figures["body_rates.png"].axes
    raw, mean = (line.get_ydata() for line in rates.lines[:2])
    assert raw[0] == 1.0 and raw[-1] == 3.0  # the largest of the three, without its sign
    assert mean[0] == pytest.approx(1.0) and 1.0 < mean[len(raw) // 2] < 3.0
    total = sum(len(flown(scale).time) for scale in scales) * CONTROL_DT
    assert rates.get_xlim() == pytest.approx((0.0, total))

    nominal, stressed = figures["ats.png"].axes[:2]
    assert nominal.xaxis_inverted() and nominal.get_yscale() == "log"
    chosen = [line for line in stressed.lines if line.get_marker() == "D"]
    at = [(float(line.get_xdata()[0]), float(line.get_ydata()[0])) for line in chosen]
    assert [x for x, _ in at] == [0.92, 0.85]
    assert [y for _, y in at] == pytest.approx([0.1 / 0.92, 0.1 / 0.85], rel=0.01)
    stars = np.asarray(stressed.collections[0].get_offsets())
    assert stars == pytest.approx(np.array([[1.0, 0.1], [0.92, 0.15], [0.85, 0.2]]))


def test_no_word_covers_a_point(tmp_path, figures):
    records = [record(1.0 - 0.05 * i, 0.36 if i == 0 else 0.2, iteration=i) for i in range(12)]
    records[5] |= {"crashed": True}
    named = dataclasses.replace(TASK, name="a-task-with-a-name-as-long-as-some")
    plots.plot_progress(tmp_path, records, named)
    figure = figures["progress.png"]
    (legend,) = figure.legends
    assert "$E_{th}$ = 0.35 m" in {text.get_text() for text in legend.texts}
    words = [legend, figure._suptitle, *(t for axis in figure.axes for t in axis.texts)]
    boxes = [word.get_window_extent() for word in words]
    for axis in figure.axes:
        for line in axis.lines:
            if line.get_marker() not in ("None", "", None):
                points = axis.transData.transform(line.get_xydata())
                assert not any(box.contains(*point) for box in boxes for point in points)
    assert not boxes[0].overlaps(boxes[1])


def test_a_tall_path_is_shown_side_by_side(tmp_path, figures):
    with RunFolder.create(tmp_path, {}) as folder:
        for i in range(2):
            folder.save_rollout(i, flown(1.0, turned=True))
        coefficients = np.asarray(TASK.path.coefficients)[:, [1, 0, 2, 3]]
        task = dataclasses.replace(TASK, path=TASK.path._replace(coefficients=coefficients))
        plots.plot_paths(tmp_path, {i: folder.load_rollout(i) for i in range(2)}, task)
    before, after = figures["paths.png"].axes[:2]
    assert before.get_position().x0 < after.get_position().x0


def test_a_planned_reference_is_shown_in_its_corridor_through_the_gates(tmp_path, figures):
    """The last flight is 0.25 m beside the task's path; a gate on it is passed, one is missed."""
    along = np.array([1.0, 0.0, 0.0])
    gates = (Gate(TASK.start_position, along, 0.6), Gate(TASK.start_position + 0.5, along, 0.3))
    task = dataclasses.replace(TASK, gates=gates)
    beside = flown(0.5, offset=0.0)
    moved = np.asarray(beside.reference.position) + np.array([0.0, 0.25, 0.0])
    beside = beside._replace(
        reference=beside.reference._replace(position=moved),
        truth=beside.truth._replace(position=moved),
    )
    with RunFolder.create(tmp_path, {}) as folder:
        for i, rollout in enumerate((flown(1.0, offset=0.0), beside)):
            folder.save_rollout(i, rollout)
            folder.append_iteration(record(1.0, peak_path_distance_m=0.25 * i))
        plots.make_plots(folder, task, 6.0)
    above, above_last, side, side_last = figures["paths.png"].axes[:4]
    assert side.get_ylabel() == "z [m]"
    for axis, corridor in ((above, 0), (side, 0), (above_last, 1), (side_last, 1)):
        names = [line.get_label() for line in axis.lines]
        assert names.count("task's path") == corridor and names.count("reference") == 1
        assert {"gate passed", "gate missed"} <= set(names)
    path = next(line for line in above_last.lines if line.get_label() == "task's path")
    low, high = above_last.get_ylim()
    assert low < path.get_ydata().min() - 0.35 and high > path.get_ydata().max() + 0.35
    legend = {text.get_text() for text in figures["paths.png"].legends[0].get_texts()}
    assert {"reference", "task's path", "corridor", "start", "gate passed", "gate missed"} == legend
    error = figures["progress.png"].axes[3]
    shown = {line.get_label(): line.get_ydata() for line in error.lines}
    assert shown["off the task's path"] == pytest.approx([0.0, 0.25])


def test_one_iteration_with_next_to_nothing_known(tmp_path):
    with RunFolder.create(tmp_path, {}) as folder:
        folder.append_iteration({"time_scale": 1.0, "peak_error_m": None, "lap_time_s": None})
        assert [p.name for p in make(folder)] == ["progress.png"]
        folder.save_rollout(0, flown(1.0))
        assert [p.name for p in make(folder)] == NAMES[:3]


def test_crashes_are_marked_and_do_not_squeeze_the_rest(tmp_path, figures):
    crash = flown(0.5)
    crashed = np.arange(len(crash.time)) >= 150
    position = np.where(crashed[:, None], np.nan, crash.truth.position)
    crash = crash._replace(crashed=crashed, truth=crash.truth._replace(position=position))
    never = flown(0.4)._replace(crashed=np.ones(len(flown(0.4).time), bool))
    nothing = [None] * 8
    with RunFolder.create(tmp_path, {}) as folder:
        for i, rollout in enumerate((flown(1.0), crash, never)):
            folder.save_rollout(i, rollout)
        folder.append_iteration(record(1.0))
        folder.append_iteration(record(0.5, 2.0, crashed=True, lap_time_s=None))
        folder.append_iteration(record(0.4, 9.0, candidate_stressed_errors_m=nothing))
        for path in make(folder):
            is_a_picture(path)
    error = figures["progress.png"].axes[3]
    assert error.get_ylim()[1] < 1.2
    assert {"2.0 m", "9.0 m"} <= {text.get_text() for text in error.texts}
    assert any(line.get_label() == "crash" for line in error.lines)
    steps = len(flown(1.0).time) + 150
    assert len(figures["body_rates.png"].axes[0].lines[0].get_ydata()) == steps


def test_flights_that_the_guard_helped_are_marked(tmp_path, figures):
    with RunFolder.create(tmp_path, {}) as folder:
        for i, more in enumerate(({}, {"slow_down_factor": 2.1}, {"fallback": True}, {})):
            folder.append_iteration(record(1.0 - 0.1 * i, 0.1 + 0.05 * i, **more))
        make(folder)
    for name, x in (("progress.png", [1.0, 2.0]), ("ats.png", [0.9, 0.8])):
        for axis in figures[name].axes[:2]:
            (rings,) = (line for line in axis.lines if line.get_label() == "assisted")
            assert rings.get_xdata() == pytest.approx(x)
        assert "assisted" in {text.get_text() for text in figures[name].legends[0].get_texts()}


def test_nothing_to_draw_and_nowhere_to_draw_to(tmp_path):
    with RunFolder.create(tmp_path, {}) as folder:
        with pytest.raises(InputError, match="nothing to draw"):
            make(folder)
        folder.append_iteration(record(1.0))
        (tmp_path / "plots").rmdir()
        (tmp_path / "plots").write_text("")
        with pytest.raises(RunError, match="plots: cannot be written"):
            make(folder)


@pytest.mark.parametrize("width", [1, 4, 5, 100])
def test_sliding_mean(width):
    values = np.random.default_rng(0).normal(size=30)
    mean = sliding_mean(values, width)
    low = [max(i - width // 2, 0) for i in range(30)]
    wanted = [values[a : i - width // 2 + width].mean() for i, a in enumerate(low)]
    assert mean == pytest.approx(wanted)
