"""Runs that a signal or a kill ends at any moment: the folder is whole, and the run goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

INTERRUPTED = """
import signal, sys
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


KILLED = """
import os, sys
import numpy as np
sys.path.insert(0, sys.argv[2])
from run_folder_contents import CONFIG, rollout, same_bits
from lafr_mjx.runs.run_folder import RunFolder

path, left, template = sys.argv[1], -1, {"x": np.zeros(300, np.float32)}

def at_each_step(event, arguments):
    global left
    if path in str(arguments[:1]) and event.split(".")[0] in ("open", "os"):
        left -= 1
        if left == 0:
            os._exit(9)

def fly(run, number):
    run.save_rollout(number, rollout(40, seed=number))
    run.append_iteration({"x": number})
    run.save_checkpoint(number, {"x": np.full(300, number, np.float32)})

def gone_on():
    run = RunFolder.open(path, resume=True)
    last, tree = run.load_checkpoint(template)
    assert (tree["x"] == last).all()
    run.truncate_after(last)
    return run, last

with RunFolder.create(path, CONFIG) as run:
    fly(run, 0)
sys.addaudithook(at_each_step)
number, status, steps = 0, 9, 0
while status == 9:
    steps += 1
    child = os.fork()
    if child == 0:
        left = steps
        run, last = gone_on()
        fly(run, last + 1)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    run, last = gone_on()
    with run:
        assert last in (number, number + 1)
        flown = [record["iteration"] for record in run.iterations()]
        assert flown == run.rollout_numbers() == list(range(last + 1))
        same_bits(run.load_rollout(last), rollout(40, seed=last))
        assert not list(run.path.rglob("*.partial"))
    number = last
assert status == 0 and number > 0
print(steps, "times")
"""


def test_killed_at_each_step_at_most_one_iteration_is_flown_again(tmp_path):
    """At each step in turn of going on with a run and flying one more, in a forked process."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "run"), str(Path(__file__).parent)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[0]) > 20
