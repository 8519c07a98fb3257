"""One adaptation run on the simulated drone: set up, fly, learn, store, go on."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from lafr_mjx import __version__, batching, compilation_cache, parts
from lafr_mjx.adaptation import own_parts
from lafr_mjx.adaptation.first_policy import first_policy, network_of
from lafr_mjx.adaptation.plants import plants_of
from lafr_mjx.adaptation.record import record_of
from lafr_mjx.control.policy_file import save_policy
from lafr_mjx.errors import InputError, RunError
from lafr_mjx.learner import loop, methods
from lafr_mjx.learner.improve import Sizes
from lafr_mjx.metrics import flight_metrics
from lafr_mjx.output import counted
from lafr_mjx.plant import user_plugins
from lafr_mjx.plant.scenario import Scenario, load_scenario
from lafr_mjx.plant.vehicle import Vehicle, load_vehicle
from lafr_mjx.run_spec import ENGINES, PARTS, RunSpec
from lafr_mjx.runs import embedded_files, writers
from lafr_mjx.tasks import Task, load_task
from lafr_mjx.toml_table import Table

if TYPE_CHECKING:
    from lafr_mjx.adaptation.adaptation_report import Report
    from lafr_mjx.learner.improve import LearnerSettings
    from lafr_mjx.runs.run_folder import RunFolder


@dataclass(frozen=True)
class AdaptationJob:
    """Everything that defines a run."""

    spec: RunSpec  # as the user said it
    task: Task
    scenario: Scenario
    vehicle: Vehicle
    files: dict[str, Any] = field(default_factory=dict)  # the user's own, with their contents

    @staticmethod
    def build(spec: RunSpec) -> AdaptationJob:
        """Load and check what a run is made of."""
        vehicle = load_vehicle(spec.vehicle)
        task = load_task(spec.task, vehicle.limits)
        if not (spec.engine == "hil" and spec.method == "geometric"):  # there nothing is learned
            loop.check_duration(task)
        if spec.engine not in (*ENGINES, "hil") and spec.scenario not in (None, task.scenario):
            raise InputError(
                f"--scenario {spec.scenario}: is of our own plant; --engine names another"
            )
        spec = replace(spec, scenario=spec.scenario or task.scenario)
        # Files of the user's are remembered by their full path: a run may go on from anywhere.
        spec = replace(spec, **{r: full_path(getattr(spec, r)) for r in embedded_files.ROLES})
        spec = replace(spec, plugins=tuple(map(user_plugins.located, spec.plugins)))
        scenario = load_scenario(str(spec.scenario)).drawn(spec.seed, spec.plant)
        user_plugins.build(spec.plugins)
        spec = spec.located()
        job = AdaptationJob(spec, task, scenario, vehicle, embedded_files.embedded(spec.table()))
        job.digests()
        own_parts.check(spec, task, vehicle.limits)
        for text in spec.log:
            writers.writer_of(text)
        return job

    @staticmethod
    def from_config(config: dict[str, Any], written_by: str = __version__) -> AdaptationJob:
        """The run that a folder's configuration describes, and the version that wrote it."""
        if "hil" in config:
            raise InputError("config.toml: is of a flight on a drone, which cannot be resumed")
        whole = Table(config, Path("config.toml"))
        for name in ("run", "files", "digests"):
            whole.table(name)  # a file may have been edited by hand
        asked = RunSpec.of_table(config.get("run", {}))
        job = AdaptationJob.build(RunSpec.of_table(embedded_files.located(config)))
        for what, digest in job.digests().items():
            if config.get("digests", {}).get(what) != digest:
                raise InputError(
                    f"the {what} {getattr(asked, what)!r} is not what it was when the run began; "
                    f"a run cannot go on under other conditions{_begun(written_by)}"
                )
        # As it was asked for: where embedded files are laid out is nobody's business.
        return replace(job, spec=asked, files=config.get("files", {}))

    def digests(self) -> dict[str, str]:
        """Fingerprints of what the files said, to notice that one was edited."""
        task, vehicle = self.task, self.vehicle
        numbers = (vehicle.mass, vehicle.inertia, vehicle.frame, vehicle.rotor_positions)
        profile = (vehicle.rotors, vehicle.limits, vehicle.rate_loop, vehicle.drag, vehicle.battery)
        own = {"plugins": user_plugins.digest(self.spec.plugins)} if self.spec.plugins else {}
        for key in PARTS:
            if digest := parts.own_digest(key, getattr(self.spec, key)):
                own[key] = digest
        gates = (task.gates, task.room_m) if task.gates else ()
        return own | {
            "task": _digest(task.path, task.ramp_s, task.error_threshold_m, task.fans, *gates),
            "scenario": _digest(self.scenario.settings, self.scenario.changes),
            "vehicle": _digest(numbers, profile),
        }

    def config(self) -> dict[str, Any]:
        """What is needed to repeat the run, and what it stood for when it was made."""
        return {
            "run": self.spec.table(),
            **({"files": self.files} if self.files else {}),
            "digests": self.digests(),
            "task": {
                "name": self.task.name,
                "lap_s": self.task.lap_s,
                "start_time_scale": self.task.start_time_scale,
                "error_threshold_m": self.task.error_threshold_m,
                "ramp_s": self.task.ramp_s,
            },
            "scenario": _plain(self.scenario.settings.__dict__),
            "vehicle": {
                "name": self.vehicle.name,
                "mass_kg": self.vehicle.mass,
                "limits_low": [float(x) for x in self.vehicle.limits.low],
                "limits_high": [float(x) for x in self.vehicle.limits.high],
            },
            "learner": _plain(self.settings()._asdict()),
        }

    def settings(self) -> LearnerSettings:
        """Of the learner."""
        return methods.settings_for(self.spec)

    def check_resumable(self, folder: RunFolder) -> None:
        """Refuse to go on where flights would be lost; people delete checkpoints to save space."""
        if self._complete(folder):
            return
        flown, kept = len(folder.iterations()), folder.checkpoint_numbers()
        anew = f"Fly it anew with: lafr-mjx adapt --repeat {folder.path} --out FOLDER"
        learned_from = kept[-1] + 1 if kept else 0
        if flown > learned_from + 1:
            raise InputError(
                f"{folder.path}: has {flown} flights but no checkpoint to go on from; they are "
                f"kept. {anew}"
            )
        if flown < learned_from:
            raise InputError(
                f"{folder.path}: iterations.jsonl has {counted(flown, 'line')}, but there is a "
                f"checkpoint after flight {learned_from}; lines were lost. {anew}"
            )

    def _complete(self, folder: RunFolder) -> bool:
        """All flights are there, and what comes at the end of a run."""
        enough = len(folder.iterations()) >= self.spec.iterations
        return enough and (folder.path / "summary.json").is_file()

    def work(self, folder: RunFolder, report: Report) -> None:
        """Fly what is left of the run; each finished iteration is safe on disk."""
        self.check_resumable(folder)
        if self._complete(folder):
            return
        compilation_cache.enable()
        spec, settings = self.spec, self.settings()
        policy, where = first_policy(spec, self.task, self.vehicle.limits)
        state = loop.start(self.task, policy, spec.seed, settings, spec.features)
        plants = plants_of(spec, self.vehicle, self.task, [self.scenario], [spec.seed])
        sizes = Sizes(horizon=spec.horizon)
        run = loop.Adaptation(self.task, plants, [state], [settings], sizes=sizes)
        done = 0
        stored = folder.load_checkpoint((run.plants.state, run.state))
        if stored is not None:
            last, (run.plants.state, run.state) = stored
            done = last + 1
        folder.truncate_after(done - 1)
        report.ready(where)  # who also shows what was flown before
        with writers.Logs(spec.log, folder, report.say) as logs:
            self._fly(run, done, folder, report, logs)

    def _fly(
        self, run: loop.Adaptation, done: int, folder: RunFolder, report: Report, logs: writers.Logs
    ) -> None:
        spec, network = self.spec, network_of(self.spec.policy)
        for iteration in range(done, spec.iterations):
            report.before(iteration)
            (flown,) = run.step(report.stage)
            metrics = flight_metrics(flown.rollout, self.task, self.vehicle.limits)
            record = record_of(metrics, flown, iteration)
            folder.save_rollout(iteration, flown.rollout, flown.path)
            folder.append_iteration(record)
            if spec.method != "geometric":
                learned = batching.row(jax.device_get(run.state.policy), 0)
                with folder.writing("policy.npz") as path:
                    save_policy(path, learned, network)
            folder.save_checkpoint(iteration, (run.plants.state, run.state))
            report.after(record)
            logs.update()
            (scale,) = run.time_scales
            if not (np.isfinite(scale) and scale > 0.0):
                raise RunError(
                    f"--ats {spec.ats}: gave the time scale {scale:g} after flight {iteration}; it "
                    f"must be a positive number"
                )


def full_path(name_or_path: str) -> str:
    """A user's file by its full path; a shipped name as it is."""
    if embedded_files.is_path(name_or_path):
        return str(Path(name_or_path).expanduser().resolve())
    return name_or_path


def _begun(version: str) -> str:
    if version == __version__:
        return ""
    return f" (lafr-mjx {version} began it, and can go on with it; this is {__version__})"


def _digest(*things: Any) -> str:
    """Fingerprint of nested numbers; arrays count by what they hold."""
    text = json.dumps(_plain(things), default=lambda thing: _plain(vars(thing)))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _plain(value: Any) -> Any:
    """Named tuples and tuples as tables and lists of numbers."""
    if hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
