"""`lafr-mjx reproduce`: fly the paper's simulation section, compute the bounds, make the report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rich.console import Console

from lafr_mjx.errors import InputError, RunError
from lafr_mjx.output import check_range
from lafr_mjx.report.paper_runs import (
    BOUND_TASKS,
    PAPER_RUNS,
    QUICK_SEEDS,
    SEEDS,
    PaperRuns,
)

if TYPE_CHECKING:
    from lafr_mjx.run_spec import RunSpec


@dataclass
class Reproduce:
    """Fly the paper's simulation section, then make the report.

    lafr-mjx reproduce --quick

    lafr-mjx reproduce --processes 2

    Five methods on the figure-8, with and without wind; the whole method on the shuttle, with
    altered hardware and on the inspection; how anchoring depends on the training horizon.
    Finished runs are kept, also those of `lafr-mjx check-claims`: interrupted, the same command
    goes on.
    """

    out: Path = PAPER_RUNS
    """Folder of the runs and of the report."""
    quick: bool = False
    """Seed 0 instead of 0, 1, 2."""
    seeds: tuple[int, ...] = ()
    """Other seeds."""
    processes: int = 2
    """Runs at once; if more than one, each has one thread."""
    engine: Literal["mjx", "freebody"] = "mjx"
    """Physics that is flown."""
    anchoring: bool = True
    """Also vary the training horizon, with and without anchoring."""
    bounds: bool = True
    """Also compute the time-optimal bounds (extra `bounds`)."""
    dry_run: bool = False
    """Only say what would be flown."""

    def run(self) -> None:
        """Fly what is missing, compute what is missing, write the report."""
        from lafr_mjx.adaptation.folder_runs import announce, fly_folders
        from lafr_mjx.report import report_file

        specs = self._specs()
        console = Console(highlight=False)
        done = announce(specs, self.out, console)
        if self.dry_run:
            for spec in specs:
                console.print(f"{'done ' if spec in done else '     '}{spec.command}",
                              soft_wrap=True)  # fmt: skip
            return
        try:
            self.out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"--out {self.out}: cannot be made: {error.strerror or error}"
            ) from error
        report_file.check_target(self.out / "report.html")
        failure = None
        try:
            fly_folders(specs, self.out, self.processes, console)
        except RunError as error:  # what was flown is reported all the same
            failure = error
        files = self._bounds(console) if self.bounds else []
        self._report(specs, files, console)
        if failure is not None:
            raise failure

    def _specs(self) -> list[RunSpec]:
        check_range("processes", self.processes, 1, 256)
        if self.quick and self.seeds:
            raise InputError("--quick and --seeds: only one of them can be given")
        for seed in self.seeds:
            check_range("seeds", seed, 0, 2**31 - 1)
        seeds = self.seeds or (QUICK_SEEDS if self.quick else SEEDS)
        return PaperRuns(tuple(dict.fromkeys(seeds)), self.engine).reproduced(self.anchoring)

    def _bounds(self, console: Console) -> list[Path]:
        """The files of the bounds; a task whose bounds fail is told, and the report goes on."""
        from lafr_mjx.commands.bounds import Bounds
        from lafr_mjx.commands.report import read_bounds

        folder = self.out / "bounds"
        folder.mkdir(exist_ok=True)
        found = []
        for task in BOUND_TASKS:
            path = folder / f"{task}.json"
            try:
                # A solver that failed may do better with another version.
                if not path.is_file() or read_bounds(path).get("failures"):
                    Bounds(task=task, json=path).run()
            except (InputError, RunError) as error:
                console.print(f"Bounds of {task}: {error}", soft_wrap=True, markup=False)
            if path.is_file():
                found.append(path)
        return found

    def _report(self, specs: list[RunSpec], files: list[Path], console: Console) -> None:
        """Only of the runs of this plan: the folder may hold others, e.g. of random plants."""
        from lafr_mjx.commands.report import Report
        from lafr_mjx.runs.run_folder import RunFolder

        there = [self.out / s.name for s in specs if (self.out / s.name / "config.toml").is_file()]
        with_flights = tuple(path for path in there if RunFolder.open(path).iterations())
        if not with_flights:
            raise RunError(f"{self.out}: no run was flown; there is nothing to report")
        Report(with_flights, self.out / "report.html", tuple(files)).run()
        console.print(f"Again: lafr-mjx reproduce --out {self.out}", soft_wrap=True)
