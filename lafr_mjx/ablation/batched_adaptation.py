"""Many adaptations at once: one compiled program flies and teaches a whole batch.

What differs between the runs (plant, wind, delay, method, seed, what was learned so far) is a
leaf with a leading axis. A batch is split evenly over the JAX devices.
"""

from __future__ import annotations

import math
import time
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from lafr_mjx import compilation_cache
from lafr_mjx.adaptation.record import record_of
from lafr_mjx.learner import adapt
from lafr_mjx.learner.improve import LearnerSettings, LearnerState, Sizes, improve
from lafr_mjx.metrics import flight_metrics
from lafr_mjx.plant import flight, simulation
from lafr_mjx.plant.engine import build_engine
from lafr_mjx.plant.plant import ticks_of, trimmed
from lafr_mjx.plant.scenario_params import conditions_for
from lafr_mjx.reference.path import derivatives
from lafr_mjx.types import CONTROL_DT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lafr_mjx.learner.improve import Progress, TimeScaling
    from lafr_mjx.plant.engine import Engine, EngineName
    from lafr_mjx.plant.flight import Conditions
    from lafr_mjx.plant.params import PlantParams
    from lafr_mjx.plant.plugins import Plugin
    from lafr_mjx.plant.scenario import Scenario
    from lafr_mjx.plant.simulation import PlantState
    from lafr_mjx.plant.vehicle import Vehicle
    from lafr_mjx.reference.clock import Clock
    from lafr_mjx.reference.path import Path
    from lafr_mjx.run_spec import Features
    from lafr_mjx.tasks import Task
    from lafr_mjx.types import Rollout

_AXIS = "runs"


class Member(NamedTuple):
    """One run of a batch, by what may differ between runs."""

    scenario: Scenario  # drawn: without ranges
    settings: LearnerSettings
    policy: Any  # flies first
    seed: int


class Common(NamedTuple):
    """What the runs of a batch share; it shapes the program."""

    vehicle: Vehicle
    task: Task
    engine: EngineName
    rule: TimeScaling = "verified"
    sizes: Sizes = Sizes()
    features: Features = "default"
    plugins: Mapping[str, Plugin] = {}


class _Before(NamedTuple):
    """One run before an iteration; every leaf can be batched."""

    conditions: Conditions
    plant: PlantState
    learner: LearnerState
    settings: LearnerSettings
    clock: Clock
    seconds: Any
    ticks: Any  # by which the plant's own clock moves on, as in a single run
    dither: Any


class _After(NamedTuple):
    """One run after an iteration."""

    plant: PlantState
    learner: LearnerState
    progress: Progress
    rollout: Rollout


def iteration(
    engine: Engine, path: Path, ramp_s: Any, rule: TimeScaling, sizes: Sizes, run: _Before
) -> _After:
    """Fly once and learn from it: one run, pure.

    Every flight is as long as the longest that the learner takes, and stands still from its own
    end on: flights of all time scales share one program.
    """
    controller = adapt.guarded(run.learner, run.dither)
    start = derivatives(path, run.clock.phase)[0, :3]
    state = flight.ready_to_fly(engine, run.conditions.before, run.plant, start)
    state, rollout = flight.fly(
        engine, run.conditions, state, controller, path, run.clock, run.seconds,
        ticks=adapt.FLIGHT_TICKS,
    )  # fmt: skip
    # Random numbers are addressed by the plant's clock.
    state = state.replace(tick=run.plant.tick + run.ticks)
    learner, progress = improve(
        run.learner, _cut(adapt.seen(rollout), run.seconds), path, ramp_s, run.settings,
        rule=rule, sizes=sizes,
    )  # fmt: skip
    return _After(state, learner, progress, rollout)


