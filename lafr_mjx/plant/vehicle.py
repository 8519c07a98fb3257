"""The vehicle: its profile (`assets/*.toml`) and the rigid body of its MJCF.

A user brings a quadrotor by giving an MJCF and a profile beside it. This module needs no JAX.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lafr_mjx.arrays import namespace
from lafr_mjx.errors import InputError
from lafr_mjx.plant.vehicle_body import BodyProperties, RigidPart, read_body
from lafr_mjx.resources import find_toml
from lafr_mjx.toml_table import Table, read_toml
from lafr_mjx.types import GRAVITY, CommandLimits

if TYPE_CHECKING:
    from lafr_mjx.arrays import Array

_MAX_RATE = 50.0  # rad/s; no quadrotor is asked for more, but degrees per second are


@dataclass(frozen=True, eq=False)
class Rotors:
    """Four equal rotors: thrust = coefficient · speed², lag of first order in the speed."""

    thrust_coefficient: float  # N/(rad/s)²
    torque_per_thrust: float  # m
    time_constant: float  # s
    speed_min: float  # rad/s
    speed_max: float  # rad/s
    thrust_max: float  # N, what the flight controller asks of one rotor at most
    spin: np.ndarray  # [4] ±1, sign of the reaction torque about body z
    inertia: float  # kg m², of a propeller with what turns of its motor

    @property
    def thrust_reachable(self) -> float:
        """Largest thrust of one rotor [N]: the clip, or the speed limit if that is lower."""
        return min(self.thrust_max, self.thrust_coefficient * self.speed_max**2)


@dataclass(frozen=True, eq=False)
class Gains:
    """Of a PID on body rates: angular acceleration (in hover) per rate error."""

    proportional: np.ndarray  # [3] 1/s
    integral: np.ndarray  # [3] 1/s²
    derivative: np.ndarray  # [3] on the filtered angular acceleration
    idle_authority: float  # strength of the steering without thrust

    def blended(self, other: Gains, share: float) -> Gains:
        """Between these (0) and others (1), evenly in their logarithms."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Gains(*(a ** (1.0 - share) * b**share for a, b in pairs))


@dataclass(frozen=True, eq=False)
class RateLoop:
    """Body-rate loop of the flight controller."""

    gains: Gains
    slow: Gains  # of a slower firmware, which scenarios may ask for
    derivative_cutoff: float  # Hz


@dataclass(frozen=True, eq=False)
class Drag:
    """Drag per unit mass of the nominal vehicle."""

    rotor: np.ndarray  # [3] 1/s, body axes, at hover rotor speed
    body: float  # 1/m, times |v| v


@dataclass(frozen=True, eq=False)
class Battery:
    """A voltage that falls with the charge, behind a resistance."""

    voltage_full: float  # V
    voltage_empty: float  # V
    capacity: float  # mAh
    resistance: float  # Ω
    efficiency: float  # shaft power of the rotors over electrical power
    avionics_power: float  # W


@dataclass(frozen=True, eq=False)
class Vehicle:
    """A quadrotor as its profile and MJCF describe it. Body axes: x forward, y left, z up."""

    name: str
    description: str
    mjcf_path: Path
    body_name: str  # of the MJCF body with the free joint
    mass: float  # kg, of all that flies
    inertia: np.ndarray  # [3, 3] kg m², about the centre of mass, in body axes
    centre_of_mass: np.ndarray  # [3] m
    frame: RigidPart  # mass properties of what is fixed to the free joint
    rotor_positions: np.ndarray  # [4, 3] m, order of the sites thrust1..4
    single_free_body: bool  # no joints beside the free one
    rotors: Rotors
    limits: CommandLimits
    rate_loop: RateLoop
    drag: Drag
    battery: Battery
    betaflight: dict[str, int | str]  # settings of that firmware, as its command line names them

    @property
    def hover_speed(self) -> float:
        """Rotor speed at which four rotors carry the vehicle [rad/s]."""
        return float(np.sqrt(self.mass * GRAVITY / (4.0 * self.rotors.thrust_coefficient)))

    @property
    def hover_power(self) -> float:
        """Electrical power in hover [W]: shaft power over efficiency, and the avionics."""
        shaft = self.rotors.torque_per_thrust * self.mass * GRAVITY * self.hover_speed
        return shaft / self.battery.efficiency + self.battery.avionics_power


