"""Result files: whole, plain, and readable by whom the umask says."""

from __future__ import annotations

import io
import json
import os
import stat

import pytest
from rich.console import Console

from lafr_mjx.output import print_table, write_json


@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077])
def test_a_result_file_respects_the_umask(tmp_path, umask):
    before = os.umask(umask)
    try:
        write_json(tmp_path / "figures.json", {"lap_s": 2.5})
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "figures.json").stat().st_mode) == 0o666 & ~umask


def test_a_result_that_cannot_be_written_leaves_the_old_one_and_nothing_else(tmp_path):
    write_json(tmp_path / "figures.json", {"lap_s": 2.5})
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        write_json(tmp_path / "folder", {"lap_s": 2.6})
    with pytest.raises(TypeError):
        write_json(tmp_path / "figures.json", {"lap_s": object()})
    assert json.loads((tmp_path / "figures.json").read_text()) == {"lap_s": 2.5}
    assert {item.name for item in tmp_path.iterdir()} == {"figures.json", "folder"}


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120])
def test_no_word_of_a_table_is_cut(width):
    columns = ("method", "scenario", *(f"figure{i} m/s" for i in range(9)))
    rows = [("residual-only", "randomised", *(f"{i}.000" for i in range(9))) for _ in range(2)]
    file = io.StringIO()
    console = Console(width=width, file=file, force_terminal=True, color_system=None)
    print_table("Figures", columns, rows, 2, console=console)
    shown = file.getvalue()
    assert "…" not in shown and max(map(len, shown.splitlines())) <= width
    words = shown.replace("│", " ").replace(",", " ").split()
    assert words.count("residual-only") == 2
    for i in range(9):
        assert words.count(f"{i}.000") == 2 or f"figure{i}" in shown.partition("Not shown")[2]


def test_a_table_in_a_file_is_whole(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    print_table("Figures", [f"figure{i}" for i in range(20)], [["residual-only"] * 20])
    assert capsys.readouterr().out.count("residual-only") == 20
