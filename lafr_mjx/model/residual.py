"""The residual: a small network on features ζ of state and commands, with learned lag.

Commands act late (transport delay, motors, rate loop, camera latency). A memoryless residual
cannot express that, and the raw last commands are ambiguous in smooth flight: delay and gain
cannot be told apart, and a policy exploits the confusion. So the model acts on an *effective
command* u_eff = Σ w_j u_{k-j}, a learned average of the last commands, separate for thrust,
roll and pitch, and yaw. The newest command has no weight: it reacts to the noise of the very
state that it is fitted with.

Two kinds of inputs ζ can be chosen. In the world: velocity, attitude and effective command (and,
as in the paper, the position). In the body: thrust, velocity, rates and "up" as the vehicle
feels them, with a linear part beside the network and a steady wind of the world; a few seconds
then say what absolute inputs need a minute for. All variants of a kind share one program:
switches are leaves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lafr_mjx import mlp
from lafr_mjx.model.body_features import BASE, base, speed
from lafr_mjx.types import COMMAND_HOVER, COMMAND_SCALE

if TYPE_CHECKING:
    from lafr_mjx.model.state import ModelState

COMMANDS = 9
"""Commands that the model remembers, newest first: u_k, u_{k-1}, ... (180 ms)."""

_ACCELERATION_SCALE = 5.0  # m/s² per unit of the network's output
_RATE_SCALE = 4.0  # rad/s
_LAG_SCALE = 30.0
"""Logits per unit of the lag's parameters: one flight must be enough to learn a long delay,
and Adam moves each parameter by little more than its learning rate in a step."""
_LINEAR_SCALE = 2.0
"""Output per unit of the linear part's parameters, for the same reason."""
_FEATURES = 3 + 3 + 9 + 4 + 4 * COMMANDS


def _prior(expected_ticks: float = 2.5, spread_ticks: float = 1.0) -> np.ndarray:
    ticks = np.arange(COMMANDS)
    weights = np.where(
        ticks > 0, np.exp(-0.5 * ((ticks - expected_ticks) / spread_ticks) ** 2), 0.0
    )
    return np.tile(weights / weights.sum(), (3, 1)).astype(np.float32)


LAG_PRIOR = _prior()
"""Lag that is expected before anything was learned: 50 ms, give or take 20."""

NO_LAG = np.tile(np.eye(COMMANDS)[0], (3, 1)).astype(np.float32)
"""The newest command acts at once, as in the paper's model."""


class Switches(NamedTuple):
    """Which parts of the residual are on (0 or 1)."""

    acceleration: Any = 1.0  # a_res
    rates: Any = 1.0  # ω_res
    position: Any = 0.0  # p in ζ; the paper has it
    history: Any = 0.0  # the last commands themselves in ζ
    learned_lag: Any = (1.0, 1.0, 1.0)  # thrust, roll and pitch, yaw; 0: the fixed lag below
    fixed_lag: Any = LAG_PRIOR  # [3, COMMANDS] weights, each row sums to one


class InBody(NamedTuple):
    """What a residual in the body frame has beside its network."""

    linear: Any  # [1 + b + |v|v, 6] coefficients / `_LINEAR_SCALE`, body frame
    wind: Any  # [3] constant acceleration / `_LINEAR_SCALE`, world: drag of a steady wind


class Residual(NamedTuple):
    """Parameters θ; an ensemble has a leading axis on every leaf."""

    layers: tuple[mlp.Layer, ...]
    lag: Any  # [3, COMMANDS] logits of the lag / 30: thrust, roll and pitch, yaw
    in_body: InBody | None = None  # None: inputs and output in the world frame


def create(rng: np.random.Generator, hidden: int = 64, *, in_body: bool = False) -> Residual:
    """A residual that is nearly zero, with the expected lag."""
    lag = np.log(np.maximum(LAG_PRIOR, 1e-4)) / _LAG_SCALE
    if in_body:
        layers = mlp.create(rng, (len(BASE), hidden, hidden, 6), last_scale=0.01)
        linear = np.zeros((1 + len(BASE) + 3, 6), np.float32)
        return Residual(layers, lag, InBody(linear, np.zeros(3, np.float32)))
    return Residual(mlp.create(rng, (_FEATURES, hidden, hidden, 6), last_scale=0.01), lag)


def lag_weights(residual: Residual, switches: Switches) -> jax.Array:
    """Weights w [..., 3, COMMANDS] of the effective command; each row sums to one."""
    learned = jax.nn.softmax(_LAG_SCALE * residual.lag[..., 1:], axis=-1)
    learned = jnp.concatenate([jnp.zeros_like(learned[..., :1]), learned], axis=-1)
    on = jnp.asarray(switches.learned_lag)[:, None]
    return on * learned + (1.0 - on) * jnp.asarray(switches.fixed_lag)


def effective_command(weights: jax.Array, commands: jax.Array) -> jax.Array:
    """u_eff [..., 4] of the last commands [..., COMMANDS, 4]."""
    rows = weights[..., jnp.array([0, 1, 1, 2]), :]  # [..., 4, COMMANDS]
    return jnp.sum(jnp.swapaxes(rows, -1, -2) * commands, axis=-2)


def features(
    state: ModelState, effective: jax.Array, commands: jax.Array, switches: Switches
) -> jax.Array:
    """ζ [..., features], scaled to order one."""
    shape = effective.shape[:-1]
    history = switches.history * ((commands - COMMAND_HOVER) / COMMAND_SCALE)
    return jnp.concatenate(
        [
            switches.position * state.position / 3.0,
            state.velocity / 5.0,
            jnp.swapaxes(state.rotation, -1, -2).reshape((*shape, 9)),
            (effective - COMMAND_HOVER) / COMMAND_SCALE,
            history.reshape((*shape, 4 * COMMANDS)),
        ],
        axis=-1,
    )


def evaluate(
    residual: Residual,
    switches: Switches,
    state: ModelState,
    effective: jax.Array,
    commands: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """a_res [..., 3] in the world and ω_res [..., 3] in the body."""
    if residual.in_body is not None:
        return _evaluate_in_body(residual, residual.in_body, switches, state, effective)
    output = mlp.apply(residual.layers, features(state, effective, commands, switches))
    acceleration = switches.acceleration * _ACCELERATION_SCALE * output[..., :3]
    rates = switches.rates * _RATE_SCALE * output[..., 3:]
    return acceleration, rates


def _evaluate_in_body(
    residual: Residual, part: InBody, switches: Switches, state: ModelState, effective: jax.Array
) -> tuple[jax.Array, jax.Array]:
    b = base(state, effective)
    one = jnp.ones((*b.shape[:-1], 1))
    known = jnp.concatenate([one, b, speed(state) * b[..., 1:4]], axis=-1)
    output = mlp.apply(residual.layers, b) + _LINEAR_SCALE * (known @ part.linear)
    felt = (state.rotation @ output[..., :3, None])[..., 0] + _LINEAR_SCALE * part.wind
    acceleration = switches.acceleration * _ACCELERATION_SCALE * felt
    return acceleration, switches.rates * _RATE_SCALE * output[..., 3:]
