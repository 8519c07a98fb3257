"""The plant behind Gymnasium's interface: one vehicle, or many at once (extra `gym`).

Importing this module registers `lafr_mjx/Quadrotor-v0` with Gymnasium, for `gymnasium.make` and
`gymnasium.make_vec`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv

from lafr_mjx import so3
from lafr_mjx.envs import episode as episodes
from lafr_mjx.envs.episode import OBSERVATION_LIMIT, OBSERVATION_SIZE, command_of, load_setup
from lafr_mjx.plant.simulation import CRASH_NAMES
from lafr_mjx.types import CONTROL_DT

if TYPE_CHECKING:
    from lafr_mjx.envs.episode import Outcome
    from lafr_mjx.plant.engine import EngineName

ID = "lafr_mjx/Quadrotor-v0"
_FPS = round(1.0 / CONTROL_DT)
_SEEDS = 2**31 - 1
_PICTURE = (480, 270)


def _action_space() -> spaces.Box:
    return spaces.Box(-1.0, 1.0, (4,), np.float32)


def _checked(action: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Refuse what a diverged policy gives: as a hover it would earn rewards."""
    action = np.asarray(action, np.float32)
    if action.shape != shape or not np.isfinite(action).all():
        raise gymnasium.error.InvalidAction(
            f"the action is {np.array2string(action, threshold=8)} of shape {action.shape}; it "
            f"must be finite and of shape {shape}, each number from -1 to 1"
        )
    return action


def _observation_space() -> spaces.Box:
    return spaces.Box(-OBSERVATION_LIMIT, OBSERVATION_LIMIT, (OBSERVATION_SIZE,), np.float32)


class QuadrotorEnv(gymnasium.Env):
    """One vehicle that flies a task. See `envs/episode.py` for what is seen and rewarded."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": _FPS}  # noqa: RUF012

    def __init__(
        self,
        task: str = "figure8",
        scenario: str | None = None,
        vehicle: str = "lafr192",
        *,
        engine: EngineName = "freebody",
        time_scale: float | None = None,
        render_mode: str | None = None,
    ) -> None:
        """Load; the arguments are those of `load_setup`."""
        self.setup = load_setup(task, scenario, vehicle, engine=engine, time_scale=time_scale)
        self.action_space, self.observation_space = _action_space(), _observation_space()
        self.render_mode = render_mode
        self._params: Any = None
        self._episode: Any = None
        self._outcome: Any = None
        self._stage: Any = None
        self._renderer: Any = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode; a seed also draws the plant of a randomised scenario anew."""
        super().reset(seed=seed)
        setup = self.setup
        if self._params is None or seed is not None:
            self._params = setup.params(int(self.np_random.integers(_SEEDS)))
        key = jax.random.key(int(self.np_random.integers(_SEEDS)))
        self._episode, outcome = episodes.reset(setup.engine, setup.course, self._params, key)
        self._outcome = jax.device_get(outcome)
        return np.array(self._outcome.observation), self._info()

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Fly 20 ms.

        Raises:
            gymnasium.error.InvalidAction: the action has another shape, or is not finite.
        """
        if self._episode is None:
            raise gymnasium.error.ResetNeeded("reset the environment before the first step")
        setup = self.setup
        command = command_of(_checked(action, (4,)), setup.limits)
        self._episode, outcome = episodes.step(
            setup.engine, setup.course, self._params, self._episode, command
        )
        seen = self._outcome = jax.device_get(outcome)
        return (
            np.array(seen.observation), float(seen.reward), bool(seen.terminated),
            bool(seen.truncated), self._info(),
        )  # fmt: skip

    def render(self) -> np.ndarray | None:
        """A picture [270, 480, 3] that follows the vehicle, if `render_mode` is "rgb_array"."""
        if self.render_mode != "rgb_array" or self._outcome is None:
            return None
        from lafr_mjx.view.course_shapes import AHEAD
        from lafr_mjx.view.decorations import draw_course
        from lafr_mjx.view.offscreen import Renderer, camera_at
        from lafr_mjx.view.scene import build_scene

        if self._stage is None:
            setup = self.setup
            self._stage = build_scene([(setup.vehicle, setup.task)], ghosts=False)
            self._renderer = Renderer(self._stage.model, *_PICTURE)
        stage, true = self._stage.stages[0], self._outcome.truth
        self._stage.pose(stage.drone, true.position, so3.matrix_to_quaternion(true.rotation))
        camera = camera_at(true.position, 1.5, 75.0, -18.0)
        ahead = [AHEAD] * len(stage.gates)
        return self._renderer.render(
            self._stage.data, camera, lambda scene, _: draw_course(scene, stage, None, ahead)
        )

    def close(self) -> None:
        """Give the renderer's memory back."""
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = self._stage = None

    def _info(self) -> dict[str, Any]:
        seen = self._outcome
        return {
            "error_m": float(seen.error),
            "speed_mps": float(np.linalg.norm(seen.truth.velocity)),
            "crash": CRASH_NAMES[int(seen.crash)],
        }


