"""Figures do not change by moving code: short seeded runs against their golden records."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

HERE = Path(__file__).parent
RECORDS = json.loads((HERE / "records.json").read_text())
CLOSE = 1e-3


@pytest.fixture(scope="module")
def flown():
    """All runs, in a process of their own: how XLA compiles is chosen when it starts."""
    done = subprocess.run(
        [sys.executable, str(HERE / "golden_runs.py")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", RECORDS)
def test_a_run_flies_as_recorded(flown, name):
    for number, (wanted, found) in enumerate(zip(RECORDS[name], flown[name], strict=True)):
        assert found == pytest.approx(wanted, abs=CLOSE), f"flight {number}"


def test_every_run_is_recorded(flown):
    assert set(flown) == set(RECORDS)
