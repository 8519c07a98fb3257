"""`fly`: a task on a drone behind the wire, from take-off to landing."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tyro.conf import Positional

from lafr_mjx.errors import InputError, RunError

if TYPE_CHECKING:
    from lafr_mjx.hil.profile import Profile
    from lafr_mjx.hil.session import Session
    from lafr_mjx.tasks import Task


@dataclass
class Fly:
    """Fly a task on a drone: the software one by default, which needs nothing else.

    python -m lafr_mjx.hil fly figure8 --vehicle sim --scenario wind5

    python -m lafr_mjx.hil fly figure8 --policy runs/figure8-wind5-ours-0/policy.npz

    python -m lafr_mjx.hil fly figure8 --vehicle agilicious192.toml --master http://10.0.0.2:11311

    Space stops (guard, then land), K cuts the motors, l lands, Ctrl-C lands.
    """

    task: Positional[str] = "figure8"
    """Name of a shipped task, or path of a task file."""
    vehicle: str = "sim"
    """Profile of the drone: sim, agilicious192, kingfisher, or path of a file."""
    policy: Path | None = None
    """Policy to fly (policy.npz of a run); by default the geometric controller."""
    scenario: str | None = None
    """World of the software drone; by default the task's own."""
    flights: int = 3
    """Recorded flights."""
    time_scale: float | None = None
    """Time scale of the path; smaller is faster; by default the task's first."""
    seed: int = 0
    """Seed of the software drone's noise and gusts."""
    master: str | None = None
    """Address of the ROS master; by default the built-in one is started (software drone only)."""
    host: str = "127.0.0.1"
    """Address of this machine that the drone can reach."""
    out: Path | None = None
    """Folder of the run; by default a new one under runs/."""
    fault: list[str] = field(default_factory=list)
    """Faults to inject into the software drone, see sim-drone."""

    def run(self) -> None:
        """Fly and print a table with a row per flight."""
        from lafr_mjx.control.policy_file import load_policy
        from lafr_mjx.experiments.run_folder import RunFolder
        from lafr_mjx.hil.drone.injected import parse
        from lafr_mjx.hil.operator import confirm_checklist, require_person
        from lafr_mjx.hil.profile import check_vehicle, load_profile
        from lafr_mjx.plant.scenario import load_scenario
        from lafr_mjx.plant.vehicle import load_vehicle
        from lafr_mjx.tasks import load_task

        profile = load_profile(self.vehicle)
        vehicle = load_vehicle(profile.vehicle)
        check_vehicle(profile, vehicle)
        task = load_task(self.task, profile.command.limits)
        scale = task.start_time_scale if self.time_scale is None else self.time_scale
        self._check(profile, scale)
        scenario = self.scenario or task.scenario
        load_scenario(scenario)
        for text in self.fault:
            parse(text)
        policy = None if self.policy is None else load_policy(self.policy)
        leg = self._legs(task, scale, policy)
        self._check_leg(leg(0), profile)
        require_person(profile)
        out = self.out or Path("runs") / f"hil-{task.name}-{time.strftime('%Y%m%d-%H%M%S')}"
        config = {
            "run": {
                "task": self.task, "scenario": scenario, "vehicle": profile.vehicle,
                "seed": self.seed, "method": "policy" if policy else "baseline",
                "engine": "hil", "iterations": self.flights,
            },
            "hil": {"profile": profile.name, "simulated": profile.simulated, "time_scale": scale},
        }  # fmt: skip
        with RunFolder.create(out, config) as folder:
            inner = folder.path / "hil"
            inner.mkdir()
            confirm_checklist(profile)
            self._fly(profile, task, scenario, leg, folder, inner)

    def _check(self, profile: Profile, scale: float) -> None:
        if not 1 <= self.flights <= 1000:
            raise InputError(f"--flights {self.flights}: must be from 1 to 1000")
        if not 0 <= self.seed < 2**31:
            raise InputError(f"--seed {self.seed}: must be from 0 to {2**31 - 1}")
        if not math.isfinite(scale) or not 0.02 <= scale <= 50.0:
            raise InputError(f"--time-scale {scale}: must be a number from 0.02 to 50")
        if not profile.simulated:
            if self.master is None:
                raise InputError("--master: a real drone needs the address of its ROS master")
            if self.fault or self.scenario:
                raise InputError("--fault and --scenario are for the software drone only")

    def _legs(self, task: Task, scale: float, policy: Any) -> Any:
        import numpy as np

        from lafr_mjx.hil.legs import Leg

        def leg(number: int) -> Leg:
            seconds = task.flight_s(scale)
            return Leg(number, task.path, scale, task.ramp_s, seconds, policy, np.zeros(4),
                       number, False)  # fmt: skip

        return leg

    @staticmethod
    def _check_leg(leg: Any, profile: Profile) -> None:
        from lafr_mjx.hil.legs import check_leg

        trouble = check_leg(leg, profile)
        if trouble:
            raise InputError(f"{profile.path}: this task cannot be flown there: {trouble}")

    def _fly(
        self, profile: Profile, task: Task, scenario: str, leg: Any, folder: Any, inner: Path
    ) -> None:
        from lafr_mjx.hil.live import view
        from lafr_mjx.hil.operator import keys, land, take_off
        from lafr_mjx.hil.report import COLUMNS, flight_figures, flight_rows
        from lafr_mjx.hil.session import Session
        from lafr_mjx.output import print_table

        where = "the software drone" if profile.simulated else profile.name
        print(f"Flying {task.name} on {where}; everything is kept in {folder.path}", flush=True)
        found: dict[int, Any] = {}
        session = Session(
            profile, inner, master=self.master, host=self.host, scenario=scenario,
            task=self.task if task.fans else None, seed=self.seed, faults=tuple(self.fault),
        )  # fmt: skip
        trouble: BaseException | None = None
        with view(session):
            try:
                take_off(session)
                with keys(session):
                    for number in range(self.flights):
                        rollout = session.fly(leg(number))
                        found[number] = rollout
                        folder.save_rollout(number, rollout)
                        figures = flight_figures(rollout, self.task, profile)
                        folder.append_iteration(
                            {**figures, "time_scale": float(rollout.time_scale[-1])}
                        )
                    land(session)
            except (RunError, KeyboardInterrupt) as error:
                trouble = error
            _close(session)
        _, rows = flight_rows(found, self.task, profile)
        print_table(f"{task.name} on {where}", COLUMNS, rows)
        timing = session.ended or {}
        summary = {
            "flights": len(found),
            "missed_deadlines": timing.get("missed_deadlines"),
            "missed_in_a_row": timing.get("missed_in_a_row"),
            "trouble": str(trouble) if trouble else "",
        }
        folder.write_summary(summary)
        print(
            f"{len(found)} of {self.flights} flights, {timing.get('missed_deadlines', '?')} missed "
            f"deadlines; bag: {inner / 'flight.bag'}"
        )
        if isinstance(trouble, KeyboardInterrupt):
            raise RunError("interrupted by the operator; the vehicle was landed") from trouble
        if trouble is not None:
            raise RunError(str(trouble)) from trouble


def _close(session: Session) -> None:
    """Land and end; a second Ctrl-C does not leave the vehicle in the air."""
    for attempt in range(3):
        try:
            session.close()
            return
        except KeyboardInterrupt:
            if attempt == 0:
                session.stop()
