"""A chunk of an ablation: runs that go through one program together and are stored together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from lafr_mjx.errors import RunError
from lafr_mjx.output import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lafr_mjx.ablation.batched_adaptation import BatchedAdaptation
    from lafr_mjx.ablation.plan import Plan, Run
    from lafr_mjx.learner.improve import Sizes
    from lafr_mjx.plant.scenario import Scenario
    from lafr_mjx.run_spec import RunSpec
    from lafr_mjx.tasks import Task
    from lafr_mjx.types import Rollout

_GEOMETRIC = "geometric"


class Chunk(NamedTuple):
    """All that is needed to fly some runs, here or on another machine."""

    task: Task
    sizes: Sizes
    keep: tuple[int, ...]  # flights to keep; -1 is the last
    names: tuple[str, ...]
    specs: tuple[RunSpec, ...]
    scenarios: tuple[Scenario, ...]
    policies: dict[int, Any]  # of the task, by seed; the classical controller needs none
    size: int  # runs that the program is made for


class FlownRun(NamedTuple):
    """What came of one run."""

    name: str
    iterations: list[dict[str, Any]]
    flights: dict[int, Rollout]


def split(runs: Sequence[Run], size: int) -> list[tuple[list[Run], int]]:
    """Chunks of runs that can share a program, and the number that the program is made for.

    They have one task and one kind of controller; only the last chunk of a kind is filled up.
    """
    kinds: dict[tuple[str, bool], list[Run]] = {}
    for run in runs:
        kinds.setdefault((run.spec.task, run.spec.method == _GEOMETRIC), []).append(run)
    return [
        (kind[i : i + size], min(size, len(kind)))
        for kind in kinds.values()
        for i in range(0, len(kind), size)
    ]


def chunk_of(
    plan: Plan, runs: Sequence[Run], policies: dict[int, Any], keep: tuple[int, ...], size: int
) -> Chunk:
    """The chunk of these runs; `policies` are the base policies of its task."""
    return Chunk(
        task=plan.tasks[runs[0].spec.task],
        sizes=plan.asked.sizes,
        keep=keep,
        names=tuple(run.name for run in runs),
        specs=tuple(run.spec for run in runs),
        scenarios=tuple(plan.scenario(run) for run in runs),
        policies=policies,
        size=size,
    )


def fly_chunk(
    chunk: Chunk, devices: int | None = None, told: Callable[[int], None] = lambda flights: None
) -> list[FlownRun]:
    """Fly all runs of a chunk to their ends; `told` hears of flights that were made."""
    import jax

    from lafr_mjx.ablation.batched_adaptation import BatchedAdaptation, Common, Member
    from lafr_mjx.control.geometric import geometric_controller
    from lafr_mjx.learner import methods
    from lafr_mjx.plant import user_plugins
    from lafr_mjx.plant.vehicle import load_vehicle

    common = chunk.specs[0]  # but for scenario, method, seed and plant
    vehicle = load_vehicle(common.vehicle)
    classical = geometric_controller(vehicle.limits)
    members = [
        Member(
            scenario, methods.settings_of(spec.method, spec.features),
            classical if spec.method == _GEOMETRIC else chunk.policies[spec.seed], spec.seed,
        )
        for scenario, spec in zip(chunk.scenarios, chunk.specs, strict=True)
    ]  # fmt: skip
    sizes = chunk.sizes._replace(horizon=common.horizon)
    plugins = user_plugins.build(common.plugins)
    shared = Common(vehicle, chunk.task, common.engine, common.ats, sizes, common.features, plugins)
    batch = BatchedAdaptation(
        shared, members, devices=min(devices or len(jax.devices()), chunk.size), size=chunk.size
    )
    kept = {number % common.iterations for number in chunk.keep if number < common.iterations}
    flown = [FlownRun(name, [], {}) for name in chunk.names]
    for number in range(common.iterations):
        records, rollouts = _step(batch)
        for run, record, rollout in zip(flown, records, rollouts, strict=True):
            run.iterations.append(record)
            if number in kept:
                run.flights[number] = rollout
        told(len(members))
    return flown


def _step(batch: BatchedAdaptation) -> tuple[list[dict[str, Any]], list[Rollout]]:
    import jax

    try:
        return batch.step()
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        raise RunError(
            f"a chunk of {counted(len(batch.members), 'run')} does not fit the memory; what is "
            f"finished is stored: go on with a smaller --chunk"
        ) from error