def load_vehicle(name_or_path: str) -> Vehicle:
    """Load a shipped vehicle by name (`lafr192`) or a user's profile by path.

    Examples:
        >>> import lafr_mjx as lm
        >>> lm.load_vehicle("lafr192").mass

    Raises:
        InputError: naming the file, the key, the value and what is allowed.
    """
    path = find_toml("assets", name_or_path, "vehicle")
    table = read_toml(path)
    name = table.string("name", path.stem)
    description = table.string("description", "")
    mjcf_path = _mjcf_path(table)
    rotors = _read_rotors(table.table("rotors", required=True))
    limits = _read_limits(table.table("limits", required=True))
    rate_loop = _read_rate_loop(table.table("rate_loop", required=True))
    drag = _read_drag(table.table("drag"))
    battery = _read_battery(table.table("battery", required=True))
    betaflight = _read_betaflight(table.table("betaflight"))
    table.finish()
    body = read_body(mjcf_path)
    vehicle = Vehicle(
        name=name,
        description=description,
        mjcf_path=mjcf_path,
        body_name=body.name,
        **{key: value for key, value in body._asdict().items() if key != "name"},
        rotors=rotors,
        limits=limits,
        rate_loop=rate_loop,
        drag=drag,
        battery=battery,
        betaflight=betaflight,
    )
    _check_flyable(vehicle, table)
    _check_steerable(body, rotors, table)
    return vehicle


def add_point_mass(
    mass: Array | float,
    inertia: Array,
    centre_of_mass: Array,
    payload_mass: Array | float,
    payload_position: Array,
) -> tuple[Array, Array, Array]:
    """Mass [...], inertia [..., 3, 3] and centre [..., 3] of a body with a point mass fixed to it.

    Parallel-axis theorem for both parts about the common centre, with the reduced mass
    μ = m p / (m + p) and the distance d of the payload from the old centre:
    J' = J + μ (|d|² 1 - d dᵀ). Inertias are about the centre of mass, in body axes.
    """
    xp = namespace(mass, inertia, centre_of_mass, payload_mass, payload_position)
    own, added = xp.asarray(mass), xp.asarray(payload_mass)
    distance = xp.asarray(payload_position) - xp.asarray(centre_of_mass)
    total = own + added
    centre = centre_of_mass + (added / total)[..., None] * distance
    squared = xp.sum(distance * distance, axis=-1)[..., None, None]
    outer = distance[..., :, None] * distance[..., None, :]
    reduced = (own * added / total)[..., None, None]
    return total, inertia + reduced * (squared * xp.eye(3) - outer), centre


def _mjcf_path(table: Table) -> Path:
    given = table.string("mjcf")
    allowed = "the name of an MJCF file in the profile's folder or below it"
    if not given or "\0" in given or Path(given).is_absolute():
        raise table.fail("mjcf", allowed)
    folder = table.path.parent.resolve()
    try:
        path = (folder / given).resolve()
    except (OSError, RuntimeError) as error:  # a loop of symbolic links
        raise table.fail("mjcf", allowed) from error
    if not path.is_relative_to(folder):
        raise table.fail("mjcf", f"{allowed}; it may not leave {folder}")
    if not path.is_file():
        raise table.fail("mjcf", f"{allowed}; {path} is no file")
    return path


def _read_rotors(table: Table) -> Rotors:
    speed_min = table.number("speed_min_radps", at_least=0.0)
    speed_max = table.number("speed_max_radps", above=0.0)
    if speed_min >= speed_max:
        raise table.fail("speed_min_radps", f"below speed_max_radps ({speed_max:g})")
    spin = table.vector("spin", 4)
    if not np.all(np.abs(spin) == 1.0) or spin.sum() != 0.0:
        raise table.fail("spin", "a list of four signs, two of them 1 and two of them -1")
    return Rotors(
        thrust_coefficient=table.number("thrust_coefficient", above=0.0, at_most=1.0),
        torque_per_thrust=table.number("torque_per_thrust_m", above=0.0, at_most=1.0),
        time_constant=table.number("time_constant_s", above=0.0, at_most=1.0),
        speed_min=speed_min,
        speed_max=speed_max,
        thrust_max=table.number("thrust_max_n", above=0.0),
        spin=spin,
        inertia=table.number("inertia_kgm2", 0.0, at_least=0.0, at_most=1.0),
    )


def _read_limits(table: Table) -> CommandLimits:
    thrust_min = table.number("thrust_min_mps2", 0.0, at_least=0.0)
    thrust_max = table.number("thrust_max_mps2", above=0.0)
    if thrust_max <= GRAVITY:
        raise table.fail("thrust_max_mps2", f"above gravity ({GRAVITY} m/s²), or it cannot hover")
    if thrust_min >= GRAVITY:
        raise table.fail("thrust_min_mps2", f"below gravity ({GRAVITY} m/s²), or it cannot descend")
    rates = table.vector("rates_max_radps", 3, above=0.0)
    if np.any(rates > _MAX_RATE):
        raise table.fail(
            "rates_max_radps", f"at most {_MAX_RATE:g} rad/s on each axis (degrees for radians?)"
        )
    return CommandLimits(low=np.array([thrust_min, *(-rates)]), high=np.array([thrust_max, *rates]))


