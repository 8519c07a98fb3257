"""Scenarios: under which conditions a vehicle flies. One TOML file each, in `tasks/scenarios`.

A scenario is a set of numbers (`Settings`), changes of them from a flight or moment on, and
possibly ranges from which a batch of plants is drawn. `base` names a scenario to start from.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from lafr_mjx.errors import InputError
from lafr_mjx.plant.limits import MAX_COMMAND_DELAY, MAX_SENSING_DELAY
from lafr_mjx.resources import find_toml, shipped_names
from lafr_mjx.toml_table import Table, read_toml

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = "tasks/scenarios"
_MAX_DEPTH = 5


@dataclass(frozen=True)
class Settings:
    """What a scenario can set. The defaults are a still world with an ideal vehicle."""

    mass_scale: float = 1.0  # true mass and inertia over nominal
    payload_kg: float = 0.0
    payload_position_m: tuple[float, ...] = (0.0, 0.0, 0.0)  # body frame
    rotor_scale: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0)  # thrust and torque coefficients
    drag_scale: float = 0.0  # times the profile's drag
    command_delay_ms: float = 0.0
    command_jitter_ms: float = 0.0  # half width
    command_loss: float = 0.0  # probability
    sensing_delay_ms: float = 0.0
    sensing_jitter_ms: float = 0.0
    sensing_loss: float = 0.0
    noise_scale: float = 1.0  # times the four below
    position_noise_m: float = 0.0
    velocity_noise_mps: float = 0.0
    attitude_noise_rad: float = 0.0
    rates_noise_radps: float = 0.0
    wind_mps: tuple[float, ...] = (0.0, 0.0, 0.0)  # world
    gust_mps: float = 0.0  # Dryden intensity σ on each axis
    fan_scale: float = 0.0  # times the speed of the task's fans
    battery_strength: float = 0.0  # 1: the profile's battery sags and drains
    battery_charge: float = 1.0  # at the start of the first flight
    radio_steps: float = 0.0  # steps per channel of the radio link; 0: not quantised


# Limits of each setting: (above, at least, at most).
_LIMITS: dict[str, tuple[float | None, float | None, float | None]] = {
    "mass_scale": (0.1, None, 5.0),
    "payload_kg": (None, 0.0, 5.0),
    "payload_position_m": (None, -1.0, 1.0),
    "rotor_scale": (0.0, None, 2.0),
    "drag_scale": (None, 0.0, 20.0),
    "command_delay_ms": (None, 0.0, 1e3 * MAX_COMMAND_DELAY),
    "command_jitter_ms": (None, 0.0, 1e3 * MAX_COMMAND_DELAY),
    "command_loss": (None, 0.0, 1.0),
    "sensing_delay_ms": (None, 0.0, 1e3 * MAX_SENSING_DELAY),
    "sensing_jitter_ms": (None, 0.0, 1e3 * MAX_SENSING_DELAY),
    "sensing_loss": (None, 0.0, 1.0),
    "noise_scale": (None, 0.0, 100.0),
    "position_noise_m": (None, 0.0, 1.0),
    "velocity_noise_mps": (None, 0.0, 5.0),
    "attitude_noise_rad": (None, 0.0, 0.5),
    "rates_noise_radps": (None, 0.0, 5.0),
    "wind_mps": (None, -30.0, 30.0),
    "gust_mps": (None, 0.0, 10.0),
    "fan_scale": (None, 0.0, 5.0),
    "battery_strength": (None, 0.0, 1.0),
    "battery_charge": (None, 0.0, 1.0),
    "radio_steps": (None, 0.0, 65535.0),
}
_DELAYS = {
    "command_delay_ms", "command_jitter_ms", "sensing_delay_ms", "sensing_jitter_ms",
}  # fmt: skip
_SIZES = {"payload_position_m": 3, "rotor_scale": 4, "wind_mps": 3}
# A ramp blends numbers; mass properties and counts can only jump.
_JUMP_ONLY = {"mass_scale", "payload_kg", "payload_position_m", "radio_steps", "battery_charge"}


@dataclass(frozen=True)
class Change:
    """Settings that hold from a flight (or a moment of it) on."""

    flight: int  # 0 is the first
    time_s: float  # into that flight
    over_s: float  # 0 is a jump
    values: dict[str, Any]


def _order(change: Change) -> tuple[int, float, float]:
    """In time; of two changes at one moment the jump comes first."""
    return change.flight, change.time_s, change.over_s


@dataclass(frozen=True)
class Scenario:
    """Conditions of a run."""

    name: str
    description: str
    settings: Settings
    changes: tuple[Change, ...] = ()
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def randomised(self) -> bool:
        """Whether plants are drawn from ranges."""
        return bool(self.ranges)

    def with_settings(self, **values: Any) -> Scenario:
        """The same scenario with some settings replaced (not those that are changed later)."""
        return dataclasses.replace(self, settings=dataclasses.replace(self.settings, **values))

    def drawn(self, seed: int, index: int = 0) -> Scenario:
        """One plant of a randomised scenario; the same for the same seed and index.

        Raises:
            InputError: another plant than 0 of a scenario that has no ranges.
        """
        if not self.ranges:
            if index:
                raise InputError(
                    f"plant {index} of the scenario '{self.name}': it has no ranges to draw from; "
                    f"only plant 0 is allowed, or a scenario with ranges, such as 'randomised'"
                )
            return self
        rng = np.random.default_rng([seed, index])
        values: dict[str, Any] = {}
        # Every setting draws in the order of its name, so that files may list them as they like.
        for key, (low, high) in sorted(self.ranges.items()):
            if key == "wind_speed_mps":
                speed, heading = rng.uniform(low, high), rng.uniform(0.0, 2.0 * np.pi)
                wind = (speed * np.cos(heading), speed * np.sin(heading), 0.0)
                values["wind_mps"] = tuple(float(x) for x in wind)
            elif key in _SIZES:
                draws = rng.uniform(low, high, _SIZES[key])
                values[key] = tuple(float(x) for x in draws)
            elif key in ("drag_scale", "noise_scale") and low > 0.0:
                # A factor: halving is as likely as doubling.
                values[key] = float(np.exp(rng.uniform(np.log(low), np.log(high))))
            else:
                values[key] = float(rng.uniform(low, high))
        drawn = self.with_settings(**values)
        return dataclasses.replace(drawn, name=f"{self.name}-{seed}-{index}", ranges={})

    def settings_for(self, flight: int) -> tuple[Settings, Settings, float, float]:
        """Settings before and after this flight's change, when it starts, how long it takes.

        Without a change in this flight both are the same and the start is infinite.
        """
        before, after = self.settings, self.settings
        start, over = float("inf"), 0.0
        for change in sorted(self.changes, key=_order):
            if change.flight > flight:
                break
            changed = dataclasses.replace(after, **change.values)
            at_once = change.time_s == 0.0 and change.over_s == 0.0
            if change.flight < flight or at_once:
                before = after = changed
            else:
                after, start, over = changed, change.time_s, change.over_s
        return before, after, start, over


def load_scenario(name_or_path: str) -> Scenario:
    """Load a shipped scenario by name (`wind5`) or a user's file by path."""
    path = find_toml(FOLDER, name_or_path, "scenario")
    return _read(path, depth=0)


