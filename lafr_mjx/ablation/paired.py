"""Is it luck? Runs beside runs that share seed, plant and world, pair by pair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lafr_mjx.ablation.summary import crashes, final_lap
from lafr_mjx.ablation.sweep import text_of
from lafr_mjx.errors import InputError
from lafr_mjx.metrics import assisted
from lafr_mjx.run_spec import option_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from numpy.typing import ArrayLike

    from lafr_mjx.ablation.table import RunResult

    Pair = tuple[RunResult, RunResult]

LEAST = 3
"""Pairs that an interval is given for."""


class Change(NamedTuple):
    """Mean relative change, with the 95 % interval of the mean (Student's t, of logarithms)."""

    mean: float
    low: float
    high: float

    @staticmethod
    def of(values: ArrayLike, before: ArrayLike) -> Change | None:
        """From what was before to what is; None for too few."""
        from scipy.stats import t

        logs = np.log(np.asarray(values, float) / np.asarray(before, float))
        if len(logs) < LEAST:
            return None
        half = t.ppf(0.975, len(logs) - 1) * logs.std(ddof=1) / np.sqrt(len(logs))
        ends = np.expm1([logs.mean(), logs.mean() - half, logs.mean() + half])
        return Change(*map(float, ends))

    def __str__(self) -> str:
        """E.g. `-8.1 % (-9.0 to -7.2)`."""
        return f"{100 * self.mean:+.1f} % ({100 * self.low:+.1f} to {100 * self.high:+.1f})"


class Paired(NamedTuple):
    """One side against the other; figures are of the pairs in which both have a last lap."""

    task: str
    scenario: str
    sweep: str
    one: str
    other: str
    pairs: int
    laps: int  # pairs in which both have a last lap
    last_lap_s: tuple[float, float]  # means
    change: Change | None  # of the last lap
    crashed_flights: tuple[int, int]
    assisted_flights: tuple[int, int]

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return self._asdict() | {"change": self.change and self.change._asdict()}


def by_method(results: Sequence[RunResult]) -> list[Paired]:
    """Each method against the first one, where they share worlds and seeds."""
    found = []
    for place, runs in _parted(results, lambda run: (run.task, run.scenario, _swept(run))).items():
        first, *others = _parted(runs, lambda run: run.method).items()
        for method, those in others:
            both = _matched(those, first[1], lambda run: (run.seed, run.plant))
            found += [_paired(place, method, first[0], both)] if both else []
    return found


def against(
    results: Sequence[RunResult],
    asked: Mapping[str, Any],
    others: Sequence[RunResult],
    asked_there: Mapping[str, Any],
) -> list[Paired]:
    """Runs against those of another ablation that was asked for something else.

    Raises:
        InputError: no run of one is like one of the other.
    """
    keys = [key for key in asked if key not in ("blocks", "seeds", "plants", "sweep")]
    told = [key for key in keys if asked[key] != asked_there.get(key)]
    names = [" ".join(f"{option_of(key)}={side.get(key)}" for key in told) or "the same"
             for side in (asked, asked_there)]  # fmt: skip
    found = []
    for place, runs in _parted(
        results, lambda run: (run.task, run.scenario, _swept(run), run.method)
    ).items():
        here = [run for run in others
                if (run.task, run.scenario, _swept(run), run.method) == place]  # fmt: skip
        both = _matched(runs, here, lambda run: (run.seed, run.plant))
        one, other = (f"{place[3]} {name}" for name in names)
        found += [_paired(place[:3], one, other, both)] if both else []
    if not found:
        raise InputError(
            "--against: no run there has task, scenario, sweep, method, seed and plant of one here"
        )
    return found


def table_rows(found: Sequence[Paired]) -> tuple[list[str], list[list[str]], int]:
    """Columns, rows, and how many of the columns are text."""
    columns = ["task", "scenario", "sweep", "runs", "against", "pairs", "last lap s",
               "change, 95 %", "crashed flights", "assisted"]  # fmt: skip
    rows = []
    for one in found:
        few = f" ({one.laps} with laps)" if one.laps < one.pairs else ""
        rows.append(
            [
                *one[:5],
                f"{one.pairs}{few}",
                "{:.2f} / {:.2f}".format(*one.last_lap_s),
                "-" if one.change is None else str(one.change),
                "{} / {}".format(*one.crashed_flights),
                "{} / {}".format(*one.assisted_flights),
            ]
        )
    if any(row[2] for row in rows):
        return columns, rows, 5
    return columns[:2] + columns[3:], [row[:2] + row[3:] for row in rows], 4


def _parted(
    runs: Sequence[RunResult], key: Callable[[RunResult], Any]
) -> dict[Any, list[RunResult]]:
    parts: dict[Any, list[RunResult]] = {}
    for run in runs:
        parts.setdefault(key(run), []).append(run)
    return parts


def _swept(run: RunResult) -> str:
    return text_of(tuple(run.sweep.items()))


def _matched(
    runs: Sequence[RunResult], others: Sequence[RunResult], key: Callable[[RunResult], Hashable]
) -> list[Pair]:
    there = {key(run): run for run in others}
    return [(run, there[key(run)]) for run in runs if key(run) in there]


def _paired(place: tuple[str, str, str], one: str, other: str, both: Sequence[Pair]) -> Paired:
    laps = [(final_lap(a), final_lap(b)) for a, b in both]
    known = np.array([pair for pair in laps if None not in pair], float).reshape((-1, 2))
    means = known.mean(axis=0) if len(known) else (np.nan, np.nan)
    sides = list(zip(*both, strict=True))
    return Paired(
        *place,
        one,
        other,
        pairs=len(both),
        laps=len(known),
        last_lap_s=(float(means[0]), float(means[1])),
        change=Change.of(known[:, 0], known[:, 1]),
        crashed_flights=_both(sides, crashes),
        assisted_flights=_both(
            sides, lambda run: sum(assisted(record) for record in run.iterations)
        ),
    )


def _both(
    sides: Sequence[Sequence[RunResult]], count: Callable[[RunResult], int]
) -> tuple[int, int]:
    one, other = (sum(map(count, side)) for side in sides)
    return one, other
