"""`lafr-mjx fit`: does the model explain the vehicle of a recorded flight?"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import Positional, arg

from lafr_mjx.errors import InputError
from lafr_mjx.logs.log_readers import ReadOptions, known_formats
from lafr_mjx.output import check_range, check_writable, write_json


@dataclass
class Fit:
    """Fit the hybrid model to recorded flights and test it on what it has not seen.

    lafr-mjx fit flight.npz

    lafr-mjx fit flight.bag --export-scenario my_drone.toml

    lafr-mjx fit one.csv two.csv --columns columns.toml --test three.csv

    lafr-mjx fit runs/figure8-wind5-ours-0 --online
    """

    logs: Positional[
        Annotated[tuple[Path, ...], arg(metavar="LOG [LOG ...]", help=f"Logs: {known_formats()}.")]
    ]
    test: tuple[Path, ...] = ()
    """Logs to test on; without them, the rest of each log is tested."""
    columns: Path | None = None
    """Column map (TOML) of tables."""
    train_share: float = 0.5
    """Part of each log that is trained on, if no other logs are tested."""
    train_part: Literal["first", "last"] = "first"
    """Which part of each log is trained on."""
    train_seconds: float | None = None
    """Train on no more than so many seconds of each log's training part."""
    seeds: int = 3
    """Refits on resampled seconds of the training part, for the spread."""
    seed: int = 0
    """Seed of networks and resampling."""
    online: bool = False
    """Also replay the logs as the online learner would see them: refit each second."""
    vehicle: str = "lafr192"
    """Vehicle whose profile gives mass, motor lag and drag that estimates are relative to."""
    export_scenario: Path | None = None
    """Write the estimates as a scenario for the plant."""
    state_topic: str | None = None
    """Topic of the states in a bag; by default found by its type."""
    command_topic: str | None = None
    """Topic of the commands in a bag; by default found by its type."""
    full_thrust: float | None = None
    """Thrust in m/s² at a MAVROS thrust of 1; by default such that it carries the weight."""
    ignore_checks: bool = False
    """Go on although frames, signs or units look wrong."""
    out: Path | None = None
    """Folder of the report; by default runs/fit-LOG. Never overwritten."""
    json: Path | None = None
    """Write the figures there, too."""

    def run(self) -> dict[str, Any]:
        """Read, check, fit, test, report; returns the figures."""
        self._check()
        check_writable(self.json)
        from lafr_mjx.compile_timer import CompileTimer
        from lafr_mjx.fitting import fit_job, fit_report
        from lafr_mjx.plant.vehicle import load_vehicle

        vehicle = load_vehicle(self.vehicle)
        started = time.monotonic()
        show = fit_report.Console()
        job = fit_job.Job(
            vehicle=vehicle,
            seeds=self.seeds,
            seed=self.seed,
            online=self.online,
            ignore_checks=self.ignore_checks,
        )
        with CompileTimer() as timer:
            splits = fit_job.prepare(
                job,
                self.logs,
                self.test,
                options=ReadOptions(
                    self.columns, self.state_topic, self.command_topic, self.full_thrust
                ),
                share=self.train_share,
                first=self.train_part == "first",
                seconds=self.train_seconds,
                show=show,
            )
            folder = fit_report.new_folder(self.out, splits)
            try:
                result = fit_job.work(job, splits, show)
                wall = time.monotonic() - started
                result.figures |= {"wall_s": wall, "work_s": wall - timer.seconds}
                fit_report.write(folder, result, show)
            except BaseException:
                fit_report.remove_if_empty(folder)
                raise
        if self.export_scenario is not None:
            fit_report.export_scenario(self.export_scenario, result, vehicle, show)
        show.note(
            f"Took {result.figures['wall_s']:.0f} s, {result.figures['work_s']:.0f} s without "
            "compiling (programs are kept: the next fit compiles less)"
        )
        write_json(self.json, result.figures)
        return result.figures

    def _check(self) -> None:
        if not self.logs:
            raise InputError("LOG: give at least one log, for example: lafr-mjx fit flight.npz")
        check_range("train-share", self.train_share, 0.05, 0.95)
        if self.train_seconds is not None and not (
            math.isfinite(self.train_seconds) and self.train_seconds >= 2.0
        ):
            raise InputError(f"--train-seconds {self.train_seconds}: must be at least 2")
        check_range("seeds", self.seeds, 0, 20)
        check_range("seed", self.seed, 0, 2**31 - 1)
        check_range("full-thrust", self.full_thrust, 1.0, 1000.0)
        out = self.out
        if out is not None and out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise InputError(f"--out {out}: exists and is not overwritten; give another name")
        if self.export_scenario is not None:
            path = self.export_scenario
            if path.exists():
                raise InputError(f"--export-scenario {path}: exists and is not overwritten")
            if path.suffix != ".toml" or not path.parent.is_dir():
                raise InputError(
                    f"--export-scenario {path}: must be a .toml file in an existing folder"
                )