def scenario_names() -> list[str]:
    """The shipped scenarios."""
    return shipped_names(FOLDER)


def _read(path: Path, depth: int) -> Scenario:
    table = read_toml(path)
    description = table.string("description", "")
    base_name = table.string("base", "")
    if base_name:
        if depth >= _MAX_DEPTH:
            raise table.fail("base", f"a chain of at most {_MAX_DEPTH} scenarios (a circle?)")
        base = _read(_base_path(table, base_name), depth + 1)
    else:
        base = Scenario("still", "", Settings())
    settings = dataclasses.replace(base.settings, **_read_values(table))
    changes = tuple(_read_change(t) for t in table.tables("change")) or base.changes
    ranges = {**base.ranges, **_read_ranges(table.table("randomise"))}
    table.finish()
    _check_changes(path, changes)
    # The longest delays that can come about: by changes on top of each other, and by draws.
    longest = {key: high for key, (_, high) in ranges.items() if key in _DELAYS}
    candidate = dataclasses.replace(settings, **longest)
    _check_delays(path, candidate)
    for change in sorted(changes, key=_order):
        candidate = dataclasses.replace(candidate, **change.values)
        _check_delays(path, candidate)
    return Scenario(path.stem, description, settings, changes, ranges)


def _base_path(table: Table, name: str) -> Path:
    beside = table.path.parent / name
    if name.endswith(".toml") and beside.is_file():
        return beside
    return find_toml(FOLDER, name, "scenario")


