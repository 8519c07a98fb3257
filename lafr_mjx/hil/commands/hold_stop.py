"""`stop`: the independent emergency stop."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lafr_mjx.errors import InputError, RunError


@dataclass
class Stop:
    """Hold the emergency stop in a terminal of its own: space stops, K cuts the motors.

    python -m lafr_mjx.hil stop --vehicle agilicious192.toml --master http://10.0.0.2:11311

    Space or s triggers the pilot's guard, which beats any stream of commands (or hovers, where the
    guard would be lost), lands, and switches the motors off. K (capital) switches them off at once.
    A joystick's buttons do what space does.
    """

    vehicle: str = "sim"
    """Profile of the drone."""
    master: str | None = None
    """Address of the ROS master; by default http://127.0.0.1:11311."""
    host: str = "127.0.0.1"
    """Address of this machine that the drone can reach."""
    lockstep: Path | None = None
    """Folder of the time in lockstep that the software drone keeps."""

    def run(self) -> None:
        """Serve until standard input ends."""
        from lafr_mjx.hil.safety.drone_profile import load_profile
        from lafr_mjx.hil.safety.emergency_stop import EmergencyStop, watch
        from lafr_mjx.hil.timing.flight_clock import flight_clock
        from lafr_mjx.hil.timing.priority import (
            freeze_garbage,
            keep_in_memory,
            leave_control_core,
            prefer,
        )
        from lafr_mjx.hil.wire.addresses import check_host

        check_host(self.host)
        profile = load_profile(self.vehicle)
        if self.lockstep is not None and not profile.simulated:
            raise InputError("--lockstep: a real drone flies in real time")
        clock = flight_clock(self.lockstep)
        if not clock.lockstep:
            if prefer(20).startswith("real time"):
                # It comes before everything else there: it needs no second core to choose from.
                leave_control_core()
            keep_in_memory()
        drone = profile.pilot.watch(profile, self.master, self.host, clock)
        stop = EmergencyStop(drone, profile)
        freeze_garbage(collect_later=True)
        try:
            drone.join("stop")
            watch(stop)
            raise RunError("standard input has ended: nobody holds the emergency stop any more")
        finally:
            drone.close()
