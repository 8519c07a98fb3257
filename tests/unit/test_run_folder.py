"""The folder of a run: what is written comes back, and no kill or damage makes it useless."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import resource
import shutil
import signal
import tomllib
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from run_folder_contents import CONFIG, rollout, same_bits

from lafr_mjx.errors import InputError, RunError
from lafr_mjx.runs.run_folder import SCHEMA_VERSION, RunFolder
from lafr_mjx.runs.toml_text import toml_text

# Configuration and opening


def test_config_comes_back_from_the_file(tmp_path):
    with RunFolder.create(tmp_path / "a" / "run", CONFIG) as run:
        assert run.config == CONFIG
    written = tomllib.loads((tmp_path / "a" / "run" / "config.toml").read_text("utf-8"))
    assert written.pop("schema_version") == SCHEMA_VERSION
    assert written.pop("lafr_mjx_version")
    assert written == CONFIG
    assert RunFolder.open(tmp_path / "a" / "run").config == CONFIG


def test_floats_keep_every_bit():
    rng = np.random.default_rng(0)
    values = [float(x) for x in rng.integers(0, 2**63, 500, np.uint64).view(np.float64)]
    values += [0.0, -0.0, 5e-324, 1e308, 1e16, 1e-5, math.inf, -math.inf]
    values = [x for x in values if not math.isnan(x)]
    read = tomllib.loads(toml_text({"x": values}))["x"]
    assert np.array(read).tobytes() == np.array(values).tobytes()
    assert all(type(x) is float for x in read)


def test_tables_and_lists_of_tables_come_back():
    table = {"b": {"c": {"d": [{"e": 1, "f g": [True, "x"]}, {}]}, "x": 1}, "a": [[1, 2], []]}
    assert tomllib.loads(toml_text(table)) == table
    numpy = {"n": np.float32(0.5), "v": np.arange(3), "flag": np.bool_(True)}
    assert tomllib.loads(toml_text(numpy)) == {"n": 0.5, "v": [0, 1, 2], "flag": True}


def test_what_toml_cannot_say_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(TypeError, match=r"a\.b"):
        RunFolder.create(tmp_path / "run", {"a": {"b": None}})
    with pytest.raises(ValueError, match="schema_version"):
        RunFolder.create(tmp_path / "run", {"schema_version": 2})
    with pytest.raises(InputError, match="UTF-8"):
        RunFolder.create(tmp_path / "run", {"a": "\udc80"})
    assert not (tmp_path / "run").exists()


def test_a_run_is_never_overwritten(tmp_path):
    RunFolder.create(tmp_path / "run", CONFIG).close()
    with pytest.raises(InputError, match=r"run: is not empty.*--resume.*--out"):
        RunFolder.create(tmp_path / "run", CONFIG)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="is not empty") as caught:
        RunFolder.create(tmp_path / "other", CONFIG)
    assert "--resume" not in str(caught.value)
    (tmp_path / "empty").mkdir()
    RunFolder.create(tmp_path / "empty", CONFIG).close()


def test_a_creation_that_was_killed_can_be_repeated(tmp_path):
    for name in (".lock", ".config.toml.partial"):
        (tmp_path / name).write_text("")
    (tmp_path / "rollouts").mkdir()
    RunFolder.create(tmp_path, CONFIG).close()
    assert RunFolder.open(tmp_path).config == CONFIG


def test_places_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "run", Path("/proc/run")):
        with pytest.raises(InputError, match="cannot be written"):
            RunFolder.create(place, CONFIG)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only for root")
def test_read_only_parent(tmp_path):
    tmp_path.chmod(0o555)
    with pytest.raises(InputError, match="cannot be written"):
        RunFolder.create(tmp_path / "run", CONFIG)
    tmp_path.chmod(0o755)


def test_what_is_not_a_run_is_refused(tmp_path):
    for place, reason in (
        (tmp_path / "none", "no such folder"),
        (tmp_path, "not the folder of a run"),
        (Path(__file__), "not a folder"),
    ):
        with pytest.raises(InputError, match=reason):
            RunFolder.open(place)


def test_another_schema_names_the_version_that_can_read_it(tmp_path):
    RunFolder.create(tmp_path, CONFIG).close()
    file = tmp_path / "config.toml"
    text = file.read_text("utf-8")
    newer = text.replace(f"schema_version = {SCHEMA_VERSION}", "schema_version = 77")
    newer = newer.replace('lafr_mjx_version = "', 'lafr_mjx_version = "9.')
    file.write_text(newer, "utf-8")
    with pytest.raises(InputError, match=r"schema_version 77.*reads \d.*written by lafr-mjx 9\."):
        RunFolder.open(tmp_path)
    for bad in (
        "",
        "[",
        text.replace(f"schema_version = {SCHEMA_VERSION}", "schema_version = true"),
    ):
        file.write_text(bad, "utf-8")
        with pytest.raises(InputError, match=r"config\.toml"):
            RunFolder.open(tmp_path)


def test_config_cut_at_any_byte_is_noticed(tmp_path):
    RunFolder.create(tmp_path, CONFIG).close()
    file = tmp_path / "config.toml"
    data = file.read_bytes()
    for length in range(len(data) - 1):
        file.write_bytes(data[:length])
        with pytest.raises(InputError, match=r"config\.toml"):
            RunFolder.open(tmp_path)


def test_links_that_leave_the_folder_are_refused(tmp_path):
    run = tmp_path / "run"
    RunFolder.create(run, CONFIG).close()
    (tmp_path / "alias").symlink_to(run)
    RunFolder.open(tmp_path / "alias")  # the folder itself may be reached by a link
    (run / "latest").symlink_to("rollouts")
    (run / "loop").symlink_to("loop")
    RunFolder.open(run)
    (run / "rollouts" / "000.npz").symlink_to(Path(__file__))
    with pytest.raises(InputError, match=r"rollouts/000\.npz' is a link that leaves"):
        RunFolder.open(run)


def test_one_writer_only(tmp_path):
    first = RunFolder.create(tmp_path, CONFIG)
    with pytest.raises(InputError, match="another process is writing to"):
        RunFolder.open(tmp_path, resume=True)
    reader = RunFolder.open(tmp_path)  # looking is always allowed
    with pytest.raises(RuntimeError, match="read only"):
        reader.append_iteration({})
    first.close()
    with RunFolder.open(tmp_path, resume=True) as second:
        second.append_iteration({})
    with RunFolder.open(tmp_path, resume=True):
        pass


def test_a_moved_folder_goes_on(tmp_path):
    with RunFolder.create(tmp_path / "a", CONFIG) as run:
        run.save_checkpoint(4, {"x": jnp.arange(3)})
    shutil.move(tmp_path / "a", tmp_path / "b")
    found = RunFolder.open(tmp_path / "b").load_checkpoint({"x": jnp.zeros(3, jnp.int32)})
    assert found is not None and found[0] == 4


# Iterations


def test_iterations_come_back_as_plain_numbers(tmp_path):
    with RunFolder.create(tmp_path, CONFIG) as run:
        assert run.iterations() == []
        run.append_iteration({"peak_error_m": np.float32(0.5), "candidates": jnp.arange(3.0)})
        run.append_iteration({"iteration": 1, "predicted_error_m": math.nan, "bound_by": "speed"})
        with pytest.raises(ValueError, match="iteration 1 is in"):
            run.append_iteration({"iteration": 1})
        assert run.iterations() == [
            {"iteration": 0, "peak_error_m": 0.5, "candidates": [0.0, 1.0, 2.0]},
            {"iteration": 1, "predicted_error_m": None, "bound_by": "speed"},
        ]


def test_lines_cut_at_any_byte_are_dropped_and_repaired(tmp_path):
    with RunFolder.create(tmp_path, CONFIG) as run:
        for i in range(3):
            run.append_iteration({"x": i, "note": "é"})
        whole = run.iterations()
        file = tmp_path / "iterations.jsonl"
        data = file.read_bytes()
        for length in range(len(data)):
            file.write_bytes(data[:length])
            left = data[:length].count(b"\n")
            assert run.iterations() == whole[:left]
            run.append_iteration({"x": left, "note": "é"})
            assert run.iterations() == whole[: left + 1]
            assert file.read_bytes() == b"".join(data.splitlines(True)[: left + 1])


def test_damage_in_the_middle_is_told(tmp_path):
    with RunFolder.create(tmp_path, CONFIG) as run:
        (tmp_path / "iterations.jsonl").write_text('{"iteration": 0}\nnonsense\n{"iteration": 2}\n')
        with pytest.raises(InputError, match="line 2"):
            run.iterations()
        (tmp_path / "iterations.jsonl").write_bytes(b'{"iteration": 0}\n\0\0\0\n')
        assert run.iterations() == [{"iteration": 0}]


def test_summary(tmp_path):
    with RunFolder.create(tmp_path, CONFIG) as run:
        run.write_summary({"peak": np.float32(1.5), "list": np.arange(2), "none": math.inf})
    figures = json.loads((tmp_path / "summary.json").read_text("utf-8"))
    assert figures == {"peak": 1.5, "list": [0, 1], "none": None}


def test_full_disk_is_one_clear_line_and_costs_nothing_older(tmp_path):
    with RunFolder.create(tmp_path, CONFIG) as run:
        run.append_iteration({})
        run.save_rollout(0, rollout())
        before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (40, limits[1]))
        try:
            with pytest.raises(RunError, match=r"iterations\.jsonl: cannot be written"):
                run.append_iteration({"text": "x" * 100})
            with pytest.raises(RunError, match=r"001\.npz: cannot be written"):
                run.save_rollout(1, rollout())
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            signal.signal(signal.SIGXFSZ, before)
        assert len(run.iterations()) == 1
        assert run.rollout_numbers() == [0]
        run.append_iteration({"text": "x" * 100})
        assert len(run.iterations()) == 2


# Recorded flights


@dataclasses.dataclass
class Extra:
    voltage: np.ndarray
    crash: np.ndarray


@pytest.mark.parametrize("kind", [None, dict, Extra, SimpleNamespace])
def test_flights_come_back_bit_by_bit(tmp_path, kind):
    extra = {"voltage": np.ones(20, np.float32), "crash": np.arange(20, dtype=np.int32)}
    flown = rollout(diagnostics=None if kind is None else kind(**extra))
    with RunFolder.create(tmp_path, CONFIG) as run:
        run.save_rollout(7, flown)
        assert run.rollout_numbers() == [7]
        read = run.load_rollout(7)
        again = run.load_rollout(7)
    same_bits(flown._replace(diagnostics=0), read._replace(diagnostics=0))
    if kind is None:
        assert read.diagnostics is None
    else:
        assert read.diagnostics.voltage.tobytes() == extra["voltage"].tobytes()
        assert read.diagnostics.crash.tobytes() == extra["crash"].tobytes()
    assert jax.tree.structure(read) == jax.tree.structure(again)  # compiled for once
    names = np.load(tmp_path / "rollouts" / "007.npz").files
    assert {"time", "sensed.position", "reference.jerk", "sample.rates"} <= set(names)


def test_flights_of_earlier_versions_know_no_fallback(tmp_path):
    with RunFolder.create(tmp_path, CONFIG) as run:
        run.save_rollout(0, rollout(fallback=False))
        assert run.load_rollout(0).fallback is None
    assert "fallback" not in np.load(tmp_path / "rollouts" / "000.npz").files


def test_flights_that_are_damaged_or_something_else_are_refused(tmp_path):
    with RunFolder.create(tmp_path, CONFIG) as run:
        run.save_rollout(0, rollout(4))
        file = tmp_path / "rollouts" / "000.npz"
        data = file.read_bytes()
        for length in (*range(0, len(data), 97), len(data) - 1):
            file.write_bytes(data[:length])
            with pytest.raises(InputError, match=r"000\.npz"):
                run.load_rollout(0)
        file.write_bytes(data)
        with np.load(file) as arrays:
            good = dict(arrays)
        for change, reason in (
            ({"version": np.array(9)}, "version 9"),
            ({"time": np.array([{}], object)}, "cannot be read"),  # a pickle
            ({"truth.position": np.zeros((4, 2))}, "truth"),
            ({"sample_time": np.zeros(4)}, "sample_time"),
            ({"fallback": np.zeros(3, bool)}, "fallback"),
            ({"other": np.zeros(4)}, "other"),
            ({"diagnostics.not a name": np.zeros(4)}, "bad name"),
            ({"diagnostics.short": np.zeros(3)}, "diagnostics.short"),
        ):
            np.savez(file, **(good | change))  # type: ignore[arg-type]
            with pytest.raises(InputError, match=reason):
                run.load_rollout(0)
        del good["sensed.rates"]
        np.savez(file, **good)  # type: ignore[arg-type]
        with pytest.raises(InputError, match=r"sensed\.rates"):
            run.load_rollout(0)
        with pytest.raises(InputError, match="no such flight"):
            run.load_rollout(1)