class QuadrotorVectorEnv(VectorEnv):
    """Many vehicles at once, as one compiled program.

    In a randomised scenario each has a plant of its own, drawn anew by a reset with a seed. A
    vehicle whose episode is over starts the next one at the following step (Gymnasium's mode
    NEXT_STEP): that step ignores its action and gives the reward 0.
    """

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP, "render_fps": _FPS}  # noqa: RUF012

    def __init__(
        self,
        num_envs: int = 64,
        task: str = "figure8",
        scenario: str | None = None,
        vehicle: str = "lafr192",
        *,
        engine: EngineName = "freebody",
        time_scale: float | None = None,
    ) -> None:
        """Load; the arguments are those of `load_setup`."""
        super().__init__()
        self.setup = load_setup(task, scenario, vehicle, engine=engine, time_scale=time_scale)
        self.num_envs = num_envs
        self.single_action_space = _action_space()
        self.single_observation_space = _observation_space()
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, num_envs)
        self.observation_space = gymnasium.vector.utils.batch_space(
            self.single_observation_space, num_envs
        )
        self._params: Any = None
        self._batch: Any = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode in every environment."""
        super().reset(seed=seed, options=options)
        setup = self.setup
        if self._params is None or seed is not None:
            drawn = int(self.np_random.integers(_SEEDS))
            self._params = setup.batch_params(drawn, self.num_envs)
        key = jax.random.key(int(self.np_random.integers(_SEEDS)))
        self._batch, outcome = _reset_all(
            setup.engine, setup.course, self._params, jax.random.split(key, self.num_envs)
        )
        outcome = jax.device_get(outcome)
        return np.array(outcome.observation), self._info(outcome)

    def step(
        self, actions: Any
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Fly 20 ms in every environment; actions are checked as for one."""
        if self._batch is None:
            raise gymnasium.error.ResetNeeded("reset the environment before the first step")
        setup = self.setup
        commands = command_of(_checked(actions, (self.num_envs, 4)), setup.limits)
        self._batch, outcome = _step_all(
            setup.engine, setup.course, self._params, self._batch, commands
        )
        seen = jax.device_get(outcome)
        return (
            np.array(seen.observation), np.array(seen.reward, float), np.array(seen.terminated),
            np.array(seen.truncated), self._info(seen),
        )  # fmt: skip

    def _info(self, seen: Outcome) -> dict[str, Any]:
        present = np.ones(self.num_envs, bool)
        return {
            "error_m": np.array(seen.error, float),
            "_error_m": present,
            "speed_mps": np.linalg.norm(np.asarray(seen.truth.velocity, float), axis=-1),
            "_speed_mps": present.copy(),
        }


@partial(jax.jit, static_argnames=("engine",))
def _reset_all(engine: Any, course: Any, params: Any, keys: jax.Array) -> tuple[Any, Outcome]:
    episode, outcome = jax.vmap(partial(episodes.reset, engine, course))(params, keys)
    return (episode, keys, jnp.zeros(len(keys), bool)), outcome


@partial(jax.jit, static_argnames=("engine",))
def _step_all(
    engine: Any, course: Any, params: Any, batch: Any, commands: jax.Array
) -> tuple[Any, Outcome]:
    def one(params: Any, batch: Any, command: Any) -> Any:
        episode, key, over = batch
        following = jax.random.split(key)[0]
        fresh = episodes.reset(engine, course, params, following)
        flown = episodes.step(engine, course, params, episode, command)
        fresh = (fresh[0], fresh[1]._replace(reward=jnp.zeros_like(flown[1].reward)))
        episode, outcome = jax.tree.map(partial(jnp.where, over), fresh, flown)
        key = jax.random.wrap_key_data(
            jnp.where(over, jax.random.key_data(following), jax.random.key_data(key))
        )
        return (episode, key, outcome.terminated | outcome.truncated), outcome

    return jax.vmap(one)(params, batch, commands)


if ID not in gymnasium.registry:
    gymnasium.register(
        ID,
        entry_point="lafr_mjx.envs.gym:QuadrotorEnv",
        vector_entry_point="lafr_mjx.envs.gym:QuadrotorVectorEnv",
    )
