"""The folder of a run: what is written comes back, and no kill or damage makes it useless."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lafr_mjx.errors import InputError, RunError
from lafr_mjx.runs.run_folder import SCHEMA_VERSION, RunFolder
from lafr_mjx.runs.toml_text import toml_text
from lafr_mjx.types import Reference, Rollout, State

CONFIG = {
    "task": "figure8",
    "seed": 3,
    "iterations": 12,
    "guarded": True,
    "rates": [6.0, 6.0, 1e-7],
    'text with = and "quotes"': "lines\nof\ttext, é, 🚁, \x7f, \\",
    "ats": {"error_threshold": 0.1 + 0.2, "trust": {"low": 0.03, "names": ["a", "b"]}},
    "empty": {},
}


def rollout(ticks=20, seed=0, diagnostics=None):
    rng = np.random.default_rng(seed)

    def row(*shape, scale=1):
        return rng.normal(size=(scale * ticks, *shape)).astype(np.float32)

    def state(scale=1):
        return State(*(row(*s, scale=scale) for s in ((3,), (3,), (3, 3), (3,))))

    flags = rng.random(ticks) > 0.5
    return Rollout(
        time=0.02 * np.arange(ticks), valid=~flags, sensed=state(), stamp=row(), command=row(4),
        reference=Reference(row(3), row(3), row(3), row(3), row(3, 3), row(3), row()),
        phase=row(), phase_rate=row(), time_scale=row(), truth=state(), crashed=flags,
        sample_time=row(scale=2), sample=state(2), sample_received=rng.random(2 * ticks) > 0.1,
        diagnostics=diagnostics,
    )  # fmt: skip


def same_bits(a, b):
    a, b = jax.tree.leaves(a), jax.tree.leaves(b)
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        x, y = np.asarray(x), np.asarray(y)
        assert x.dtype == y.dtype and x.shape == y.shape
        assert x.tobytes() == y.tobytes()


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


# Checkpoints


class Learner(NamedTuple):
    weights: jax.Array
    key: jax.Array
    layers: tuple
    iteration: jax.Array
    done: np.ndarray
    nothing: jax.Array
    count: int


def learner(seed):
    rng = np.random.default_rng(seed)
    odd = rng.integers(0, 2**32, (5, 3), np.uint32).view(np.float32)  # NaN and the like, too
    return Learner(
        weights=jnp.asarray(odd),
        key=jnp.asarray(rng.integers(0, 2**32, 2, np.uint32)),
        layers=({"a/b": jnp.float32(seed)}, np.array(-0.0, np.float32)),
        iteration=jnp.int32(seed),
        done=np.array([True, False]),
        nothing=jnp.zeros((0, 3)),
        count=seed,
    )


def test_checkpoints_come_back_bit_by_bit_and_two_are_kept(tmp_path, capfd):
    with RunFolder.create(tmp_path, CONFIG) as run:
        assert run.load_checkpoint(learner(0)) is None
        for i in range(4):
            run.save_checkpoint(i, learner(i))
        number, tree = run.load_checkpoint(learner(9))  # type: ignore[misc]
        assert number == 3
        same_bits(tree, learner(3))
        assert isinstance(tree, Learner) and tree.count == 3
        assert isinstance(tree.weights, jax.Array) and isinstance(tree.done, np.ndarray)
        run.save_checkpoint(3, learner(33))  # flown again
        same_bits(run.load_checkpoint(learner(9))[1], learner(33))  # type: ignore[index]
    assert sorted(p.name for p in (tmp_path / "checkpoints").iterdir()) == ["002.npz", "003.npz"]
    shown = capfd.readouterr()
    assert shown.out + shown.err == ""


def test_a_damaged_checkpoint_gives_way_to_the_one_before(tmp_path):
    with RunFolder.create(tmp_path / "run", CONFIG) as run:
        for i in range(2):
            run.save_checkpoint(i, learner(i))
        newest = tmp_path / "run" / "checkpoints" / "001.npz"
        data = newest.read_bytes()
        middle = len(data) // 2
        for damage in (
            b"", data[:middle], data[:-2], bytes([data[0] ^ 1]) + data[1:],
            data.replace(learner(1).done.tobytes(), b"\0\1"),
        ):  # fmt: skip
            newest.write_bytes(damage)
            number, tree = run.load_checkpoint(learner(9))  # type: ignore[misc]
            assert number == 0
            same_bits(tree, learner(0))
        newest.write_bytes(data)
        assert run.load_checkpoint(learner(9))[0] == 1  # type: ignore[index]
        (newest.parent / ".002.npz.partial").write_bytes(data[:middle])  # never finished
        assert run.load_checkpoint(learner(9))[0] == 1  # type: ignore[index]
        for i in range(2):
            (newest.parent / f"{i:03d}.npz").write_text("")
        with pytest.raises(InputError, match="no checkpoint can be read"):
            run.load_checkpoint(learner(9))


def test_checkpoints_of_version_0_2_name_the_version_that_reads_them(tmp_path):
    with RunFolder.create(tmp_path, CONFIG) as run:
        (tmp_path / "checkpoints" / "004").mkdir()
        (tmp_path / "checkpoints" / "004" / "checksum.txt").write_text("01234567\n")
        with pytest.raises(InputError, match=r"only lafr-mjx 0\.2 reads these.*--repeat"):
            run.load_checkpoint(learner(9))
    assert (tmp_path / "checkpoints" / "004" / "checksum.txt").exists()


def test_a_checkpoint_of_another_shape_is_refused(tmp_path):
    with RunFolder.create(tmp_path, CONFIG) as run:
        run.save_checkpoint(0, {"x": jnp.zeros(3), "y": jnp.zeros(2)})
        for template, reason in (
            ({"x": jnp.zeros(4), "y": jnp.zeros(2)}, r"'x' is float32\[3\].*float32\[4\]"),
            ({"x": jnp.zeros(3, int), "y": jnp.zeros(2)}, "'x' is float32"),
            ({"x": jnp.zeros(3)}, "'y' is unknown"),
            ({"x": jnp.zeros(3), "y": jnp.zeros(2), "z": jnp.zeros(2)}, "'z' is missing"),
        ):
            with pytest.raises(InputError, match=reason):
                run.load_checkpoint(template)


def test_truncate_after(tmp_path):
    with RunFolder.create(tmp_path, CONFIG) as run:
        for i in range(4):
            run.save_rollout(i, rollout(2))
            run.append_iteration({"x": i})
            run.save_checkpoint(i, {"x": jnp.arange(i + 1)})
        run.truncate_after(2)
        assert run.rollout_numbers() == [0, 1, 2]
        assert [r["x"] for r in run.iterations()] == [0, 1, 2]
        assert run.load_checkpoint({"x": jnp.arange(3)})[0] == 2  # type: ignore[index]
        run.append_iteration({"x": 3})
        assert run.iterations()[-1] == {"iteration": 3, "x": 3}
        run.truncate_after(-1)
        assert run.rollout_numbers() == [] and run.iterations() == []
        assert run.load_checkpoint({"x": jnp.arange(3)}) is None


# Interruptions and kills

INTERRUPTED = """
import os, signal, sys
import numpy as np
from lafr_mjx.interruption import Interrupted, orderly
from lafr_mjx.runs.run_folder import RunFolder

