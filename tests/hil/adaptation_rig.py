"""A short adaptation through the wire, for the tests. Small effort: every step is there."""

import re

from lafr_mjx.adaptation.first_policy import network_of
from lafr_mjx.hil.commands.fly_drone import Fly
from lafr_mjx.hil.operator.drone_flights import Flights, fly_adaptation
from lafr_mjx.hil.operator.learner_faults import split
from lafr_mjx.hil.safety.drone_profile import load_profile
from lafr_mjx.resources import data_folder
from lafr_mjx.runs.run_folder import RunFolder
from lafr_mjx.tasks import load_task

EFFORT = (40, 32, 6, 8, 12)  # fields of Sizes: seconds instead of many seconds


def adapt(tmp_path, iterations=2, faults=(), limits=None, **options):
    text = (data_folder("hil") / "sim.toml").read_text(encoding="utf-8")
    for key, value in (limits or {}).items():
        text = re.sub(rf"^{key} = .*", f"{key} = {value}", text, flags=re.MULTILINE)
    file = tmp_path / "drone.toml"
    file.write_text(text, encoding="utf-8")
    profile = load_profile(str(file))
    task = load_task("figure8", profile.command.limits)
    fly = Fly(vehicle=str(file), scenario="wind5", seed=100, iterations=iterations, **options)
    job = fly._job(profile)
    flights = Flights(profile, task, "figure8", "wind5", seed=100,
                      network=network_of(job.spec.policy))  # fmt: skip
    folder = RunFolder.create(tmp_path / "run", fly._config(profile, job))
    (folder.path / "hil").mkdir()
    _, injected = split(list(faults))
    try:
        return fly_adaptation(flights, folder, job.spec, injected, EFFORT)
    finally:
        folder.close()


def events(tmp_path):
    return (tmp_path / "run" / "hil" / "events.txt").read_text(encoding="utf-8")
