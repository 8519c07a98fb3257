"""An episode of flying a task, as pure functions: `reset` and `step`.

One episode is one flight as the rest of the software flies it: from rest in hover at the path's
start, the phase coming up within the ramp, for `Task.flight_s` seconds. It ends early by a crash.

The observation is that of the project's own policies (`control/observation.py`): what is known to
a controller, late and noisy as the scenario has it, never the truth. An action is a command scaled
to [-1, 1] on each axis, with 0 at hover. The reward of a step is exp(-(E / E_th)²), with the true
error E and the task's threshold E_th; a crash gives 0 and ends the episode.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from lafr_mjx import compilation_cache
from lafr_mjx.arrays import namespace
from lafr_mjx.control.observation import HISTORY, PREVIEW_S, SIZE, observe
from lafr_mjx.errors import InputError
from lafr_mjx.plant import simulation
from lafr_mjx.plant.engine import EngineName, build_engine
from lafr_mjx.plant.params import stack
from lafr_mjx.plant.scenario import Scenario, load_scenario
from lafr_mjx.plant.scenario_params import params_for
from lafr_mjx.plant.simulation import ERROR, FLYING, PlantState
from lafr_mjx.plant.vehicle import Vehicle, load_vehicle
from lafr_mjx.reference import clock as clocks
from lafr_mjx.reference.flatness import reference_state
from lafr_mjx.tasks import Task, load_task
from lafr_mjx.types import COMMAND_HOVER, CONTROL_DT, CommandLimits, Reference, State

if TYPE_CHECKING:
    from lafr_mjx.arrays import Array
    from lafr_mjx.plant.engine import Engine
    from lafr_mjx.plant.params import PlantParams
    from lafr_mjx.reference.clock import Clock
    from lafr_mjx.reference.path import Path

OBSERVATION_SIZE = SIZE
OBSERVATION_LIMIT = 100.0
"""Observations are scaled to about 1; no flight comes near this."""
TIME_SCALES = (0.02, 50.0)


@struct.dataclass
class Episode:
    """All that goes on from step to step."""

    state: PlantState
    history: jax.Array  # [HISTORY, 4] last commands, newest first
    clock: Clock
    ticks: jax.Array  # [] int32, steps since the start


class Outcome(NamedTuple):
    """What a step gives."""

    observation: Any  # [OBSERVATION_SIZE]
    reward: Any  # []
    terminated: Any  # [] bool: crashed
    truncated: Any  # [] bool: the flight is over
    command: Any  # [4] what was really sent
    sensed: State  # the newest sample that has arrived
    reference: Reference  # what is asked now
    truth: State
    error: Any  # [] m, of the truth
    crash: Any  # [] code, see `simulation.CRASH_NAMES`


class Course(NamedTuple):
    """What is flown, on arrays: the same for all episodes of an environment."""

    path: Path
    clock: Clock  # at the start
    start: Any  # [3] m
    error_threshold: Any  # [] m
    steps: Any  # [] int32, length of an episode


@struct.dataclass
class FlightSetup:
    """A task in a scenario on a vehicle, loaded and checked; made by `load_setup`."""

    task: Task = struct.field(pytree_node=False)
    scenario: Scenario = struct.field(pytree_node=False)
    vehicle: Vehicle = struct.field(pytree_node=False)
    engine: Engine = struct.field(pytree_node=False)
    course: Course

    @property
    def limits(self) -> CommandLimits:
        """Of the commands."""
        return self.vehicle.limits

    def params(self, seed: int, index: int = 0) -> PlantParams:
        """The plant; one of many if the scenario is randomised, the same for all otherwise."""
        drawn = self.scenario.drawn(seed, index if self.scenario.randomised else 0)
        return params_for(self.vehicle, drawn.settings, self.task.fans)

    def batch_params(self, seed: int, count: int) -> PlantParams:
        """Several plants with a leading batch axis."""
        return stack([self.params(seed, index) for index in range(count)])


def load_setup(
    task: str = "figure8",
    scenario: str | None = None,
    vehicle: str = "lafr192",
    *,
    engine: EngineName = "freebody",
    time_scale: float | None = None,
) -> FlightSetup:
    """Load what episodes are made of.

    Args:
        task: name of a shipped task, or path of a task file.
        scenario: likewise; by default the task's own. Changes from flight to flight do not count:
            each episode is a first flight at its beginning's conditions.
        vehicle: likewise.
        engine: physics.
        time_scale: of the path; smaller is faster; by default the task's first.
    """
    compilation_cache.enable()
    loaded = load_vehicle(vehicle)
    flown = load_task(task, loaded.limits)
    weather = load_scenario(scenario or flown.scenario)
    scale = flown.start_time_scale if time_scale is None else time_scale
    if not (math.isfinite(scale) and TIME_SCALES[0] <= scale <= TIME_SCALES[1]):
        raise InputError(f"time_scale {scale}: must be a number from 0.02 to 50")

    def floats(tree: Any) -> Any:
        return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), tree)

    course = Course(
        path=floats(flown.path),
        clock=floats(flown.start_clock(scale)),
        start=jnp.asarray(flown.start_position, jnp.float32),
        error_threshold=jnp.float32(flown.error_threshold_m),
        steps=jnp.int32(math.ceil(flown.flight_s(scale) / CONTROL_DT - 1e-6)),
    )
    return FlightSetup(flown, weather, loaded, build_engine(loaded, engine), course)


def command_of(action: Array, limits: CommandLimits) -> Array:
    """Command [..., 4] of an action in [-1, 1]; 0 is hover, ±1 the limits."""
    xp = namespace(action)
    low, high = np.asarray(limits.low, np.float32), np.asarray(limits.high, np.float32)
    action = xp.clip(action, -1.0, 1.0)
    span = xp.where(action >= 0.0, high - COMMAND_HOVER, COMMAND_HOVER - low)
    return xp.clip(COMMAND_HOVER + action * span, low, high)


def action_of(command: Array, limits: CommandLimits) -> Array:
    """Action [..., 4] that sends a command: the inverse of `command_of`."""
    xp = namespace(command)
    low, high = np.asarray(limits.low, np.float32), np.asarray(limits.high, np.float32)
    above = command - COMMAND_HOVER
    span = xp.where(above >= 0.0, high - COMMAND_HOVER, COMMAND_HOVER - low)
    return xp.clip(above / span, -1.0, 1.0)


@partial(jax.jit, static_argnames=("engine",))
def reset(
    engine: Engine, course: Course, params: PlantParams, key: jax.Array
) -> tuple[Episode, Outcome]:
    """A vehicle in hover at the start of the path."""
    state = simulation.reset(engine, params, key, course.start)
    hover = jnp.asarray(COMMAND_HOVER)
    episode = Episode(state, jnp.tile(hover, (HISTORY, 1)), course.clock, jnp.int32(0))
    return episode, _outcome(engine, course, episode, hover)


@partial(jax.jit, static_argnames=("engine",))
def step(
    engine: Engine, course: Course, params: PlantParams, episode: Episode, command: jax.Array
) -> tuple[Episode, Outcome]:
    """Fly 20 ms under a command [4], which is clipped to what the vehicle accepts.

    A command that is not finite is never sent: the vehicle is told to hover.
    """
    command = jnp.where(jnp.all(jnp.isfinite(command)), command, COMMAND_HOVER)
    command = jnp.clip(command, params.command_low, params.command_high)
    state, _ = simulation.step(engine, params, episode.state, command)
    clock = clocks.advance(episode.clock, CONTROL_DT)
    history = jnp.concatenate([command[None], episode.history[:-1]])
    following = Episode(state, history, clock, episode.ticks + 1)
    error = _error(engine, course, following)
    lost = (state.crash == FLYING) & ~(error <= params.crash.error)
    following = following.replace(
        state=state.replace(crash=jnp.where(lost, ERROR, state.crash).astype(jnp.int32))
    )
    return following, _outcome(engine, course, following, command)


def _reference(course: Course, clock: Clock, offset: Any) -> Reference:
    return reference_state(course.path, *clocks.shifted(clock, offset))


def _error(engine: Engine, course: Course, episode: Episode) -> jax.Array:
    wanted = _reference(course, episode.clock, 0.0)
    return jnp.linalg.norm(simulation.truth(engine, episode.state).position - wanted.position)


def _outcome(engine: Engine, course: Course, episode: Episode, command: jax.Array) -> Outcome:
    now = simulation.sense(episode.state)
    age = now.time - now.stamp
    # References are those of the sample's own moment, as for every controller here.
    wanted = jax.vmap(lambda ahead: _reference(course, episode.clock, ahead - age))(
        jnp.asarray(PREVIEW_S, jnp.float32)
    )
    sensed = now.state
    seen = observe(sensed.position, sensed.velocity, sensed.rotation, wanted, episode.history)
    error = _error(engine, course, episode)
    crashed = episode.state.crash != FLYING
    reward = jnp.exp(-((error / course.error_threshold) ** 2))
    return Outcome(
        observation=jnp.clip(seen, -OBSERVATION_LIMIT, OBSERVATION_LIMIT),
        reward=jnp.where(crashed, 0.0, reward),
        terminated=crashed,
        truncated=~crashed & (episode.ticks >= course.steps),
        command=command,
        sensed=sensed,
        reference=_reference(course, episode.clock, 0.0),
        truth=simulation.truth(engine, episode.state),
        error=error,
        crash=episode.state.crash,
    )
