"""Repeating flights where the machine stood still must not hide a failure."""

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


def run(folder, late, passes_after, good=True):
    here = Path(__file__).parent
    conftest = CONFTEST.format(folder=str(here), late=late, conftest=str(here / "conftest.py"))
    (folder / "conftest.py").write_text(conftest)
    (folder / "test_realtime.py").write_text(TESTS.format(passes_after=passes_after, good=good))
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", "-p", "no:cacheprovider", "-q"]
    done = subprocess.run(
        [*command, str(folder)], cwd=folder, capture_output=True, text=True, timeout=600
    )
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
