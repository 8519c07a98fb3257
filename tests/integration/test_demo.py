"""The demo leaves a run with its pictures, or a run and what is missing for them."""

import pytest

from lafr_mjx.cli import main
from lafr_mjx.commands.view import View
from lafr_mjx.errors import RunError
from lafr_mjx.runs.run import Run

pytestmark = pytest.mark.long


def test_the_demo_in_small(tmp_path, capsys):
    with pytest.raises(SystemExit) as end:
        main(["demo", "--iterations", "1", "--out", str(tmp_path / "demo")])
    assert end.value.code == 0 and len(Run(tmp_path / "demo").iterations) == 1
    assert (tmp_path / "demo" / "video.mp4").stat().st_size > 1000
    assert (tmp_path / "demo" / "strobe.png").is_file()
    assert "Watch the video" in capsys.readouterr().out


def test_without_pictures_the_run_is_there(tmp_path, capsys, monkeypatch):
    def cannot(self):
        raise RunError("no rendering here: install libegl1")

    monkeypatch.setattr(View, "run", cannot)
    with pytest.raises(SystemExit) as end:
        main(["demo", "--iterations", "1", "--out", str(tmp_path / "demo")])
    printed = capsys.readouterr().out
    assert end.value.code == 0 and "install libegl1" in printed and "lafr-mjx view" in printed
    assert len(Run(tmp_path / "demo").iterations) == 1
