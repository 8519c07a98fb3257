"""The command line as a user meets it: exit status, messages, JSON."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest


def lafr(*arguments, cwd=None):
    return subprocess.run(
        [sys.executable, "-m", "lafr_mjx", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
        cwd=cwd,
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("fly", "nowhere"), "unknown task 'nowhere': shipped are dash, figure8"),
        (("fly", "./missing.toml"), "task file './missing.toml' does not exist"),
        (("fly", "--scenario", "hurricane"), "unknown scenario 'hurricane'"),
        (("fly", "--vehicle", "ufo"), "unknown vehicle 'ufo'"),
        (("fly", "--time-scale", "nan"), "--time-scale nan: must be from 0.02 to 50"),
        (("fly", "--time-scale", "1e308"), "--time-scale 1e+308"),
        (("fly", "--time-scale", "-1"), "--time-scale -1.0"),
        (("fly", "--flights", "0"), "--flights 0: must be from 1"),
        (("fly", "--seed", "-3"), "--seed -3"),
        (("fly", "--plants", "4"), "scenario 'nominal' draws nothing"),
        (("fly", "--json", "/nowhere/at/all.json"), "does not exist"),
        (("fly", "--engine", "warp"), "warp"),
        (("fly", "--bogus"), "--bogus"),
        (("bench", "plant", "--batches", "0"), "--batches"),
        (("bench", "plant", "--rounds", "0"), "--rounds 0"),
        (("adpt", "figure8"), "did you mean 'adapt'?"),
    ],
)
def test_bad_input_is_one_clear_message_and_status_2(arguments, expected):
    done = lafr(*arguments)
    assert done.returncode == 2
    assert expected in done.stderr + done.stdout
    assert "Traceback" not in done.stderr + done.stdout


def test_version_and_help():
    import lafr_mjx

    assert lafr("--version").stdout.strip() == f"lafr-mjx {lafr_mjx.__version__}"
    text = lafr("fly", "--help")
    assert text.returncode == 0
    # A line that can be pasted into a shell stands alone on its line.
    assert "lafr-mjx fly figure8 --scenario wind5" in text.stdout.splitlines()


def test_list_names_everything_that_ships(tmp_path):
    done = lafr("list", "--json", tmp_path / "names.json")
    assert done.returncode == 0
    names = json.loads((tmp_path / "names.json").read_text())
    assert {"figure8", "shuttle", "dash", "inspection", "race"} <= set(names["tasks"])
    assert {"nominal", "wind5", "still", "randomised"} <= set(names["scenarios"])
    assert set(names["vehicles"]) == {"lafr192", "kingfisher", "crazyflie"}
    assert all(name in done.stdout for kind in names.values() for name in kind)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_behind_the_output_is_one_clear_line():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "lafr_mjx", "list"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=900,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == f"lafr-mjx: {os.strerror(28)}\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_run_that_is_told_to_end_says_how_to_go_on(tmp_path, number):
    words = ["adapt", "figure8", "--engine", "freebody", "--seed", "100", "--out", "run"]
    running = subprocess.Popen(
        [sys.executable, "-m", "lafr_mjx", *words], cwd=tmp_path, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    assert running.stdout is not None and "Adapting on" in running.stdout.readline()
    running.send_signal(number)
    told, errors = running.communicate(timeout=900)
    assert running.returncode == 128 + number
    assert "lafr-mjx adapt --resume run" in told
    assert errors.splitlines()[-1] == "lafr-mjx: interrupted"
    assert "Traceback" not in errors


def test_fly_writes_the_figures_it_prints(tmp_path):
    target = tmp_path / "figures.json"
    done = lafr("fly", "figure8", "--scenario", "wind5", "--engine", "freebody", "--json", target)
    assert done.returncode == 0, done.stderr
    figures = json.loads(target.read_text())
    assert figures["engine"] == "freebody"
    assert figures["crashed"] is False
    assert 0.0 < figures["rmse_m"] <= figures["peak_error_m"] < 0.5
    assert f"RMSE {figures['rmse_m']:.3f} m" in done.stdout
    assert figures["lap_time_s"] == pytest.approx(figures["reference_lap_s"], rel=0.05)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["figures.json"]


def test_a_crash_is_a_failed_run_with_status_1():
    # A quarter of the time needs far more thrust than the vehicle has.
    done = lafr("fly", "figure8", "--time-scale", "0.15", "--engine", "freebody")
    assert done.returncode == 1
    assert "the vehicle crashed" in done.stderr
    assert "Traceback" not in done.stderr
