"""Fit the residual to recorded transitions: the integrated one-step loss, made robust.

The measured state is both input and start of each step, so its noise appears in the input and,
with the opposite sign, in the target. A plain fit then learns damping that is not there on
every axis that the task does not excite. Cure: the residual is evaluated at the state that the
model *predicts* for k from k-1 (an instrumental variable: it carries the noise of k-1, not of
k), the step starts from the measured state, and its end is compared with the measured one.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
import optax

from lafr_mjx import so3
from lafr_mjx.model import hybrid, residual
from lafr_mjx.types import CONTROL_DT

if TYPE_CHECKING:
    from lafr_mjx.model.data import Transitions
    from lafr_mjx.model.residual import Residual, Switches
    from lafr_mjx.model.state import ModelState


class FitSettings(NamedTuple):
    """How the residual is fitted; leaves, except where they set sizes."""

    learning_rate: Any = 2e-3
    spectral_penalty: Any = 0.01
    instrumental: Any = 1.0  # 0: the plain fit, for comparison
    bootstrap: Any = 0.0  # 1: each member weighs the rows by chance, so that members disagree


BLOCK = 25
"""Rows that are weighed alike by the bootstrap: neighbours in a flight tell nearly the same."""


def discrepancy(first: ModelState, second: ModelState) -> jax.Array:
    """D [...]: squared translation and geodesic rotation error of one step, per dt².

    In these units a velocity error is an acceleration, a rotation error a body rate.
    """
    position = jnp.sum((first.position - second.position) ** 2, axis=-1)
    velocity = jnp.sum((first.velocity - second.velocity) ** 2, axis=-1)
    relative = jnp.swapaxes(first.rotation, -1, -2) @ second.rotation
    rotation = jnp.sum(so3.log(relative) ** 2, axis=-1)
    return (position + velocity + rotation) / CONTROL_DT**2


def spectral_norms(layers: Any, iterations: int = 10) -> jax.Array:
    """Sum over the layers of the largest singular value, by power iteration (no LAPACK)."""
    total = jnp.float32(0.0)
    for layer in layers:
        weight = layer.weight
        frozen = jax.lax.stop_gradient(weight)
        right = jnp.ones(weight.shape[-1]) / np.sqrt(weight.shape[-1])
        left = frozen @ right
        for _ in range(iterations):
            left = left / (jnp.linalg.norm(left) + 1e-8)
            right = frozen.T @ left
            right = right / (jnp.linalg.norm(right) + 1e-8)
            left = frozen @ right
        left = left / (jnp.linalg.norm(left) + 1e-8)
        total = total + left @ weight @ right
    return total


def one_step(
    parameters: Residual, switches: Switches, state: ModelState, commands: jax.Array,
    seen: ModelState | None = None,
) -> ModelState:  # fmt: skip
    """The model's step from `state`; the residual is evaluated at `seen` (default: `state`)."""
    effective = residual.effective_command(residual.lag_weights(parameters, switches), commands)
    extra = residual.evaluate(
        parameters, switches, state if seen is None else seen, effective, commands
    )
    return hybrid.held_step(state, effective, extra, CONTROL_DT)


def loss(
    parameters: Residual, switches: Switches, settings: FitSettings, rows: Transitions
) -> jax.Array:
    """L_res(θ) over some rows."""
    # A row that is not usable may hold anything, and NaN would pass a mask backwards.
    rows = jax.tree.map(
        lambda leaf: jnp.where(rows.usable.reshape((-1,) + (1,) * (leaf.ndim - 1)), leaf, 0.0),
        rows._replace(usable=rows.usable * 1.0),
    )
    predicted = jax.lax.stop_gradient(
        one_step(parameters, switches, rows.before, rows.before_commands)
    )
    share = settings.instrumental
    seen = jax.tree.map(lambda a, b: share * a + (1.0 - share) * b, predicted, rows.now)
    after = one_step(parameters, switches, rows.now, rows.commands, seen)
    weights = rows.usable / jnp.maximum(jnp.sum(rows.usable), 1.0)
    errors = discrepancy(rows.after, after)
    return jnp.sum(weights * errors) + settings.spectral_penalty * spectral_norms(
        getattr(parameters.network, "layers", ())
    )


@partial(jax.jit, static_argnames=("steps", "batch"))
def fit(
    parameters: Residual,
    switches: Switches,
    settings: FitSettings,
    rows: Transitions,
    key: jax.Array,
    *,
    steps: int = 300,
    batch: int = 256,
) -> tuple[Residual, jax.Array]:
    """Adam on random batches of the usable rows; returns the parameters and the final loss.

    One member; an ensemble is a `vmap` over parameters and keys.
    """
    optimiser = optax.adam(optax.cosine_decay_schedule(1.0, steps, 0.1))
    key, weight_key = jax.random.split(key)
    count = rows.usable.shape[0]
    # The Bayesian bootstrap: exponential weights are those of a resampling, but none is zero.
    chance = jax.random.exponential(weight_key, (-(-count // BLOCK),)).repeat(BLOCK)[:count]
    weights = rows.usable * (1.0 + settings.bootstrap * (chance - 1.0))
    probability = weights / jnp.maximum(jnp.sum(weights), 1e-6)
    chosen = jax.random.choice(key, count, (steps, batch), p=probability + 1e-12)

    def step(carry: tuple, index: jax.Array) -> tuple[tuple, jax.Array]:
        parameters, state = carry
        some = jax.tree.map(lambda leaf: leaf[index], rows)
        value, gradient = jax.value_and_grad(loss)(parameters, switches, settings, some)
        updates, new_state = optimiser.update(gradient, state)
        updates = jax.tree.map(lambda u: settings.learning_rate * u, updates)
        new = optax.apply_updates(parameters, updates)
        # A step that is not finite is not taken, and does not enter Adam's memory.
        good = jnp.isfinite(value) & jnp.isfinite(optax.tree.norm(gradient))
        keep = partial(jnp.where, good)
        kept = (jax.tree.map(keep, new, parameters), jax.tree.map(keep, new_state, state))
        return kept, value

    memory: Any = optimiser.init(cast("Any", parameters))
    carry, values = jax.lax.scan(step, (parameters, memory), chosen)
    return carry[0], jnp.mean(values[-20:])
