"""The work of an ablation: base policies, then chunk after chunk, each stored when it is done."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from lafr_mjx.ablation.chunk import Chunk, FlownRun, chunk_of, fly_chunk, split
from lafr_mjx.ablation.table import RunResult

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lafr_mjx.ablation.cluster import Cluster
    from lafr_mjx.ablation.plan import Plan, Run
    from lafr_mjx.ablation.table import AblationTable


class Told(Protocol):
    """Who hears of the progress."""

    def training(self, task: str, seed: int) -> None:
        """A base policy is trained, or read from the cache."""
        ...

    def flown(self, flights: int) -> None:
        """So many flights were made."""
        ...

    def stored(self, results: Sequence[RunResult]) -> None:
        """These runs are finished and on the disk."""
        ...


def base_policies(
    plan: Plan, runs: Sequence[Run], told: Told | None = None
) -> dict[str, dict[int, Any]]:
    """First policies by task and seed, as NumPy arrays; the same that a single run takes."""
    import jax
    import numpy as np

    from lafr_mjx import compilation_cache
    from lafr_mjx.adaptation.first_policy import first_policy

    compilation_cache.enable()
    found: dict[str, dict[int, Any]] = {run.spec.task: {} for run in runs}
    for task_name, seed in sorted(
        {(r.spec.task, r.spec.seed) for r in runs if r.spec.method != "geometric"}
    ):
        if told is not None:
            told.training(task_name, seed)
        task = plan.tasks[task_name]
        spec = replace(plan.asked.common, seed=seed)
        policy, _ = first_policy(spec, task, plan.vehicle.limits)
        found[task_name][seed] = jax.tree.map(np.asarray, policy)
    return found


def work(
    plan: Plan,
    table: AblationTable,
    told: Told,
    *,
    size: int,
    devices: int | None = None,
    keep: tuple[int, ...] = (),
    cluster: Cluster | None = None,
) -> None:
    """Fly what is not in the table yet; each chunk is safe on disk before the next begins."""
    left = [run for run in plan.runs if run.name not in table.done]
    policies = base_policies(plan, left, told)
    chunks = [
        chunk_of(plan, some, policies[some[0].spec.task], keep, made_for)
        for some, made_for in split(left, size)
    ]
    known = {run.name: run for run in left}
    for flown in _here(chunks, devices, told) if cluster is None else cluster.fly(chunks):
        for run in flown:
            for number, rollout in run.flights.items():
                table.save_flight(run.name, number, rollout)
        results = [_result(plan, known[run.name], run, table) for run in flown]
        table.append(results)
        told.stored(results)
        if cluster is not None:
            told.flown(len(flown) * plan.asked.common.iterations)


def _here(chunks: Sequence[Chunk], devices: int | None, told: Told) -> Iterator[list[FlownRun]]:
    for chunk in chunks:
        yield fly_chunk(chunk, devices, told.flown)


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
