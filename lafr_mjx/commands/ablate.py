"""`lafr-mjx ablate`: which part of the method matters, where, and is it luck?"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from tyro.conf import Positional, UseAppendAction

from lafr_mjx.errors import InputError
from lafr_mjx.output import check_range, check_writable, counted, print_table, write_json
from lafr_mjx.run_spec import ENGINES, RunSpec

if TYPE_CHECKING:
    from rich.console import Console

    from lafr_mjx.ablation.plan import Plan
    from lafr_mjx.ablation.table import AblationTable, RunResult


def _also(alias: str) -> Any:
    return tyro.conf.arg(aliases=[alias])


class _Usual(tuple[Any, ...]):
    """Nothing was said: the default. An option without values (an empty variable) is none."""


@dataclass
class Ablate:
    """Run whole adaptations in batches: methods × scenarios × seeds × swept values.

    lafr-mjx ablate --out runs/ablation

    lafr-mjx ablate figure8 --methods ours baseline --scenarios nominal --sweep delay_ms=0,20,40

    lafr-mjx ablate --preset paper --out runs/paper

    lafr-mjx ablate --plants 32 --scenario randomised --out runs/plants

    Without other words: the paper's five methods on the figure-8, in nominal and wind5, with
    seeds 0, 1, 2. Results are stored chunk by chunk. Interrupted, the same command goes on.
    """

    tasks: Positional[tuple[str, ...]] = ()
    """Names of shipped tasks, or paths of task files; default figure8."""
    methods: Annotated[tuple[str, ...], _also("--method")] = _Usual()
    """Methods; default ours baseline lotf anchor-only residual-only, with --plants ours."""
    scenarios: Annotated[tuple[str, ...], _also("--scenario")] = _Usual()
    """Names or files; default nominal wind5, with --plants randomised."""
    seeds: Annotated[tuple[int, ...], _also("--seed")] = _Usual()
    """Seeds of plant, learner and base policy; default 0 1 2, with --plants 0."""
    plants: int = 1
    """Plants that are drawn from a randomised scenario for each seed."""
    sweep: UseAppendAction[
        Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE,VALUE,...")]
    ] = ()
    """A setting of the scenario, e.g. delay_ms=0,20,40; may be repeated."""
    preset: Literal["paper"] | None = None
    """The paper's simulations: five methods on the figure-8, ours elsewhere."""
    iterations: int = RunSpec.iterations
    """Flights of each run, each followed by learning."""
    ats: str = RunSpec.ats
    """How the time scale is chosen, as for adapt."""
    features: str = RunSpec.features
    """Inputs of the learned residual, as for adapt."""
    policy: str = RunSpec.policy
    """What is trained, as for adapt."""
    reference: str = RunSpec.reference
    """What is flown along, as for adapt."""
    corridor: float = RunSpec.corridor
    """How far from the task's path a planned reference may be [m], as for adapt."""
    cost: str = RunSpec.cost
    """What policies are trained for, as for adapt."""
    horizon: int = RunSpec.horizon
    """Length of the simulated flights that policies are trained on [steps of 20 ms]."""
    noise_prior: float = RunSpec.noise_prior
    """Sensor noise that is expected before the first flight, as for adapt."""
    lag_prior: float = RunSpec.lag_prior
    """Lag of the commands that is expected before the first flight, as for adapt."""
    engine: str = RunSpec.engine
    """Physics, as for adapt."""
    plugins: UseAppendAction[tuple[str, ...]] = ()
    """A plugin of your own, as for adapt; may be repeated."""
    vehicle: str = "lafr192"
    """Name of a shipped vehicle, or path of a vehicle profile."""
    out: Path = Path("runs/ablation")
    """Folder of the results."""
    chunk: int | None = None
    """Runs that fly and are stored together; default one per core, or 64 per accelerator."""
    devices: int | None = None
    """Cores or accelerators to use; default all."""
    processes: int | None = None
    """Fly the chunks by so many processes instead; each then has one thread."""
    ray: str | None = None
    """Address of a Ray cluster that flies the chunks (pip install 'lafr-mjx[cluster]')."""
    keep_flights: tuple[int, ...] = ()
    """Numbers of the flights of each run to keep as files; -1 is the last."""
    against: Path | None = None
    """Folder of another ablation, whose runs these are paired with: other options, same seeds."""
    only_print: bool = False
    """Fly nothing: print the table of what is there."""
    json: Path | None = None
    """Write the table there, too."""
    sizes: tyro.conf.Suppress[Any] = None
    """The learner's `Sizes`, for programs that want less effort; not on the command line."""

    def run(self) -> list[RunResult]:
        """Fly what is missing, then print the table; returns the finished runs."""
        check_writable(self.json)
        if self.against is not None:
            from lafr_mjx.ablation.table import read_results

            read_results(self.against)
        if self.only_print:
            return self._tell()
        self._check()
        from rich.console import Console

        from lafr_mjx.ablation.plan import Plan
        from lafr_mjx.ablation.table import AblationTable
        from lafr_mjx.plant.scenario import tell_notes

        plan = Plan.of(self._asked())
        console = Console(highlight=False)
        if self.engine in ENGINES:  # another plant knows nothing of scenarios
            tell_notes((swept.scenario for swept in plan.swept.values()), print)
        with AblationTable.open(self.out, plan.config(), plan.scenario_files()) as table:
            if table.dropped_bytes:
                console.print(
                    f"The last line of {table.folder / 'results.jsonl'} was cut short "
                    f"({table.dropped_bytes} bytes); it is dropped and its run flown again."
                )
            done = sum(run.name in table.done for run in plan.runs)
            console.print(
                f"{counted(len(plan.runs), 'adaptation')} of {counted(self.iterations, 'flight')} "
                f"in {self.out}, {done} of them finished already. Interrupted, the same command "
                f"goes on."
            )
            if done < len(plan.runs):
                self._work(plan, table, console)
        return self._tell()

    def _check(self) -> None:
        for name in ("methods", "scenarios", "seeds"):
            value = getattr(self, name)
            if not value and not isinstance(value, _Usual):
                raise InputError(f"--{name}: names none; give some, or leave it out")
        check_range("chunk", self.chunk, 1, 65536)
        check_range("devices", self.devices, 1, 65536)
        for number in self.keep_flights:
            if not -self.iterations <= number < self.iterations:
                raise InputError(
                    f"--keep-flights {number}: must be from {-self.iterations} to "
                    f"{self.iterations - 1}, with {counted(self.iterations, 'flight')}"
                )
        if self.preset is not None:
            taken = ("tasks", "methods", "scenarios", "plants", "sweep")
            for field in fields(self):
                if field.name in taken and getattr(self, field.name) != field.default:
                    raise InputError(f"--preset {self.preset}: sets {field.name} itself")
        if self.ray is not None:
            from lafr_mjx.runner.ray_cluster import check_address

            check_address(self.ray)
            for name in ("devices", "processes"):
                if getattr(self, name) is not None:
                    raise InputError(f"--{name}: with --ray, the cluster decides what flies where")
        elif self.processes is not None:
            check_range("processes", self.processes, 1, 256)
            if self.devices is not None:
                raise InputError("--devices: with --processes, each process has one")
        elif self.devices is not None:
            from lafr_mjx.runner.devices import check_devices

            check_devices(self.devices)

    def _asked(self) -> Any:
        from lafr_mjx.ablation import plan as plans
        from lafr_mjx.adaptation.adaptation_job import full_path
        from lafr_mjx.report.paper_runs import METHODS, SEEDS, WORLDS, PaperRuns

        many = self.plants > 1
        usual = ("randomised",) if many else WORLDS
        usual = usual if self.engine in ENGINES else ("",)  # another plant knows no scenarios
        if self.preset is not None:
            blocks = plans.blocks_of_specs(PaperRuns().adaptations())
        else:
            blocks = plans.blocks_of(
                self.tasks or ("figure8",),
                self.scenarios or usual,
                self.methods or (("ours",) if many else METHODS),
            )
        return plans.Asked(
            blocks=tuple(blocks),
            seeds=self.seeds or ((0,) if many else SEEDS),
            plants=self.plants,
            sweep=self.sweep,
            common=RunSpec(
                vehicle=full_path(self.vehicle),
                **{key: getattr(self, key) for key in plans.SHARED if key != "vehicle"},
            ).located(),
            sizes=self.sizes or plans.Sizes(),
        )

    def _work(self, plan: Plan, table: AblationTable, console: Console) -> None:
        from contextlib import ExitStack

        from lafr_mjx.ablation.work import work
        from lafr_mjx.runner import devices as machine
        from lafr_mjx.runner.display import Display
        from lafr_mjx.runner.here import Here
        from lafr_mjx.runner.processes import Processes
        from lafr_mjx.runner.ray_cluster import Cluster

        left = sum(run.name not in table.done for run in plan.runs)
        with ExitStack() as stack:
            devices = 1
            if self.ray is not None:
                backend = stack.enter_context(Cluster(self.ray))
                size = self.chunk or (machine.ON_ACCELERATOR if backend.gpus else 1)
                where = "Ray"
            elif self.processes is not None:
                backend, size = Processes(self.processes), self.chunk or 1
                where = f"processes: {self.processes}"
            else:
                machine.use_all_cores(self.devices)
                import jax

                backend, there = Here(), len(jax.devices())
                devices = min(self.devices or there, there, left)
                size = self.chunk or machine.usual_size(left, devices)
                where = f"{devices} × {jax.devices()[0].device_kind}"
            done, flights = len(plan.runs) - left, left * self.iterations
            display = stack.enter_context(Display(console, len(plan.runs), done, flights))
            work(
                plan, table, display, backend, size=size, devices=devices, keep=self.keep_flights,
                where=f"{where}, chunks of {size}",
            )  # fmt: skip

    def _tell(self) -> list[RunResult]:
        from lafr_mjx.ablation import summary as summary
        from lafr_mjx.ablation.table import read_results

        results = read_results(self.out)
        groups = summary.groups_of(results)
        columns, rows, text_columns = summary.table_rows(groups)
        print_table(
            f"{counted(len(results), 'adaptation')}; mean ± standard deviation",
            columns, rows, text_columns,
        )  # fmt: skip
        for group in groups:
            if group.plants > 1:
                print("\n".join(summary.lines_about_plants(group)))
        figures = {"runs": len(results), "groups": [group.plain() for group in groups]}
        figures["paired"] = self._tell_pairs(results)
        write_json(self.out / "summary.json", figures)
        write_json(self.json, figures)
        print(f"Results: {self.out / 'results.jsonl'}")
        return results

    def _tell_pairs(self, results: list[RunResult]) -> list[dict[str, Any]]:
        """Print which methods, and which other options, made a difference; the same for JSON."""
        from lafr_mjx.ablation import paired
        from lafr_mjx.ablation.table import read_config, read_results

        found = paired.by_method(results)
        if self.against is not None:
            asked, there = (read_config(x)["ablation"] for x in (self.out, self.against))
            found += paired.against(results, asked, read_results(self.against), there)
        if found:
            print_table("Pair by pair, same seeds and plants", *paired.table_rows(found))
        return [one.plain() for one in found]
