"""Help texts name what an option takes, not the Python type of it."""

from __future__ import annotations

import re

import pytest

from lafr_mjx import cli

COMMANDS = [[name] for name in cli._COMMANDS] + [["bench", name] for name in cli._BENCHMARKS]


def help_of(command, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main([*command, "--help"])
    assert ended.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_type_and_no_empty_default_is_shown(command, capsys):
    text = " ".join(help_of(command, capsys).replace("│", " ").split())
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
