"""What a user sees of an adaptation: a table that grows, a summary, plots."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from lafr_mjx.metrics import assisted, event_in, missed_gates
from lafr_mjx.output import counted
from lafr_mjx.plant.scenario import tell_notes
from lafr_mjx.run_spec import ENGINES, RunSpec

if TYPE_CHECKING:
    from lafr_mjx.adaptation.adaptation_job import AdaptationJob
    from lafr_mjx.runs.run_folder import RunFolder

_COLUMNS = {
    "it": ("", 2), "flown": ("s", 5), "scale": ("", 5), "lap": ("s", 5), "speed": ("m/s", 5),
    "RMSE": ("m", 5), "peak": ("m", 5), "pred.": ("m", 5), "path": ("m", 5), "rates": ("sat.", 5),
    "gates": ("", 5), "clear": ("m", 6), "bound by": ("", -12), "took": ("s", 5), "event": ("", -5),
}  # fmt: skip
"""Units and widths, to the left if negative."""

# Peak speed at the start and the end [m/s], and the last lap [s], that the paper reports.
PRINTED = {
    ("figure8", "nominal"): (2.2, 7.2, 2.60),
    ("figure8", "wind5"): (2.6, 6.8, None),
    ("shuttle", "nominal"): (2.0, 7.3, 2.30),
}


_STAGES = {
    "fly": "flying",
    "calibrate": "fitting the residuals",
    "plan": "planning the reference",
    "improve": "training the policy",
    "accelerate": "verifying time scales",
}


_TROUBLE = {
    "plan_refused": "--reference {spec.reference}: its plan after flight {iteration} is not flown: "
    "{plan_refused}; the last reference stays",
    "steps_not_taken": "--cost {spec.cost}: it or its slope is not finite; {steps_not_taken} steps "
    "of training after flight {iteration} are not taken",
}
"""Said once in a run."""


class Report:
    """Who is told about the progress; this one does not care."""

    def ready(self, text: str) -> None:
        """What flies first is there; says where it comes from."""

    def before(self, iteration: int) -> None:
        """An iteration begins."""

    def stage(self, name: str) -> None:
        """A part of the iteration begins: fly, calibrate, plan, improve, accelerate."""

    def after(self, record: dict[str, Any]) -> None:
        """An iteration is done and stored."""

    def say(self, text: str) -> None:
        """A line about what went wrong without harm."""


class AdaptationReport(Report):
    """Prints while a run goes on; writes the summary and the plots at its end."""

    def __init__(self, folder: RunFolder, job: AdaptationJob) -> None:
        self.folder, self.job = folder, job
        self.console = Console(highlight=False)
        spec = job.spec
        count, done = spec.iterations, len(folder.iterations())
        longest = job.task.flight_s(job.task.start_time_scale)
        flights = counted(count, "flight")
        # A scenario is of our own plants; another knows nothing of it.
        where = f" in {job.scenario.name}" if spec.engine in (*ENGINES, "hil") else ""
        if where:
            tell_notes([job.scenario], self.say)
        self.console.print(
            f"Adapting on {job.task.name}{where} ({spec.method}, seed "
            f"{spec.seed}, engine {spec.engine}): {flights} of 8 to {longest:.0f} s, "
            f"learning after each.\nResults: {folder.path}",
            soft_wrap=True,
        )
        if done >= count:
            self.console.print("This run is finished already.")
        else:
            first = "First a base policy is trained (half a minute, then kept), and p"
            trained = not done and spec.method != "geometric" and not spec.policy.endswith(".npz")
            self.console.print(
                f"{first if trained else 'P'}rograms are compiled (about a minute); a flight with "
                f"its learning then takes a few seconds."
            )
        self.flown_s = 0.0
        self._status: Any = None
        self._told: set[str] = set()

    def ready(self, text: str) -> None:
        """What flies first is there."""
        self.console.print(f"{text}\n")
        self._line(list(_COLUMNS), "bold")
        self._line([unit for unit, _ in _COLUMNS.values()], "dim")
        for record in self.folder.iterations():
            self._row(record)

    def before(self, iteration: int) -> None:
        """An iteration begins."""
        total = self.job.spec.iterations
        self._status = Progress(
            TextColumn(f"flight {iteration + 1} of {total}"),
            BarColumn(bar_width=24),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,  # a file would fill with empty lines
        )
        self._status.add_task("", total=len(_STAGES))
        self._status.start()

    def stage(self, name: str) -> None:
        """A part of the iteration begins."""
        if self._status is not None:
            done = list(_STAGES).index(name)
            self._status.update(self._status.task_ids[0], completed=done, description=_STAGES[name])

    def after(self, record: dict[str, Any]) -> None:
        """An iteration is done and stored."""
        self.stop()
        self._row(record)
        for key, text in _TROUBLE.items():
            if record[key] and key not in self._told:
                self._told.add(key)
                words = text.format(spec=self.job.spec, **record)
                self.say(f"{words} ('{key}' in iterations.jsonl).")

    def say(self, text: str) -> None:
        """A line beside the table."""
        self.console.print(text, soft_wrap=True)

    def stop(self) -> None:
        """Take the moving line off the terminal."""
        if self._status is not None:
            self._status.stop()
            self._status = None

    def _row(self, record: dict[str, Any]) -> None:
        self.flown_s += record["flight_time_s"]
        lap, clearance = record["lap_time_s"], record.get("gate_clearance_m")
        predicted = record["predicted_peak_error_m"]
        known = predicted is not None and predicted == predicted
        self._line([
            str(record["iteration"]), f"{self.flown_s:.1f}", f"{record['time_scale']:.3f}",
            "-" if lap is None else f"{lap:.2f}", f"{record['peak_speed_mps']:.2f}",
            f"{record['rmse_m']:.3f}", f"{record['peak_error_m']:.3f}",
            f"{predicted:.3f}" if known else "-", f"{record['peak_path_distance_m']:.3f}",
            f"{record['rate_saturation']:.0%}",
            f"{record.get('gates_passed')}/{record.get('gates_due')}",
            "-" if clearance is None else f"{clearance:.3f}", record["bound_by"],
            f"{record['wall_s']:.1f}", event_in(record),
        ])  # fmt: skip

    def _line(self, texts: list[str], style: str | None = None) -> None:
        """A row of the table; how far from the path matters where the reference leaves it."""
        gates = bool(self.job.task.gates)
        shown = {"path": self._moved, "gates": gates, "clear": gates}
        cells = [
            text.ljust(-width) if width < 0 else text.rjust(width)
            for text, (name, (_, width)) in zip(texts, _COLUMNS.items(), strict=True)
            if shown.get(name, True)
        ]
        self.console.print(" ".join(cells).rstrip(), style=style, soft_wrap=True)

    @property
    def _by_path(self) -> bool:
        """Whether flights are judged by the task's path: between gates there is more room."""
        return self._moved and not self.job.task.gates

    @property
    def _moved(self) -> bool:
        return self.job.spec.reference != RunSpec.reference

    def finish(self, wall_s: float) -> dict[str, Any]:
        """Summary beside the paper's figures, plots; returns the summary."""
        records = self.folder.iterations()
        first, last = records[0], records[-1]
        far = "peak_path_distance_m" if self._by_path else "peak_error_m"
        summary = {
            "task": self.job.task.name,
            "scenario": self.job.scenario.name,
            "method": self.job.spec.method,
            "engine": self.job.spec.engine,
            "seed": self.job.spec.seed,
            "iterations": len(records),
            "flight_time_s": sum(r["flight_time_s"] for r in records),
            "crashes": sum(r["crashed"] for r in records),
            "flights_beyond_threshold": sum(
                not (r[far] is not None and r[far] <= self.job.task.error_threshold_m)
                for r in records
            ),
            "assisted_flights": sum(assisted(r) for r in records),
            "flights_with_missed_gates": sum(missed_gates(r) for r in records),
            "first_peak_speed_mps": first["peak_speed_mps"],
            "last_peak_speed_mps": last["peak_speed_mps"],
            "first_lap_time_s": first["lap_time_s"],
            "last_lap_time_s": last["lap_time_s"],
            "first_rmse_m": first["rmse_m"],
            "second_rmse_m": records[1]["rmse_m"] if len(records) > 1 else None,
            "last_rmse_m": last["rmse_m"],
            "last_peak_error_m": last["peak_error_m"],
            "last_peak_path_distance_m": last["peak_path_distance_m"],
            "last_time_scale": last["time_scale"],
            "wall_s": wall_s,
        }
        self.folder.write_summary(summary)
        self._print_summary(summary)
        self._plots()
        return json.loads((self.folder.path / "summary.json").read_text(encoding="utf-8"))

    def _print_summary(self, summary: dict[str, Any]) -> None:
        paper = PRINTED.get((summary["task"], summary["scenario"]))
        lap, helped = summary["last_lap_time_s"], summary["assisted_flights"]
        missed = summary["flights_with_missed_gates"]
        self.console.print(
            f"\nPeak speed {summary['first_peak_speed_mps']:.1f} → "
            f"{summary['last_peak_speed_mps']:.1f} m/s"
            + (f" (paper {paper[0]} → {paper[1]})" if paper else "")
            + (f", last lap {lap:.2f} s" if lap else "")
            + (f" (paper {paper[2]:.2f})" if paper and paper[2] else "")
            + f", in {summary['flight_time_s']:.0f} s of flight; RMSE "
            f"{summary['first_rmse_m']:.3f} → {summary['last_rmse_m']:.3f} m; "
            f"{summary['crashes']} crash{'' if summary['crashes'] == 1 else 'es'}, "
            f"{summary['flights_beyond_threshold']} of {counted(summary['iterations'], 'flight')} "
            f"beyond {self.job.task.error_threshold_m:g} m{' of the path' if self._by_path else ''}"
            + (f", {helped} assisted by the guard" if helped else "")
            + (f", {missed} missed a gate." if missed else "."),
            soft_wrap=True,
        )

    def _plots(self) -> None:
        from lafr_mjx.view.plots import make_plots

        task = self.job.task
        busy = self.console.is_terminal  # in a notebook it would ask for ipywidgets
        with self.console.status("drawing plots ...") if busy else contextlib.nullcontext():
            made = make_plots(self.folder, task, float(self.job.vehicle.limits.high[1]))
        self.console.print(f"{len(made)} plots in {self.folder.path / 'plots'}", soft_wrap=True)
