"""Fit of the body-frame residual: ridge regression for the library, Adam for the network.

The same cure against sensor noise as in `fit`: the features are evaluated at the state that the
model predicts from the step before (an instrumental variable), the targets come from the
measured step. The network minimises the online learner's loss with the linear part held.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from lafr_mjx.model import body, fit_residual, hybrid, lag, open_loop, residual
from lafr_mjx.model.body import NAMES, OUTPUTS
from lafr_mjx.model.body_sets import ACCELERATION, RATES
from lafr_mjx.types import CONTROL_DT

if TYPE_CHECKING:
    from lafr_mjx.model.body import BodyResidual
    from lafr_mjx.model.data import Transitions
    from lafr_mjx.model.state import ModelState

_PILOT_RIDGE = 1e-3
_QUANTUM = 2048  # rows


class Design(NamedTuple):
    """The regression: features and targets of each row, body frame (NumPy, float64)."""

    features: np.ndarray  # [N, features]
    targets: np.ndarray  # [N, 6]
    usable: np.ndarray  # [N] bool
    variance: np.ndarray  # [features] of the usable rows


@jax.jit
def _library(weights: jax.Array, state: ModelState, commands: jax.Array) -> jax.Array:
    return body.library(state, residual.effective_command(weights, commands), commands)


_one_step = jax.jit(open_loop.body_step)


def _in_steps(function: Any, leading: Any, *given: Any) -> Any:
    """A compiled function on rows, filled up to few different lengths."""
    count = len(given[-1])
    index = np.minimum(np.arange(-(-count // _QUANTUM) * _QUANTUM), count - 1)
    filled = jax.tree.map(lambda leaf: np.asarray(leaf)[index], given)
    return jax.tree.map(lambda leaf: np.asarray(leaf)[:count], function(leading, *filled))


def targets(rows: Transitions, weights: np.ndarray, rotation: np.ndarray) -> np.ndarray:
    """What the nominal model misses in each step [N, 6]; `rotation` says what body frame."""
    turn = CONTROL_DT * lag.measured_rates(rows)
    commands = jnp.asarray(np.asarray(rows.commands, float))
    effective = np.asarray(residual.effective_command(jnp.asarray(weights), commands), float)
    thrust = effective[:, :1] * lag.mean_axis(rows, turn)
    world = lag.specific_force(rows) - thrust
    acceleration = (np.swapaxes(rotation, -1, -2) @ world[..., None])[..., 0]
    return np.concatenate([acceleration, turn / CONTROL_DT - effective[:, 1:]], axis=-1)


def design(rows: Transitions, weights: np.ndarray) -> Design:
    """Features at the states that a pilot model predicts, and the targets."""
    rows = without_gaps(rows)
    usable = np.asarray(rows.usable, bool)
    parameters = body.create(np.random.default_rng(0), weights)
    lag_weights = jnp.asarray(weights)

    def at(state: ModelState) -> Design:
        features = np.asarray(_in_steps(_library, lag_weights, state, rows.commands), float)
        wanted = targets(rows, np.asarray(lag_weights), np.asarray(state.rotation, float))
        variance = np.var(features[usable], axis=0) if usable.any() else np.ones(len(NAMES))
        return Design(features, wanted, usable, variance)

    # The first prediction is the nominal one: a plain fit would have learned the noise already.
    first = at(_in_steps(_one_step, parameters, rows.before, rows.before_commands))
    mask = ACCELERATION["linear"] | RATES["linear"]
    linear = solve(first, usable, mask, _PILOT_RIDGE).astype(np.float32)
    pilot = parameters._replace(linear=linear)
    return at(_in_steps(_one_step, pilot, rows.before, rows.before_commands))


def without_gaps(rows: Transitions) -> Transitions:
    """Rows that are not usable may hold anything; they become harmless."""
    good = np.asarray(rows.usable, bool)
    first = int(np.argmax(good))
    index = np.where(good, np.arange(len(good)), first)
    return jax.tree.map(lambda leaf: np.asarray(leaf)[index], rows)._replace(usable=good)


def moments(given: Design, used: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Sums over some rows that a regression needs: X'X, X'Y and their number."""
    x, y = given.features[used], given.targets[used]
    return x.T @ x, x.T @ y, len(x)


def solve(given: Design, used: np.ndarray, mask: np.ndarray, ridge: float) -> np.ndarray:
    """Coefficients [features, 6] of some rows; zero outside the mask."""
    return solve_moments(moments(given, used & given.usable), given.variance, mask, ridge)


def solve_moments(
    sums: tuple[np.ndarray, np.ndarray, int], variance: np.ndarray, mask: np.ndarray, ridge: float
) -> np.ndarray:
    """As `solve`; the constant is not penalised, so the others are as if centred."""
    gram, moment, count = sums
    penalty = count * (ridge * variance + 1e-9)
    penalty[0] = 1e-9
    result = np.zeros((len(NAMES), len(OUTPUTS)))
    for columns in map(np.asarray, _alike(mask)):
        rows = np.flatnonzero(mask[:, columns[0]])
        if len(rows):
            left = gram[np.ix_(rows, rows)] + np.diag(penalty[rows])
            result[np.ix_(rows, columns)] = np.linalg.solve(left, moment[np.ix_(rows, columns)])
    return result


def _alike(mask: np.ndarray) -> list[list[int]]:
    """Outputs that share a set of features are solved together."""
    groups: dict[bytes, list[int]] = {}
    for column in range(mask.shape[1]):
        groups.setdefault(mask[:, column].tobytes(), []).append(column)
    return list(groups.values())


def _loss(
    layers: Any, held: BodyResidual, settings: fit_residual.FitSettings, rows: Transitions
) -> jax.Array:
    parameters = held._replace(layers=layers)
    predicted = jax.lax.stop_gradient(_one_step(parameters, rows.before, rows.before_commands))
    effective = residual.effective_command(parameters.lag, rows.commands)
    extra = body.evaluate(parameters, predicted, effective, rows.commands)
    after = hybrid.held_step(rows.now, effective, extra, CONTROL_DT)
    error = jnp.mean(fit_residual.discrepancy(rows.after, after))
    return error + settings.spectral_penalty * fit_residual.spectral_norms(layers)


@partial(jax.jit, static_argnames=("steps", "batch"))
def fit_network(
    parameters: BodyResidual,
    settings: fit_residual.FitSettings,
    rows: Transitions,
    key: jax.Array,
    *,
    steps: int = 300,
    batch: int = 256,
) -> BodyResidual:
    """The network on top of the linear part, by Adam on random usable rows."""
    optimiser = optax.adam(optax.cosine_decay_schedule(1.0, steps, 0.1))
    share = rows.usable / jnp.maximum(jnp.sum(rows.usable), 1.0)
    chosen = jax.random.choice(key, rows.usable.shape[0], (steps, batch), p=share)
    held = parameters._replace(network=jnp.float32(1.0))

    def step(carry: tuple, index: jax.Array) -> tuple[tuple, None]:
        layers, memory = carry
        some = jax.tree.map(lambda leaf: leaf[index], rows)
        gradient = jax.grad(_loss)(layers, held, settings, some)
        updates, memory = optimiser.update(gradient, memory)
        updates = jax.tree.map(lambda u: settings.learning_rate * u, updates)
        return (optax.apply_updates(layers, updates), memory), None

    start = (parameters.layers, optimiser.init(parameters.layers))
    layers = jax.lax.scan(step, start, chosen)[0][0]
    return held._replace(layers=layers)
