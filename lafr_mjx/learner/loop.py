"""The loop: fly a lap, calibrate, plan, improve, accelerate; over anything that can `fly`.

A run on its own is a batch of one. What flies is a plug: the simulated fleet, a drone, another
simulator. What learns is pure and the same for all.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from lafr_mjx import batching, compilation_cache
from lafr_mjx.control.departure import WINDOWS
from lafr_mjx.errors import InputError
from lafr_mjx.learner import improve
from lafr_mjx.learner.guarded import Guarded, surprising_departure
from lafr_mjx.learner.improve import (
    WINDOW,
    LearnerSettings,
    LearnerState,
    Progress,
    Sizes,
    TaskRoom,
)
from lafr_mjx.learner.speed_limit import SpeedLimit, keep_to
from lafr_mjx.learner.time_scaling import Pace, started
from lafr_mjx.model import data, residual
from lafr_mjx.model.state import ModelState
from lafr_mjx.types import CONTROL_DT, Rollout

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lafr_mjx.control.controller import Controller, Learnable
    from lafr_mjx.learner.references import Planned
    from lafr_mjx.learner.speed_limit import FastestOn
    from lafr_mjx.reference.clock import Clock
    from lafr_mjx.reference.path import Path
    from lafr_mjx.tasks import Task

MEMBERS = 4
"""Residuals in the ensemble."""

FLIGHT_TICKS = 750
"""Longest flight that the learner takes [control intervals]; shorter ones are padded."""

GUARD_ERROR_M = 0.5
"""Error beyond which the last good policy takes over."""


class Plant(Protocol):
    """A drone, simulated by whomever or real, as the loop knows it."""

    def start(self, seed: int) -> Any:
        """A fresh vehicle; what is returned goes from flight to flight (a pytree)."""
        ...

    def fly(
        self, run: Any, controller: Controller, path: Path, clock: Clock, seconds: float
    ) -> tuple[Any, Rollout]:
        """Fly along a path from rest in hover at its start."""
        ...


class Plants(Protocol):
    """One plant for each run of a batch."""

    state: Any  # between flights, a pytree that can be stored and set

    def fly(
        self, controllers: Any, paths: Path, clocks: Sequence[Clock], seconds: Sequence[float]
    ) -> list[Rollout]:
        """One flight of each; `controllers` and `paths` have a leading axis."""
        ...


class OneByOne:
    """Plants that know nothing of batches, one after another."""

    def __init__(self, plants: Sequence[Plant], seeds: Sequence[int]) -> None:
        """Fresh vehicles."""
        self._plants = plants
        self.state = [plant.start(seed) for plant, seed in zip(plants, seeds, strict=True)]

    def fly(
        self, controllers: Any, paths: Path, clocks: Sequence[Clock], seconds: Sequence[float]
    ) -> list[Rollout]:
        """One flight of each."""
        rollouts, runs = [], []
        for i, plant in enumerate(self._plants):
            controller, path = batching.row((controllers, paths), i)
            run, rollout = plant.fly(self.state[i], controller, path, clocks[i], seconds[i])
            runs.append(run)
            rollouts.append(rollout)
        self.state = runs
        return rollouts


class Flown(NamedTuple):
    """One iteration of a run: the flight and what was learned from it."""

    rollout: Rollout
    path: Path  # its reference
    time_scale: float
    predicted_error: float  # m, before the flight; NaN for the first
    outcome: str  # what bound the choice of the next time scale
    progress: Progress
    wall_s: float  # of flight and learning; its share, if it was one of a batch


class Adaptation:
    """Runs on their way; `step` makes one flight of each and lets all learn from it."""

    def __init__(
        self,
        task: Task,
        plants: Plants,
        states: Sequence[LearnerState],
        settings: Sequence[LearnerSettings],
        *,
        sizes: Sizes = Sizes(),
        devices: int = 1,
        fastest_on: FastestOn | None = None,
    ) -> None:
        """Before the first flight.

        Args:
            task: of all.
            plants: that fly.
            states: of the learner of each run, see `start`.
            settings: of each run; of one kind, so that they share a program.
            sizes: effort of the learning.
            devices: of JAX, over which the runs are split evenly.
            fastest_on: what flies may forbid a plan, or to fly it as fast, see `speed_limit.py`;
                by default it allows all.
        """
        compilation_cache.enable()
        if fastest_on is not None:
            settings = [
                one._replace(time_scaling=SpeedLimit(one.time_scaling, 0.0)) for one in settings
            ]
        self._fastest_on = fastest_on
        self.task, self.plants = task, plants
        self.state = batching.stacked(states)
        self._settings = batching.stacked([leaves(one) for one in settings])
        self._outcomes = settings[0].time_scaling.outcomes
        self._sizes, self._devices = sizes, devices
        self._started = 0.0

    def step(self, stage: Callable[[str], None] = lambda name: None) -> list[Flown]:
        """One flight and its learning for all runs; `stage` is told what begins."""
        stage("fly")
        return self.learn(self.fly(), stage)

    def fly(self, *, dithered: bool = True) -> list[Rollout]:
        """One flight of each run."""
        self._started = time.monotonic()
        task = self.task
        number = int(np.asarray(self.state.iteration)[0])
        dither = max(0.3, 0.6**number) if dithered else 0.0  # less the more is known
        guard = batching.program(_guarded, self._devices)
        flyer = batching.placed((self.state, self._settings.time_scaling), self._devices)
        controllers = guard(jnp.float32(dither), flyer)
        scales = self.time_scales
        return self.plants.fly(
            controllers, self.state.path, [task.start_clock(scale) for scale in scales],
            [flight_seconds(task, scale) for scale in scales],
        )  # fmt: skip

    def learn(
        self, rollouts: Sequence[Rollout], stage: Callable[[str], None] = lambda name: None
    ) -> list[Flown]:
        """What the flights teach; the next ones are decided then."""
        scales, predicted = self.time_scales, np.asarray(self.state.pace.predicted)
        paths = jax.device_get(self.state.path)
        shared = task_room(self.task)
        seen = batching.stacked([_seen(rollout) for rollout in rollouts])
        run = batching.placed((self.state, self._settings, seen), self._devices)
        done: tuple[Any, ...] = ()
        for name, function in STAGES.items():
            stage(name)
            sizes = {"sizes": self._sizes} if name in SIZED else {}
            result = batching.program(function, self._devices, **sizes)(shared, (*run, *done))
            # So that the stage that is told is the one at work.
            done = (*done, jax.block_until_ready(result))
            if name == "plan" and self._fastest_on is not None:
                state, settings, seen = run
                settings, *kept = keep_to(self._fastest_on, state, settings, *done)
                run, done = (state, settings, seen), tuple(kept)
        self.state, progress = done[-1]
        progress = jax.device_get(progress)
        each_s = (time.monotonic() - self._started) / len(rollouts)
        flown = []
        for i, rollout in enumerate(rollouts):
            one = batching.row(progress, i)
            outcome = self._outcome(int(one.bound_by))
            path, error = batching.row(paths, i), float(predicted[i])
            flown.append(Flown(rollout, path, scales[i], error, outcome, one, each_s))
        return flown

    def _outcome(self, bound_by: int) -> str:
        if not 0 <= bound_by < len(self._outcomes):
            raise InputError(
                f"the rule of time scaling gives bound_by = {bound_by}, which is no index into its "
                f"outcomes {tuple(self._outcomes)}"
            )
        return self._outcomes[bound_by]

    @property
    def time_scales(self) -> list[float]:
        """Of the next flights."""
        return [float(x) for x in np.asarray(self.state.pace.time_scale)]


def start(
    task: Task,
    policy: Learnable,
    seed: int,
    settings: LearnerSettings = LearnerSettings(),
    features: str = "default",
) -> LearnerState:
    """Before the first flight: the base policy and a residual that knows nothing.

    A classical controller in place of the policy flies as it is: only the model and the time
    scale are learned.
    """
    members = [
        residual.create(
            np.random.default_rng([seed, 10 + i]), features, lag=settings.switches.fixed_lag
        )
        for i in range(MEMBERS)
    ]
    unknown = jnp.float32(jnp.nan)
    policy = batching.single(policy)
    return LearnerState(
        policy=policy,
        in_training=policy,
        last_good=policy,
        ensemble=batching.stacked(batching.single(members)),
        window=_empty_window(),
        path=batching.single(settings.reference.start(task.path)),
        pace=Pace(jnp.float32(task.start_time_scale), unknown, jnp.full(WINDOWS, unknown)),
        scaling=started(settings.time_scaling),
        velocity_lag=jnp.float32(0.0),
        iteration=jnp.int32(0),
        key=jax.random.key_data(jax.random.key(seed)),
    )


def check_duration(task: Task) -> None:
    """Refuse a task whose first flight is longer than the learner takes."""
    first, most = task.flight_s(task.start_time_scale), FLIGHT_TICKS * CONTROL_DT
    if first > most:
        raise InputError(
            f"task '{task.name}': its first flight (ramp and a lap of {task.lap_s:g} s at time "
            f"scale {task.start_time_scale:g}) lasts {first:.1f} s; a learner takes {most:g} s at "
            f"most: shorten lap_s or lower start_time_scale"
        )


def flight_seconds(task: Task, time_scale: float) -> float:
    """Duration of a flight.

    Raises:
        InputError: it is longer than the learner takes; a flight is never cut.
    """
    seconds, most = task.flight_s(time_scale), FLIGHT_TICKS * CONTROL_DT
    if seconds > most + 0.5 * CONTROL_DT:
        raise InputError(
            f"task '{task.name}': a flight at time scale {time_scale:.3g} lasts {seconds:.1f} s; a "
            f"learner takes {most:g} s at most: the rule of time scaling must keep to "
            f"last.slowest"
        )
    return seconds


def _guarded(dither: Any, run: tuple) -> Guarded:
    """What flies next; a rule may want no guard (see `TimeScaling`): then no error calls it."""
    state, rule = run
    key = jax.random.fold_in(jax.random.wrap_key_data(state.key), 1_000_000 + state.iteration)
    limits = surprising_departure(state.pace.expected), jnp.float32(GUARD_ERROR_M)
    guarded = getattr(rule, "guarded", 1.0)
    slow_from, error_limit = (jnp.where(guarded, limit, jnp.inf) for limit in limits)
    return Guarded(
        state.policy, state.last_good, dither, slow_from, error_limit, jax.random.key_data(key)
    )


def _calibrate(task: TaskRoom, run: tuple, *, sizes: Sizes) -> improve.Calibrated:
    state, settings, rollout = run
    return improve.calibrate(state, rollout, task, settings, sizes=sizes)


def _plan(task: TaskRoom, run: tuple) -> Planned:
    state, settings, _, calibrated = run
    return improve.plan_reference(state, calibrated, task, settings)


def _improve(task: TaskRoom, run: tuple, *, sizes: Sizes) -> Any:
    state, settings, rollout, calibrated, plan = run
    return improve.improve_policy(
        state, calibrated, rollout, plan.path, task.ramp_s, settings, sizes=sizes
    )


def _accelerate(task: TaskRoom, run: tuple) -> tuple[LearnerState, Progress]:
    state, settings, rollout, calibrated, plan, trained = run
    return improve.accelerate(state, calibrated, trained, rollout, plan, task, settings)


STAGES = {"calibrate": _calibrate, "plan": _plan, "improve": _improve, "accelerate": _accelerate}
SIZED = ("calibrate", "improve")


def task_room(task: Task) -> TaskRoom:
    """What the learner knows of a task."""
    slowest = (FLIGHT_TICKS * CONTROL_DT - task.ramp_s) / task.lap_s
    return TaskRoom(
        *batching.single((task.path, task.room(), task.ramp_s, task.error_threshold_m, slowest))
    )


def leaves(settings: LearnerSettings) -> LearnerSettings:
    """The same with arrays for numbers."""
    return jax.tree.map(lambda leaf: np.asarray(leaf, np.float32), settings)


def _seen(rollout: Rollout) -> Rollout:
    """The flight as the learner sees it: what was sensed and sent, and nothing of the plant's.

    Padded to `FLIGHT_TICKS`, the rest not valid, so that all flights share one program.
    """
    ticks = rollout.time.shape[0]

    def fill(leaf: Any) -> np.ndarray:
        leaf = np.asarray(leaf)
        wanted = FLIGHT_TICKS * (leaf.shape[0] // ticks)
        return np.pad(leaf, [(0, wanted - leaf.shape[0])] + [(0, 0)] * (leaf.ndim - 1))

    fallback = np.zeros(ticks, bool) if rollout.fallback is None else rollout.fallback
    seen = rollout._replace(truth=rollout.sensed, diagnostics=None, fallback=fallback)
    return jax.tree.map(fill, seen)


def _empty_window() -> data.Transitions:
    rows = FLIGHT_TICKS - 2
    state = ModelState(
        jnp.zeros((WINDOW, rows, 3)),
        jnp.zeros((WINDOW, rows, 3)),
        jnp.tile(jnp.eye(3), (WINDOW, rows, 1, 1)),
    )
    commands = jnp.zeros((WINDOW, rows, residual.COMMANDS, 4))
    return data.Transitions(
        state, commands, state, commands, state, jnp.zeros((WINDOW, rows), bool)
    )
