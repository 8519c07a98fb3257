"""How an autopilot that speaks MAVLink is set up, and what it promises: PX4, or ArduPilot's Copter.

From their documentation. Needs no `pymavlink`: the wire is `mavlink.py`.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from lafr_mjx.errors import InputError
from lafr_mjx.types import GRAVITY

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from lafr_mjx.hil.drones.mavlink import Mavlink, WatchedMavlink
    from lafr_mjx.hil.safety.drone_profile import Profile
    from lafr_mjx.hil.timing.flight_clock import FlightClock
    from lafr_mjx.toml_table import Table

_TURN_RAD = 2.0  # the furthest that the last body rates may turn it when we fall silent
_AGAIN_S = 0.5  # LAND is a mode: it is asked for until it is known to be the one
_LANDS, _HOLDS = 4, 5  # what PX4 may do without its stream (COM_OBL_RC_ACT)
_THRUST_AS_THRUST = 8  # of ArduPilot's GUID_OPTIONS: else the thrust is a climb rate


class FlightMode(NamedTuple):
    """A mode of the autopilot's."""

    name: str
    main: float  # as DO_SET_MODE wants it
    sub: float
    number: int  # as HEARTBEAT says it (`custom_mode`)


def _px4(name: str, main: int, sub: int = 0) -> FlightMode:
    return FlightMode(name, main, sub, main << 16 | sub << 24)


def _copter(name: str, number: int) -> FlightMode:
    return FlightMode(name, number, 0, number)


class Autopilot(NamedTuple):
    """What differs between the two."""

    number: int  # MAV_AUTOPILOT
    ready: FlightMode  # to arm in
    offboard: FlightMode  # in which it takes our commands
    hover: FlightMode
    land: FlightMode
    take_off: FlightMode | None  # else a command
    streams_first: bool  # it wants to see a stream of commands before it takes them

    @property
    def modes(self) -> tuple[FlightMode, ...]:
        """All that we ask for."""
        found = (self.ready, self.offboard, self.hover, self.land, self.take_off)
        return tuple(mode for mode in found if mode is not None)


AUTOPILOTS = {
    "px4": Autopilot(
        number=12,
        ready=_px4("HOLD", 4, 3),
        offboard=_px4("OFFBOARD", 6),
        hover=_px4("HOLD", 4, 3),
        land=_px4("LAND", 4, 6),
        take_off=_px4("TAKEOFF", 4, 2),
        streams_first=True,
    ),
    "ardupilot": Autopilot(
        number=3,
        ready=_copter("GUIDED", 4),
        offboard=_copter("GUIDED", 4),
        hover=_copter("BRAKE", 17),
        land=_copter("LAND", 9),
        take_off=None,
        streams_first=False,
    ),
}


class Setting(NamedTuple):
    """A parameter of the autopilot's that its promises hang on."""

    name: str
    least: float
    most: float
    bits: int = 0  # that must be set
    why: str = ""

    def trouble(self, value: float | None) -> str:
        """What is wrong with it; empty if nothing is."""
        if value is None:
            return f"{self.name} not heard yet"
        good = self.least <= value <= self.most and int(value) & self.bits == self.bits
        return "" if good else f"{self.name} is {value:g}: {self.why}"