def _read_rate_loop(table: Table) -> RateLoop:
    gains = _read_gains(table)
    return RateLoop(
        gains=gains,
        slow=_read_gains(table.table("slow")) if "slow" in table else gains,
        derivative_cutoff=table.number("derivative_cutoff_hz", 60.0, above=0.0),
    )


def _read_gains(table: Table) -> Gains:
    return Gains(
        proportional=table.vector("proportional_per_s", 3, above=0.0),
        integral=table.vector("integral_per_s2", 3, [0.0] * 3, at_least=0.0),
        derivative=table.vector("derivative", 3, [0.0] * 3, at_least=0.0),
        idle_authority=table.number("idle_authority", 1.0, at_least=0.0, at_most=1.0),
    )


def _read_drag(table: Table) -> Drag:
    return Drag(
        rotor=table.vector("rotor_per_s", 3, [0.0] * 3, at_least=0.0),
        body=table.number("body_per_m", 0.0, at_least=0.0),
    )


def _read_battery(table: Table) -> Battery:
    full = table.number("voltage_full_v", above=0.0)
    empty = table.number("voltage_empty_v", above=0.0)
    if empty >= full:
        raise table.fail("voltage_empty_v", f"below voltage_full_v ({full:g})")
    return Battery(
        voltage_full=full,
        voltage_empty=empty,
        capacity=table.number("capacity_mah", above=0.0),
        resistance=table.number("resistance_ohm", at_least=0.0),
        efficiency=table.number("efficiency", above=0.0, at_most=1.0),
        avionics_power=table.number("avionics_power_w", 0.0, at_least=0.0),
    )


def _read_betaflight(table: Table) -> dict[str, int | str]:
    """Names and values are the firmware's own business; here they are words, or whole numbers."""
    word = re.compile(r"\w+", re.ASCII)
    for key, value in table.data.items():
        number = isinstance(value, int) and not isinstance(value, bool)
        if not word.fullmatch(key) or not (
            number or (isinstance(value, str) and word.fullmatch(value))
        ):
            raise table.fail(key, "a setting of Betaflight: a word, and a whole number or a word")
    table.known(*table.data)
    return dict(table.data)


def _check_flyable(vehicle: Vehicle, table: Table) -> None:
    """The rotors can hover and give the largest command; the battery can feed the hover."""
    rotors, limits = table.table("rotors"), table.table("limits")
    reachable = 4.0 * vehicle.rotors.thrust_reachable / vehicle.mass
    carried = f"{vehicle.mass:g} kg ({vehicle.mjcf_path})"
    if reachable <= GRAVITY:
        tight = "thrust_max_n"
        if vehicle.rotors.thrust_reachable < vehicle.rotors.thrust_max:
            tight = "speed_max_radps"
        raise rotors.fail(
            tight, f"large enough to carry {carried}; four rotors give {reachable:.4g} m/s²"
        )
    if vehicle.hover_speed <= vehicle.rotors.speed_min:
        raise rotors.fail(
            "speed_min_radps", f"below the hover speed {vehicle.hover_speed:.4g} of {carried}"
        )
    if vehicle.limits.high[0] > reachable * (1.0 + 1e-6):
        raise limits.fail(
            "thrust_max_mps2", f"at most {reachable:.4g}, what four rotors give {carried}"
        )
    # The largest power that a source behind a resistance delivers is U² / (4 R).
    battery = vehicle.battery
    if 4.0 * battery.resistance * vehicle.hover_power >= battery.voltage_empty**2:
        most = battery.voltage_empty**2 / (4.0 * vehicle.hover_power)
        raise table.table("battery").fail(
            "resistance_ohm", f"below {most:.3g}, or the empty battery cannot feed the hover"
        )


def _check_steerable(body: BodyProperties, rotors: Rotors, table: Table) -> None:
    """Thrust and the three torques are independent for this layout and these spins."""
    arms = body.rotor_positions - body.centre_of_mass
    scale = np.abs(arms[:, :2]).max()
    if scale > 0.0:
        rows = np.stack([np.ones(4), arms[:, 1] / scale, arms[:, 0] / scale, rotors.spin])
        if np.linalg.cond(rows) < 1e3:
            return
    raise InputError(
        f"{table.path}: 'rotors.spin' is {rotors.spin.astype(int).tolist()} with rotors at "
        f"{np.round(body.rotor_positions[:, :2], 4).tolist()}; it must let the rotors turn the "
        f"body about all three axes (diagonal rotors spin alike in an X layout)"
    )
