"""Learning without a flight, to find what is wrong with parts of the method before a run begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from lafr_mjx import batching, parts
from lafr_mjx.control.departure import WINDOWS
from lafr_mjx.errors import InputError
from lafr_mjx.learner import loop, references
from lafr_mjx.learner.improve import Sizes
from lafr_mjx.learner.references import Known
from lafr_mjx.learner.time_scaling import LastFlight, proposed
from lafr_mjx.model import residual
from lafr_mjx.model.state import ModelState
from lafr_mjx.reference.flatness import reference_state
from lafr_mjx.reference.path import peak_acceleration
from lafr_mjx.types import Rollout, State

if TYPE_CHECKING:
    from collections.abc import Callable

    from lafr_mjx.learner.improve import LearnerSettings, LearnerState, TaskRoom
    from lafr_mjx.tasks import Task

_BESIDE_M = 0.05
"""How far from the reference the rehearsed flight is."""


def rehearse(task: Task, state: LearnerState, settings: LearnerSettings) -> None:
    """Learn from a flight a little beside the reference; most of it is traced only.

    Raises:
        InputError: a part does not give what it must; also whatever a part itself raises.
    """
    state, flight = batching.placed(state, 1), _flight(task)
    _, fastest = jax.jit(proposed)(
        loop.leaves(settings).time_scaling, state.scaling, _good_flight(state, loop.task_room(task))
    )
    if not (np.isfinite(fastest) and fastest > 0.0):
        raise InputError(
            f"'propose' gives {fastest:g} after a good flight; it must be a time scale, above 0"
        )
    rows = flight.time.shape
    now = ModelState(flight.sensed.position, flight.sensed.velocity, flight.sensed.rotation)
    member = jax.tree.map(lambda leaf: leaf[0], state.ensemble)
    commands = np.repeat(flight.command[:, None], residual.COMMANDS, axis=1)
    _finite(
        "the residual", ((*rows, 3), (*rows, 3)), member.network,
        now, flight.command, commands, settings.switches,
    )  # fmt: skip
    asked, command = flight.reference, flight.command
    _finite("the cost", rows, settings.train.cost, now, asked, command, command)

    def slope(now: ModelState) -> Any:
        return jax.grad(lambda now: jnp.sum(settings.train.cost(now, asked, command, command)))(now)

    _finite("the slope of the cost", jax.tree.map(jnp.shape, now), slope, now)

    def learn(state: LearnerState, settings: LearnerSettings, shared: TaskRoom) -> Any:
        run = (state, settings, flight)
        done: tuple[Any, ...] = ()
        for name, function in loop.STAGES.items():
            sizes = {"sizes": Sizes(fit_steps=1, train_steps=1)} if name in loop.SIZED else {}
            done = (*done, function(shared, (*run, *done), **sizes))
        return done[-1]

    learned, _ = jax.eval_shape(learn, state, loop.leaves(settings), loop.task_room(task))
    for name, of in (("shapes", jnp.shape), ("types", lambda leaf: str(leaf.dtype))):
        before, after = (jax.tree.map(of, each.scaling) for each in (state, learned))
        if before != after:
            raise InputError(f"its memory has the {name} {before} at the start and {after} later")


def rehearse_plan(task: Task, state: LearnerState, settings: LearnerSettings) -> None:
    """The plan after a first flight that went well.

    Raises:
        InputError: it would not be flown; also whatever the planner itself raises.
    """
    asked = loop.task_room(task)
    known = Known(
        task=asked.path,
        room=asked.room,
        flown=state.path,
        last=_good_flight(state, asked),
        ensemble=state.ensemble,
        switches=settings.switches,
        limits=state.policy.limits,
    )
    refused = int(jax.jit(references.planned)(loop.leaves(settings).reference, known).refused)
    if refused:
        raise InputError(f"its plan after a good flight: {references.REFUSALS[refused]}")


def _good_flight(state: LearnerState, task: TaskRoom) -> LastFlight:
    error = 0.3 * task.error_threshold
    return LastFlight(
        pace=state.pace,
        error=error,
        threshold=task.error_threshold,
        peak_acceleration=peak_acceleration(state.path),
        slowest=task.slowest,
        tracked=error,
        departed=jnp.full(WINDOWS, error),
    )


def _flight(task: Task) -> Rollout:
    """Along the task's path at its first time scale, a little beside it."""
    ticks, scale = loop.FLIGHT_TICKS, task.start_time_scale
    one, flags = np.zeros(ticks, np.float32), np.ones(ticks, bool)
    path = batching.single(task.path)
    asked = reference_state(path, task.lap_s * jnp.linspace(0.0, 1.0, ticks), (1.0 + one) / scale)
    asked = jax.tree.map(np.asarray, asked)
    moving = State(asked.position + _BESIDE_M, asked.velocity, asked.rotation, asked.rates)
    command = np.concatenate([asked.thrust[:, None], asked.rates], axis=1)
    return Rollout(one, flags, moving, one, command, asked, one, one, 1.0 + one, moving, ~flags,
                   one, moving, flags, None, ~flags)  # fmt: skip


def _finite(what: str, shapes: Any, function: Callable[..., Any], *seen: Any) -> None:
    """Refuse a function that gives other shapes, or what is no number or not finite."""
    given = jax.eval_shape(lambda *x: parts.numbers(what, function(*x)), *seen)
    if (found := jax.tree.map(jnp.shape, given)) != shapes:
        states = (loop.FLIGHT_TICKS,)
        raise InputError(f"{what} gives {found} for {states} states; it must be {shapes}")
    values = jax.tree.leaves(jax.jit(lambda *x: function(*x))(*seen))
    if not all(np.all(np.isfinite(value)) for value in values):
        raise InputError(f"{what} is not finite {_BESIDE_M:g} m beside the task's path")
