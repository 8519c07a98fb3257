"""Repeating flights where the machine stood still must not hide a failure."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = """
import sys
sys.path.insert(0, {folder!r})
import flown_again

class Loops:
    lates = iter({late} if isinstance({late}, tuple) else ())
    def worst(self, begin, end): return next(self.lates, {late})
    def close(self): pass

flown_again.lateness.machine = Loops
exec(open({conftest!r}).read())
"""
TESTS = """
import pathlib

def test_of_a_flight():
    file = pathlib.Path(__file__).with_name("count.txt")
    count = len(file.read_text()) if file.exists() else 0
    file.write_text("x" * (count + 1))
    assert count >= {passes_after}

def test_another():
    assert {good}
"""


def run(folder, late, passes_after, good=True, shared=""):
    here = Path(__file__).parent
    conftest = CONFTEST.format(folder=str(here), late=late, conftest=str(here / "conftest.py"))
    (folder / "conftest.py").write_text(conftest)
    (folder / "test_realtime.py").write_text(TESTS.format(passes_after=passes_after, good=good))
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", "-p", "no:cacheprovider", "-q"]
    done = subprocess.run(
        [*command, str(folder)], cwd=folder, capture_output=True, text=True, timeout=60,
        env=os.environ | {"LAFR_HIL_SHARED_MACHINE": shared},
    )  # fmt: skip
    return done.returncode, done.stdout, len((folder / "count.txt").read_text())


def test_a_failure_on_a_punctual_machine_stands(tmp_path):
    status, told, flown = run(tmp_path, late=0.017, passes_after=1)
    assert status == 1 and "1 failed, 1 passed" in told and flown == 1


@pytest.mark.parametrize("needed", [1, 2])
def test_a_flight_is_repeated_where_the_machine_stood_still(tmp_path, needed):
    status, told, flown = run(tmp_path, late=0.021, passes_after=needed)
    assert status == 0 and "2 passed" in told and flown == needed + 1
    assert "late by 21 ms, flown again" in told


def test_what_has_shown_nothing_is_skipped_and_named(tmp_path):
    status, told, flown = run(tmp_path, late=0.3, passes_after=9)
    assert status == 0 and "1 passed, 1 skipped" in told and flown == 3
    assert "SKIPPED, a bare loop was late by 300 ms" in told
    assert "IT FAILED IN THE SAME WAY EACH TIME" in told


def test_too_many_of_them_fail_the_run(tmp_path):
    status, told, _ = run(tmp_path, late=0.3, passes_after=9, good=False)
    assert status == 1 and "2 of 2 have shown nothing" in told


def test_on_a_shared_machine_more_of_them_are_named_only(tmp_path):
    status, told, _ = run(tmp_path, late=0.3, passes_after=9, shared="1")
    assert status == 0 and "1 passed, 1 skipped" in told and "SKIPPED" in told
    status, told, _ = run(tmp_path, late=0.3, passes_after=9, good=False, shared="1")
    assert status == 1 and "2 of 2 have shown nothing" in told


@pytest.mark.parametrize(("needed", "passes"), [(1, True), (2, True), (9, False)])
def test_on_a_shared_machine_what_failed_without_a_stall_must_pass_then(tmp_path, needed, passes):
    status, told, flown = run(tmp_path, late=0.01, passes_after=needed, shared="1")
    assert status == (0 if passes else 1) and flown == min(needed + 1, 3)
    assert ("2 passed" if passes else "1 failed, 1 passed") in told
    assert "FAILED WITHOUT A STALL (test_realtime.py:8), flown again" in told


def test_failures_without_a_stall_are_flown_again_a_few_times_only(tmp_path):
    status, told, _ = run(tmp_path, late=0.01, passes_after=9, good=False, shared="1")
    assert status == 1 and "2 failed" in told
    assert told.count("FAILED WITHOUT A STALL") == 3


def test_what_failed_without_a_stall_is_not_skipped_for_a_later_one(tmp_path):
    status, told, flown = run(tmp_path, late=(0.01, 0.3, 0.3), passes_after=9, shared="1")
    assert status == 1 and "1 failed, 1 passed" in told and flown == 3
