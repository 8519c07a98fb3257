"""How an Agilicious pilot is set up, and what it promises; its wire is `agilicious.py`."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lafr_mjx.errors import InputError
from lafr_mjx.types import CONTROL_DT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lafr_mjx.hil.drones.agilicious import Agilicious, WatchedAgilicious
    from lafr_mjx.hil.safety.drone_profile import Profile
    from lafr_mjx.hil.timing.flight_clock import FlightClock
    from lafr_mjx.toml_table import Table

FENCE_MARGIN_M = 0.1
"""Least distance between the fence and the guard's box."""

GUARD_MARGIN_M = 0.1
"""Nearer to a side of its box the guard is not called: the vehicle may be outside by then."""

_HEARD_S = 0.06  # a call takes so long to show in the telemetry


@dataclass(frozen=True, eq=False)
class AgiliciousPilot:
    """A `Pilot`.

    It knows where it is from motion capture alone: without that its own hover, guard and landing
    are worthless.
    """

    quad: str
    feedthrough_timeout_s: float
    guard: bool  # whether its file has one
    guard_low: np.ndarray  # [3] m
    guard_high: np.ndarray  # [3] m
    state_hz: float
    mocap_hz: float

    lands_unseen = False

    @classmethod
    def read(cls, table: Table) -> AgiliciousPilot:
        """From the table `pilot` of a profile."""
        quad = table.string("quad")
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,63}", quad):
            raise table.fail("quad", "a name of letters, digits and underscores")
        low, high = table.box("guard_low_m", "guard_high_m")
        return cls(
            quad=quad,
            feedthrough_timeout_s=table.number("feedthrough_timeout_s", at_least=0.03, at_most=0.5),
            guard=table.boolean("guard"),
            guard_low=low,
            guard_high=high,
            state_hz=table.number("state_hz", at_least=50.0, at_most=1000.0),
            mocap_hz=table.number("mocap_hz", at_least=50.0, at_most=1000.0),
        )

    @property
    def silence_s(self) -> float:
        """Without a command for so long it hovers by itself."""
        return self.feedthrough_timeout_s

    @property
    def software_drone(self) -> str:
        """Name of the vehicle."""
        return self.quad

    def topic(self, name: str) -> str:
        """Full name of one of the pilot's topics, of motion capture or of the battery."""
        if name == "mocap":
            return f"/mocap/{self.quad}/pose"
        if name == "battery":
            return f"/{self.quad}/mavros/battery"
        return f"/{self.quad}/agiros_pilot/{name}"

    def guards(self, position: Sequence[float]) -> bool:
        """Whether `trigger_guard` works there: well inside of the box, else the guard is lost."""
        box = zip(self.guard_low.tolist(), self.guard_high.tolist(), position, strict=True)
        return self.guard and all(
            low + GUARD_MARGIN_M <= x <= high - GUARD_MARGIN_M for low, high, x in box
        )

    def lands_again(
        self, since_s: float, sinks: bool | None, stopped: bool, patience_s: float
    ) -> bool:
        """Only if the vehicle is known not to sink: it takes a second `land` for a hover.

        Where the guard has stopped it, which happens at the floor of its box, nobody needs to wait.
        """
        return sinks is False and since_s >= (_HEARD_S if stopped else patience_s)

    def check(self, profile: Profile) -> None:
        """Refuse what does not go together with the rest of the profile."""
        fence, ladder = profile.fence, profile.ladder
        least = self.feedthrough_timeout_s + CONTROL_DT
        if ladder.hover_wait_s < least:
            raise InputError(
                f"{profile.path}: 'ladder.hover_wait_s' is {ladder.hover_wait_s:g}; it must be at "
                f"least {least:g}: the pilot obeys the stream of commands until its time-out"
            )
        inside = (
            np.all(fence.low >= self.guard_low + FENCE_MARGIN_M - 1e-9),
            np.all(fence.high <= self.guard_high - FENCE_MARGIN_M + 1e-9),
        )
        if not all(inside):
            raise InputError(
                f"{profile.path}: 'fence' goes from {fence.low.tolist()} to {fence.high.tolist()}; "
                f"it must lie {FENCE_MARGIN_M:g} m inside of the pilot's guard box, "
                f"{self.guard_low.tolist()} to {self.guard_high.tolist()}"
            )

    def check_start(self, master: str | None, simulated: bool) -> None:
        """A real drone needs its ROS master."""
        if master is None and not simulated:
            raise InputError("--master: a real drone needs the address of its ROS master")

    def told(self) -> dict[str, str]:
        """For people."""
        box = f"{self.guard_low.tolist()} to {self.guard_high.tolist()} m"
        return {
            "battery": f"its topic {self.topic('battery')}",
            "guard": f"its box is {box}" if self.guard else "the pilot has none",
        }

    def checklist(self) -> list[str]:
        """What only a person can see of it."""
        guard = "has no guard: a stop cuts the motors of a stream"
        if self.guard:
            low, high = self.guard_low.tolist(), self.guard_high.tolist()
            guard = f"has a guard, and its box, {low} to {high} m, lies within this arena"
        battery, mocap = self.topic("battery"), self.topic("mocap")
        return [
            f"The battery's voltage comes on {battery}, and is that of a meter at its plug.",
            "Motion capture shows the vehicle, and its axes are x forward, y left, z up.",
            f"The pilot's estimator takes the position from {mocap} and from nothing else.",
            f"The pilot's file {guard}.",
            "The bridge in the pilot's file takes thrust and body rates; it is no debug bridge.",
        ]

    @contextlib.contextmanager
    def reach(self, master: str | None, host: str) -> Iterator[str]:
        """The ROS master: the one at this address, or the built-in one."""
        from lafr_mjx.hil.wire.node import check_master
        from lafr_mjx.hil.wire.ros_master import Master

        if master is not None:
            check_master(master)
            yield master
            return
        with Master(host) as built_in:
            yield built_in.uri

    def connect(
        self, profile: Profile, master: str | None, host: str, clock: FlightClock
    ) -> Agilicious:
        """The drone, to fly it."""
        from lafr_mjx.hil.drones.agilicious import Agilicious
        from lafr_mjx.hil.wire.node import DEFAULT_MASTER

        return Agilicious(self, master or DEFAULT_MASTER, host, clock=clock)

    def watch(
        self, profile: Profile, master: str | None, host: str, clock: FlightClock
    ) -> WatchedAgilicious:
        """The drone, to watch and to stop it."""
        from lafr_mjx.hil.drones.agilicious import WatchedAgilicious
        from lafr_mjx.hil.wire.node import DEFAULT_MASTER

        return WatchedAgilicious(self, master or DEFAULT_MASTER, host, clock=clock)
