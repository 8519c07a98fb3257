"""The plant behind DeepMind's `dm_env` interface, with a `physics` that `dm_control` can draw."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import dm_env
import jax
import numpy as np
from dm_env import specs

from lafr_mjx import so3
from lafr_mjx.envs import episode as episodes
from lafr_mjx.envs.episode import OBSERVATION_SIZE, command_of, load_setup
from lafr_mjx.types import CONTROL_DT
from lafr_mjx.view.scene import build_scene

if TYPE_CHECKING:
    from lafr_mjx.envs.episode import Outcome
    from lafr_mjx.plant.engine import EngineName

_SHAPES = {
    "observation": (OBSERVATION_SIZE,),
    "position": (3,),
    "velocity": (3,),
    "rotation": (3, 3),
    "rates": (3,),
    "reference_position": (3,),
    "reference_velocity": (3,),
}


class QuadrotorEnvironment(dm_env.Environment):
    """One vehicle that flies a task; an action is a command scaled to [-1, 1].

    `observation` is what the project's policies see; the other entries are the newest sample
    that has arrived and what is asked now, for controllers that want them plainly.
    """

    def __init__(
        self,
        task: str = "figure8",
        scenario: str | None = None,
        vehicle: str = "lafr192",
        *,
        engine: EngineName = "freebody",
        time_scale: float | None = None,
        seed: int = 0,
    ) -> None:
        """Load and compile; the arguments are those of `load_setup`.

        Each episode has other noise; `seed` gives the sequence of episodes, and the plant that is
        drawn from a randomised scenario.
        """
        self.setup = load_setup(task, scenario, vehicle, engine=engine, time_scale=time_scale)
        self._params = self.setup.params(seed)
        self._key = jax.random.key(seed)
        self._episodes = 0
        self._episode: Any = None
        self._outcome: Any = None
        self._physics: Any = None

    def reset(self) -> dm_env.TimeStep:
        """Start an episode: in hover at the start of the path."""
        key = jax.random.fold_in(self._key, self._episodes)
        self._episodes += 1
        setup = self.setup
        self._episode, outcome = episodes.reset(setup.engine, setup.course, self._params, key)
        self._take(outcome)
        return dm_env.restart(self._observation())

    def step(self, action: Any) -> dm_env.TimeStep:
        """Fly 20 ms; after the end of an episode this starts the next one."""
        if self._episode is None:
            return self.reset()
        action = np.asarray(action, np.float32)
        if action.shape != (4,):
            raise ValueError(f"an action has the shape (4,), not {action.shape}")
        if not np.isfinite(action).all():
            raise ValueError(f"the action {action} is not finite; its numbers are from -1 to 1")
        setup = self.setup
        self._episode, outcome = episodes.step(
            setup.engine,
            setup.course,
            self._params,
            self._episode,
            command_of(action, setup.limits),
        )
        self._take(outcome)
        reward, seen = float(self._outcome.reward), self._observation()
        if self._outcome.terminated:
            self._episode = None
            return dm_env.termination(reward, seen)
        if self._outcome.truncated:
            self._episode = None
            return dm_env.truncation(reward, seen)
        return dm_env.transition(reward, seen)

    def action_spec(self) -> specs.BoundedArray:
        """Thrust and three body rates, 0 at hover, ±1 at the vehicle's limits."""
        return specs.BoundedArray((4,), np.float32, -1.0, 1.0, name="command")

    def observation_spec(self) -> OrderedDict[str, specs.Array]:
        """Arrays by name, all float32."""
        return OrderedDict(
            (name, specs.Array(shape, np.float32, name=name)) for name, shape in _SHAPES.items()
        )

    def reward_spec(self) -> specs.BoundedArray:
        """From 0 (lost) to 1 (on the reference)."""
        return specs.BoundedArray((), float, 0.0, 1.0, name="reward")

    def control_timestep(self) -> float:
        """Seconds between two actions."""
        return CONTROL_DT

    @property
    def outcome(self) -> Outcome:
        """Everything about the last step, the truth included: for figures, not for policies."""
        return self._outcome

    @property
    def physics(self) -> Any:
        """A `dm_control` physics that shows where the vehicle truly is.

        It is for drawing: it is set after every step and never stepped itself.
        """
        if self._physics is None:
            from dm_control import mujoco as dm_mujoco
            from dm_control.mujoco.wrapper import MjModel

            setup = self.setup
            self._stage = build_scene([(setup.vehicle, setup.task)], ghosts=False)
            self._physics = dm_mujoco.Physics.from_model(MjModel(self._stage.model))
            self._show()
        return self._physics

    def _take(self, outcome: Outcome) -> None:
        self._outcome = jax.device_get(outcome)
        if self._physics is not None:
            self._show()

    def _show(self) -> None:
        """Put the drawn vehicle where the plant's is."""
        data = self._physics.data
        address = self._stage.stages[0].drone.address
        if self._outcome is None:
            data.qpos[address : address + 3] = np.asarray(self.setup.course.start)
        else:
            true = self._outcome.truth
            data.qpos[address : address + 3] = true.position
            data.qpos[address + 3 : address + 7] = so3.matrix_to_quaternion(true.rotation)
            # A free joint's velocity: linear in the world, angular in the body.
            data.qvel[:3], data.qvel[3:6] = true.velocity, true.rates
            data.time = 0.0 if self._episode is None else CONTROL_DT * int(self._episode.ticks)
        self._physics.forward()

    def _observation(self) -> OrderedDict[str, np.ndarray]:
        seen = self._outcome
        values = (
            seen.observation, *seen.sensed, seen.reference.position, seen.reference.velocity,
        )  # fmt: skip
        return OrderedDict(
            (name, np.array(value, np.float32)) for name, value in zip(_SHAPES, values, strict=True)
        )
