# pyright: reportOptionalMemberAccess=false, reportArgumentType=false
"""Edges of the command line: one clear line, the right exit status, no traceback."""

import subprocess
import sys

import pytest

from lafr_mjx.resources import data_folder


def run(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "lafr_mjx.hil", *arguments], capture_output=True, text=True,
        timeout=120, stdin=subprocess.DEVNULL, **options,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["fly", "figure8", "--vehicle", "nobody"], "unknown drone"),
        (["fly", "nothing"], "unknown task"),
        (["fly", "--flights", "0"], "--flights"),
        (["fly", "--flights", "-1"], "--flights"),
        (["fly", "--time-scale", "nan"], "--time-scale"),
        (["fly", "--time-scale", "1e308"], "--time-scale"),
        (["fly", "--time-scale", "0.2"], "cannot be flown there"),
        (["fly", "--seed", "-1"], "--seed"),
        (["fly", "--fault", "gremlin@3"], "--fault"),
        (["fly", "--scenario", "nowhere"], "unknown scenario"),
        (["fly", "--policy", "none.npz"], "none.npz"),
        (["fly", "--vehicle", "agilicious192.toml"], "--master"),
        (["fly", "--vehicle", "agilicious192", "--master", "http://127.0.0.1:1"], "operator"),
        (["sim-drone", "--master", "nonsense", "--seconds", "1"], "master"),
        (["sim-drone", "--seconds", "-1"], "--seconds"),
        (["check", "--seconds", "1e308"], "--seconds"),
        (["replay", "none.bag"], "no such bag"),
        (["master", "--port", "70000"], "--port"),
        (["stop", "--master", "http://"], "--master"),
    ],
)
def test_bad_input_is_one_clear_line(arguments, told, tmp_path):
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stdout + done.stderr
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "runs").exists(), "nothing is left behind"


def test_unknown_flag():
    done = run("fly", "--warp", "9")
    assert done.returncode == 2 and "Traceback" not in done.stderr


def test_drone_of_ones_own_by_path(tmp_path):
    text = (data_folder("hil") / "agilicious192.toml").read_text(encoding="utf-8")
    file = tmp_path / "mine.toml"
    file.write_text(text.replace('quad = "quad"', 'quad = "7"'), encoding="utf-8")
    done = run("fly", "--vehicle", str(file))
    assert done.returncode == 2 and "mine.toml" in done.stderr and "quad" in done.stderr
