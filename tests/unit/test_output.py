"""Result files: whole, plain, and readable by whom the umask says."""

from __future__ import annotations

import json
import os
import stat

import pytest

from lafr_mjx.output import write_json


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
