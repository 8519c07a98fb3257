"""`lafr-mjx fly`: fly a task with the classical controller and print how well it went."""

from __future__ import annotations

import functools
import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tyro.conf import Positional, UseAppendAction

from lafr_mjx.errors import InputError, RunError
from lafr_mjx.output import check_range, check_writable, print_table, write_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from lafr_mjx.metrics import FlightMetrics
    from lafr_mjx.plant.vehicle import Vehicle
    from lafr_mjx.tasks import Task

_COLUMNS = ("flight", "s", "lap s", "peak m/s", "RMSE m", "peak error m",
            "rate sat.", "thrust sat.", "crash")  # fmt: skip
_GATE_COLUMNS = ("gates", "clearance m")


@dataclass
class Fly:
    """Fly a task on the simulated drone with the geometric tracking controller.

    lafr-mjx fly figure8 --scenario wind5

    lafr-mjx fly shuttle --time-scale 0.5 --seed 3 --json figures.json

    lafr-mjx fly figure8 --scenario randomised --plants 16 --engine freebody
    """

    task: Positional[str] = "figure8"
    """Name of a shipped task, or path of a task file."""
    scenario: str | None = None
    """Name of a shipped scenario, or path of a scenario file; by default the task's own."""
    vehicle: str = "lafr192"
    """Name of a shipped vehicle, or path of a vehicle profile."""
    engine: Literal["mjx", "freebody"] = "mjx"
    """Physics: any vehicle, or the fast step for one rigid body (the same motion)."""
    time_scale: float | None = None
    """Time scale of the path; smaller is faster; by default the task's first."""
    flights: int = 1
    """Flights in a row; battery and changing scenarios go on from one to the next."""
    plants: int = 1
    """Fly that many plants of a randomised scenario as one batch."""
    seed: int = 0
    """Seed of noise, gusts and drawn plants."""
    plugins: UseAppendAction[tuple[str, ...]] = ()
    """A plugin of your own: NAME=FILE.py:CLASS(PARAMETER=VALUE, ...); may be repeated."""
    json: Path | None = None
    """Write the figures there, too."""

    def run(self) -> dict[str, Any]:
        """Fly and print a table with a row per flight (or per plant); returns the figures."""
        return self.fly(say=functools.partial(print, flush=True))

    def fly(self, say: Callable[[str], None] | None = None) -> dict[str, Any]:
        """Fly; returns the figures. `say` hears what a user may want to read meanwhile."""
        from lafr_mjx.plant import user_plugins
        from lafr_mjx.plant.scenario import load_scenario, tell_notes
        from lafr_mjx.plant.vehicle import load_vehicle
        from lafr_mjx.tasks import load_task

        check_writable(self.json)
        check_range("flights", self.flights, 1, 1000)
        check_range("plants", self.plants, 1, 65536)
        check_range("seed", self.seed, 0, 2**31 - 1)
        vehicle = load_vehicle(self.vehicle)
        task = load_task(self.task, vehicle.limits)
        own = user_plugins.build(self.plugins)  # first: a scenario may set theirs, too
        scenario = load_scenario(self.scenario or task.scenario)
        scale = task.start_time_scale if self.time_scale is None else self.time_scale
        check_range("time-scale", scale, 0.02, 50.0)
        if self.plants > 1 and self.flights > 1:
            raise InputError("--plants and --flights: only one of them can be above 1")
        if self.plants > 1 and not scenario.randomised:
            raise InputError(
                f"--plants {self.plants}: scenario '{scenario.name}' draws nothing; use "
                f"'randomised' or a scenario with a [randomise] table"
            )
        if say is not None:
            tell_notes([scenario], say)
            say(
                f"Flying {task.name} in {scenario.name} with the {vehicle.name} vehicle "
                f"(engine {self.engine}, time scale {scale:g}, seed {self.seed}) ..."
            )
        started = time.monotonic()
        from lafr_mjx.commands import classical_flights as flights

        make = flights.fly_plants if self.plants > 1 else flights.fly_in_a_row
        count = self.plants if self.plants > 1 else self.flights
        results, reasons = make(vehicle, task, scenario, self.engine, scale, count, self.seed, own)
        wall_s = time.monotonic() - started
        if say is not None:
            self._tell(task, results, reasons, wall_s)
        return self._report(task, vehicle, results, reasons, scale, wall_s)

    def _tell(
        self, task: Task, results: list[FlightMetrics], reasons: list[str], wall_s: float
    ) -> None:
        several = "plant" if self.plants > 1 else "flight"
        rows = [_row(i, m, r) for i, (m, r) in enumerate(zip(results, reasons, strict=True))]
        shown = rows if len(rows) <= 40 else rows[:40]
        columns = (several, *_COLUMNS[1:], *(_GATE_COLUMNS if task.gates else ()))
        print_table(f"{task.name}: tracking with the geometric controller", columns, shown)
        if len(rows) > len(shown):
            print(f"... and {len(rows) - len(shown)} more (all are in the --json file)")
        if self.plants > 1:
            print(f"{sum(m.crashed for m in results)} of {len(results)} plants crashed")
        figures, which = _summary(results)
        print(
            f"tracking error{which}: RMSE {figures['rmse_m']:.3f} m, "
            f"peak {figures['peak_error_m']:.3f} m; {wall_s:.1f} s in all"
        )

    def _report(
        self,
        task: Task,
        vehicle: Vehicle,
        results: list[FlightMetrics],
        reasons: list[str],
        scale: float,
        wall_s: float,
    ) -> dict[str, Any]:
        """The figures, written where they were asked for; a crash is an error."""
        several = "plants" if self.plants > 1 else "flights"
        crashes = sum(m.crashed for m in results)
        figures: dict[str, Any] = {
            "task": task.name,
            "scenario": self.scenario or task.scenario,
            "vehicle": vehicle.name,
            "engine": self.engine,
            "time_scale": scale,
            "seed": self.seed,
            **_summary(results)[0],
            "crashes": crashes,
            "wall_s": wall_s,
            several: [asdict(m) | {"end": r} for m, r in zip(results, reasons, strict=True)],
        }
        write_json(self.json, figures)
        if crashes and self.plants == 1:
            first = next(i for i, m in enumerate(results) if m.crashed)
            raise RunError(f"the vehicle crashed in flight {first} ({reasons[first]})")
        return figures


