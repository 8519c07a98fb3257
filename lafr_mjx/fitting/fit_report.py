"""What a user sees of a fit: lines and tables while it works, then a folder with a report."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from lafr_mjx.errors import InputError, RunError
from lafr_mjx.fitting.fit_job import HORIZONS, QUANTITIES
from lafr_mjx.fitting.fit_tables import (
    ERROR_HEADS,
    NAMES,
    error_table,
    estimate_rows,
    rate_rows,
)
from lafr_mjx.output import print_table, write_json
from lafr_mjx.runs.run_files import write_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lafr_mjx.fitting.fit_job import Result, Split
    from lafr_mjx.logs.flight_log import FlightLog
    from lafr_mjx.model.selection import Choice
    from lafr_mjx.plant.vehicle import Vehicle


class Console:
    """Prints as the work goes on, and keeps what it said for the report."""

    def __init__(self) -> None:
        from rich.console import Console as RichConsole

        self._out = RichConsole(highlight=False)
        self.said: list[str] = []

    @contextlib.contextmanager
    def busy(self, text: str) -> Iterator[None]:
        """A moving line while something takes a moment."""
        with self._out.status(text):
            yield

    @contextlib.contextmanager
    def progress(self, text: str, total: int) -> Iterator[Callable[[], None]]:
        """A bar; the context gives a function that moves it by one."""
        from rich.progress import Progress

        with Progress(console=self._out, transient=True) as bar:
            task = bar.add_task(text, total=total)
            yield lambda: bar.advance(task)

    def note(self, text: str) -> None:
        """Something worth knowing."""
        self.said.append(text)
        self._out.print(text, soft_wrap=True, markup=False)

    def warn(self, text: str) -> None:
        """Something that looks wrong."""
        self.said.append(f"Looks wrong: {text}")
        self._out.print("[bold]Looks wrong:[/bold]", end=" ")
        self._out.print(text, soft_wrap=True, markup=False)

    def log(self, log: FlightLog) -> None:
        """What was read."""
        kind = "commanded" if log.commanded else "measured"
        gaps = log.gaps()
        text = f"{log.raw.path}: {log.time[-1]:.1f} s, {log.seconds:.1f} s usable, {kind} rates"
        if gaps:
            first = ", ".join(f"{a:.2f} to {b:.2f} s" for a, b in gaps[:3])
            more = ", ..." if len(gaps) > 3 else ""
            text += f", {len(gaps)} gap{'s' if len(gaps) > 1 else ''} ({first}{more})"
        self.note(text)
        for note in log.notes:
            self.note(f"  {note}")

    def choice(self, choice: Choice) -> None:
        """What cross-validation chose."""
        count = len(choice.scores)
        self.note(
            f"Chosen among {count} candidates by cross-validation inside the training part: "
            f"rates '{choice.rates.name}' (ridge {choice.rates.ridge:g}), acceleration "
            f"'{choice.acceleration.name}' (ridge {choice.acceleration.ridge:g}), "
            f"{'with' if choice.network else 'without'} a network on top"
        )

    def errors(self, result: Result) -> None:
        """Open-loop errors of all models."""
        for horizon in HORIZONS:
            title, rows = error_table(result.figures, result.errors, horizon)
            print_table(title, ERROR_HEADS, rows)

    def curve(self, result: Result) -> None:
        """Errors against seconds of flight."""
        seconds = [s for s, _ in result.curve["hybrid"]]
        rows = [
            (NAMES[name], *(" / ".join(f"{x:.3g}" for x in e) for _, e in points))
            for name, points in result.curve.items()
        ]
        heads = ("trained on the first", *(f"{s:.0f} s" for s in seconds))
        print_table("Learning curve: mm / cm/s / ° after 0.5 s", heads, rows)

    def replay(self, result: Result) -> None:
        """Errors of the replay."""
        f = result.figures
        rows = [
            (NAMES[name], *(f"{f[f'replay_{name}_500ms_{q}']:.3g}" for q in QUANTITIES))
            for name in ("nominal", "body", "online", "online_body")
            if f"replay_{name}_500ms_position_mm" in f
        ]
        title = f"Refit each second, tested on the next ({f['replay_seconds']} s), after 0.5 s"
        print_table(title, ERROR_HEADS, rows)

    def rates(self, metrics: dict[str, Any]) -> None:
        """Rates against their commands."""
        title = f"Body rates against commands, {metrics['rates_test_samples']} samples"
        print_table(title, ("model", "roll/pitch °/s", "yaw °/s"), rate_rows(metrics))

    def estimates(self, result: Result) -> None:
        """Delay, mass and drag."""
        rows = estimate_rows(result.figures)
        if not rows:
            self.note("Too short for estimates of delay, mass and drag (8 s are needed)")
            return
        print_table("Estimates with 95 % intervals", ("what", "estimate", "from", "to"), rows)


def new_folder(out: Path | None, splits: list[Split]) -> Path:
    """The folder of the report: the given one, or the first free one."""
    from pathlib import Path

    if out is not None:
        folder = out  # that it is free was checked before the work
    else:
        name = f"fit-{splits[0].log.raw.path.stem}"
        folder = Path("runs") / name
        number = 2
        while folder.exists():
            folder = Path("runs") / f"{name}-{number}"
            number += 1
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made: {error.strerror or error}") from error
    return folder


def remove_if_empty(folder: Path) -> None:
    """Leave nothing behind if nothing was written."""
    with contextlib.suppress(OSError):
        folder.rmdir()


def write(folder: Path, result: Result, show: Console) -> None:
    """Summary, model, plots and the page that shows them."""
    from lafr_mjx.fitting.fit_page import page
    from lafr_mjx.view.fit_plots import make_plots

    try:
        with show.busy("drawing plots ..."):
            plots = make_plots(folder, result)
        write_json(folder / "summary.json", result.figures)
        if result.hybrid is not None:
            _save_model(folder / "model.npz", result)
        write_whole(folder / "report.html", page(result, plots, show.said).encode("utf-8"))
    except OSError as error:
        raise RunError(f"{folder}: cannot be written: {error.strerror or error}") from error
    show.note(f"Report: {folder / 'report.html'}")


def _save_model(path: Path, result: Result) -> None:
    import numpy as np

    from lafr_mjx.model.body import NAMES as FEATURES
    from lafr_mjx.model.body import OUTPUTS

    model = result.hybrid
    arrays: dict[str, Any] = {
        "features": np.array(FEATURES), "outputs": np.array(OUTPUTS),
        "linear": np.asarray(model.linear), "lag": np.asarray(model.lag),
        "network": np.asarray(model.network),
    }  # fmt: skip
    for i, layer in enumerate(model.layers):
        arrays[f"layer{i}.weight"] = np.asarray(layer.weight)
        arrays[f"layer{i}.bias"] = np.asarray(layer.bias)
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)


def export_scenario(path: Path, result: Result, vehicle: Vehicle, show: Console) -> None:
    """The estimates as a scenario: a plant like the vehicle of the log."""
    from lafr_mjx.plant.limits import MAX_COMMAND_DELAY

    found = result.identified
    if found is None:
        raise RunError(f"{path}: not written, since the logs gave no estimates")
    f = result.figures
    lines = [
        f"# Estimated from {', '.join(f['logs'])}, for the vehicle {vehicle.name}.",
        'base = "nominal"',
        'description = "Estimated from recorded flights"',
        f"mass_scale = {_within(f['mass_scale'], 0.11, 5.0):.4f}{_interval(f, 'mass_scale')}",
        f"drag_scale = {_within(f['drag_scale'], 0.0, 20.0):.3f}{_interval(f, 'drag_scale')}",
    ]
    if f["delay_ms"] is not None:
        delay = _within(f["delay_ms"], 0.0, 1e3 * MAX_COMMAND_DELAY)
        lines.append(f"command_delay_ms = {delay:.1f}{_interval(f, 'delay_ms')}")
    wind = [f[f"wind_{axis}_mps"] for axis in "xy"]
    sure = any(
        not low <= 0.0 <= high for low, high in (f[f"wind_{axis}_mps_interval"] for axis in "xy")
    )
    if sure and 0.3 < max(abs(w) for w in wind) <= 30.0:
        lines.append(f"wind_mps = [{wind[0]:.2f}, {wind[1]:.2f}, 0.0]")
    with path.open("x", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    show.note(f"Scenario: {path} (lafr-mjx fly figure8 --scenario {path})")


def _within(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)


def _interval(metrics: dict[str, Any], key: str) -> str:
    low, high = metrics[f"{key}_interval"]
    return f"  # 95 % interval {low:.4g} to {high:.4g}"
