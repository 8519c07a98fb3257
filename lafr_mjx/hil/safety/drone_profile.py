"""The profile of a drone on the wire (`hil/*.toml`): pilot, bounds, one threshold for each trip.

No threshold has a default: what may happen to a vehicle stands in its file. Needs no JAX.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from lafr_mjx.errors import InputError
from lafr_mjx.hil.drones.known_drones import read_pilot
from lafr_mjx.resources import find_toml
from lafr_mjx.toml_table import Table, read_toml
from lafr_mjx.types import COMMAND_HOVER, CONTROL_DT, CommandLimits

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lafr_mjx.hil.drones.drone_protocol import Pilot
    from lafr_mjx.plant.vehicle import Vehicle


@dataclass(frozen=True, eq=False)
class CommandBounds:
    """What may be sent."""

    limits: CommandLimits  # range of each axis
    slew: np.ndarray  # [4] largest change in one tick
    repeats: int  # ticks in a row at a bound before the baseline takes over


@dataclass(frozen=True, eq=False)
class Fence:
    """Where the vehicle may be, its stopping distance included."""

    low: np.ndarray  # [3] m
    high: np.ndarray  # [3] m
    stop_mps2: float
    react_s: float

    @cached_property
    def _sides(self) -> list[tuple[float, float]]:
        """Plain numbers: the control loop looks at them at every tick."""
        return list(zip(self.low.tolist(), self.high.tolist(), strict=True))

    def excess(self, position: Sequence[float], velocity: Sequence[float]) -> float:
        """By how much the vehicle would leave the fence if it braked now [m]; negative inside."""
        worst = -math.inf
        for (low, high), x, v in zip(self._sides, position, velocity, strict=True):
            speed = abs(v)
            reach = speed * self.react_s + speed * speed / (2.0 * self.stop_mps2)
            ahead = x + math.copysign(reach, v)
            if math.isnan(ahead):
                return math.nan
            worst = max(worst, low - ahead, low - x, ahead - high, x - high)
        return worst

    def holds(self, position: Sequence[float]) -> bool:
        """Whether a position is inside; a NaN is not."""
        return all(low <= x <= high for (low, high), x in zip(self._sides, position, strict=True))


@dataclass(frozen=True)
class Limits:
    """One threshold for each trip; the docs say what each does."""

    state_age_s: float
    mocap_stale_s: float
    mocap_lost_s: float
    mocap_jump_m: float
    mocap_frozen_s: float
    clock_skew_s: float
    link_s: float
    master_s: float
    speed_mps: float
    rates_radps: float
    tilt_deg: float
    tilt_s: float
    inverted_s: float
    altitude_min_m: float
    altitude_max_m: float
    tracking_slow_m: float
    tracking_baseline_m: float
    tracking_hover_m: float
    deadline_misses: int
    learner_s: float
    battery_s: float
    voltage_most_v: float
    voltage_preflight_v: float
    voltage_land_v: float

    @cached_property
    def upright(self) -> float:
        """Least vertical part of the body's z axis: the cosine of the tilt."""
        return math.cos(math.radians(self.tilt_deg))


@dataclass(frozen=True)
class Ladder:
    """How long the state machine stays on each rung."""

    baseline_s: float
    hover_wait_s: float
    hover_s: float
    stable_s: float
    guard_s: float
    blind_s: float
    rest_s: float
    land_s: float
    takeoff_s: float
    armed_s: float
    hover_height_m: float
    settled_mps: float


@dataclass(frozen=True, eq=False)
class Profile:
    """A drone on the wire; made by `load_profile`."""

    name: str
    description: str
    path: Path
    vehicle: str  # a profile of `assets/`, or a path
    simulated: bool
    pilot: Pilot
    command: CommandBounds
    fence: Fence
    limits: Limits
    ladder: Ladder

    @property
    def software_drone(self) -> bool:
        """Whether it is the software drone of `sim-drone`, and no stranger's simulation."""
        return self.simulated and bool(self.pilot.software_drone)


