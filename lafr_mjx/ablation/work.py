"""The work of an ablation: base policies, then chunk after chunk, each stored when it is done."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lafr_mjx.ablation.chunk import Chunk, FlownRun, chunk_of, fly_chunk, split
from lafr_mjx.ablation.table import RunResult
from lafr_mjx.output import counted
from lafr_mjx.runner.job import Job
from lafr_mjx.runner.run_all import run_all

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lafr_mjx.ablation.plan import Plan, Run
    from lafr_mjx.ablation.table import AblationTable
    from lafr_mjx.runner.display import Display
    from lafr_mjx.runner.job import Backend, Flown


def base_policies(
    plan: Plan, runs: Sequence[Run], status: Callable[[str], None] = lambda what: None
) -> dict[str, dict[int, Any]]:
    """First policies by task and seed; the same that a single run takes."""
    from lafr_mjx import compilation_cache
    from lafr_mjx.adaptation.first_policy import first_policy

    compilation_cache.enable()
    found: dict[str, dict[int, Any]] = {run.spec.task: {} for run in runs}
    for task_name, seed in sorted(
        {(r.spec.task, r.spec.seed) for r in runs if r.spec.method != "geometric"}
    ):
        status(f"base policy of {task_name}, seed {seed}")
        task = plan.tasks[task_name]
        spec = replace(plan.asked.common, seed=seed)
        found[task_name][seed], _ = first_policy(spec, task, plan.vehicle.limits)
    return found


def work(
    plan: Plan,
    table: AblationTable,
    display: Display,
    backend: Backend,
    *,
    size: int,
    devices: int,
    keep: tuple[int, ...] = (),
    where: str = "",
) -> None:
    """Fly what is not in the table yet; what comes back is on disk before more is taken.

    Chunks have `size` runs; each process that flies them has so many `devices`.
    """
    from lafr_mjx.adaptation.first_policy import network_of
    from lafr_mjx.control.policy_file import to_bytes

    left = [run for run in plan.runs if run.name not in table.done]
    known = {run.name: run for run in left}
    # As files: a process that has not read the user's own could not unpickle a network of it.
    network = network_of(plan.asked.common.policy)
    policies = {
        task: {seed: to_bytes(policy, network) for seed, policy in by_seed.items()}
        for task, by_seed in base_policies(plan, left, display.status).items()
    }
    jobs = []
    for some, made_for in split(left, size):
        chunk = chunk_of(plan, some, {}, keep, made_for)
        more = f" and {counted(len(some) - 1, 'other')}" if len(some) > 1 else ""
        flights = len(some) * plan.asked.common.iterations
        own = policies[some[0].spec.task]
        jobs.append(Job(f"{some[0].name}{more}", flights, _fly, (chunk, devices), own, len(some)))

    def store(flown: Sequence[FlownRun]) -> dict[str, list[dict[str, Any]]]:
        for run in flown:
            for number, flight in run.flights.items():
                table.save_flight(run.name, number, *flight)
        table.append([_result(plan, known[run.name], run, table) for run in flown])
        return {run.name: run.iterations for run in flown}

    display.status(where)
    run_all([(backend, jobs)], display, store)


def _fly(chunk: Chunk, devices: int, policies: dict[int, bytes], flown: Flown) -> list[FlownRun]:
    return fly_chunk(chunk._replace(policies=policies), devices, flown)


def _result(plan: Plan, run: Run, flown: FlownRun, table: AblationTable) -> RunResult:
    return RunResult(
        name=run.name,
        method=run.spec.method,
        task=run.spec.task,
        scenario=str(run.spec.scenario),
        seed=run.spec.seed,
        plant=run.spec.plant,
        sweep=dict(run.sweep),
        command=plan.command(run, table.folder),
        iterations=flown.iterations,
    )
