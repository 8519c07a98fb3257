"""The drones that can be flown, by their profile. Another kind is a file here, and a line below."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lafr_mjx.hil.drones.agilicious import Agilicious, WatchedAgilicious

if TYPE_CHECKING:
    from lafr_mjx.hil.drones.drone_protocol import Drone, Watched
    from lafr_mjx.hil.safety.drone_profile import Profile
    from lafr_mjx.hil.timing.flight_clock import FlightClock


def connect(profile: Profile, master: str, host: str, clock: FlightClock) -> Drone:
    """A drone to fly."""
    return Agilicious(profile, master, host, clock=clock)


def watch(profile: Profile, master: str, host: str, clock: FlightClock) -> Watched:
    """A drone to watch and to stop."""
    return WatchedAgilicious(profile, master, host, clock=clock)
