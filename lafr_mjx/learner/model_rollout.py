"""Closed-loop flights in the learner's own model, for training and for verification."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp

from lafr_mjx import so3
from lafr_mjx.model import hybrid, residual
from lafr_mjx.model.residual import COMMANDS, Residual, Switches
from lafr_mjx.model.state import ModelState
from lafr_mjx.types import CONTROL_DT, Sensed, State

if TYPE_CHECKING:
    from lafr_mjx.control.controller import Learnable
    from lafr_mjx.types import Reference


class SensorNoise(NamedTuple):
    """Standard deviations, each axis. The defaults are a guess on the safe side: see `pretrain`."""

    position: Any = 0.002  # m
    velocity: Any = 0.05  # m/s
    attitude: Any = 0.005  # rad


class Stress(NamedTuple):
    """How a vehicle differs from the model; [...] like the batch."""

    bias: Any  # [..., 3] m/s², a constant acceleration
    thrust_gain: Any  # [...]
    rate_gain: Any  # [...]
    extra_delay: Any  # [...] control intervals, 0 to 1
    noise: SensorNoise  # [...]

    @property
    def gains(self) -> jax.Array:
        """On a command, [..., 4]."""
        return jnp.stack([self.thrust_gain, *3 * [self.rate_gain]], axis=-1)

    @staticmethod
    def none(shape: tuple[int, ...] = ()) -> Stress:
        """Exactly the model."""
        zero, one = jnp.zeros(shape), jnp.ones(shape)
        return Stress(jnp.zeros((*shape, 3)), one, one, zero, SensorNoise(zero, zero, zero))


class StressScale(NamedTuple):
    """How strongly random vehicles differ; standard deviations or ranges."""

    bias: Any = 0.5  # m/s²
    thrust_gain: Any = 0.04
    rate_gain: Any = 0.08
    extra_delay: Any = 1.0  # control intervals, uniform from 0
    noise: SensorNoise = SensorNoise()
    wander: Any = 0.0  # m/s², of an acceleration that comes and goes, in verification

    def times(self, factor: Any) -> StressScale:
        """Differences of another strength; what was seen in flight stays: noise and wander."""
        return self._make([*(factor * value for value in self[:4]), *self[4:]])


def draw_stress(key: jax.Array, scale: StressScale, count: int) -> Stress:
    """`count` random vehicles."""
    keys = jax.random.split(key, 4)
    return Stress(
        bias=scale.bias * jax.random.normal(keys[0], (count, 3)),
        thrust_gain=1.0 + scale.thrust_gain * jax.random.normal(keys[1], (count,)),
        rate_gain=1.0 + scale.rate_gain * jax.random.normal(keys[2], (count,)),
        extra_delay=scale.extra_delay * jax.random.uniform(keys[3], (count,)),
        noise=jax.tree.map(lambda sigma: jnp.full((count,), sigma), scale.noise),
    )


class Flying(NamedTuple):
    """A vehicle in the model between two control intervals, [...] batched."""

    state: ModelState
    commands: jax.Array  # [..., COMMANDS + 1, 4] newest first
    memory: Any  # of the policy


def tick(
    residual_parameters: Residual,
    switches: Switches,
    policy: Learnable,
    flying: Flying,
    references: Reference,
    stress: Stress,
    noise: jax.Array,
) -> tuple[Flying, Any]:
    """One control interval: observe, act, move. Returns the command, too.

    Args:
        residual_parameters: one member of the ensemble.
        switches: which parts of the model are on.
        policy: acts.
        flying: where the vehicle is.
        references: fields [..., P, ...] at the preview moments.
        stress: how this vehicle differs from the model.
        noise: [..., 9] standard normal draws for the sensors.
    """
    state = flying.state
    memory, command = jax.vmap(partial(decide, policy))(
        flying.memory, sense(state, stress, noise), references
    )
    commands = jnp.concatenate([command[..., None, :], flying.commands[..., :-1, :]], axis=-2)
    effective, window = acting(residual_parameters, switches, commands, stress)
    missing = residual.evaluate(residual_parameters, switches, state, effective, window)
    return Flying(move(state, effective, missing, stress), commands, memory), command


def sense(state: ModelState, stress: Stress, noise: jax.Array) -> ModelState:
    """The state [...] as it is sensed, by normal draws [..., 9]."""
    sigma = jax.tree.map(lambda leaf: leaf[..., None], stress.noise)
    tilt = sigma.attitude * noise[..., 6:]
    return ModelState(
        state.position + sigma.position * noise[..., :3],
        state.velocity + sigma.velocity * noise[..., 3:6],
        state.rotation + so3.product(state.rotation, so3.hat(tilt)),
    )


def decide(
    policy: Learnable, memory: Any, sensed: ModelState, references: Reference
) -> tuple[Any, Any]:
    """New memory and command [4] of one vehicle."""
    still = jnp.zeros(3)  # the model knows no body rates of its own
    now = Sensed(State(*sensed, still), jnp.float32(0.0), jnp.float32(0.0))
    return policy(memory, now, references)


def acting(
    residual_parameters: Residual, switches: Switches, commands: jax.Array, stress: Stress
) -> tuple[jax.Array, jax.Array]:
    """The command that acts now [..., 4], and the last ones [..., COMMANDS, 4] as they come."""
    late = stress.extra_delay[..., None, None]
    window = (1.0 - late) * commands[..., :COMMANDS, :] + late * commands[..., 1:, :]
    weights = residual.lag_weights(residual_parameters, switches)
    return residual.effective_command(weights, window), window


def move(
    state: ModelState, effective: jax.Array, missing: tuple[Any, Any], stress: Stress
) -> ModelState:
    """The state after a control interval; `missing` is what the residual adds."""
    acceleration, rates = missing
    return hybrid.held_step(
        state, effective * stress.gains, (acceleration + stress.bias, rates), CONTROL_DT
    )


def midflight(policy: Learnable, state: ModelState, commands: jax.Array) -> Flying:
    """Vehicles [N] in the midst of flight, after commands [N, COMMANDS + 1, 4]."""
    return Flying(state, commands, jax.vmap(policy.resume)(commands))
