"""What CONTRIBUTING.md says about where things are, held to where they are."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import lafr_mjx as lm
from lafr_mjx import parts

PACKAGE = Path(lm.__file__).parent
ROOT = PACKAGE.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
TABLE = TEXT.partition("## To add")[2].partition("\n\nA part whose file")[0]
FAMILIES = (*parts.KINDS, parts.LOG)


def test_each_file_that_is_named_is_there():
    named = set(re.findall(r"`([\w./]+(?:\.py|\.md|\.toml|/))`", TABLE))
    assert len(named) > 15
    for name in named:
        pattern = name.replace("NAME", "*")
        found = [path for place in (PACKAGE, ROOT, PACKAGE / "hil" / "drones")
                 for path in place.glob(pattern)]  # fmt: skip
        assert found, name


@pytest.mark.parametrize("kind", FAMILIES, ids=lambda kind: kind.option)
def test_a_family_of_parts_is_as_it_is_told(kind):
    """Its row names its files; each file has the class of its own name, and one in the docs."""
    folder = kind.package.removeprefix("lafr_mjx.")
    (row,) = [row for row in TABLE.splitlines() if f"`{folder}/{kind.prefix}NAME.py`" in row]
    protocol = re.search(r"\(`lm\.(\w+)`\)", row)
    assert protocol is not None and protocol[1] in lm.__all__
    assert kind.names()
    for name in kind.names():
        stem = name.replace("-", "_")
        module = importlib.import_module(f"{kind.package}.{kind.prefix}{stem}")
        assert isinstance(getattr(module, "".join(w.title() for w in stem.split("_"))), type)


def test_a_new_writer_is_a_new_file(tmp_path, monkeypatch):
    """As for the parts of the method, and for plugins and readers of logs, which have tests."""
    (tmp_path / "writer_laps.py").write_text("class Laps:\n    pass\n")
    package = importlib.import_module(parts.LOG.package)
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    assert "laps" in parts.LOG.names()
    assert type(parts.made(parts.LOG, "laps")).__name__ == "Laps"


def test_no_file_is_longer_than_400_lines():
    files = [path for folder in ("lafr_mjx", "tests", "examples", "docs")
             for path in (ROOT / folder).rglob("*.py")]  # fmt: skip
    assert len(files) > 400
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    assert [str(path.relative_to(ROOT)) for path, lines in lengths.items() if lines > 400] == []
