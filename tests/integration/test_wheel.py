"""A wheel built from the tree, installed elsewhere, finds its data."""

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROBE = """
import sys, pathlib
import lafr_mjx
from lafr_mjx.resources import data_folder, shipped_names
from lafr_mjx.tasks import load_task
from lafr_mjx.plant.scenario import load_scenario
from lafr_mjx.plant.vehicle import load_vehicle
assert str(pathlib.Path(lafr_mjx.__file__)).startswith(sys.prefix), lafr_mjx.__file__
for name in ("assets", "tasks", "hil"):
    assert str(data_folder(name)).startswith(sys.prefix), data_folder(name)
for name in ("figure8", "shuttle", "dash", "inspection", "race"):
    load_task(name)
for name in shipped_names("tasks/scenarios"):
    load_scenario(name)
for name in ("lafr192", "kingfisher", "crazyflie"):
    load_vehicle(name)
import mujoco
mujoco.MjModel.from_xml_path(str(data_folder("assets") / "scene.xml"))
print("found everything")
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    target = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", target, ROOT]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = target.glob("*.whl")
    return path


def test_wheel_carries_the_data_folders_and_types(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    for name in (
        "lafr_mjx/py.typed",
        "lafr_mjx/_data/assets/quad.xml",
        "lafr_mjx/_data/assets/lafr192.toml",
        "lafr_mjx/_data/tasks/figure8.toml",
        "lafr_mjx/_data/tasks/scenarios/wind5.toml",
        "lafr_mjx/_data/hil/README.md",
    ):
        assert name in names
    assert not any(name.startswith("tests/") for name in names)


def test_wheel_works_in_an_empty_environment(wheel, tmp_path):
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    site = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    zipfile.ZipFile(wheel).extractall(site)
    # The libraries are lent from this environment; the project itself is not: a .pth file that
    # names our site-packages does not run the .pth files in there.
    (Path(site) / "lent.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    empty = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [python, "-c", PROBE],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=900,
        env=empty,
    )
    assert done.returncode == 0, done.stderr
    assert "found everything" in done.stdout
    version = subprocess.run(
        [python, "-m", "lafr_mjx", "--version"],
        capture_output=True,
        text=True,
        check=True,
        env=empty,
    )
    assert version.stdout.startswith("lafr-mjx ")
