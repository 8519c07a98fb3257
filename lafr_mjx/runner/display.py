"""Progress of many runs: a bar on a terminal, elsewhere a line for each finished run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from lafr_mjx.metrics import assisted
from lafr_mjx.output import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console
    from rich.progress import Task


class Display:
    """What a user sees of the runs; a context manager."""

    def __init__(self, console: Console, runs: int, done: int, flights: int) -> None:
        """Args: all runs, those that were there already, and the flights that are left."""
        self.console, self.runs, self.done = console, runs, done
        self._what = ""
        # Flights are what takes time: runs differ in their number.
        self._bar = Progress(
            TextColumn("flights"), BarColumn(bar_width=30), MofNCompleteColumn(),
            TimeElapsedColumn(), _TimeLeft(), TextColumn("{task.description}"), console=console,
            disable=not console.is_terminal,
        )  # fmt: skip
        self._task = self._bar.add_task("", total=flights)

    def __enter__(self) -> Self:
        self._bar.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: Any) -> None:
        self._bar.__exit__(kind, *rest)
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            self._line(f"Interrupted: {self.done} of {counted(self.runs, 'run')} stored. Go on "
                       f"with the same command.")  # fmt: skip

    def status(self, what: str) -> None:
        """What goes on now."""
        self._what = what
        self._describe()

    def flown(self, flights: int) -> None:
        """So many flights were made."""
        self._bar.advance(self._task, flights)

    def stored(self, name: str, flights: Sequence[Mapping[str, Any]]) -> None:
        """A run is finished and on the disk."""
        self.done += 1
        self._describe()
        if self._bar.disable:
            self._line(run_line(self.done, self.runs, name, flights))

    def _describe(self) -> None:
        self._bar.update(self._task, description=f"{self.done} of {self.runs} runs; {self._what}")

    def _line(self, text: str) -> None:
        self.console.print(text, soft_wrap=True, markup=False)


def run_line(number: int, total: int, name: str, flights: Sequence[Mapping[str, Any]]) -> str:
    """A finished run in one line."""
    last = flights[-1]
    lap, speed = last.get("lap_time_s"), last.get("peak_speed_mps")
    crashed = sum(bool(flight.get("crashed")) for flight in flights)
    helped = sum(map(assisted, flights))
    figures = (
        "no lap" if lap is None else f"last lap {lap:.2f} s",
        *(() if speed is None else (f"peak {speed:.2f} m/s",)),
        f"{crashed} of {counted(len(flights), 'flight')} crashed",
        *((f"{helped} assisted",) if helped else ()),
    )
    return f"{number} of {total}: {name}: {', '.join(figures)}"


class _TimeLeft(ProgressColumn):
    """By the mean so far: many flights are told at once, which misleads a moving average."""

    max_refresh = 1.0

    def render(self, task: Task) -> Text:
        """Time left, if anything is known about it."""
        if not task.completed or task.elapsed is None or not task.remaining:
            return Text("")
        minutes = task.elapsed / task.completed * task.remaining / 60.0
        return Text(f"{minutes:.0f} min left" if minutes >= 1.0 else "< 1 min left")
