"""What the rest needs of a drone: its state with ages, commands, calls, and what it promises.

A drone takes a stream of commands (collective thrust and body rates, 50 Hz) and a few calls. When
the stream falls silent it hovers by itself after `silence_s`, if it knows where it is; that is what
every way down here begins with.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    import numpy as np

    from lafr_mjx.hil.safety.drone_profile import Profile
    from lafr_mjx.hil.timing.flight_clock import FlightClock
    from lafr_mjx.types import State


class Call(StrEnum):
    """What a drone can be told beside the stream. Each may get lost; none is answered."""

    ARM = "arm"
    TAKE_OFF = "take off"
    HOVER = "hover"  # may not stop a stream
    LAND = "land"  # nor may this; when to call it again is the pilot's to say
    GUARD = "guard"  # hover against any stream, until OFF; where the pilot says that it works
    OFF = "off"  # motors off, and everything forgotten; beats all


class Heard(NamedTuple):
    """What is known now. Moments are of the flight's clock; never: minus infinity."""

    state: State | None
    state_stamp: float  # when it was sampled, as far as the stamps say
    state_receipt: float
    mocap_position: np.ndarray | None  # [3] m
    mocap_receipt: float
    mocap_number: int
    telemetry_receipt: float
    armed: bool  # the bridge to the motors, not a debug bridge
    guard: bool
    references: int  # that the pilot holds
    voltage: float  # V, of the battery's own topic; NaN if never heard
    battery_receipt: float
    own_command: np.ndarray | None  # [4] of the pilot's own controller
    own_number: int
    clock_skew: float  # s
    wall_skew: float  # s, wall clock minus stamps; for the preflight check only
    subscribed: bool  # the pilot takes our commands and calls
    connected: bool  # all topics are there
    master_seen: float  # the ROS master, or the autopilot's heartbeat
    intruders: tuple[str, ...]  # who else commands it
    set_up: str = ""  # what of its set-up is not as the profile says
    taken: bool = False  # somebody else has it: nothing may be called against them
    said: tuple[str, ...] = ()  # by the drone since the last look, for people


class Pilot(Protocol):
    """What flies the vehicle: its table of the profile, and what it promises."""

    @property
    def state_hz(self) -> float:
        """Promised rate of states."""
        ...

    @property
    def mocap_hz(self) -> float:
        """Promised rate of positions of motion capture."""
        ...

    @property
    def silence_s(self) -> float:
        """Without a command for so long it hovers by itself."""
        ...

    @property
    def lands_unseen(self) -> bool:
        """Whether it brings itself down where nobody tells it its position; else we fly blind."""
        ...

    @property
    def software_drone(self) -> str:
        """Name of the vehicle where `sim-drone` can stand for it, else empty."""
        ...

    def guards(self, position: Sequence[float]) -> bool:
        """Whether GUARD works there."""
        ...

    def lands_again(
        self, since_s: float, sinks: bool | None, stopped: bool, patience_s: float
    ) -> bool:
        """Whether to call LAND again.

        Args:
            since_s: since the last call.
            sinks: whether the vehicle does; None if that is not known.
            stopped: the guard has triggered since then.
            patience_s: of the caller, with a vehicle that does not sink.
        """
        ...

    def check(self, profile: Profile) -> None:
        """Refuse what does not go together with the rest of the profile."""
        ...

    def check_start(self, master: str | None, simulated: bool) -> None:
        """Refuse what no flight can begin with, such as a ROS master where there is none."""
        ...

    def told(self) -> dict[str, str]:
        """For people: `battery`, what its voltage is heard on, and `guard`."""
        ...

    def checklist(self) -> list[str]:
        """What only a person can see of it."""
        ...

    def reach(self, master: str | None, host: str) -> AbstractContextManager[str | None]:
        """What must be there on the ground for a flight; the address of the ROS master, if any."""
        ...

    def connect(self, profile: Profile, master: str | None, host: str, clock: FlightClock) -> Drone:
        """The drone, to fly it."""
        ...

    def watch(self, profile: Profile, master: str | None, host: str, clock: FlightClock) -> Watched:
        """The drone, to watch and to stop it, by a connection of its own."""
        ...


class Drone(Protocol):
    """A drone as who flies it knows it. Nothing of it ever waits, but for `join`."""

    arrival: threading.Event  # set at each new state
    clock: FlightClock

    def heard(self) -> Heard:
        """What is known now."""
        ...

    def send(self, command: np.ndarray, expires: float) -> bool:
        """Send a command [4] unless it is late; whether it went out."""
        ...

    def call(self, call: Call) -> None:
        """Make a call."""
        ...

    def drain(self) -> list[tuple[str, str, float, float, bytes]]:
        """Raw messages since the last call: topic, type, receipt, wall time, bytes."""
        ...

    def counts(self) -> dict[str, dict[str, int]]:
        """What was received, dropped and refused, by topic."""
        ...

    def join(self, role: str) -> None:
        """Take part in the flight's time."""
        ...

    def close(self) -> None:
        """Leave."""
        ...


class Seen(NamedTuple):
    """What somebody who only watches knows. Moments as in `Heard`."""

    position: tuple[float, ...] | None  # m, of motion capture
    mocap_number: int
    mocap_receipt: float
    telemetry_receipt: float
    armed: bool  # the bridge to the motors
    guarded: bool  # the guard has triggered
    stream_receipt: float  # of the last command of anybody that a call to hover would not stop
    taken: bool = False  # somebody else has it, and nothing was called against them here since


class Watched(Protocol):
    """A drone as the emergency stop knows it: it watches and calls, and sends no commands."""

    clock: FlightClock

    @property
    def reaches(self) -> bool:
        """Whether the drone listens."""
        ...

    @property
    def sends(self) -> bool:
        """Whether a call leaves for it at all, heard or not: motors are cut then."""
        ...

    @property
    def connected(self) -> bool:
        """Whether the drone listens, and it and motion capture are heard."""
        ...

    def seen(self) -> Seen:
        """What is known now."""
        ...

    def call(self, call: Call) -> None:
        """Make a call."""
        ...

    def join(self, role: str) -> None:
        """Take part in the flight's time."""
        ...

    def close(self) -> None:
        """Leave."""
        ...
