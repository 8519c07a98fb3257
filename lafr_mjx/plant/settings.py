"""What a scenario can set: keys of the vehicle, declared here, and of plugins, in their files."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from lafr_mjx.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lafr_mjx.toml_table import Table


@dataclass(frozen=True)
class Setting:
    """One key of scenario files: a number, or as many as its default has."""

    key: str
    default: float | tuple[float, ...] = 0.0
    at_least: float | None = 0.0
    above: float | None = None
    at_most: float | None = None
    parameter: str = ""  # of the plugin, which takes this value times `unit`
    unit: float = 1.0
    change: Literal["any", "jump", "never"] = "any"  # in a run: also gradually, at once, not at all
    factor: bool = False  # drawn evenly in its logarithm: halving is as likely as doubling
    draws: str = ""  # another key, whose value `draw` gives: this one is for [randomise] only
    draw: Callable[[np.random.Generator, float, float], Any] | None = None
    check: Callable[[Any], str] | None = None  # what is wrong with all settings together, or ""

    @property
    def single(self) -> bool:
        """Whether it is one number that a scenario can set."""
        return not isinstance(self.default, tuple) and not self.draws

    def read(self, table: Table, size: int | None = None) -> Any:
        """Its value in a file, or `size` values; checked."""
        limits = {"above": self.above, "at_least": self.at_least, "at_most": self.at_most}
        if size is None and not isinstance(self.default, tuple):
            return table.number(self.key, **limits)
        size = size or len(self.default)  # type: ignore[arg-type]
        return tuple(table.vector(self.key, size, **limits).tolist())

    def drawn(self, rng: np.random.Generator, low: float, high: float) -> Any:
        """A value of a range."""
        if self.draw is not None:
            return self.draw(rng, low, high)
        if isinstance(self.default, tuple):
            return tuple(rng.uniform(low, high, len(self.default)).tolist())
        if self.factor and low > 0.0:
            return float(np.exp(rng.uniform(np.log(low), np.log(high))))
        return float(rng.uniform(low, high))


_VEHICLE = (
    Setting("mass_scale", 1.0, None, above=0.1, at_most=5.0, change="jump"),  # and inertia
    Setting("payload_kg", at_most=5.0, change="jump"),
    Setting("payload_position_m", (0.0, 0.0, 0.0), -1.0, at_most=1.0, change="jump"),  # body frame
    Setting("rotor_scale", (1.0,) * 4, None, above=0.0, at_most=2.0),  # thrust and torque
    # 0: the gains of the vehicle's firmware; 1: those of the profile's slow loop
    Setting("rate_loop_slowness", at_most=1.0, change="never"),
    Setting("gyro_noise_radps", at_most=1.0),  # what the rate loop senses, times noise_scale
    Setting("gyro_delay_ms", at_most=10.0),
)
_users: dict[str, Setting] = {}


def shipped_keys() -> dict[str, Setting]:
    """Keys of the vehicle and of the shipped plugins, as they are listed."""
    from lafr_mjx.plant.plugins import shipped  # not before it is needed: it loads JAX

    plugins = (setting for kind in shipped() for setting in kind.scenario_keys)
    return {setting.key: setting for setting in (*_VEHICLE, *plugins)}


def keys() -> dict[str, Setting]:
    """All keys that are known in this process: also those of the user's plugins."""
    return {**shipped_keys(), **_users}


def declare(owner: str, settings: Iterable[Setting]) -> None:
    """Make the keys of a user's plugin known."""
    for setting in settings:
        if setting.key in shipped_keys():
            raise InputError(f"plugin {owner}: the scenario key '{setting.key}' is taken already")
        _users[setting.key] = setting


class Settings(SimpleNamespace):
    """Values of all keys. The defaults are a still world with an ideal vehicle.

    A key of a user's plugin is an entry only where it was set, so that what was flown without
    the plugin reads the same whether it is known or not.
    """

    def __init__(self, **values: Any) -> None:
        unknown = values.keys() - keys().keys()
        if unknown:
            raise TypeError(f"no settings of a scenario: {', '.join(sorted(unknown))}")
        usual = {key: s.default for key, s in shipped_keys().items() if not s.draws}
        super().__init__(**{**usual, **values})

    def __getattr__(self, key: str) -> Any:
        if key not in _users:
            raise AttributeError(f"no setting of a scenario: {key}")
        return _users[key].default

    def __setattr__(self, key: str, value: Any) -> None:
        raise AttributeError(f"{key}: settings are frozen; use replace()")

    def replace(self, **values: Any) -> Settings:
        """The same with some values replaced."""
        return Settings(**{**vars(self), **values})
