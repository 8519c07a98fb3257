"""A chunk of an ablation: runs that go through one program together and are stored together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from lafr_mjx.errors import RunError
from lafr_mjx.output import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lafr_mjx.ablation.plan import Plan, Run
    from lafr_mjx.learner.improve import LearnerSettings, Sizes
    from lafr_mjx.learner.loop import Adaptation, Flown
    from lafr_mjx.plant.scenario import Scenario
    from lafr_mjx.plant.vehicle import Vehicle
    from lafr_mjx.reference.path import Path
    from lafr_mjx.run_spec import RunSpec
    from lafr_mjx.tasks import Task
    from lafr_mjx.types import Rollout

_GEOMETRIC = "geometric"


class Member(NamedTuple):
    """One run of a batch, by what may differ between runs."""

    scenario: Scenario  # drawn: without ranges
    settings: LearnerSettings
    policy: Any  # flies first; None: the classical controller
    seed: int


class Chunk(NamedTuple):
    """All that is needed to fly some runs, here or on another machine."""

    task: Task
    sizes: Sizes
    keep: tuple[int, ...]  # flights to keep; -1 is the last
    names: tuple[str, ...]
    specs: tuple[RunSpec, ...]
    scenarios: tuple[Scenario, ...]
    policies: dict[int, bytes]  # of the task, by seed, as files; the classical controller has none
    size: int  # runs that the program is made for


class FlownRun(NamedTuple):
    """What came of one run."""

    name: str
    iterations: list[dict[str, Any]]
    flights: dict[int, tuple[Rollout, Path]]  # each with its reference


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
    plan: Plan, runs: Sequence[Run], policies: dict[int, bytes], keep: tuple[int, ...], size: int
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

    from lafr_mjx.adaptation.record import record_of
    from lafr_mjx.control.policy_file import from_bytes
    from lafr_mjx.learner import methods
    from lafr_mjx.metrics import flight_metrics
    from lafr_mjx.plant.vehicle import load_vehicle

    common = chunk.specs[0]  # but for scenario, method, seed and plant
    sizes = chunk.sizes._replace(horizon=common.horizon)
    vehicle = load_vehicle(common.vehicle)
    policies = {seed: from_bytes(data) for seed, data in chunk.policies.items()}
    members = [
        Member(
            scenario, methods.settings_for(spec),
            None if spec.method == _GEOMETRIC else policies[spec.seed], spec.seed,
        )
        for scenario, spec in zip(chunk.scenarios, chunk.specs, strict=True)
    ]  # fmt: skip
    batch = batch_of(
        vehicle, chunk.task, common, members, sizes=sizes, size=chunk.size,
        devices=min(devices or len(jax.devices()), chunk.size),
    )  # fmt: skip
    kept = {number % common.iterations for number in chunk.keep if number < common.iterations}
    flown = [FlownRun(name, [], {}) for name in chunk.names]
    for number in range(common.iterations):
        for run, one in zip(flown, _step(batch), strict=False):
            metrics = flight_metrics(one.rollout, chunk.task, vehicle.limits)
            run.iterations.append(record_of(metrics, one, number))
            if number in kept:
                run.flights[number] = (one.rollout, one.path)
        told(len(members))
    return flown


def batch_of(
    vehicle: Vehicle,
    task: Task,
    common: RunSpec,
    members: Sequence[Member],
    *,
    sizes: Sizes,
    size: int = 0,
    devices: int = 1,
) -> Adaptation:
    """Runs as one batch.

    Args:
        vehicle: of all.
        task: of all.
        common: what they share: engine, features, plugins.
        members: the runs.
        sizes: effort of the learning.
        size: runs that the program is made for, if more than there are: the rest is filled up,
            so that the last batch of many needs no program of its own.
        devices: of JAX, over which they are split.
    """
    from lafr_mjx.adaptation.plants import plants_of
    from lafr_mjx.control.geometric import geometric_controller
    from lafr_mjx.learner import loop

    whole = -(-max(size, len(members)) // devices) * devices
    members = [*members, *[members[-1]] * (whole - len(members))]
    scenarios, seeds = [m.scenario for m in members], [m.seed for m in members]
    plants = plants_of(common, vehicle, task, scenarios, seeds, devices)
    starts: dict[Any, Any] = {}  # runs with one seed and one policy begin alike
    for m in members:
        if (m.seed, id(m.policy)) not in starts:
            policy = geometric_controller(vehicle.limits) if m.policy is None else m.policy
            starts[m.seed, id(m.policy)] = loop.start(
                task, policy, m.seed, m.settings, common.features
            )
    states = [starts[m.seed, id(m.policy)] for m in members]
    settings = [m.settings for m in members]
    return loop.Adaptation(task, plants, states, settings, sizes=sizes, devices=devices)


def _step(batch: Adaptation) -> list[Flown]:
    import jax

    try:
        return batch.step()
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        raise RunError(
            f"a chunk of {counted(len(batch.time_scales), 'run')} does not fit the memory; what is "
            f"finished is stored: go on with a smaller --chunk"
        ) from error
