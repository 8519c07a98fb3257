"""A batch of runs as a user sees it: how many are done, how long it will take, what failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from lafr_mjx.adaptation.batch import finished, fly_all
from lafr_mjx.errors import RunError
from lafr_mjx.output import counted
from lafr_mjx.runs.run_folder import RunFolder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rich.console import Console
    from rich.progress import Task

    from lafr_mjx.run_spec import RunSpec


def run_line(number: int, total: int, name: str, flights: Sequence[Mapping[str, Any]]) -> str:
    """A finished run in one line, for where there is no terminal to draw a bar on."""
    last = flights[-1]
    lap, speed = last.get("lap_time_s"), last.get("peak_speed_mps")
    crashed = sum(bool(flight.get("crashed")) for flight in flights)
    figures = (
        "no lap" if lap is None else f"last lap {lap:.2f} s",
        *(() if speed is None else (f"peak {speed:.2f} m/s",)),
        f"{crashed} of {counted(len(flights), 'flight')} crashed",
    )
    return f"{number} of {total}: {name}: {', '.join(figures)}"


class _TimeLeft(ProgressColumn):
    """From the flights that this call has flown; runs that were there already took no time."""

    max_refresh = 1.0

    def render(self, task: Task) -> Text:
        """Time left, if anything is known about it."""
        flown, left = task.fields["flown"], task.fields["left"]
        if not flown or not left or task.elapsed is None:
            return Text("")
        minutes = task.elapsed / flown * left / 60.0
        return Text(f"{minutes:.0f} min left" if minutes >= 1.0 else "< 1 min left")


def fly_with_progress(
    specs: Sequence[RunSpec],
    folder: Path,
    processes: int,
    console: Console,
    *,
    first_alone: bool = False,
) -> None:
    """Fly what is not finished. Interrupted, the next call goes on; finished runs are kept.

    Args:
        specs: all runs, the most important first.
        folder: of the run folders.
        processes: runs at once.
        console: where to show the progress.
        first_alone: fly the first run with all cores, so that its times mean something.

    Raises:
        RunError: some runs failed; the others were flown.
    """
    left = [spec for spec in specs if not finished(spec, folder)]
    if not left:
        return
    failures: list[str] = []
    bar = Progress(
        TextColumn("runs"), BarColumn(bar_width=30), MofNCompleteColumn(), TimeElapsedColumn(),
        _TimeLeft(), TextColumn("{task.description}"), console=console,
        disable=not console.is_terminal,
    )  # fmt: skip
    with bar:
        # Flights are what takes time: runs differ in their number.
        task = bar.add_task("", total=len(specs), completed=len(specs) - len(left), flown=0,
                            left=sum(spec.iterations for spec in left))  # fmt: skip
        fields = bar.tasks[0].fields

        def told(spec: RunSpec, error: Exception | None) -> None:
            if error is not None:
                failures.append(f"{spec.name}: {error}")
            bar.update(task, advance=1, description=spec.name,
                       flown=fields["flown"] + spec.iterations,
                       left=fields["left"] - spec.iterations)  # fmt: skip
            if not console.is_terminal and error is None:
                flights = RunFolder.open(folder / spec.name).iterations()
                line = run_line(int(bar.tasks[0].completed), len(specs), spec.name, flights)
                console.print(line, soft_wrap=True, markup=False)

        if first_alone:
            fly_all(specs[:1], folder, 1, told)
        fly_all(specs[1:] if first_alone else specs, folder, processes, told)
    if failures:
        raise RunError("some runs failed; try again to go on:\n" + "\n".join(failures))
