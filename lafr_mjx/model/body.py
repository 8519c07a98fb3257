"""A residual in the body frame: linear in a library of features, with a network on top if wanted.

Drag and thrust errors belong to the vehicle, not to the place or the heading: seen from the
body, a few seconds of flight say what absolute features need a minute for. The library holds

    b = [c, v_b, ω, R^T e₃]  (thrust, velocity, rates and "up", all in the body frame),
    1, b, all products b_i b_j, |v| v_b, and the last commands themselves,

and the residual is a_res = R (B_a φ + N_a(b)), ω_res = B_ω φ + N_ω(b). Which features are used
is a matter of which coefficients are zero: one program serves all variants, the nominal model
included. `evaluate` is called as `residual.evaluate` is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from lafr_mjx import mlp
from lafr_mjx.model.body_features import BASE, base, speed
from lafr_mjx.model.residual import COMMANDS, NO_LAG
from lafr_mjx.types import COMMAND_SCALE

if TYPE_CHECKING:
    import jax

    from lafr_mjx.model.state import ModelState

_PAIRS = np.triu_indices(len(BASE))
_AXES = ("thrust", "wx", "wy", "wz")

NAMES: tuple[str, ...] = (
    "one",
    *BASE,
    *(f"{BASE[i]}*{BASE[j]}" for i, j in zip(*_PAIRS, strict=True)),
    "|v|vx",
    "|v|vy",
    "|v|vz",
    *(f"past{j}.{axis}" for j in range(1, COMMANDS) for axis in _AXES),
)
"""Names of the features of the library, in order."""

OUTPUTS = ("ax", "ay", "az", "wx", "wy", "wz")
"""What the residual adds: acceleration and body rates, in the body frame."""

_ACCELERATION_SCALE, _RATE_SCALE = 5.0, 4.0  # as the online learner's network


class BodyResidual(NamedTuple):
    """Parameters; an ensemble, or a set of variants, has a leading axis on every leaf."""

    linear: Any  # [features, 6] coefficients, zero where a feature is not used
    layers: tuple[mlp.Layer, ...]  # network on b
    network: Any  # 0: linear only, 1: the network is added
    lag: Any  # [3, COMMANDS] weights of the effective command, each row sums to one


def create(rng: np.random.Generator, lag: Any = NO_LAG, hidden: int = 64) -> BodyResidual:
    """The nominal model: no coefficient, and a network that is off and nearly zero."""
    return BodyResidual(
        linear=np.zeros((len(NAMES), len(OUTPUTS)), np.float32),
        layers=mlp.create(rng, (len(BASE), hidden, hidden, len(OUTPUTS)), last_scale=0.01),
        network=np.float32(0.0),
        lag=np.asarray(lag, np.float32),
    )


def library(state: ModelState, effective: jax.Array, commands: jax.Array) -> jax.Array:
    """All features φ [..., len(NAMES)] of the state and the last commands [..., COMMANDS, 4]."""
    b = base(state, effective)
    shape = b.shape[:-1]
    past = (commands[..., 1:, :] - effective[..., None, :]) / COMMAND_SCALE
    return jnp.concatenate(
        [
            jnp.ones((*shape, 1)),
            b,
            b[..., _PAIRS[0]] * b[..., _PAIRS[1]],
            speed(state) * b[..., 1:4],
            past.reshape((*shape, 4 * (COMMANDS - 1))),
        ],
        axis=-1,
    )


def evaluate(
    parameters: BodyResidual, state: ModelState, effective: jax.Array, commands: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """a_res [..., 3] in the world and ω_res [..., 3] in the body."""
    features = library(state, effective, commands)
    linear = features @ parameters.linear
    network = parameters.network * mlp.apply(parameters.layers, features[..., 1 : 1 + len(BASE)])
    acceleration = linear[..., :3] + _ACCELERATION_SCALE * network[..., :3]
    rates = linear[..., 3:] + _RATE_SCALE * network[..., 3:]
    return (state.rotation @ acceleration[..., None])[..., 0], rates
