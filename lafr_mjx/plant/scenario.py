"""Scenarios: under which conditions a vehicle flies. One TOML file each, in `tasks/scenarios`.

A scenario is a set of numbers (`settings.py`), changes of them from a flight or moment on, and
possibly ranges from which a batch of plants is drawn. `base` names a scenario to start from.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from lafr_mjx.errors import InputError
from lafr_mjx.plant.settings import Settings, keys
from lafr_mjx.resources import find_toml
from lafr_mjx.toml_table import Table, read_toml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

FOLDER = "tasks/scenarios"
_MAX_DEPTH = 5


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
    note: str = ""  # what its author may not have meant

    @property
    def randomised(self) -> bool:
        """Whether plants are drawn from ranges."""
        return bool(self.ranges)

    def with_settings(self, **values: Any) -> Scenario:
        """The same scenario with some settings replaced (not those that are changed later)."""
        return dataclasses.replace(self, settings=self.settings.replace(**values))

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
            setting = keys()[key]
            values[setting.draws or key] = setting.drawn(rng, low, high)
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
            changed = after.replace(**change.values)
            at_once = change.time_s == 0.0 and change.over_s == 0.0
            if change.flight < flight or at_once:
                before = after = changed
            else:
                after, start, over = changed, change.time_s, change.over_s
        return before, after, start, over


def load_scenario(name_or_path: str) -> Scenario:
    """Load a shipped scenario by name (`wind5`) or a user's file by path.

    Examples:
        >>> import lafr_mjx as lm
        >>> lm.load_scenario("wind5").settings.wind_mps
    """
    path = find_toml(FOLDER, name_or_path, "scenario")
    return _read(path, depth=0)


def tell_notes(scenarios: Iterable[Scenario], say: Callable[[str], Any]) -> None:
    """Say what the authors of these scenarios may not have meant, each thing once."""
    for note in dict.fromkeys(scenario.note for scenario in scenarios if scenario.note):
        say(note)


def _read(path: Path, depth: int) -> Scenario:
    table = read_toml(path)
    description = table.string("description", "")
    base_name = table.string("base", "")
    if base_name:
        if depth >= _MAX_DEPTH:
            raise table.fail("base", f"a chain of at most {_MAX_DEPTH} scenarios (a circle?)")
        base = _read(_base_path(table, base_name), depth + 1)
    else:
        ideal = f"{path} has no 'base': what it does not set is ideal, as in 'still'"
        base = Scenario("still", "", Settings(), note="" if path.stem == "still" else ideal)
    settings = base.settings.replace(**_read_values(table))
    changes = tuple(_read_change(t) for t in table.tables("change")) or base.changes
    ranges = {**base.ranges, **_read_ranges(table.table("randomise"))}
    table.finish()
    _check_changes(path, changes)
    # The most that can come about: by draws, and by changes on top of each other.
    most = {key: high for key, (_, high) in ranges.items() if keys()[key].single}
    candidate = settings.replace(**most)
    _check_together(path, candidate)
    for change in sorted(changes, key=_order):
        candidate = candidate.replace(**change.values)
        _check_together(path, candidate)
    return Scenario(path.stem, description, settings, changes, ranges, base.note)


def _base_path(table: Table, name: str) -> Path:
    beside = table.path.parent / name
    if name.endswith(".toml") and beside.is_file():
        return beside
    return find_toml(FOLDER, name, "scenario")


def _read_values(table: Table) -> dict[str, Any]:
    known = {key: setting for key, setting in keys().items() if not setting.draws}
    table.known(*known)
    return {key: setting.read(table) for key, setting in known.items() if key in table}


def _read_change(table: Table) -> Change:
    flight = table.integer("flight", at_most=100_000)
    time_s = table.number("time_s", 0.0, at_least=0.0, at_most=1000.0)
    over_s = table.number("over_s", 0.0, at_least=0.0, at_most=1000.0)
    values = _read_values(table)
    table.finish()  # a misspelt key is named before its absence is
    if not values:
        where = table.prefix.rstrip(".")
        names = ", ".join(key for key, setting in keys().items() if not setting.draws)
        raise InputError(f"{table.path}: '{where}' changes nothing; set one of {names}")
    for key in values:
        if keys()[key].change == "never":
            raise table.fail(key, "set at the start; it cannot change in a run")
    sudden = sorted(key for key in values if keys()[key].change == "jump")
    if over_s > 0.0 and sudden:
        raise table.fail("over_s", f"0 for a change of {', '.join(sudden)}, which can only jump")
    return Change(flight, time_s, over_s, values)


def _read_ranges(table: Table) -> dict[str, tuple[float, float]]:
    ranges: dict[str, tuple[float, float]] = {}
    table.known(*keys())
    for key, setting in keys().items():
        if key in table:
            low, high = setting.read(table, size=2)
            if low > high:
                raise table.fail(key, "[low, high] with low <= high")
            ranges[key] = (low, high)
    return ranges


def _check_changes(path: Path, changes: tuple[Change, ...]) -> None:
    gradual = [c.flight for c in changes if c.time_s > 0.0 or c.over_s > 0.0]
    double = {flight for flight in gradual if gradual.count(flight) > 1}
    if double:
        raise InputError(
            f"{path}: 'change' has more than one change during flight {min(double)}; one flight "
            f"can have one (put its settings together), others must be jumps at time_s = 0"
        )


def _check_together(path: Path, settings: Settings) -> None:
    for setting in keys().values():
        problem = setting.check(settings) if setting.check else ""
        if problem:
            raise InputError(f"{path}: {problem}")
