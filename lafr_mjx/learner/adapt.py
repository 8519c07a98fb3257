"""The loop: fly a lap, calibrate, improve, accelerate; over any plant that can `fly`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from lafr_mjx.control.policy import Policy
from lafr_mjx.errors import InputError
from lafr_mjx.learner import ats_verified as ats
from lafr_mjx.learner.guarded import GuardedController, GuardedPolicy, surprising_error
from lafr_mjx.learner.improve import (
    WINDOW,
    LearnerSettings,
    LearnerState,
    Progress,
    Sizes,
    TimeScaling,
    improve,
)
from lafr_mjx.model import data, residual
from lafr_mjx.model.state import ModelState
from lafr_mjx.types import CONTROL_DT

if TYPE_CHECKING:
    from collections.abc import Callable

    from lafr_mjx.control.controller import Controller
    from lafr_mjx.control.geometric import GeometricController
    from lafr_mjx.reference.clock import Clock
    from lafr_mjx.reference.path import Path
    from lafr_mjx.tasks import Task
    from lafr_mjx.types import Rollout

MEMBERS = 4
"""Residuals in the ensemble."""

FLIGHT_TICKS = 750
"""Longest flight that the learner takes [control intervals]; shorter ones are padded."""

GUARD_ERROR_M = 0.5
"""Error beyond which the last good policy takes over."""


class Plant(Protocol):
    """The drone, simulated or real, as the loop knows it."""

    def fly(
        self, run: Any, controller: Controller, path: Path, clock: Clock, seconds: float
    ) -> tuple[Any, Rollout]:
        """Fly along a path from rest in hover at its start."""
        ...


class Flown(NamedTuple):
    """One iteration: the flight and what was learned from it."""

    rollout: Rollout
    time_scale: float
    predicted_error: float  # m, before the flight; NaN for the first
    progress: Progress


def start(
    policy: Policy | GeometricController,
    time_scale: float,
    seed: int,
    features: str = "default",
) -> LearnerState:
    """Before the first flight: the base policy and a residual that knows nothing.

    A classical controller in place of the policy flies as it is: only the model and the time
    scale are learned. Inputs of the residual (`methods.Features`) in the body frame need other
    parameters; the paper's and the default ones differ by switches alone.
    """
    members = [
        residual.create(np.random.default_rng([seed, 10 + i]), in_body=features == "body")
        for i in range(MEMBERS)
    ]
    ensemble = jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(x) for x in leaves]), *members)
    policy = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), policy)
    return LearnerState(
        policy=policy,
        in_training=policy,
        last_good=policy,
        ensemble=ensemble,
        window=_empty_window(),
        ats=ats.initial(time_scale),
        iteration=jnp.int32(0),
        key=jax.random.key_data(jax.random.key(seed)),
    )


def iterate(
    plant: Plant,
    run: Any,
    state: LearnerState,
    task: Task,
    settings: LearnerSettings,
    sizes: Sizes = Sizes(),
    *,
    rule: TimeScaling = "verified",
    stage: Callable[[str], None] = lambda name: None,
) -> tuple[Any, LearnerState, Flown]:
    """Fly once at the present time scale and learn from it; `stage` is told what begins."""
    stage("fly")
    time_scale = float(state.ats.time_scale)
    controller = guarded(state, dither_of(int(state.iteration)))
    seconds = flight_seconds(task, time_scale)
    run, rollout = plant.fly(run, controller, task.path, task.start_clock(time_scale), seconds)
    predicted = float(state.ats.predicted)
    path = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), task.path)
    state, progress = improve(
        state, seen(rollout), path, jnp.float32(task.ramp_s), settings_on(task, settings),
        rule=rule, sizes=sizes, stage=stage,
    )  # fmt: skip
    return run, state, Flown(rollout, time_scale, predicted, progress)


def dither_of(iteration: int) -> float:
    """Strength of the dither in a flight: less the more is known."""
    return max(0.3, 0.6**iteration)


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
    """Duration of a flight, as far as the learner can take it."""
    return min(task.flight_s(time_scale), FLIGHT_TICKS * CONTROL_DT)


def guarded(state: LearnerState, dither: Any) -> GuardedPolicy | GuardedController:
    """What flies next. Pure."""
    key = jax.random.fold_in(jax.random.wrap_key_data(state.key), 1_000_000 + state.iteration)
    guard = {
        "dither": jnp.float32(dither),
        "slow_from": surprising_error(state.ats.expected),
        "key": jax.random.key_data(key),
    }
    if isinstance(state.policy, Policy):
        limit = jnp.float32(GUARD_ERROR_M)
        return GuardedPolicy(state.policy, state.last_good, error_limit=limit, **guard)
    return GuardedController(state.policy, **guard)


def settings_on(task: Task, settings: LearnerSettings) -> LearnerSettings:
    """The settings with what the task asks for, as leaves."""
    of_task = settings.ats._replace(
        error_threshold=task.error_threshold_m, peak_acceleration=task.peak_acceleration
    )
    settings = settings._replace(ats=of_task)
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), settings)


def seen(rollout: Rollout) -> Rollout:
    """The flight as the learner sees it: what was sensed and sent, and nothing of the plant's."""
    return padded(rollout._replace(truth=rollout.sensed, diagnostics=None))


def padded(rollout: Rollout) -> Rollout:
    """A rollout of `FLIGHT_TICKS`, the rest not valid, so that all share one program."""
    ticks = rollout.time.shape[0]

    def fill(leaf: Any) -> jax.Array:
        wanted = FLIGHT_TICKS * (leaf.shape[0] // ticks)
        return jnp.pad(
            jnp.asarray(leaf), [(0, wanted - leaf.shape[0])] + [(0, 0)] * (leaf.ndim - 1)
        )

    return jax.tree.map(fill, rollout)


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
