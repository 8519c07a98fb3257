"""`sim-drone`: the software drone in a process of its own."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tyro.conf import UseAppendAction

from lafr_mjx.errors import InputError
from lafr_mjx.hil.simulator.flight_controllers import FlightController


@dataclass
class SimDrone:
    """Run the software drone: the simulated vehicle behind the topics of a real one.

    python -m lafr_mjx.hil sim-drone --master http://127.0.0.1:11311 --scenario wind5

    python -m lafr_mjx.hil sim-drone --fault mocap-drop@12:0.5 --fault voltage@20

    python -m lafr_mjx.hil sim-drone --flight-controller betaflight
    """

    vehicle: str = "sim"
    """Profile of the drone: a shipped name, or path of a file of the same form."""
    scenario: str = "nominal"
    """The world that it flies in: a shipped scenario, or path of a scenario file."""
    task: str | None = None
    """A task whose fans blow, if the scenario says so."""
    master: str = "http://127.0.0.1:11311"
    """Address of the ROS master."""
    host: str = "127.0.0.1"
    """Address of this machine that the peers can reach; it listens there only."""
    seed: int = 0
    """Seed of noise and gusts."""
    seconds: float = math.inf
    """Stop after so long."""
    lockstep: Path | None = None
    """Folder in which to keep a time in lockstep (lafr_mjx.hil.timing.lockstep); `fly` makes it."""
    door: int | None = None
    """Descriptor of the socket by which others take part in that."""
    cable: bool = False
    """Feed it by a cable, for flights that are longer than its battery lasts."""
    fault: list[str] = field(default_factory=list)
    """KIND@START[:DURATION[:VALUE]] in seconds since the start; may be given several times."""

    plugins: UseAppendAction[tuple[str, ...]] = ()
    """A plugin of your own: NAME=FILE.py:CLASS(PARAMETER=VALUE, ...); may be repeated."""
    flight_controller: FlightController = "plant"
    """Whose rate loop and mixer fly it: the plant's own model of them, or real firmware."""
    firmware: Path | None = None
    """Betaflight's simulator build (SITL) to run; by default that of the package betaflight."""

    def run(self) -> None:
        """Serve until stopped."""
        parent = os.getppid()  # before what takes long: it may be gone by then
        # One thread for XLA: the vehicle's steps are small, and the other core is the client's.
        flags = os.environ.get("XLA_FLAGS", "")
        os.environ["XLA_FLAGS"] = f"{flags} --xla_cpu_multi_thread_eigen=false".strip()
        from lafr_mjx.hil.safety.drone_profile import check_vehicle, load_profile
        from lafr_mjx.hil.simulator.injected import Injector, parse
        from lafr_mjx.hil.simulator.pilot import Settings
        from lafr_mjx.hil.simulator.time_keeper import RealTime, TimeKeeper
        from lafr_mjx.hil.wire.addresses import check_host, check_reachable
        from lafr_mjx.hil.wire.node import check_master
        from lafr_mjx.plant.scenario import load_scenario
        from lafr_mjx.plant.vehicle import load_vehicle
        from lafr_mjx.tasks import load_task

        check_master(self.master)
        check_host(self.host)
        if not self.seconds > 0.0:
            raise InputError(f"--seconds {self.seconds}: must be above 0")
        if not 0 <= self.seed < 2**31:
            raise InputError(f"--seed {self.seed}: must be from 0 to {2**31 - 1}")
        if (self.lockstep is None) is not (self.door is None):
            raise InputError("--lockstep and --door: one needs the other")
        clock = RealTime()
        if self.lockstep is not None and self.door is not None:
            clock = TimeKeeper(self.lockstep, self.door)
        faults = [parse(text) for text in self.fault]
        profile = load_profile(self.vehicle)
        pilot: Any = profile.pilot
        if not pilot.software_drone:
            raise InputError(f"{profile.path}: the software drone stands for an Agilicious one")
        vehicle = load_vehicle(profile.vehicle)
        check_vehicle(profile, vehicle)
        from lafr_mjx.hil.simulator.flight_controllers import flight_controller
        from lafr_mjx.hil.simulator.physics import Physics, own_plugins

        own = own_plugins(self.plugins)  # first: a scenario may have its keys
        scenario = load_scenario(self.scenario).drawn(self.seed)
        fans = load_task(self.task).fans if self.task else ()
        settings = scenario.settings_for(0)[0]
        from lafr_mjx.hil.simulator.drone_server import serve
        from lafr_mjx.hil.simulator.simulated_drone import Drone

        try:
            check_reachable(self.master)
        except InputError as error:
            print(f"{error}; waiting for it", flush=True)
        with flight_controller(self.flight_controller, vehicle, self.firmware) as loop:
            physics = Physics(
                vehicle, settings, fans, self.seed,
                cable=self.cable, plugins=own, rate_loop=loop,
            )  # fmt: skip
            drone = Drone(
                physics,
                Settings(
                    feedthrough_timeout_s=pilot.feedthrough_timeout_s,
                    has_guard=pilot.guard,
                    guard_low=pilot.guard_low,
                    guard_high=pilot.guard_high,
                    hover_height_m=profile.ladder.hover_height_m,
                    command_low=vehicle.limits.low,
                    command_high=vehicle.limits.high,
                ),
                command_delay_s=1e-3 * settings.command_delay_ms,
                sensing_delay_s=1e-3 * settings.sensing_delay_ms,
                injector=Injector(faults),
            )
            serve(drone, pilot.software_drone, self.master, self.host, self.seconds, clock, parent)
