"""What whole adaptations on many random plants say: how often something goes wrong, and where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lafr_mjx.ablation.summary import Rate
from lafr_mjx.metrics import assisted, missed_gates
from lafr_mjx.output import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lafr_mjx.ablation.table import RunResult
    from lafr_mjx.view.page import Page

UNTRAINED = 2
"""Flights of a run that are the untrained policy's, and the first after learning."""

LAST = 3
"""Flights at the end of a run that say where it ends."""

_WORST = 10


class Certificate(NamedTuple):
    """What was found for one method on one task; rates are of runs, each on its own plant."""

    task: str
    scenario: str
    method: str
    crashed: Rate  # at least one flight
    beyond: Rate  # at least one flight after the first two, see `is_beyond`
    assisted: Rate  # at least one of the last three flights, by the guard
    flights: int
    last_lap_s: tuple[float, float, float]  # quantiles 5, 50, 95 %
    lap_spread: tuple[float, float]  # of the last three laps, share of their mean: 50, 95 %
    surprise: tuple[float, float]  # flown over predicted peak error: 50, 95 %
    worst: list[RunResult]  # worst first

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        worst = [{"name": run.name, "command": run.command} for run in self.worst]
        rates = {key: getattr(self, key)._asdict() for key in ("crashed", "beyond", "assisted")}
        return self._asdict() | rates | {"worst": worst}


def is_beyond(record: Mapping[str, Any], threshold: float) -> bool:
    """Whether a flight left what the task allows: its path by more than E_th, or a gate.

    One that crashed, or that the guard had to help, counts as one that did.
    """
    if record.get("crashed") or assisted(record):
        return True
    if record.get("gates_due") is not None:
        return missed_gates(record)
    return not float(record.get("peak_path_distance_m") or np.inf) <= threshold


def certificates(
    results: Sequence[RunResult], thresholds: Mapping[str, float]
) -> list[Certificate]:
    """One for each method on each task, in the order in which they first appear.

    Args:
        results: finished runs.
        thresholds: E_th [m] of each task.
    """
    groups: dict[tuple[str, str, str], list[RunResult]] = {}
    for run in results:
        groups.setdefault((run.task, run.scenario, run.method), []).append(run)
    return [_of(key, runs, thresholds[key[0]]) for key, runs in groups.items()]


def _of(key: tuple[str, str, str], runs: list[RunResult], threshold: float) -> Certificate:
    ends = [run.iterations[-LAST:] for run in runs]
    records = [record for run in runs for record in run.iterations]
    laps = [[_number(record, "lap_time_s") for record in end] for end in ends]
    spreads = [_spread(lap) for lap in laps]
    ratios = [
        np.inf if assisted(record) else _number(record, "peak_error_m") / predicted
        for record in records if (predicted := record.get("predicted_peak_error_m"))
    ] or [np.inf]  # fmt: skip
    return Certificate(
        *key,
        crashed=Rate.at([any(record["crashed"] for record in run.iterations) for run in runs]),
        beyond=Rate.at([
            any(is_beyond(record, threshold) for record in run.iterations[UNTRAINED:])
            for run in runs
        ]),
        assisted=Rate.at([any(map(assisted, end)) for end in ends]),
        flights=len(records),
        last_lap_s=_quantiles([lap[-1] for lap in laps], 0.05, 0.5, 0.95),
        lap_spread=_quantiles(spreads, 0.5, 0.95),
        surprise=_quantiles(ratios, 0.5, 0.95),
        worst=sorted(runs, key=lambda run: _badness(run, threshold), reverse=True)[:_WORST],
    )  # fmt: skip


def table_rows(found: Sequence[Certificate]) -> tuple[list[str], list[list[str]]]:
    """Columns and rows."""
    columns = ["task", "method", "plants that crashed", "left path or gate", "assisted at the end",
               "last lap s", "spread of 3 laps", "flown / predicted"]  # fmt: skip
    rows = []
    for one in found:
        low, middle, high = one.last_lap_s
        rows.append([
            one.task, one.method, str(one.crashed), str(one.beyond), str(one.assisted),
            f"{middle:.2f} ({low:.2f} to {high:.2f})",
            "{:.1%}, 95 %: {:.1%}".format(*one.lap_spread),
            "{:.2f}, 95 %: {:.2f}".format(*one.surprise),
        ])  # fmt: skip
    return columns, rows


def page_of(found: Sequence[Certificate], command: str, version: str) -> Page:
    """The certificate as a page."""
    from lafr_mjx.view.page import Listing, Page, Paragraph, Section, Table

    columns, rows = table_rows(found)
    flights = counted(sum(one.flights for one in found), "flight")
    words = (
        "Each plant is drawn at random from its scenario; on each a whole adaptation is flown from "
        "the untrained policy on. Rates are of runs, with exact (Clopper-Pearson) 95 % intervals. "
        "**Left path or gate**: in at least one flight after the first two the vehicle was "
        "further from the task's path than its threshold, missed a gate, crashed, or had help "
        "of the guard. **Assisted at the end**: by the guard, in one of the last three flights. "
        "Laps: median (5 % to 95 %)."
    )
    listings = [Listing(f"Worst plants of {one.method} on {one.task}, with their commands",
                        "\n".join(run.command for run in one.worst)) for one in found]  # fmt: skip
    table = Table(columns, rows, text_columns=2)
    section = Section("What was found", [Paragraph(words), table, *listings])
    lead = f"{flights} in simulation. Made by `{command}`, version {version}."
    return Page("Certificate over random plants", lead, [section], foot="Made by lafr-mjx certify.")


def _badness(run: RunResult, threshold: float) -> tuple[int, int, float]:
    crashes = sum(bool(record["crashed"]) for record in run.iterations)
    beyond = sum(is_beyond(record, threshold) for record in run.iterations[UNTRAINED:])
    return crashes, beyond, _number(run.iterations[-1], "lap_time_s")


def _spread(laps: list[float]) -> float:
    return (max(laps) - min(laps)) * len(laps) / sum(laps) if np.isfinite(max(laps)) else np.inf


def _number(record: Mapping[str, Any], key: str) -> float:
    value = record.get(key)
    return np.inf if value is None or record.get("crashed") else float(value)


def _quantiles(values: Sequence[float], *shares: float) -> tuple[Any, ...]:
    # Not interpolated: between a number and infinity lies nothing.
    return tuple(float(x) for x in np.quantile(values, shares, method="higher"))
