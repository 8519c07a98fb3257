"""Swept parameters of an ablation: settings of a scenario, by name and unit."""

from __future__ import annotations

import itertools
import math
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lafr_mjx.errors import InputError
from lafr_mjx.plant.scenario import Scenario, load_scenario
from lafr_mjx.plant.settings import keys
from lafr_mjx.runs.toml_text import toml_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_WIND_ALONG = (0.8, 0.6, 0.0)
"""Where the wind blows to if the scenario itself has none; as in `wind5`."""

_SHORT = {"delay_ms": "command_delay_ms"}
_VECTORS = {"rotor_scale": "all four alike", "wind_speed_mps": "along the scenario's own wind"}

Point = tuple[tuple[str, float], ...]
"""One value of each swept parameter, in the order in which they were given."""


def sweepable() -> list[str]:
    """Names that can be swept."""
    single = [key for key, setting in keys().items() if setting.single]
    return sorted([*single, *_SHORT, *_VECTORS])


class Sweep(NamedTuple):
    """One swept parameter."""

    name: str
    values: tuple[float, ...]

    @staticmethod
    def parse(text: str) -> Sweep:
        """From `name=value,value,...`."""
        name, equals, rest = text.partition("=")
        name = name.strip()
        if not equals:
            raise InputError(f"--sweep {text}: must be NAME=VALUE,VALUE,...")
        if name not in sweepable():
            raise InputError(
                f"--sweep {text}: '{name}' cannot be swept; it must be one of "
                f"{', '.join(sweepable())}"
            )
        if not rest.strip():
            raise InputError(f"--sweep {text}: has no values; give NAME=VALUE,VALUE,...")
        words = [word.strip() for word in rest.split(",")]
        if not all(words):
            raise InputError(f"--sweep {text}: a value between or beside the commas is missing")
        try:
            values = tuple(float(word) for word in words)
        except ValueError as error:
            raise InputError(f"--sweep {text}: the values must be numbers") from error
        if not all(math.isfinite(value) for value in values):
            raise InputError(f"--sweep {text}: the values must be finite")
        if len(set(values)) < len(values):
            raise InputError(f"--sweep {text}: a value is given twice")
        return Sweep(name, values)


def points(sweeps: Sequence[Sweep]) -> Iterator[Point]:
    """Every combination of values; one empty point if nothing is swept."""
    names = [_SHORT.get(sweep.name, sweep.name) for sweep in sweeps]
    if len(set(names)) < len(names):
        raise InputError(f"--sweep: {', '.join(s.name for s in sweeps)}: one is given twice")
    for values in itertools.product(*(sweep.values for sweep in sweeps)):
        yield tuple((sweep.name, value) for sweep, value in zip(sweeps, values, strict=True))


def text_of(point: Point) -> str:
    """For names and tables: `delay_ms=20`."""
    return " ".join(f"{name}={value:g}" for name, value in point)


class SweptScenario(NamedTuple):
    """A scenario at one point of the sweep."""

    scenario: Scenario
    file: str  # name of the scenario file that says the same; empty if nothing was swept
    text: str


def at(base: str, point: Point) -> SweptScenario:
    """The scenario with the swept values in place.

    It is written as a scenario file on top of the one that was named and read back, so that
    `lafr-mjx adapt --scenario FILE` flies exactly this, and values are checked as in any file.
    """
    scenario = load_scenario(base)
    if not point:
        return SweptScenario(scenario, "", "")
    plain: dict[str, Any] = {}
    drawn: dict[str, Any] = {}
    for name, value in point:
        key = _SHORT.get(name, name)
        if key in scenario.ranges:
            # A range without width: all else is drawn as it would be without the sweep.
            drawn[key] = [value, value]
        elif key == "wind_speed_mps":
            plain["wind_mps"] = _wind(scenario, value)
        else:
            plain[key] = [value] * 4 if key == "rotor_scale" else value
    what = text_of(point)
    table = {"base": base, "description": f"{scenario.name} with {what}", **plain}
    text = toml_text(table | ({"randomise": drawn} if drawn else {}))
    file = f"{scenario.name}-{what.replace(' ', '-')}.toml"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / file
        path.write_text(text, encoding="utf-8")
        try:
            return SweptScenario(load_scenario(str(path)), file, text)
        except InputError as error:
            raise InputError(f"--sweep {what}: {str(error).removeprefix(f'{path}: ')}") from error


def _wind(scenario: Scenario, speed: float) -> list[float]:
    wind = np.asarray(scenario.settings.wind_mps, float)
    strength = float(np.linalg.norm(wind))
    along = wind / strength if strength > 0.0 else np.asarray(_WIND_ALONG)
    return [float(x) for x in speed * along]
