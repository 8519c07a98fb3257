"""Help texts name what an option takes, not the Python type of it."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from lafr_mjx import cli
from lafr_mjx.hil import __main__ as hil

COMMANDS = [[name] for name in cli._COMMANDS] + [["bench", name] for name in cli._BENCHMARKS]


def help_of(command, capsys, program=cli):
    with pytest.raises(SystemExit) as ended:
        program.main([*command, "--help"])
    assert ended.value.code == 0
    return capsys.readouterr().out


DOCS = Path(cli.__file__).parents[1] / "docs"
ALL = [(cli, command) for command in COMMANDS] + [(hil, [name]) for name in hil._COMMANDS]


@pytest.mark.parametrize(("program", "command"), ALL, ids=lambda one: str(one).split("'")[1])
def test_no_type_and_no_empty_default_is_shown(program, command, capsys):
    text = " ".join(help_of(command, capsys, program).replace("│", " ").split())
    assert not re.search(r"\bNone\b|\bSTR\b|\(default: \)", text)


@pytest.mark.parametrize(
    ("command", "usage"),
    [
        ("fly", "[TASK]"), ("adapt", "[TASK]"), ("bounds", "[TASK]"), ("view", "[RUN]"),
        ("ablate", "[TASK [TASK ...]]"), ("report", " RUN [RUN ...]"), ("fit", " LOG [LOG ...]"),
    ],
)  # fmt: skip
def test_positional_words_have_names(command, usage, capsys):
    assert usage in help_of([command], capsys).splitlines()[0]


def test_lines_are_as_long_as_the_terminal_has_them(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    text = help_of(["adapt"], capsys)
    assert "learned lag (default), the paper's, in the body frame (body: learns" in text


def test_options_are_still_understood(monkeypatch):
    seen = []
    monkeypatch.setattr(cli.Ablate, "run", lambda command: seen.append(command))
    for words in (["ablate"], ["ablate", "figure8", "dash", "--seed", "1", "2", "--sweep", "a=1",
                               "--sweep", "b=2", "--preset", "paper"]):  # fmt: skip
        with pytest.raises(SystemExit):
            cli.main(words)
    assert (seen[0].tasks, seen[0].preset) == ((), None)
    assert type(seen[0].seeds).__name__ == "_Usual"
    assert (seen[1].tasks, seen[1].seeds) == (("figure8", "dash"), (1, 2))
    assert (seen[1].sweep, seen[1].preset) == (("a=1", "b=2"), "paper")


def test_the_help_of_all_commands_fits_two_screens(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = help_of([], capsys)
    assert len(text.splitlines()) <= 60
    assert all(f"• {name} " in text for name in cli._COMMANDS)
    assert "lafr-mjx adapt --resume" in help_of(["adapt"], capsys), "where all of it is"
    assert len(help_of(["bench"], capsys).splitlines()) <= 30
    text = help_of([], capsys, hil)
    assert len(text.splitlines()) <= 60
    assert all(f"• {name} " in text for name in hil._COMMANDS)
    assert "hil fly figure8 --fixed" in help_of(["fly"], capsys, hil)


def test_what_ships_is_listed_without_loading_it():
    code = (
        "import sys; from lafr_mjx.commands.listing import List; List().run(); "
        "print({'mujoco', 'jax'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("set()\n") and "There and back along 5.34 m" in done.stdout


@pytest.mark.parametrize("command", [*cli._COMMANDS.values(), *cli._BENCHMARKS.values()])
def test_every_option_is_on_a_page(command):
    pages = "".join(page.read_text(encoding="utf-8") for page in DOCS.glob("*.md"))
    told = set(re.findall(r"--(?:no-)?([\w-]+)", pages))
    options = {field.name.replace("_", "-") for field in dataclasses.fields(command)}
    positional = {"task", "tasks", "runs", "run-folder", "logs"}
    assert options - positional - {"sizes"} - told == set()


def test_every_extra_is_on_one_page():
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    page = (DOCS / "python.md").read_text(encoding="utf-8")
    missing = [n for n in project["optional-dependencies"] if f"| `{n}` |" not in page]
    assert missing == []