def _summary(results: list[FlightMetrics]) -> tuple[dict[str, Any], str]:
    """Figures over all flights: means, and the worst of what must not be exceeded."""
    if len(results) == 1:
        return asdict(results[0]), ""
    laps = [m.lap_time_s for m in results if m.lap_time_s is not None]

    def mean(name: str) -> float:
        return sum(getattr(m, name) for m in results) / len(results)

    figures: dict[str, Any] = {
        "flight_time_s": sum(m.flight_time_s for m in results),
        "lap_time_s": sum(laps) / len(laps) if laps else None,
        "reference_lap_s": results[0].reference_lap_s,
        "peak_speed_mps": max(m.peak_speed_mps for m in results),
        "rmse_m": math.sqrt(sum(m.rmse_m**2 for m in results) / len(results)),
        "peak_error_m": max(m.peak_error_m for m in results),
        "rate_saturation": mean("rate_saturation"),
        "thrust_saturation": mean("thrust_saturation"),
        "crashed": any(m.crashed for m in results),
    }
    if results[0].gates_due is not None:
        clearances = [m.gate_clearance_m for m in results if m.gate_clearance_m is not None]
        figures["gates_passed"] = sum(m.gates_passed or 0 for m in results)
        figures["gates_due"] = sum(m.gates_due or 0 for m in results)
        figures["gate_clearance_m"] = min(clearances, default=None)
    return figures, f" over all {len(results)}"


def _row(index: int, m: FlightMetrics, reason: str) -> tuple[str, ...]:
    lap = "-" if m.lap_time_s is None else f"{m.lap_time_s:.2f}"
    clearance = "-" if m.gate_clearance_m is None else f"{m.gate_clearance_m:.3f}"
    gates = () if m.gates_due is None else (f"{m.gates_passed}/{m.gates_due}", clearance)
    return (
        str(index), f"{m.flight_time_s:.2f}", lap, f"{m.peak_speed_mps:.2f}", f"{m.rmse_m:.3f}",
        f"{m.peak_error_m:.3f}", f"{m.rate_saturation:.0%}", f"{m.thrust_saturation:.0%}",
        reason if m.crashed else "no", *gates,
    )  # fmt: skip