def load_profile(name_or_path: str) -> Profile:
    """Read and check a profile: a shipped name (`sim`, `agilicious192.toml`) or a path."""
    path = _find(name_or_path)
    table = read_toml(path)
    profile = Profile(
        name=path.stem,
        path=path,
        description=table.string("description"),
        vehicle=table.string("vehicle"),
        simulated=table.boolean("simulated"),
        pilot=read_pilot(table.table("pilot", required=True)),
        command=_read_command(table.table("command", required=True)),
        fence=_read_fence(table.table("fence", required=True)),
        limits=_read_limits(table.table("limits", required=True)),
        ladder=_read_ladder(table.table("ladder", required=True)),
    )
    table.finish()
    _check_together(profile)
    return profile


def check_vehicle(profile: Profile, vehicle: Vehicle) -> None:
    """Refuse bounds that the vehicle's own profile does not allow."""
    ours, its = profile.command.limits, vehicle.limits
    if np.any(ours.low < its.low - 1e-9) or np.any(ours.high > its.high + 1e-9):
        raise InputError(
            f"{profile.path}: 'command' allows {ours.low.tolist()} to {ours.high.tolist()}; the "
            f"vehicle '{vehicle.name}' takes {np.asarray(its.low).tolist()} to "
            f"{np.asarray(its.high).tolist()}"
        )
    full, empty = vehicle.battery.voltage_full, vehicle.battery.voltage_empty
    limits = profile.limits
    if not full <= limits.voltage_most_v <= 1.1 * full:
        raise InputError(
            f"{profile.path}: 'limits.voltage_most_v' is {limits.voltage_most_v:g}; it must be "
            f"from {full:g}, a full battery of '{vehicle.name}', to {1.1 * full:g}"
        )
    if not empty - 1.0 <= limits.voltage_land_v < limits.voltage_preflight_v <= full:
        raise InputError(
            f"{profile.path}: 'limits.voltage_land_v' is {limits.voltage_land_v:g} and "
            f"'voltage_preflight_v' {limits.voltage_preflight_v:g}; they must rise, between "
            f"{empty - 1.0:g} and {full:g} V for the battery of '{vehicle.name}'"
        )


def _find(name_or_path: str) -> Path:
    # The file's name is what operators see, so `agilicious192.toml` finds the shipped one, too.
    short = name_or_path.removesuffix(".toml")
    if "/" not in name_or_path and short != name_or_path:
        try:
            return find_toml("hil", name_or_path, "drone")
        except InputError:
            return find_toml("hil", short, "drone")
    return find_toml("hil", name_or_path, "drone")


def _read_command(table: Table) -> CommandBounds:
    hover = float(COMMAND_HOVER[0])
    low = table.number("thrust_min_mps2", at_least=0.0, at_most=hover - 1.0)
    high = table.number("thrust_max_mps2", at_least=1.2 * hover, at_most=100.0)
    # No quadrotor is asked for more than 50 rad/s, but degrees per second are given by mistake.
    rates = table.vector("rates_max_radps", 3, above=0.0, at_most=50.0)
    thrust_slew = table.number("thrust_slew_mps3", at_least=50.0, at_most=1e5)
    rates_slew = table.number("rates_slew_radps2", at_least=20.0, at_most=1e5)
    return CommandBounds(
        limits=CommandLimits(np.array([low, *-rates]), np.array([high, *rates])),
        slew=CONTROL_DT * np.array([thrust_slew, rates_slew, rates_slew, rates_slew]),
        repeats=table.integer("repeats", at_least=1, at_most=100),
    )


def _read_fence(table: Table) -> Fence:
    low, high = table.box("low_m", "high_m")
    return Fence(
        low=low,
        high=high,
        stop_mps2=table.number("stop_mps2", at_least=0.5, at_most=30.0),
        react_s=table.number("react_s", at_least=0.05, at_most=2.0),
    )


