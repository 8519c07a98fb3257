"""What an ablation says: figures of each group of runs, with their spread over seeds or plants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lafr_mjx.ablation.sweep import text_of
from lafr_mjx.metrics import assisted, missed_gates
from lafr_mjx.output import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lafr_mjx.ablation.table import RunResult

_QUANTILES = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)
_WORST = 5


class Spread(NamedTuple):
    """Mean and standard deviation of what is there; `n` runs have the figure."""

    mean: float | None
    deviation: float | None  # of the sample; None for fewer than two
    n: int

    @staticmethod
    def of(values: Sequence[float | None]) -> Spread:
        """Of the values that are numbers."""
        there = np.array([value for value in values if value is not None], float)
        if len(there) == 0:
            return Spread(None, None, 0)
        deviation = float(there.std(ddof=1)) if len(there) > 1 else None
        return Spread(float(there.mean()), deviation, len(there))

    def text(self, digits: int, runs: int) -> str:
        """E.g. `2.41 ± 0.03`; says how many if not all runs have the figure."""
        if self.mean is None:
            return "-"
        spread = "" if self.deviation is None else f" ± {self.deviation:.{digits}f}"
        few = f" ({self.n} of {runs})" if self.n < runs else ""
        return f"{self.mean:.{digits}f}{spread}{few}"


class Rate(NamedTuple):
    """How many of so many, with the exact (Clopper-Pearson) 95 % interval."""

    count: int
    of: int
    low: float
    high: float

    @staticmethod
    def at(found: Sequence[bool]) -> Rate:
        """Of yes and no."""
        from scipy.stats import binomtest

        count = sum(map(bool, found))
        interval = binomtest(count, len(found)).proportion_ci(0.95, method="exact")
        return Rate(count, len(found), float(interval.low), float(interval.high))

    def __str__(self) -> str:
        """E.g. `0 of 64 (0 to 5.6 %)`."""
        return f"{self.count} of {self.of} ({100 * self.low:.2g} to {100 * self.high:.2g} %)"


class Group(NamedTuple):
    """Runs that differ in nothing but seed and plant."""

    task: str
    scenario: str
    sweep: str
    method: str
    runs: int
    plants: int  # different ones among the runs
    final_lap_s: Spread
    final_peak_speed_mps: Spread
    rmse_after_first_update_m: Spread
    crashed_flights: int
    assisted_flights: int  # by the guard
    flights_with_missed_gates: int | None  # None if the task has no gates
    flights: int
    crashed_runs: Rate
    lap_quantiles_s: dict[str, float]
    no_lap: int  # runs whose last flight has no lap
    worst: list[RunResult]  # worst first

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        figures: dict[str, Any] = {}
        for key, value in self._asdict().items():
            if isinstance(value, Spread):
                figures[key], figures[f"{key}_sd"] = value.mean, value.deviation
                figures[f"{key}_n"] = value.n
            elif isinstance(value, Rate):
                figures[key], figures["crash_rate_interval"] = value.count, value[2:]
            elif key == "worst":
                figures[key] = [{"name": run.name, "command": run.command} for run in value]
            else:
                figures[key] = value
        return figures


def groups_of(results: Sequence[RunResult]) -> list[Group]:
    """In the order in which they first appear."""
    parts: dict[tuple[str, str, str, str], list[RunResult]] = {}
    for run in results:
        key = (run.task, run.scenario, text_of(tuple(run.sweep.items())), run.method)
        parts.setdefault(key, []).append(run)
    return [_group(key, runs) for key, runs in parts.items()]


def _group(key: tuple[str, str, str, str], runs: list[RunResult]) -> Group:
    laps = [final_lap(run) for run in runs]
    flights = [record for run in runs for record in run.iterations]
    known = [lap for lap in laps if lap is not None]
    quantiles = np.quantile(known, _QUANTILES) if known else []
    return Group(
        *key,
        runs=len(runs),
        plants=len({run.plant for run in runs}),
        final_lap_s=Spread.of(laps),
        final_peak_speed_mps=Spread.of([run.iterations[-1]["peak_speed_mps"] for run in runs]),
        rmse_after_first_update_m=Spread.of(
            [run.iterations[1]["rmse_m"] if len(run.iterations) > 1 else None for run in runs]
        ),
        crashed_flights=sum(bool(record["crashed"]) for record in flights),
        assisted_flights=sum(assisted(record) for record in flights),
        flights_with_missed_gates=(
            sum(missed_gates(record) for record in flights)
            if any(record.get("gates_due") is not None for record in flights)
            else None
        ),
        flights=len(flights),
        crashed_runs=Rate.at([crashes(run) > 0 for run in runs]),
        lap_quantiles_s={
            f"{share:.0%}": float(x) for share, x in zip(_QUANTILES, quantiles, strict=bool(known))
        },
        no_lap=len(laps) - len(known),
        worst=sorted(runs, key=_badness, reverse=True)[:_WORST],
    )


def _badness(run: RunResult) -> tuple[int, float]:
    lap = final_lap(run)
    return crashes(run), float("inf") if lap is None else lap


def final_lap(run: RunResult) -> float | None:
    """Lap of the last flight."""
    last = run.iterations[-1]
    return None if last["crashed"] else last["lap_time_s"]


def crashes(run: RunResult) -> int:
    """Flights that crashed."""
    return sum(bool(record["crashed"]) for record in run.iterations)


def table_rows(groups: Sequence[Group]) -> tuple[list[str], list[list[str]], int]:
    """Columns, rows, and how many of the columns are text."""
    swept = any(group.sweep for group in groups)
    columns = ["task", "scenario", *(["sweep"] if swept else []), "method", "runs", "last lap s",
               "last peak m/s", "RMSE m, flight 1", "crashed flights", "assisted"]  # fmt: skip
    gates = any(group.flights_with_missed_gates is not None for group in groups)
    columns += ["missed a gate"] if gates else []
    rows = []
    for group in groups:
        words = [group.task, group.scenario, *([group.sweep] if swept else []), group.method]
        rows.append(
            [
                *words,
                str(group.runs),
                group.final_lap_s.text(2, group.runs),
                group.final_peak_speed_mps.text(2, group.runs),
                group.rmse_after_first_update_m.text(3, group.runs),
                f"{group.crashed_flights} of {group.flights}",
                str(group.assisted_flights),
                *([_missed(group)] if gates else []),
            ]
        )
    return columns, rows, 4 if swept else 3


def _missed(group: Group) -> str:
    missed = group.flights_with_missed_gates
    return "-" if missed is None else f"{missed} of {group.flights}"


def lines_about_plants(group: Group) -> list[str]:
    """What many random plants say about a method: crash rate, laps, the worst of them."""
    where = " ".join(word for word in (group.scenario, group.sweep) if word)
    lines = [
        f"{group.method} on {group.task}, {counted(group.runs, 'plant')} of {where}: "
        f"{group.crashed_runs.count} crashed at least once, "
        f"{group.crashed_runs.count / group.runs:.1%} (95 % interval "
        f"{group.crashed_runs.low:.1%} to {group.crashed_runs.high:.1%})"
    ]
    if group.lap_quantiles_s:
        laps = ", ".join(f"{share} {lap:.2f}" for share, lap in group.lap_quantiles_s.items())
        lines.append(f"quantiles of the last lap [s]: {laps}")
    if group.no_lap:
        lines.append(f"{group.no_lap} without a last lap")
    lines.append("worst first:")
    for run in group.worst:
        lap = final_lap(run)
        figure = "no lap" if lap is None else f"lap {lap:.2f} s"
        lines.append(f"  plant {run.plant}: {counted(crashes(run), 'crashed flight')}, {figure}")
        lines.append(f"    {run.command}")
    return lines