@dataclass(frozen=True)
class MavlinkPilot:
    """A `Pilot`: it flies by inertial sensors of its own, whatever else tells it its position."""

    kind: str  # of the autopilot
    system: int  # its number
    port: int  # UDP, at which the control process listens to it
    stop_ports: tuple[int, ...]  # ... and the emergency stops, each at the first that is free
    hover_thrust: float  # share of the full thrust
    silence_s: float  # its time-out of our stream
    state_hz: float

    lands_unseen = True
    software_drone = ""

    @classmethod
    def read(cls, table: Table) -> MavlinkPilot:
        """From the table `pilot` of a profile."""
        kind = table.string("autopilot")
        if kind not in AUTOPILOTS:
            raise table.fail("autopilot", f"one of {', '.join(AUTOPILOTS)}")
        pilot = cls(
            kind=kind,
            system=table.integer("system", at_least=1, at_most=255),
            port=table.integer("port", at_least=1024, at_most=65535),
            stop_ports=tuple(
                int(port) for port in table.vector("stop_ports", 2, at_least=1024, at_most=65535)
            ),
            hover_thrust=table.number("hover_thrust", at_least=0.05, at_most=0.8),
            silence_s=table.number("silence_s", at_least=0.1, at_most=0.5),
            state_hz=table.number("state_hz", at_least=50.0, at_most=400.0),
        )
        if len({pilot.port, *pilot.stop_ports}) < 3:
            raise table.fail("stop_ports", f"two others than 'port' ({pilot.port})")
        return pilot

    @property
    def autopilot(self) -> Autopilot:
        """What differs between the kinds."""
        return AUTOPILOTS[self.kind]

    @property
    def mocap_hz(self) -> float:
        """Positions come with the states."""
        return self.state_hz

    def guards(self, position: Sequence[float]) -> bool:
        """There is no guard."""
        return False

    def lands_again(
        self, since_s: float, sinks: bool | None, stopped: bool, patience_s: float
    ) -> bool:
        """Whether it sinks or not: the call may have got lost."""
        return since_s >= _AGAIN_S

    def check(self, profile: Profile) -> None:
        """Refuse a thrust that is more than all of it, and rates that turn it over in silence."""
        rate = float(profile.command.limits.high[1:].max())
        if rate * self.silence_s > _TURN_RAD:
            raise InputError(
                f"{profile.path}: 'command.rates_max_radps' has {rate:g}, at which the vehicle "
                f"turns by {rate * self.silence_s:.1f} rad in 'pilot.silence_s' = "
                f"{self.silence_s:g}, before the autopilot acts; {_TURN_RAD:g} rad are allowed"
            )
        most = float(profile.command.limits.high[0])
        share = most / GRAVITY * self.hover_thrust
        if share > 1.0:
            raise InputError(
                f"{profile.path}: 'command.thrust_max_mps2' is {most:g}, which would be "
                f"{share:.2f} of the full thrust with 'pilot.hover_thrust' = {self.hover_thrust:g};"
                f" it must be at most {GRAVITY / self.hover_thrust:g}"
            )

    def check_start(self, master: str | None, simulated: bool) -> None:
        """There is no ROS master; there must be `pymavlink`."""
        _require()
        if master is not None:
            raise InputError(
                f"--master {master}: with MAVLink there is no ROS master; ports are in the profile"
            )

    def settings(self, hover_height_m: float) -> tuple[Setting, ...]:
        """Parameters of the autopilot that must be as the profile says."""
        silence, height = self.silence_s, hover_height_m
        late = f"it must be at most 'pilot.silence_s', {silence:g}"
        if self.kind == "ardupilot":
            return (
                Setting("GUID_TIMEOUT", 0.0, silence + 1e-6, why=late),
                Setting("GUID_OPTIONS", 0.0, 2.0**24, _THRUST_AS_THRUST,
                        f"it must have {_THRUST_AS_THRUST} in it (thrust as thrust)"),
                Setting("ATC_ANGLE_BOOST", 0.0, 0.0,
                        why="it must be 0: the thrust would be divided by the cosine of the tilt"),
            )  # fmt: skip
        return (
            Setting("COM_OF_LOSS_T", 0.0, silence + 1e-6, why=late),
            Setting("COM_OBL_RC_ACT", _LANDS, _HOLDS,
                    why=f"it must be {_LANDS} (land) or {_HOLDS} (hold)"),
            Setting("MIS_TAKEOFF_ALT", height - 0.1, height + 0.1,
                    why=f"it must be 'ladder.hover_height_m', {height:g}"),
        )  # fmt: skip

    def told(self) -> dict[str, str]:
        """For people."""
        return {"battery": "SYS_STATUS or BATTERY_STATUS", "guard": "the autopilot has none"}

    def checklist(self) -> list[str]:
        """What only a person can see of it."""
        timeout = "GUID_TIMEOUT" if self.kind == "ardupilot" else "COM_OF_LOSS_T"
        return [
            f"The autopilot is {self.kind}; {timeout} is {self.silence_s:g} s at most, and without "
            f"our commands it was seen to level or hold.",
            f"It hovers at {self.hover_thrust:g} of its full thrust, and half of that lifts half.",
            "Its local position is that of the arena: x north, y west, z up of the fence.",
            "It shows the battery's voltage, and that is that of a meter at its plug.",
            "A switch of the transmitter takes it out of our hands, and was tried.",
        ]

    def reach(self, master: str | None, host: str) -> AbstractContextManager[None]:
        """Nothing is needed on the ground."""
        self.check_start(master, simulated=True)
        return contextlib.nullcontext()

    def connect(
        self, profile: Profile, master: str | None, host: str, clock: FlightClock
    ) -> Mavlink:
        """The drone, to fly it."""
        _require()
        from lafr_mjx.hil.drones.mavlink import Mavlink

        return Mavlink(self, profile, host, clock)

    def watch(
        self, profile: Profile, master: str | None, host: str, clock: FlightClock
    ) -> WatchedMavlink:
        """The drone, to watch and to stop it."""
        _require()
        from lafr_mjx.hil.drones.mavlink import WatchedMavlink

        return WatchedMavlink(self, profile, host, clock)


def _require() -> None:
    try:
        import pymavlink  # noqa: F401
    except ImportError as error:
        raise InputError("MAVLink needs pymavlink: pip install 'lafr-mjx[mavlink]'") from error
