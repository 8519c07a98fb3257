"""`lafr-mjx adapt`: the main job. Fly, calibrate, improve, accelerate."""

from __future__ import annotations

import time
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lafr_mjx.errors import InputError, RunError
from lafr_mjx.output import check_writable, write_json
from lafr_mjx.run_spec import RunSpec, Usual

if TYPE_CHECKING:
    from lafr_mjx.adaptation.adaptation_job import AdaptationJob
    from lafr_mjx.runs.run import Run
    from lafr_mjx.runs.run_folder import RunFolder


@dataclass(frozen=True)
class Adapt(RunSpec):
    """Adapt a policy in flight: from a timid base policy to the limit, in about 100 s of flight.

    lafr-mjx adapt figure8 --scenario wind5

    lafr-mjx adapt shuttle --iterations 15 --seed 3 --out runs/shuttle-3

    lafr-mjx adapt --resume runs/shuttle-3

    lafr-mjx adapt --resume runs/shuttle-3 --iterations 20

    lafr-mjx adapt --repeat runs/shuttle-3/config.toml --out runs/again

    The run folder holds the configuration, a line per iteration, every flight, checkpoints,
    the policy for the drone, and plots.
    """

    out: Path | None = None
    """Run folder; by default runs/TASK-SCENARIO-METHOD-SEED. Never overwritten."""
    resume: Path | None = None
    """Go on with an interrupted run, or with more --iterations; the rest comes from its folder."""
    repeat: Path | None = None
    """Fly the run of this config.toml again, in another folder; its settings are taken."""
    json: Path | None = None
    """Write the summary there, too."""

    def run(self) -> Run:
        """Adapt, with a table that grows a row per iteration; returns the run."""
        check_writable(self.json)
        self.check()
        from lafr_mjx.adaptation.adaptation_job import AdaptationJob
        from lafr_mjx.runs.run_folder import RunFolder, read_config

        if self.resume is not None:
            self._refuse_contradictions("resume", ("resume", "json", "iterations"))
            with RunFolder.open(self.resume, resume=True) as folder:
                return self._work(folder, self._resumed(folder))
        if self.repeat is not None:
            self._refuse_contradictions("repeat", ("repeat", "out", "json"))
            file = self.repeat / "config.toml" if self.repeat.is_dir() else self.repeat
            return self._begin(AdaptationJob.from_config(*read_config(file)))
        return self._begin(AdaptationJob.build(self._spec()))

    def _resumed(self, folder: RunFolder) -> AdaptationJob:
        """The run of a folder, with more flights if they were asked for."""
        from lafr_mjx.adaptation.adaptation_job import AdaptationJob

        job = AdaptationJob.from_config(folder.config, folder.written_by)
        if isinstance(self.iterations, Usual) or self.iterations == job.spec.iterations:
            job.check_resumable(folder)
            return job
        if self.iterations < job.spec.iterations:
            raise InputError(
                f"--iterations {self.iterations}: the run {folder.path} has "
                f"{job.spec.iterations}; it can only be made longer"
            )
        job = replace(job, spec=replace(job.spec, iterations=self.iterations))
        job.check_resumable(folder)  # before anything is changed
        folder.rewrite(job.config())
        return job

    def _spec(self) -> RunSpec:
        return RunSpec(**{field.name: getattr(self, field.name) for field in fields(RunSpec)})

    def _begin(self, job: AdaptationJob) -> Run:
        """Fly a new run in a folder of its own."""
        from lafr_mjx.runs.run_folder import RunFolder

        spec = job.spec
        name = f"{job.task.name}-{job.scenario.name}-{spec.method}-{spec.seed}{spec.variant()}"
        with RunFolder.create(self.out or Path("runs") / name, job.config()) as folder:
            return self._work(folder, job)

    def _refuse_contradictions(self, source: str, together: tuple[str, ...]) -> None:
        """All settings come from a file; none may be given beside it."""
        for field in fields(self):
            if field.name not in together and getattr(self, field.name) != field.default:
                name = field.name if field.name == "task" else f"--{field.name}"
                raise InputError(
                    f"--{source} {getattr(self, source)}: takes everything from there; drop {name}"
                )

    def _work(self, folder: RunFolder, job: Any) -> Run:
        from lafr_mjx.adaptation.adaptation_report import AdaptationReport
        from lafr_mjx.runs.run import Run

        report, started = None, time.monotonic()
        try:
            report = AdaptationReport(folder, job)
            job.work(folder, report)
        except KeyboardInterrupt:
            if report is not None:
                report.stop()
            print(f"Interrupted. Go on with: lafr-mjx adapt --resume {folder.path}", flush=True)
            raise
        summary = report.finish(time.monotonic() - started)
        write_json(self.json, summary)
        if summary["crashes"]:
            raise RunError(f"{summary['crashes']} of {summary['iterations']} flights crashed")
        return Run(folder.path)
