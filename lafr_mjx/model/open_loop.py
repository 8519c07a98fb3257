"""Open-loop evaluation: start from a measured state, hold the logged commands, compare.

The error at a horizon is the root of the mean square over all windows of the distance between
prediction and measurement: position, velocity, and the angle of the relative rotation.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from lafr_mjx import so3
from lafr_mjx.model import body, fit_residual, hybrid, residual
from lafr_mjx.types import CONTROL_DT

if TYPE_CHECKING:
    from lafr_mjx.model.body import BodyResidual
    from lafr_mjx.model.residual import Residual, Switches
    from lafr_mjx.model.state import ModelState
    from lafr_mjx.model.steps import Windows

_CHUNK = 128
"""Windows per call: few shapes are compiled, and the arrays stay in the cache."""


_WORST = 1e12


UNITS = np.array([1e3, 1e2, np.degrees(1.0)])
"""From m, m/s and rad to what is shown: mm, cm/s and °."""


def body_step(parameters: BodyResidual, state: ModelState, commands: jax.Array) -> ModelState:
    """One control interval of the body-frame model."""
    effective = residual.effective_command(jnp.asarray(parameters.lag), commands)
    extra = body.evaluate(parameters, state, effective, commands)
    return hybrid.held_step(state, effective, extra, CONTROL_DT)


def online_step(
    parameters: tuple[Residual, Switches], state: ModelState, commands: jax.Array
) -> ModelState:
    """One control interval of the online learner's model."""
    return fit_residual.one_step(*parameters, state, commands)


@partial(jax.jit, static_argnames="step")
def _squares(step: Any, parameters: Any, part: Windows) -> jax.Array:
    """Squared errors [3, steps, W] of one model."""

    def advance(state: ModelState, given: tuple) -> tuple[ModelState, jax.Array]:
        commands, truth = given
        state = step(parameters, state, commands)
        turn = so3.log(jnp.swapaxes(state.rotation, -1, -2) @ truth.rotation)
        errors = (state.position - truth.position, state.velocity - truth.velocity, turn)
        return state, jnp.stack([jnp.sum(error**2, axis=-1) for error in errors])

    along = jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), (part.commands, part.truth))
    return jnp.swapaxes(jax.lax.scan(advance, part.start, along)[1], 0, 1)


@partial(jax.jit, static_argnames="step")
def _many_squares(step: Any, parameters: Any, part: Windows) -> jax.Array:
    return jax.vmap(lambda one: _squares(step, one, part))(parameters)


def squares(step: Any, parameters: Any, given: Windows, *, many: bool = False) -> np.ndarray:
    """Squared errors [..., 3, steps, W]; with `many`, of a leading axis of models."""
    count = len(given.index)
    run = _many_squares if many else _squares
    results = []
    for first in range(0, count, _CHUNK):
        # The last part is filled up, so that it has the shape of the others.
        index = np.minimum(np.arange(first, first + _CHUNK), count - 1)
        part = jax.tree.map(lambda leaf, index=index: jnp.asarray(leaf[index]), given)
        results.append(np.asarray(run(step, parameters, part))[..., : min(_CHUNK, count - first)])
    # A model that runs away is as bad as can be, not undefined.
    return np.nan_to_num(np.concatenate(results, axis=-1).astype(float), nan=_WORST, posinf=_WORST)


def errors(step: Any, parameters: Any, given: Windows) -> np.ndarray:
    """Root mean square errors [steps, 3] over the windows, after each step: mm, cm/s, °."""
    return np.sqrt(np.mean(squares(step, parameters, given), axis=-1)).T * UNITS


@partial(jax.jit, static_argnames="step")
def predict(step: Any, parameters: Any, given: Windows) -> ModelState:
    """The states [W, ...] that a model predicts at the windows' ends."""

    def advance(state: ModelState, commands: jax.Array) -> tuple[ModelState, None]:
        return step(parameters, state, commands), None

    along = jnp.swapaxes(jnp.asarray(given.commands), 0, 1)
    return jax.lax.scan(advance, jax.tree.map(jnp.asarray, given.start), along)[0]
