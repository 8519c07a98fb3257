"""Runs that a signal or a kill ends at any moment: the folder is whole, and the run goes on."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from run_folder_contents import rollout, same_bits

from lafr_mjx.runs.run_folder import RunFolder

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
from run_folder_contents import CONFIG, rollout
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
            # Some flights later, at any moment of one; also while it still reads what is there.
            flights = starts[-1] + rng.randrange(5)
            while len(log := _log(tmp_path)) < flights:
                assert not [line for line in log if line.startswith("failed")]
                time.sleep(0.001)
            time.sleep(rng.uniform(0.0, 0.02))
            os.kill(pid, signal.SIGKILL)
            assert server.stdout.readline() == "gone\n"
    finally:
        server.stdin.close()
        server.wait(timeout=600)
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
