"""The documentation's examples run and print what the pages say they print."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import lafr_mjx as lm
from lafr_mjx.learner.improve import Sizes
from lafr_mjx.plant.scenario import load_scenario
from lafr_mjx.plant.vehicle import load_vehicle
from lafr_mjx.tasks import load_task

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def fences(page: Path) -> list[tuple[str, str]]:
    """Language and text of each fenced block of a page."""
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def run(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def assert_same_report(printed: str, documented: str) -> None:
    """The same words; numbers may differ as they do between processors."""
    assert NUMBER.sub("#", printed).strip() == NUMBER.sub("#", documented).strip()
    numbers = [[float(x) for x in NUMBER.findall(text)] for text in (printed, documented)]
    np.testing.assert_allclose(*numbers, rtol=0.05, atol=0.005)


def documented_scripts() -> dict[str, str]:
    """What the pages say that the scripts in docs/examples print, by the script's name."""
    outputs: dict[str, str] = {}
    for page in sorted((ROOT / "docs").glob("*.md")):
        for language, text in fences(page):
            command, _, output = text.partition("\n")
            found = re.fullmatch(r"\$ python docs/examples/(\w+\.py)", command)
            if language == "text" and found:
                outputs[found[1]] = output
    return outputs


@pytest.mark.parametrize("script", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_script_prints_what_its_page_says(script):
    documented = documented_scripts()
    assert script.name in documented, f"no page shows the output of {script.name}"
    assert_same_report(run(str(script)), documented[script.name])


LONG = ("python.md",)  # pages whose code takes a minute


def pages_with_code() -> list:
    """The readme and the pages that have Python blocks of their own (not included ones)."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return [
        pytest.param(page, marks=[pytest.mark.long] if page.name in LONG else [])
        for page in pages
        if any(language == "python" for language, _ in fences(page))
    ]


@pytest.mark.parametrize("page", pages_with_code(), ids=lambda path: path.name)
def test_code_blocks_of_a_page_run_in_order(page):
    blocks = fences(page)
    code = [text for language, text in blocks if language == "python"]
    # The text block that follows a Python block is what it prints.
    printed = [
        text
        for (before, _), (language, text) in pairwise(blocks)
        if before == "python" and language == "text"
    ]
    assert code and printed
    assert_same_report(run("-c", "\n".join(code)), "".join(printed))


@pytest.mark.long
def test_the_readmes_adaptations_run_in_small(tmp_path, monkeypatch):
    (code,) = [text for language, text in fences(ROOT / "README.md") if language == "py"]
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    monkeypatch.chdir(tmp_path)
    small = {"engine": "freebody", "iterations": 1}
    few = {"scenarios": ["nominal"], "seeds": [0], "sizes": Sizes(fit_steps=5, train_steps=5)}
    monkeypatch.setattr(lm, "adapt", partial(lm.adapt, **small))
    monkeypatch.setattr(lm, "ablate", partial(lm.ablate, **small, **few))
    exec(code, {"lm": lm})
    assert len(list((tmp_path / "runs").glob("*/config.toml"))) == 3


def test_the_readme_has_the_figures_of_the_results():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = readme.partition("## What it reaches")[2].partition("\n\nPlanned")[0]
    results = set(NUMBER.findall((ROOT / "docs" / "results.md").read_text(encoding="utf-8")))
    figures = set(NUMBER.findall(table.replace("figure-8", "")))
    assert len(figures) > 12 and figures <= results


def test_example_files_load():
    vehicle = load_vehicle(str(EXAMPLES / "sparrow.toml"))
    task = load_task(str(EXAMPLES / "oval.toml"), vehicle.limits)
    assert vehicle.single_free_body
    assert len(load_task(str(EXAMPLES / "course.toml"), vehicle.limits).gates) == 4
    assert task.periodic
    assert len(load_scenario(str(EXAMPLES / "weather.toml")).changes) == 2
    assert load_scenario(str(EXAMPLES / "fleet.toml")).randomised


def test_every_example_is_shown_on_a_page():
    pages = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "docs").glob("*.md"))
    hidden = [f.name for f in EXAMPLES.iterdir() if f.is_file() and f.name not in pages]
    assert hidden == []


def test_pages_do_not_carry_unfilled_marks():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    assert [p.name for p in pages if "@@" in p.read_text(encoding="utf-8")] == []