left = -1

def at_each_step(event, arguments):
    global left
    if "checkpoints" in str(arguments[:1]) and event.split(".")[0] in ("open", "os"):
        left -= 1
        if left == 0:
            signal.raise_signal(signal.SIGTERM)

tree = {"x": np.arange(1000.0)}
with RunFolder.create(sys.argv[1], {}) as run:
    run.save_checkpoint(0, tree)
    sys.addaudithook(at_each_step)
    number = steps = 0
    while steps == number:
        steps += 1
        left = steps
        try:
            with orderly():
                run.save_checkpoint(steps, tree)
        except Interrupted:
            number = steps
            left = -1
            last, loaded = run.load_checkpoint(tree)
            assert last in (number - 1, number) and np.array_equal(loaded["x"], tree["x"])
            if last < number:
                run.save_checkpoint(number, tree)
print(number, "times")
"""


def test_a_signal_while_a_checkpoint_is_written_ends_in_order(tmp_path):
    """At each of its steps in turn, in a process of its own: what it leaves speaks at its end."""
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(tmp_path / "run")],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and done.stderr == ""
    assert int(done.stdout.split()[0]) >= 3


RUN = """
import os, sys, time
import numpy as np
sys.path.insert(0, sys.argv[2])
from test_run_folder import CONFIG, rollout
from lafr_mjx.runs.run_folder import SCHEMA_VERSION, RunFolder
from pathlib import Path

def go_on(path, log):
    template = {"x": np.zeros(300, np.float32), "i": np.zeros((), np.int32)}
    if (path / "config.toml").exists():
        run = RunFolder.open(path, resume=True)
    else:
        run = RunFolder.create(path, CONFIG)
    found = run.load_checkpoint(template)
    number, tree = found if found else (-1, template)
    assert tree["i"] == number + 1, (tree["i"], number)
    assert np.all(tree["x"] == tree["i"])
    run.truncate_after(number)
    assert [r["iteration"] for r in run.iterations()] == list(range(number + 1))
    assert run.rollout_numbers() == list(range(number + 1))
    for i in range(number + 1, 100_000):
        os.write(log, b"%d\\n" % i)
        run.save_rollout(i, rollout(40, seed=i))
        run.append_iteration({"x": i})
        run.save_checkpoint(i, {"x": tree["x"] * 0 + i + 1, "i": np.asarray(i + 1, np.int32)})

# Each line of the input starts a run in a process of its own, without importing anew.
for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        log = os.open(sys.argv[1] + "/log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            go_on(Path(sys.argv[1], "run"), log)
        except BaseException as error:
            os.write(log, b"failed: %s\\n" % repr(error).encode())
        os._exit(1)
    print(pid, flush=True)
    os.waitpid(pid, 0)
    print("gone", flush=True)
"""


def test_killed_at_any_moment_at_most_one_iteration_is_flown_again(tmp_path):
    server = subprocess.Popen(
        [sys.executable, "-c", RUN, str(tmp_path), str(Path(__file__).parent)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ,
    )  # fmt: skip
    assert server.stdin is not None and server.stdout is not None
    rng = random.Random(0)
    starts = []
    try:
        for _ in range(16):
            starts.append(len(_log(tmp_path)))
            server.stdin.write("go\n")
            server.stdin.flush()
            pid = int(server.stdout.readline())
            time.sleep(rng.uniform(0.05, 0.8))
            assert not [line for line in _log(tmp_path) if line.startswith("failed")]
            os.kill(pid, signal.SIGKILL)
            assert server.stdout.readline() == "gone\n"
    finally:
        server.stdin.close()
        server.wait(timeout=60)
    log = _log(tmp_path)
    assert not [line for line in log if line.startswith("failed")]
    flown = [int(line) for line in log]
    assert max(flown) > 5
    for i in range(1, len(flown)):
        again = i in starts and flown[i] == flown[i - 1]
        assert again or flown[i] == flown[i - 1] + 1
    run = RunFolder.open(tmp_path / "run")
    for record in run.iterations():
        same_bits(run.load_rollout(record["iteration"]), rollout(40, seed=record["iteration"]))


def _log(folder):
    file = folder / "log"
    return file.read_text().splitlines() if file.exists() else []