def _cut(rollout: Rollout, seconds: Any) -> Rollout:
    """Zeros from the end of the flight on, as a single run has them."""
    ticks = rollout.time.shape[0]
    inside = jnp.arange(ticks) < jnp.ceil(seconds / CONTROL_DT - 1e-3)

    def cut(leaf: jax.Array) -> jax.Array:
        mask = jnp.repeat(inside, leaf.shape[0] // ticks)
        return jnp.where(mask.reshape((-1,) + (1,) * (leaf.ndim - 1)), leaf, jnp.zeros_like(leaf))

    return jax.tree.map(cut, rollout)


@lru_cache(maxsize=8)
def _program(
    engine: Engine, rule: TimeScaling, sizes: Sizes, devices: int
) -> Callable[[Any, Any, _Before], _After]:
    def share(path: Path, ramp_s: Any, runs: _Before) -> _After:
        one = partial(iteration, engine, path, ramp_s, rule, sizes)
        if runs.seconds.shape[0] > 1:
            return jax.vmap(one)(runs)
        # A batch of one would still pay for batched matrix products.
        return jax.tree.map(lambda leaf: leaf[None], one(_row(runs, 0)))

    same, split = PartitionSpec(), PartitionSpec(_AXIS)
    # The runs know nothing of each other: no device ever waits for another.
    return jax.jit(
        jax.shard_map(
            share, mesh=_mesh(devices), in_specs=(same, same, split), out_specs=split,
            check_vma=False,
        )
    )  # fmt: skip


def _mesh(devices: int) -> Mesh:
    return Mesh(np.array(jax.devices()[:devices]), (_AXIS,))


class BatchedAdaptation:
    """A batch of runs on its way; `step` makes one flight of each and lets all learn from it."""

    def __init__(
        self, common: Common, members: Sequence[Member], *, devices: int = 1, size: int = 0
    ) -> None:
        """Before the first flight.

        Args:
            common: what the runs share.
            members: the runs.
            devices: how many of JAX's devices they are split over.
            size: runs that the program is made for, if more than there are: the rest is filled
                up, so that the last batch of many needs no program of its own.
        """
        compilation_cache.enable()
        self.common, self.devices = common, devices
        self.count, self.flights = len(members), 0
        whole = math.ceil(max(size, self.count) / devices) * devices
        self.members = [*members, *[members[-1]] * (whole - self.count)]
        self._engine = build_engine(common.vehicle, common.engine)
        self._constant: Any = None
        task = common.task
        self._path = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), task.path)
        settings = [adapt.settings_on(task, member.settings) for member in self.members]
        self._settings = _stacked(settings)
        # Runs with one seed and one policy begin alike.
        starts = {
            (m.seed, id(m.policy)): adapt.start(
                m.policy, task.start_time_scale, m.seed, common.features
            )
            for m in self.members
        }
        self._learner = _stacked([starts[m.seed, id(m.policy)] for m in self.members])
        seeds = np.array([member.seed for member in self.members])
        self._plant = _fresh_plants(self._engine, self._conditions().before, seeds)

    def step(self) -> tuple[list[dict[str, Any]], list[Rollout]]:
        """One flight and its learning for all: the record and the recorded flight of each run."""
        common, task = self.common, self.common.task
        started = time.monotonic()
        scales = [float(x) for x in np.asarray(self._learner.ats.time_scale)]
        predicted = [float(x) for x in np.asarray(self._learner.ats.predicted)]
        seconds = [adapt.flight_seconds(task, scale) for scale in scales]
        before = _Before(
            conditions=self._conditions(),
            plant=self._plant,
            learner=self._learner,
            settings=self._settings,
            clock=_stacked([task.start_clock(scale) for scale in scales]),
            seconds=np.asarray(seconds, np.float32),
            ticks=np.asarray([ticks_of(each)[1] for each in seconds], np.int32),
            dither=np.full(len(seconds), adapt.dither_of(self.flights), np.float32),
        )
        split = NamedSharding(_mesh(self.devices), PartitionSpec(_AXIS))
        program = _program(self._engine, common.rule, common.sizes, self.devices)
        after = program(
            self._path, jnp.float32(task.ramp_s), jax.device_put(_float32(before), split)
        )
        self._plant, self._learner = after.plant, after.learner
        progress, rollouts = jax.device_get((after.progress, after.rollout))
        each_s = (time.monotonic() - started) / self.count
        records, flown = [], []
        for i in range(self.count):
            rollout = trimmed(_row(rollouts, i), ticks_of(seconds[i])[0])
            metrics = flight_metrics(rollout, task, common.vehicle.limits)
            told = adapt.Flown(rollout, scales[i], predicted[i], _row(progress, i))
            records.append(record_of(metrics, told, self.flights, each_s))
            flown.append(rollout)
        self.flights += 1
        return records, flown

    @property
    def programs(self) -> int:
        """Compiled programs that batches of this kind have needed so far; one is right."""
        common = self.common
        return _program(self._engine, common.rule, common.sizes, self.devices)._cache_size()  # type: ignore[attr-defined]

    @property
    def learned(self) -> LearnerState:
        """What each run has learned so far, [runs, ...]."""
        return jax.tree.map(lambda leaf: np.asarray(leaf)[: self.count], self._learner)

    def _conditions(self) -> Conditions:
        """Of the flight that comes next; computed anew only where a scenario changes."""
        if self._constant is not None:
            return self._constant
        vehicle, fans = self.common.vehicle, self.common.task.fans
        made: dict[int, Any] = {}
        for member in self.members:
            if id(member.scenario) not in made:
                made[id(member.scenario)] = conditions_for(
                    vehicle, member.scenario, self.flights, fans, self.common.plugins
                )
        conditions = _stacked([made[id(member.scenario)] for member in self.members])
        if not any(member.scenario.changes for member in self.members):
            self._constant = conditions
        return conditions


@partial(jax.jit, static_argnames=("engine",))
def _fresh_plants(engine: Engine, params: PlantParams, seeds: jax.Array) -> PlantState:
    def one(params: PlantParams, seed: jax.Array) -> PlantState:
        return simulation.reset(engine, params, jax.random.key(seed))

    return jax.vmap(one)(params, seeds)


def _stacked(trees: list[Any]) -> Any:
    """Trees of one structure as one with a leading axis, on the host."""
    return jax.tree.map(lambda *leaves: np.stack([np.asarray(x) for x in leaves]), *trees)


def _row(tree: Any, index: int) -> Any:
    return jax.tree.map(lambda leaf: leaf[index], tree)


def _float32(tree: Any) -> Any:
    """Double precision of the host's numbers ends here; counters and keys stay what they are."""
    return jax.tree.map(
        lambda leaf: leaf.astype(np.float32) if leaf.dtype == np.float64 else leaf, tree
    )