def _read_values(table: Table) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, (above, at_least, at_most) in _LIMITS.items():
        if key in table:
            limits = {"above": above, "at_least": at_least, "at_most": at_most}
            if key in _SIZES:
                values[key] = tuple(table.vector(key, _SIZES[key], **limits).tolist())
            else:
                values[key] = table.number(key, **limits)
        else:
            table.known(key)
    return values


def _read_change(table: Table) -> Change:
    flight = table.integer("flight", at_most=100_000)
    time_s = table.number("time_s", 0.0, at_least=0.0, at_most=1000.0)
    over_s = table.number("over_s", 0.0, at_least=0.0, at_most=1000.0)
    values = _read_values(table)
    table.finish()  # a misspelt key is named before its absence is
    if not values:
        where = table.prefix.rstrip(".")
        raise InputError(f"{table.path}: '{where}' changes nothing; set one of {_names()}")
    sudden = sorted(_JUMP_ONLY & values.keys())
    if over_s > 0.0 and sudden:
        raise table.fail("over_s", f"0 for a change of {', '.join(sudden)}, which can only jump")
    if "battery_charge" in values:
        raise table.fail("battery_charge", "set at the start; a battery is not changed in a run")
    return Change(flight, time_s, over_s, values)


def _read_ranges(table: Table) -> dict[str, tuple[float, float]]:
    ranges: dict[str, tuple[float, float]] = {}
    allowed = {**_LIMITS, "wind_speed_mps": (None, 0.0, 30.0)}
    for key, (above, at_least, at_most) in allowed.items():
        if key not in table:
            table.known(key)
            continue
        low, high = table.vector(key, 2, above=above, at_least=at_least, at_most=at_most)
        if low > high:
            raise table.fail(key, "[low, high] with low <= high")
        ranges[key] = (float(low), float(high))
    return ranges


def _check_changes(path: Path, changes: tuple[Change, ...]) -> None:
    gradual = [c.flight for c in changes if c.time_s > 0.0 or c.over_s > 0.0]
    double = {flight for flight in gradual if gradual.count(flight) > 1}
    if double:
        raise InputError(
            f"{path}: 'change' has more than one change during flight {min(double)}; one flight "
            f"can have one (put its settings together), others must be jumps at time_s = 0"
        )


def _check_delays(path: Path, settings: Settings) -> None:
    for name, limit in (("command", MAX_COMMAND_DELAY), ("sensing", MAX_SENSING_DELAY)):
        delay = getattr(settings, f"{name}_delay_ms")
        jitter = getattr(settings, f"{name}_jitter_ms")
        if delay + jitter > 1e3 * limit:
            raise InputError(
                f"{path}: '{name}_delay_ms' {delay:g} and '{name}_jitter_ms' {jitter:g} add up to "
                f"{delay + jitter:g}; together they may be at most {1e3 * limit:g}"
            )


def _names() -> str:
    return ", ".join(_LIMITS)
