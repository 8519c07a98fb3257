"""Logs: readers, the uniform clock, gaps, and what is said about bad ones."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_flights import fly, raw_log, save_npz
from needs import require_module

from lafr_mjx import so3
from lafr_mjx.errors import InputError
from lafr_mjx.logs.log_readers import ReadOptions, read_logs
from lafr_mjx.logs.raw_log import Signal
from lafr_mjx.logs.resample import interval_means, uniform
from lafr_mjx.logs.smoothing import differentiate

MADE = fly()


def test_a_uniform_log_stays_as_it_is(tmp_path):
    (raw,) = read_logs(save_npz(tmp_path / "a.npz", MADE))
    log = uniform(raw)
    assert log.usable.all() and log.commanded and len(log.time) == len(MADE.time)
    assert log.position is not None and log.rotation is not None
    np.testing.assert_allclose(log.position, MADE.position, atol=1e-9)
    expected = so3.quaternion_to_matrix(MADE.quaternion)
    np.testing.assert_allclose(log.rotation, expected, atol=1e-9)
    # Commands that change with the samples hold over each interval.
    np.testing.assert_allclose(log.command[:-1, 0], MADE.thrust[:-1], atol=1e-9)
    np.testing.assert_allclose(log.command[:-1, 1:], MADE.rate_command[:-1], atol=1e-9)


def test_a_faster_unsteady_clock_gives_the_same_states():
    """A smooth signal sampled at 240 Hz with jitter, and the same on the uniform clock."""
    rng = np.random.default_rng(1)
    time = np.arange(0.0, 5.0, 1 / 240) + rng.uniform(-1e-3, 1e-3, 1200)
    wave = np.stack([np.sin(3.0 * time), np.cos(2.0 * time), 0.3 * time], axis=1)
    made = fly(5.0)
    log = uniform(raw_log(made, position=Signal(time, wave, "p")))
    assert log.position is not None
    clock = log.start + log.time
    expected = np.stack([np.sin(3.0 * clock), np.cos(2.0 * clock), 0.3 * clock], axis=1)
    np.testing.assert_allclose(log.position, expected, atol=2e-6)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(0.004, 0.06), min_size=5, max_size=30),
    st.floats(-0.02, 0.3),
    st.booleans(),
    st.integers(0, 2**16),
)
def test_interval_means_are_integrals(steps, start, held, seed):
    """Against a sum over a fine grid."""
    time = np.concatenate([[0.0], np.cumsum(steps)])
    values = np.random.default_rng(seed).normal(size=(len(time), 2))
    starts = np.array([start, start + 0.013])
    found = interval_means(Signal(time, values, "x", held), starts)
    for row, first in zip(found, starts, strict=True):
        fine = first + (np.arange(4000) + 0.5) * (0.01 / 4000)
        if held:
            index = np.clip(np.searchsorted(time, fine, side="right") - 1, 0, len(time) - 1)
            expected = values[index].mean(axis=0)
        else:
            expected = [np.interp(fine, time, values[:, i]).mean() for i in range(2)]
        np.testing.assert_allclose(row, expected, atol=2e-3)


def test_gaps_are_marked_and_told():
    kept = np.ones(len(MADE.time), bool)
    kept[300:340] = False
    raw = raw_log(MADE)
    position = raw.position
    assert position is not None
    torn = Signal(position.time[kept], position.values[kept], "p")
    log = uniform(raw_log(MADE, position=torn))
    np.testing.assert_array_equal(np.flatnonzero(~log.usable), np.arange(300, 340))
    assert log.gaps() == [(pytest.approx(3.0), pytest.approx(3.4))]
    assert any("position: 1 gaps" in note and "0.41 s" in note for note in log.notes)


def test_missing_numbers_count_as_gaps_and_are_told():
    velocity = MADE.velocity.copy()
    velocity[500:520] = np.nan
    log = uniform(raw_log(MADE, velocity=Signal(MADE.time, velocity, "v")))
    assert not log.usable[500:520].any() and log.usable.sum() == len(log.usable) - 20
    assert any("velocity: 20 samples are not numbers" in note for note in log.notes)


def test_ok_of_the_file_is_kept(tmp_path):
    good = np.ones(len(MADE.time), bool)
    good[100:200] = False
    (raw,) = read_logs(save_npz(tmp_path / "a.npz", MADE, ok=good))
    np.testing.assert_array_equal(uniform(raw).usable, good)


def test_derivative_of_a_cubic_is_exact_even_at_the_ends():
    t = 0.01 * np.arange(200)
    usable = np.ones(200, bool)
    usable[90:100] = False
    values = np.stack([1.0 + 2.0 * t - 3.0 * t**2 + t**3], axis=1)
    found = differentiate(values, 0.01, usable)
    expected = 2.0 - 6.0 * t + 3.0 * t**2
    np.testing.assert_allclose(found[usable, 0], expected[usable], atol=1e-8)
    assert np.isnan(found[~usable]).all()


def test_derivative_has_no_phase():
    t = 0.01 * np.arange(1000)
    found = differentiate(np.sin(6.0 * t)[:, None], 0.01, np.ones(1000, bool))[50:-50, 0]
    waves = np.stack([np.cos(6.0 * t), np.sin(6.0 * t)], axis=1)[50:-50]
    in_phase, off_phase = np.linalg.lstsq(waves, found)[0]
    assert in_phase == pytest.approx(6.0, rel=0.01)
    assert abs(off_phase) / 6.0 < 1e-3


def test_velocity_is_estimated_when_missing(tmp_path):
    (raw,) = read_logs(save_npz(tmp_path / "a.npz", MADE, v=None))
    log = uniform(raw)
    assert log.velocity is not None
    assert np.abs(log.velocity - MADE.velocity)[20:-20].max() < 0.02
    assert any("estimated from the positions" in note for note in log.notes)


def _shift(raw, name, seconds):
    signal = getattr(raw, name)
    return signal._replace(time=signal.time + seconds)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"t": np.arange(3) / 100, "p": np.zeros((3, 3)), "v": None, "q_wxyz": None, "w": None,
          "c_cmd": np.zeros(3), "w_cmd": np.zeros((3, 3))}, ("3 samples", "at least 100")),
        ({"t": np.where(np.arange(1200) == 700, 5.0, MADE.time)},
         ("clock runs backwards", "sample 700")),
        ({"t": 1000.0 * MADE.time}, ("10 s apart", "milliseconds")),
        ({"t": 1e9 * MADE.time}, ("nanoseconds",)),
        ({"q_wxyz": 2.0 * MADE.quaternion}, ("length 2", "quaternion")),
        ({"p": np.full((1200, 3), np.nan)}, ("1200 of 1200", "not numbers")),
        ({"p": np.zeros((7, 3))}, ("'p' has the shape (7, 3)", "(1200, 3)")),
        ({"q_wxyz": None, "w": None}, ("quaternion missing",)),
        ({"w": None, "w_cmd": None}, ("neither commanded nor measured",)),
        ({"t": None}, ("'t' is missing",)),
        ({"mass": np.array(-1.0)}, ("'mass'",)),
    ],
)  # fmt: skip
def test_bad_logs_say_what_and_where(tmp_path, changes, words):
    path = save_npz(tmp_path / "bad.npz", MADE, **changes)
    with pytest.raises(InputError) as error:
        for raw in read_logs(path):
            uniform(raw)
    assert str(path) in str(error.value)
    for word in words:
        assert word in str(error.value)


def test_no_overlap_names_the_spans():
    raw = raw_log(MADE)
    with pytest.raises(InputError, match=r"overlap for 0\.00 s .* thrust \('c'\) 100\.000 to"):
        uniform(raw_log(MADE, thrust=_shift(raw, "thrust", 100.0),
                        rate_command=_shift(raw, "rate_command", 100.0)))  # fmt: skip


def test_files_that_are_no_logs(tmp_path):
    (tmp_path / "a.npz").write_bytes(b"not a zip")
    (tmp_path / "a.xyz").write_text("1")
    (tmp_path / "a.csv").write_text("t,x\n0,1\n")
    for name, words in (("a.npz", "not a readable"), ("a.xyz", "no log that is known"),
                        ("none.npz", "no such file"), ("a.csv", "--columns")):  # fmt: skip
        with pytest.raises(InputError, match=words):
            read_logs(tmp_path / name)


COLUMNS = """
frame = "z-down"
[time]
column = "stamp"
unit = "ms"
[position]
columns = ["n", "e", "d"]
unit = "cm"
[velocity]
columns = ["u", "v", "w"]
axes = "body"
[attitude]
columns = ["qx", "qy", "qz", "qw"]
order = "xyzw"
maps = "world-to-body"
[rates]
columns = ["p", "q", "r"]
unit = "deg/s"
[rate_command]
columns = ["p_sp", "q_sp", "r_sp"]
unit = "deg/s"
[thrust]
columns = ["m1", "m2", "m3", "m4"]
unit = "rotor-rpm"
commanded = true
thrust_coefficient = 2e-6
[vehicle]
mass_kg = 0.8
"""


def _foreign_table():
    """The made flight with other axes, orders and units, by rotation matrices."""
    turn = np.diag([1.0, -1.0, -1.0])  # half a turn about x
    rotation = so3.quaternion_to_matrix(MADE.quaternion)
    ned = turn @ rotation @ turn  # forward-right-down to north-east-down
    q = so3.matrix_to_quaternion(np.swapaxes(ned, -1, -2))
    velocity = (np.swapaxes(ned, -1, -2) @ (MADE.velocity @ turn)[..., None])[..., 0]
    rpm = np.sqrt(MADE.thrust * 0.8 / 4 / 2e-6) * 60 / (2 * np.pi)
    degrees = 180.0 / np.pi
    names = ["stamp", *"neduvw", "qx", "qy", "qz", "qw", *"pqr", "p_sp", "q_sp", "r_sp",
             "m1", "m2", "m3", "m4", "comment"]  # fmt: skip
    columns = np.column_stack(
        [1e3 * MADE.time, 100.0 * MADE.position @ turn, velocity, q[:, 1:], q[:, :1],
         degrees * MADE.rates @ turn, degrees * MADE.rate_command @ turn, *[rpm] * 4]
    )  # fmt: skip
    return names, columns


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_tables_with_other_axes_orders_and_units(tmp_path, kind):
    names, columns = _foreign_table()
    (tmp_path / "map.toml").write_text(COLUMNS)
    path = tmp_path / f"log.{kind}"
    if kind == "csv":
        with path.open("w", newline="") as file:
            writer = csv.writer(file, delimiter=";")
            writer.writerow(names)
            writer.writerows([[*map(repr, map(float, row)), "text"] for row in columns])
    else:
        pyarrow = require_module("pyarrow", "logs")
        from pyarrow import parquet

        table = {name: columns[:, i] for i, name in enumerate(names[:-1])}
        parquet.write_table(pyarrow.table(table), path)
    (raw,) = read_logs(path, ReadOptions(tmp_path / "map.toml"))
    log = uniform(raw)
    assert log.position is not None and log.velocity is not None
    assert log.rates is not None and log.rotation is not None
    np.testing.assert_allclose(log.position, MADE.position, atol=1e-6)
    np.testing.assert_allclose(log.velocity, MADE.velocity, atol=1e-6)
    np.testing.assert_allclose(log.rates, MADE.rates, atol=1e-6)
    expected = so3.quaternion_to_matrix(MADE.quaternion)
    np.testing.assert_allclose(log.rotation, expected, atol=1e-6)
    np.testing.assert_allclose(log.command[:-1, 0], MADE.thrust[:-1], rtol=1e-6)
    np.testing.assert_allclose(log.command[:-1, 1:], MADE.rate_command[:-1], atol=1e-6)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('unit = "ms"', 'unit = "min"'), ("'time.unit' is 'min'", "'ns'")),
        (('"n", "e", "d"', '"n", "e"'), ("'position.columns'", "3 names")),
        (('columns = ["n", "e", "d"]', 'columns = ["n", "e", "z"]'), ("column 'z'", "log.csv")),
        (("mass_kg = 0.8", ""), ("mass_kg",)),
        (("frame =", "farme ="), ("unknown key 'farme'", "frame")),
        (("thrust_coefficient = 2e-6", ""), ("thrust_coefficient",)),
    ],
)
def test_bad_column_maps(tmp_path, change, words):
    names, columns = _foreign_table()
    (tmp_path / "map.toml").write_text(COLUMNS.replace(*change))
    lines = [",".join(names), *(",".join([*map(str, row), "x"]) for row in columns[:200])]
    (tmp_path / "log.csv").write_text("\n".join(lines))
    with pytest.raises(InputError) as error:
        read_logs(tmp_path / "log.csv", ReadOptions(tmp_path / "map.toml"))
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize(
    ("line", "words"),
    [("0.1,abc,1", "line 3, column 'x': 'abc' is no number"), ("0.1,1", "line 3 has 2 cells")],
)
def test_bad_cells_are_named(tmp_path, line, words):
    (tmp_path / "map.toml").write_text('[time]\ncolumn = "t"\n')
    (tmp_path / "log.csv").write_text(f"t,x,y\n0.0,1,2\n{line}\n0.2,1,2\n")
    with pytest.raises(InputError, match=words):
        read_logs(tmp_path / "log.csv", ReadOptions(tmp_path / "map.toml"))
