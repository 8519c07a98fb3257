"""Damaged logs: cut, killed while writing, flipped bits, impossible samples, wrong units.

Whatever happened to a file, it is read with a note of what was left out, or refused in one line.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from log_flights import fly, raw_log, save_npz
from needs import require_module

from lafr_mjx.errors import InputError
from lafr_mjx.logs import log_checks
from lafr_mjx.logs.log_readers import ReadOptions, read_logs
from lafr_mjx.logs.outliers import outliers
from lafr_mjx.logs.raw_log import Signal
from lafr_mjx.logs.resample import uniform

MADE = fly(4.0, seed=100, drag=(0.4, 0.4, 0.2))
NAMES = ("t", "x", "y", "z", "vx", "vy", "vz", "qw", "qx", "qy", "qz", "p", "q", "r", "c")
MAP = """
[time]
column = "t"
[position]
columns = ["x", "y", "z"]
[velocity]
columns = ["vx", "vy", "vz"]
[attitude]
columns = ["qw", "qx", "qy", "qz"]
[rates]
columns = ["p", "q", "r"]
[thrust]
columns = ["c"]
commanded = false
"""


def table():
    return np.column_stack(
        [MADE.time, MADE.position, MADE.velocity, MADE.quaternion, MADE.rates, MADE.thrust]
    )


def save_csv(folder, change=lambda text: text):
    lines = [",".join(NAMES), *(",".join(map(repr, map(float, row))) for row in table())]
    (folder / "map.toml").write_text(MAP)
    path = folder / "log.csv"
    path.write_text(change("\n".join(lines) + "\n"))
    return path


def save_parquet(folder):
    pyarrow = require_module("pyarrow", "logs")
    from pyarrow import parquet

    (folder / "map.toml").write_text(MAP)
    path = folder / "log.parquet"
    columns = {name: column for name, column in zip(NAMES, table().T, strict=True)}
    parquet.write_table(pyarrow.table(columns), path)
    return path


def read(path):
    (raw,) = read_logs(path, ReadOptions(path.parent / "map.toml"))
    return uniform(raw)


@pytest.mark.parametrize("kind", ["npz", "csv", "parquet"])
def test_flipped_bits_and_cut_files_never_surprise(tmp_path, kind):
    save = {"npz": lambda folder: save_npz(folder / "log.npz", MADE), "csv": save_csv,
            "parquet": save_parquet}[kind]  # fmt: skip
    path = save(tmp_path)
    good = path.read_bytes()
    rng = np.random.default_rng(100)
    refused = 0
    for number in range(60):
        data = bytearray(good)
        if number % 4 == 0:
            data = data[: rng.integers(1, len(data))]
        else:
            # Heads and tails of files hold what readers stumble over.
            ends = (int(rng.integers(0, 300)), len(data) - 1 - int(rng.integers(0, 600)))
            place = (int(rng.integers(0, len(data))), *ends)[number % 4 - 1]
            data[place] ^= 1 << int(rng.integers(0, 8))
        path.write_bytes(bytes(data))
        try:
            log_checks.check(read(path))
        except InputError as error:
            refused += 1
            assert str(path) in str(error) or "map.toml" in str(error)
            assert "\n" not in str(error)
    assert refused > 20


def test_a_flipped_bit_in_an_npz_is_found_by_its_checksum(tmp_path):
    path = save_npz(tmp_path / "log.npz", MADE)
    data = bytearray(path.read_bytes())
    place = data.index(MADE.velocity.tobytes()) + 4000
    data[place] ^= 4
    path.write_bytes(bytes(data))
    with pytest.raises(InputError, match=r"log\.npz.*CRC.*v\.npy"):
        read_logs(path)


def test_a_table_that_was_killed_inside_a_record_loses_that_line_and_says_so(tmp_path):
    cut = read(save_csv(tmp_path, lambda text: text[: text.rindex(",") - 20]))
    assert len(cut.time) == len(MADE.time) - 1
    assert any(re.search(rf"line {len(MADE.time) + 1}, the last, has no end", n) for n in cut.notes)


def test_a_cell_that_is_cut_is_not_taken_for_a_number(tmp_path):
    """The last number without its last digits would still be a number."""
    whole = read(save_csv(tmp_path))
    cut = read(save_csv(tmp_path, lambda text: text[:-10]))
    assert len(cut.time) == len(whole.time) - 1
    assert not any("no end" in note for note in whole.notes)


def test_lines_that_break_off_elsewhere_are_an_error(tmp_path):
    def break_off(text):
        lines = text.splitlines()
        lines[200] = lines[200][:40]
        return "\n".join(lines) + "\n"

    with pytest.raises(InputError, match=r"log\.csv: line 201 has \d+ cells; line 1 names 15"):
        read(save_csv(tmp_path, break_off))


def test_rows_without_numbers_are_counted(tmp_path):
    def empty(text):
        lines = text.splitlines()
        for i in (50, 51, 300):
            cells = lines[i].split(",")
            cells[1:4] = ["nan"] * 3
            lines[i] = ",".join(cells)
        return "\n".join(lines) + "\n"

    log = read(save_csv(tmp_path, empty))
    assert any("x, y, z: 3 of 400 rows hold no number (the first: row 50)" in n for n in log.notes)


@pytest.mark.parametrize(
    ("name", "size"),
    [("position", 0.5), ("position", 1e300), ("velocity", 30.0), ("rates", 1e12), ("thrust", 1e30)],
)
def test_an_impossible_sample_counts_as_missing_and_is_told(name, size):
    raw = raw_log(MADE)
    signal = getattr(raw, name)
    values = signal.values.copy()
    values[123, 0] += size
    log = uniform(raw_log(MADE, **{name: signal._replace(values=values)}))
    (note,) = (n for n in log.notes if "cannot be" in n)
    assert note.startswith(f"{name}: 1 samples") and "sample 123 at 1.230 s" in note
    assert log.position is not None
    np.testing.assert_allclose(log.position[123], MADE.position[123], atol=0.002)
    # What is estimated from the signals themselves does not see it either.
    assert np.abs(getattr(log.raw, name).values).max() < 100.0


def test_two_neighbours_are_both_found():
    values = MADE.position.copy()
    values[200:202] += 3.0
    found = outliers("position", Signal(MADE.time, values, "p"))
    assert list(np.flatnonzero(found)) == [200, 201]


def test_noise_and_real_motion_are_no_outliers():
    rng = np.random.default_rng(101)
    for where, values, noise in (("position", MADE.position, 0.002),
                                 ("velocity", MADE.velocity, 0.05), ("rates", MADE.rates, 0.2),
                                 ("thrust", MADE.thrust[:, None], 0.5)):  # fmt: skip
        noisy = values + noise * rng.normal(size=values.shape)
        assert not outliers(where, Signal(MADE.time, noisy, where)).any()


def test_a_few_bad_quaternions_are_missing_many_are_an_error():
    raw = raw_log(MADE)
    assert raw.quaternion is not None
    values = raw.quaternion.values.copy()
    values[50] *= 3.0
    log = uniform(raw_log(MADE, quaternion=raw.quaternion._replace(values=values)))
    assert any("quaternion: 1 samples cannot be" in note for note in log.notes)
    with pytest.raises(InputError, match=r"sample 50 .* length 3; a quaternion has length 1"):
        values[50:90] = 3.0 * raw.quaternion.values[50:90]
        uniform(raw_log(MADE, quaternion=raw.quaternion._replace(values=values)))


@pytest.mark.parametrize(("scale", "unit"), [(1e3, "millimetres"), (1e2, "centimetres")])
def test_positions_alone_in_other_units_are_named(scale, unit):
    """Without a velocity there is nothing but gravity and thrust to compare with."""
    raw = raw_log(MADE)
    assert raw.position is not None
    moved = raw.position._replace(values=scale * raw.position.values)
    log = uniform(raw_log(MADE, position=moved, velocity=None))
    findings = [finding for finding in log_checks.check(log) if finding.serious]
    assert any(unit in finding.text for finding in findings)