def _read_limits(table: Table) -> Limits:
    number = table.number
    limits = Limits(
        state_age_s=number("state_age_s", at_least=0.02, at_most=0.05),
        mocap_stale_s=number("mocap_stale_s", at_least=0.02, at_most=0.1),
        mocap_lost_s=number("mocap_lost_s", at_least=0.1, at_most=1.0),
        mocap_jump_m=number("mocap_jump_m", at_least=0.02, at_most=1.0),
        mocap_frozen_s=number("mocap_frozen_s", at_least=0.03, at_most=0.5),
        clock_skew_s=number("clock_skew_s", above=0.0, at_most=0.1),
        link_s=number("link_s", at_least=0.04, at_most=0.5),
        master_s=number("master_s", at_least=1.0, at_most=30.0),
        speed_mps=number("speed_mps", at_least=0.5, at_most=30.0),
        rates_radps=number("rates_radps", at_least=1.0, at_most=60.0),
        tilt_deg=number("tilt_deg", at_least=10.0, at_most=90.0),
        tilt_s=number("tilt_s", at_least=0.02, at_most=0.5),
        inverted_s=number("inverted_s", at_least=0.02, at_most=0.3),
        altitude_min_m=number("altitude_min_m", at_least=0.1, at_most=100.0),
        altitude_max_m=number("altitude_max_m", at_least=0.5, at_most=120.0),
        tracking_slow_m=number("tracking_slow_m", at_least=0.05, at_most=5.0),
        tracking_baseline_m=number("tracking_baseline_m", at_least=0.05, at_most=5.0),
        tracking_hover_m=number("tracking_hover_m", at_least=0.05, at_most=5.0),
        deadline_misses=table.integer("deadline_misses", at_least=1, at_most=5),
        learner_s=number("learner_s", at_least=1.0, at_most=600.0),
        battery_s=number("battery_s", at_least=0.5, at_most=60.0),
        voltage_most_v=number("voltage_most_v", above=0.0, at_most=100.0),
        voltage_preflight_v=number("voltage_preflight_v", above=0.0, at_most=100.0),
        voltage_land_v=number("voltage_land_v", above=0.0, at_most=100.0),
    )
    rising = (
        ("mocap_stale_s", "mocap_lost_s"),
        ("mocap_frozen_s", "mocap_lost_s"),
        ("altitude_min_m", "altitude_max_m"),
        ("tracking_slow_m", "tracking_baseline_m"),
        ("tracking_baseline_m", "tracking_hover_m"),
        ("voltage_land_v", "voltage_preflight_v"),
        ("voltage_preflight_v", "voltage_most_v"),
    )
    for lower, upper in rising:
        if getattr(limits, lower) >= getattr(limits, upper):
            raise table.fail(upper, f"above '{lower}' ({getattr(limits, lower):g})")
    return limits


def _read_ladder(table: Table) -> Ladder:
    number = table.number
    return Ladder(
        baseline_s=number("baseline_s", at_least=0.1, at_most=30.0),
        hover_wait_s=number("hover_wait_s", at_least=0.04, at_most=1.0),
        hover_s=number("hover_s", at_least=0.2, at_most=30.0),
        stable_s=number("stable_s", at_least=0.5, at_most=30.0),
        guard_s=number("guard_s", at_least=0.2, at_most=10.0),
        blind_s=number("blind_s", at_least=2.4, at_most=10.0),
        rest_s=number("rest_s", at_least=0.0, at_most=10.0),
        land_s=number("land_s", at_least=2.0, at_most=60.0),
        takeoff_s=number("takeoff_s", at_least=2.0, at_most=60.0),
        armed_s=number("armed_s", at_least=5.0, at_most=600.0),
        hover_height_m=number("hover_height_m", at_least=0.3, at_most=20.0),
        settled_mps=number("settled_mps", at_least=0.02, at_most=1.0),
    )


def _check_together(profile: Profile) -> None:
    """What only shows when tables are compared."""
    fence, limits, ladder = profile.fence, profile.limits, profile.ladder
    profile.pilot.check(profile)
    if not fence.low[2] <= limits.altitude_min_m < limits.altitude_max_m <= fence.high[2]:
        raise InputError(
            f"{profile.path}: 'limits.altitude_min_m' and 'altitude_max_m' must lie within the "
            f"fence, {fence.low[2]:g} to {fence.high[2]:g} m"
        )
    if not limits.altitude_min_m < ladder.hover_height_m < limits.altitude_max_m:
        raise InputError(
            f"{profile.path}: 'ladder.hover_height_m' is {ladder.hover_height_m:g}; it must lie "
            f"between the altitude limits"
        )
