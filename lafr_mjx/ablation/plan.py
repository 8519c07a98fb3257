"""What an ablation flies: methods × scenarios × seeds × plants × swept values, as single runs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from lafr_mjx.ablation import sweep as sweeps
from lafr_mjx.ablation.sweep import Point, Sweep
from lafr_mjx.adaptation import own_parts
from lafr_mjx.adaptation.adaptation_job import AdaptationJob, full_path
from lafr_mjx.errors import InputError
from lafr_mjx.learner import methods
from lafr_mjx.learner.improve import Sizes
from lafr_mjx.learner.loop import check_duration
from lafr_mjx.output import check_range
from lafr_mjx.plant import user_plugins
from lafr_mjx.plant.engine import build_engine
from lafr_mjx.plant.vehicle import Vehicle, load_vehicle
from lafr_mjx.run_spec import ENGINES, RunSpec
from lafr_mjx.tasks import Task, load_task

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lafr_mjx.plant.scenario import Scenario


class Block(NamedTuple):
    """Every method on one task in every one of some scenarios."""

    task: str
    scenarios: tuple[str, ...]
    methods: tuple[str, ...]


class Run(NamedTuple):
    """One adaptation of the ablation."""

    spec: RunSpec
    sweep: Point
    name: str  # unlike any other's


@dataclass(frozen=True)
class Asked:
    """What defines the runs of an ablation."""

    blocks: tuple[Block, ...]
    seeds: tuple[int, ...]
    plants: int = 1
    sweep: tuple[str, ...] = ()
    common: RunSpec = field(default_factory=RunSpec)  # what the runs share
    sizes: Sizes = field(default_factory=Sizes)  # of the learner's batches and steps


_OWN = ("task", "scenario", "method", "seed", "plant", "log")  # there are no folders for logs
SHARED = tuple(key.name for key in fields(RunSpec) if key.name not in _OWN)
"""Keys of a run that all runs of an ablation have in common."""


@dataclass(frozen=True)
class Plan:
    """All runs, with what they need, checked."""

    asked: Asked
    vehicle: Vehicle
    runs: list[Run] = field(default_factory=list)
    tasks: dict[str, Task] = field(default_factory=dict)
    swept: dict[tuple[str, Point], sweeps.SweptScenario] = field(default_factory=dict)

    @staticmethod
    def of(asked: Asked) -> Plan:
        """Load and check everything before anything is flown."""
        _check(asked)
        own = tuple(map(user_plugins.located, asked.common.plugins))
        user_plugins.build(own)
        asked = replace(asked, common=replace(asked.common, plugins=own))
        plan = Plan(asked, load_vehicle(asked.common.vehicle))
        if asked.common.engine == "freebody":  # does not take every vehicle
            build_engine(plan.vehicle, "freebody")
        points = list(sweeps.points([Sweep.parse(text) for text in asked.sweep]))
        for block in asked.blocks:
            task = plan.tasks.setdefault(block.task, load_task(block.task, plan.vehicle.limits))
            check_duration(task)
            for scenario in (name or task.scenario for name in block.scenarios):
                for point in points:
                    plan._add(block, task, scenario, point)
        first = plan.runs[0].spec
        own_parts.check(first, plan.tasks[first.task], plan.vehicle.limits)
        for name, count in Counter(run.name for run in plan.runs).items():
            if count > 1:
                raise InputError(f"the run {name} is asked for {count} times; name each thing once")
        return plan

    def _add(self, block: Block, task: Task, scenario: str, point: Point) -> None:
        if self.asked.common.engine not in ENGINES and (scenario != task.scenario or point):
            raise InputError(
                f"--scenarios {scenario}: scenarios and sweeps are of our own plant; --engine "
                f"names another"
            )
        known = self.swept.setdefault((scenario, point), sweeps.at(scenario, point)).scenario
        if self.asked.plants > 1 and not known.randomised:
            raise InputError(
                f"--plants {self.asked.plants}: the scenario '{scenario}' is the same for every "
                f"plant; take one with ranges, such as 'randomised'"
            )
        for seed in self.asked.seeds:
            for plant in range(self.asked.plants):
                for method in block.methods:
                    words = [task.name, known.name, method, f"seed{seed}"]
                    words += [f"plant{plant}"] if known.randomised else []
                    name = "-".join(words)
                    spec = replace(
                        self.asked.common, task=block.task, scenario=scenario, method=method,
                        seed=seed, plant=plant,
                    )  # fmt: skip
                    self.runs.append(Run(spec, point, name))

    def _swept(self, run: Run) -> sweeps.SweptScenario:
        return self.swept[str(run.spec.scenario), run.sweep]

    def scenario(self, run: Run) -> Scenario:
        """What this run flies in, drawn if it is random."""
        return self._swept(run).scenario.drawn(run.spec.seed, run.spec.plant)

    def scenario_files(self) -> dict[str, str]:
        """Texts of the scenario files of the swept points, by name."""
        return {swept.file: swept.text for swept in self.swept.values() if swept.file}

    def command(self, run: Run, folder: Path) -> str:
        """The command that repeats one run by itself."""
        file = self._swept(run).file
        place = str(folder / "scenarios" / file) if file else run.spec.scenario
        return replace(run.spec, scenario=place).command

    def digests(self) -> dict[str, str]:
        """Fingerprints of the files that the runs are made of, to notice that one was edited."""
        found: dict[str, str] = {}
        for run in self.runs:
            where = f"{run.spec.scenario} {sweeps.text_of(run.sweep)}".strip()
            keys = {"task": run.spec.task, "scenario": where, "vehicle": run.spec.vehicle}
            keys |= {"plugins": ""} if run.spec.plugins else {}
            if all(f"{kind} {name}" in found for kind, name in keys.items()):
                continue
            job = AdaptationJob(
                run.spec, self.tasks[run.spec.task], self.scenario(run), self.vehicle
            )
            for kind, digest in job.digests().items():
                found.setdefault(f"{kind} {keys.get(kind, '')}", digest)
        return found

    def config(self) -> dict[str, Any]:
        """What was asked, as it is written beside the results."""
        asked = self.asked
        blocks = [
            {"task": b.task, "scenarios": list(b.scenarios), "methods": list(b.methods)}
            for b in asked.blocks
        ]
        return {
            "ablation": {
                "seeds": list(asked.seeds),
                "plants": asked.plants,
                "sweep": list(asked.sweep),
                **{key: asked.common.table()[key] for key in SHARED},
                "sizes": asked.sizes._asdict(),
                "blocks": blocks,
            },
            "digests": self.digests(),
        }


def blocks_of(
    tasks: tuple[str, ...], scenarios: tuple[str, ...], chosen: tuple[str, ...]
) -> list[Block]:
    """Every method on every task in every scenario; files by their full path."""
    places = tuple(full_path(name) for name in scenarios)
    return [Block(full_path(task), places, chosen) for task in tasks]


def blocks_of_specs(specs: Sequence[RunSpec]) -> list[Block]:
    """Blocks that hold exactly the tasks, scenarios and methods of these runs."""
    methods: dict[tuple[str, str], dict[str, None]] = {}
    for spec in specs:
        methods.setdefault((spec.task, str(spec.scenario)), {})[spec.method] = None
    scenarios: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (task, scenario), some in methods.items():
        scenarios.setdefault((task, tuple(some)), []).append(scenario)
    return [Block(task, tuple(where), some) for (task, some), where in scenarios.items()]


def _check(asked: Asked) -> None:
    for block in asked.blocks:
        for method in block.methods:
            spec = replace(asked.common, method=method)  # type: ignore[arg-type]
            methods.settings_for(spec)
            spec.check()
    if not asked.blocks or not all(b.methods and b.scenarios for b in asked.blocks):
        raise InputError("nothing to fly: give at least one task, scenario and method")
    seeds = " ".join(map(str, asked.seeds))
    if not seeds or not all(0 <= seed < 2**31 for seed in asked.seeds):
        raise InputError(f"--seeds {seeds}: must be at least one, each from 0 to {2**31 - 1}")
    check_range("plants", asked.plants, 1, 65536)
