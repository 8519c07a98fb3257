"""`lafr-mjx adapt`: the main job. Fly, calibrate, improve, accelerate."""

from __future__ import annotations

import time
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tyro.conf import Positional

from lafr_mjx.errors import InputError, RunError
from lafr_mjx.output import check_writable, write_json

if TYPE_CHECKING:
    from lafr_mjx.adaptation.job import AdaptationJob
    from lafr_mjx.runs.run_folder import RunFolder

MIN_HORIZON, MAX_HORIZON = 5, 200  # steps; beyond, programs take minutes to compile


@dataclass
class Adapt:
    """Adapt a policy in flight: from a timid base policy to the limit, in about 100 s of flight.

    lafr-mjx adapt figure8 --scenario wind5

    lafr-mjx adapt shuttle --iterations 15 --seed 3 --out runs/shuttle-3

    lafr-mjx adapt --resume runs/shuttle-3

    lafr-mjx adapt --repeat runs/shuttle-3/config.toml --out runs/again

    The run folder holds the configuration, a line per iteration, every flight, checkpoints,
    the policy for the drone, and plots.
    """

    task: Positional[str] = "figure8"
    """Name of a shipped task, or path of a task file."""
    scenario: str | None = None
    """Name of a shipped scenario, or path of a scenario file; by default the task's own."""
    vehicle: str = "lafr192"
    """Name of a shipped vehicle, or path of a vehicle profile."""
    method: Literal["ours", "baseline", "lotf", "anchor-only", "residual-only", "geometric"] = (
        "ours"
    )
    """Which parts of the method are on; 'geometric' is the classical controller."""
    ats: Literal["verified", "paper", "hold"] = "verified"
    """How the time scale is chosen: verified in the model first, as printed, or never changed."""
    features: Literal["default", "paper", "body"] = "default"
    """Inputs of the learned residual: in the world frame with learned lag, the paper's, or in the
    body frame (learns from less flight)."""
    iterations: int = 12
    """Flights, each followed by learning."""
    seed: int = 0
    """Seed of the plant's noise and of the learner."""
    plant: int = 0
    """Which plant of a randomised scenario, drawn with the seed."""
    horizon: int = 30
    """Length of the simulated flights that the policy is trained on [steps of 20 ms]."""
    engine: Literal["mjx", "freebody"] = "mjx"
    """Physics: any vehicle, or the fast step for one rigid body (the same motion)."""
    out: Path | None = None
    """Run folder; by default runs/TASK-SCENARIO-METHOD-SEED. Never overwritten."""
    resume: Path | None = None
    """Go on with an interrupted run; all other settings come from its folder."""
    repeat: Path | None = None
    """Fly the run of this config.toml again, in another folder; its settings are taken."""
    json: Path | None = None
    """Write the summary there, too."""

    def run(self) -> None:
        """Adapt, with a table that grows a row per iteration."""
        check_writable(self.json)
        if not 1 <= self.iterations <= 1000:
            raise InputError(f"--iterations {self.iterations}: must be from 1 to 1000")
        if not MIN_HORIZON <= self.horizon <= MAX_HORIZON:
            raise InputError(
                f"--horizon {self.horizon}: must be from {MIN_HORIZON} to {MAX_HORIZON}"
            )
        if not 0 <= self.plant < 2**31:
            raise InputError(f"--plant {self.plant}: must be from 0 to {2**31 - 1}")
        if self.ats == "paper" and self.method == "geometric":
            raise InputError("--ats paper: differentiates a policy; 'geometric' has none")
        if not 0 <= self.seed < 2**31:
            raise InputError(f"--seed {self.seed}: must be from 0 to {2**31 - 1}")
        from lafr_mjx.adaptation.job import AdaptationJob
        from lafr_mjx.runs.run_folder import RunFolder, read_config

        if self.resume is not None:
            self._refuse_contradictions("resume", ("resume", "json"))
            with RunFolder.open(self.resume, resume=True) as folder:
                self._work(folder, AdaptationJob.from_config(folder.config))
            return
        if self.repeat is not None:
            self._refuse_contradictions("repeat", ("repeat", "out", "json"))
            file = self.repeat / "config.toml" if self.repeat.is_dir() else self.repeat
            self._begin(AdaptationJob.from_config(read_config(file)[0]))
            return
        job = AdaptationJob.build(
            task=self.task,
            scenario=self.scenario,
            vehicle=self.vehicle,
            method=self.method,
            iterations=self.iterations,
            seed=self.seed,
            engine=self.engine,
            ats=self.ats,
            plant=self.plant,
            features=self.features,
            horizon=self.horizon,
        )
        self._begin(job)

    def _begin(self, job: AdaptationJob) -> None:
        """Fly a new run in a folder of its own."""
        from lafr_mjx.runs.run_folder import RunFolder

        given = job.given
        name = f"{job.task.name}-{job.scenario.name}-{given['method']}-{given['seed']}"
        name += "" if given["ats"] == "verified" else f"-{given['ats']}"
        name += "" if given["horizon"] == 30 else f"-horizon{given['horizon']}"
        name += "" if given["features"] == "default" else f"-{given['features']}"
        with RunFolder.create(self.out or Path("runs") / name, job.config()) as folder:
            self._work(folder, job)

    def _refuse_contradictions(self, source: str, together: tuple[str, ...]) -> None:
        """All settings come from a file; none may be given beside it."""
        for field in fields(self):
            if field.name not in together and getattr(self, field.name) != field.default:
                name = field.name if field.name == "task" else f"--{field.name}"
                raise InputError(
                    f"--{source} {getattr(self, source)}: takes everything from there; drop {name}"
                )

    def _work(self, folder: RunFolder, job: Any) -> None:
        from lafr_mjx.adaptation.report import AdaptationReport

        report = AdaptationReport(folder, job)
        started = time.monotonic()
        try:
            job.work(folder, report)
        except KeyboardInterrupt:
            report.stop()
            print(f"Interrupted. Go on with: lafr-mjx adapt --resume {folder.path}", flush=True)
            raise
        summary = report.finish(time.monotonic() - started)
        write_json(self.json, summary)
        if summary["crashes"]:
            raise RunError(f"{summary['crashes']} of {summary['iterations']} flights crashed")
