"""What a user sees of a fit: lines and tables while it works, then a folder with a report."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from lafr_mjx.errors import InputError, RunError
from lafr_mjx.experiments.fitting import HORIZONS, QUANTITIES
from lafr_mjx.experiments.run_files import plain, write_whole
from lafr_mjx.output import print_table, write_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lafr_mjx.experiments.fitting import Result, Split
    from lafr_mjx.logs.flight_log import FlightLog
    from lafr_mjx.model.selection import Choice
    from lafr_mjx.plant.vehicle import Vehicle

NAMES = {
    "nominal": "nominal",
    "scale_bias": "nominal + scale/bias",
    "hybrid": "hybrid (chosen features)",
    "online": "online learner",
    "online_body": "online learner, body inputs",
    "paper": "online learner, paper's inputs",
    "body": "linear, body frame",
    "memoryless": "linear, no history",
}
_HORIZON_TEXT = {"20ms": "one step (20 ms)", "100ms": "0.1 s", "500ms": "0.5 s"}


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
        f = result.figures
        for horizon in HORIZONS:
            rows = [
                (NAMES[name], *(_with_spread(f, f"{name}_{horizon}_{q}") for q in QUANTITIES))
                for name in result.errors
            ]
            title = f"Error after {_HORIZON_TEXT[horizon]}, {f['windows']} windows"
            print_table(title, ("model", "position mm", "velocity cm/s", "attitude °"), rows)

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
        print_table(title, ("model", "position mm", "velocity cm/s", "attitude °"), rows)

    def rates(self, figures: dict[str, Any]) -> None:
        """Rates against their commands."""
        rows = [
            (label, f"{figures[f'{name}_rates_dps']:.2f}", f"{figures[f'{name}_yaw_rate_dps']:.2f}")
            for name, label in (("nominal", "as commanded"), ("memoryless", NAMES["memoryless"]),
                                ("hybrid", f"linear, last {figures['rates_taps']} commands"))
        ]  # fmt: skip
        title = f"Body rates against commands, {figures['rates_test_samples']} samples"
        print_table(title, ("model", "roll/pitch °/s", "yaw °/s"), rows)

    def estimates(self, result: Result) -> None:
        """Delay, mass and drag."""
        rows = estimate_rows(result.figures)
        if not rows:
            self.note("Too short for estimates of delay, mass and drag (8 s are needed)")
            return
        print_table("Estimates with 95 % intervals", ("what", "estimate", "from", "to"), rows)


def _with_spread(figures: dict[str, Any], key: str) -> str:
    spread = figures.get(f"{key}_spread")
    return f"{figures[key]:.3g}" + (f" ± {spread:.2g}" if spread is not None else "")


def estimate_rows(figures: dict[str, Any]) -> list[tuple[str, ...]]:
    """Lines of the table of estimates."""
    if "mass_scale" not in figures:
        return []
    lines = (
        ("command delay without motors, ms", "delay_ms", 1.0, ".1f"),
        ("mass or weak rotors: mass offset, g", "mass_offset_kg", 1e3, ".1f"),
        ("mass over nominal", "mass_scale", 1.0, ".3f"),
        ("drag over the profile's", "drag_scale", 1.0, ".2f"),
        ("linear drag x, 1/s", "drag_x_per_s", 1.0, ".3f"),
        ("linear drag y, 1/s", "drag_y_per_s", 1.0, ".3f"),
        ("linear drag z, 1/s", "drag_z_per_s", 1.0, ".3f"),
        ("steady wind x, m/s", "wind_x_mps", 1.0, ".2f"),
        ("steady wind y, m/s", "wind_y_mps", 1.0, ".2f"),
    )
    rows = []
    for label, key, scale, form in lines:
        if figures.get(key) is not None:
            low, high = figures[f"{key}_interval"]
            values = (scale * figures[key], scale * low, scale * high)
            rows.append((label, *(format(value, form) for value in values)))
    return rows


def new_folder(out: Path | None, splits: list[Split]) -> Path:
    """The folder of the report: the given one, or the first free one."""
    from pathlib import Path

    if out is not None:
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise InputError(f"--out {out}: exists and is not overwritten; give another name")
        folder = out
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
    from lafr_mjx.view.fit_plots import make_plots

    try:
        with show.busy("drawing plots ..."):
            plots = make_plots(folder, result)
        write_json(folder / "summary.json", plain(result.figures))
        if result.hybrid is not None:
            _save_model(folder / "model.npz", result)
        page = _page(result, plots, show.said)
        write_whole(folder / "report.html", page.encode("utf-8"))
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


def _page(result: Result, plots: dict[str, Path], said: list[str]) -> str:
    from lafr_mjx.view.page import Items, Page, Picture, Section, Table, to_html

    f = result.figures
    lines = Items([line.strip() for line in said], lambda line: line.startswith("Looks wrong"))
    sections = [Section("What was read", [lines])]

    def table(title: str, heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
        sections.append(Section(title, [Table(heads, rows)]))

    for horizon in HORIZONS:
        if not result.errors:
            break
        rows = [
            (NAMES[name], *(_with_spread(f, f"{name}_{horizon}_{q}") for q in QUANTITIES))
            for name in result.errors
        ]
        heads = ("model", "position mm", "velocity cm/s", "attitude °")
        table(f"Error after {_HORIZON_TEXT[horizon]}", heads, rows)
    if "hybrid_rates_dps" in f:
        rows = [
            (NAMES.get(name, name), f"{f[f'{name}_rates_dps']:.2f}")
            for name in ("nominal", "memoryless", "hybrid")
        ]
        table("Body rates", ("model", "roll/pitch °/s"), rows)
    rows = estimate_rows(f)
    if rows:
        table("Estimates, 95 % intervals", ("what", "estimate", "from", "to"), rows)
    for title, path in plots.items():
        sections.append(Section(title, [Picture(path.stem, path.read_bytes(), title)]))
    if result.choice is not None:
        rows = [
            (name, *(f"{x:.3g}" for x in score)) for name, score in result.choice.scores.items()
        ]
        heads = ("candidate, cross-validated at 0.5 s", "mm", "cm/s", "°")
        table("How the features were chosen", heads, rows)
    return to_html(Page("Fit of recorded flights", "", sections))


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


def _interval(figures: dict[str, Any], key: str) -> str:
    low, high = figures[f"{key}_interval"]
    return f"  # 95 % interval {low:.4g} to {high:.4g}"
