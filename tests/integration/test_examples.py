"""Every example runs, in small: fewer flights and seeds, in a folder of its own."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
SHORT = [p for p in EXAMPLES if p.name not in ("dm_control_flight.py", "gym_search.py")]
SMALLER = [(r"iterations=\d+", "iterations=1"), (r"range\(3\)", "range(1)"),
           (r"\[0, 40\]", "[40]"), (r"docs/examples", f"{ROOT}/docs/examples")]  # fmt: skip


@pytest.mark.parametrize("example", SHORT, ids=lambda path: path.stem)
def test_an_example_runs(example, tmp_path):
    text = example.read_text()
    for pattern, small in SMALLER:
        text = re.sub(pattern, small, text)
    (tmp_path / example.name).write_text(text)
    done = subprocess.run([sys.executable, example.name], cwd=tmp_path, capture_output=True,
                          text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip()


@pytest.mark.parametrize("example", SHORT, ids=lambda path: path.stem)
def test_an_example_is_short(example):
    lines = [line for line in example.read_text().splitlines() if line.strip()]
    assert len(lines) <= 20
