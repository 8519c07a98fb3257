"""Fly candidates in the hybrid model before the drone flies one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp

from lafr_mjx.learner import model_rollout
from lafr_mjx.learner.model_rollout import Flying, Stress, StressScale
from lafr_mjx.model.residual import COMMANDS
from lafr_mjx.model.state import ModelState
from lafr_mjx.reference import clock as clocks
from lafr_mjx.reference.flatness import reference_state
from lafr_mjx.reference.path import derivatives
from lafr_mjx.types import COMMAND_HOVER, CONTROL_DT

if TYPE_CHECKING:
    from lafr_mjx.control.controller import Learnable
    from lafr_mjx.model.residual import Residual, Switches
    from lafr_mjx.reference.path import Path

STRESSED = 8
"""Stressed flights per time scale."""

_NEAR_LIMIT = 0.98


class Prediction(NamedTuple):
    """What the model expects of a policy at each of A time scales."""

    time_scale: Any  # [A]
    nominal_error: Any  # [A] m, peak, of the model itself with noise (mean over the ensemble)
    disagreement: Any  # [A] m, standard deviation of that over the ensemble
    flight_error: Any  # [A] m, as the nominal error, but with the ramp: what a guard expects
    stressed_error: Any  # [A] m, second largest peak of the stressed flights
    saturation: Any  # [A] share of commands at a limit


def predict(
    policy: Learnable,
    ensemble: Residual,
    switches: Switches,
    path: Path,
    time_scale: jax.Array,
    ramp_s: Any,
    scale: StressScale,
    key: jax.Array,
    *,
    ticks: int = 400,
) -> Prediction:
    """Whole flights, from hover over the ramp, at each time scale [A]."""
    members = ensemble.lag.shape[0]
    each = STRESSED // members  # stressed flights per member
    stressed = model_rollout.draw_stress(key, scale, members * each)
    stressed = jax.tree.map(lambda x: x.reshape((members, each, *x.shape[1:])), stressed)
    plain = Stress.none((members, 1))
    plain = plain._replace(noise=jnp.full((members, 1), scale.noise))
    vehicles = jax.tree.map(lambda a, b: jnp.concatenate([a, b], axis=1), plain, stressed)

    def at(time_scale: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        fly = jax.vmap(
            lambda member, vehicles: _fly(
                policy, member, switches, path, time_scale, ramp_s, vehicles, key, ticks
            )
        )
        return fly(ensemble, vehicles)  # [members, 1 + each]

    errors, whole, saturation = jax.vmap(at)(time_scale)
    flat = errors[:, :, 1:].reshape((errors.shape[0], -1))
    return Prediction(
        time_scale=time_scale,
        nominal_error=jnp.mean(errors[:, :, 0], axis=1),
        disagreement=jnp.std(errors[:, :, 0], axis=1),
        flight_error=jnp.mean(whole[:, :, 0], axis=1),
        stressed_error=jnp.sort(flat, axis=1)[:, -2],
        saturation=jnp.mean(saturation[:, :, 0], axis=1),
    )


def _fly(
    policy: Learnable,
    member: Residual,
    switches: Switches,
    path: Path,
    time_scale: jax.Array,
    ramp_s: Any,
    vehicles: Stress,
    key: jax.Array,
    ticks: int,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Peak errors after and with the ramp, and share of saturated commands, [V] each."""
    count = vehicles.thrust_gain.shape[0]
    start = derivatives(path, jnp.float32(0.0))[0, :3]
    state = ModelState(
        jnp.tile(start, (count, 1)), jnp.zeros((count, 3)), jnp.tile(jnp.eye(3), (count, 1, 1))
    )
    memory = jax.tree.map(lambda leaf: jnp.tile(leaf, (count, *(1,) * leaf.ndim)), policy.start())
    flying = Flying(state, jnp.tile(COMMAND_HOVER, (count, COMMANDS + 1, 1)), memory)
    # The references of the whole flight at once: they do not depend on the vehicle.
    clock = clocks.start(time_scale, ramp_s)
    moments = jnp.arange(ticks)[:, None] * CONTROL_DT + jnp.asarray(policy.preview_s())[None]
    references = reference_state(path, *clocks.shifted(clock, moments))
    low, high = policy.limits.low, policy.limits.high
    after_ramp = jnp.arange(ticks) * CONTROL_DT >= ramp_s

    def tick(carry: tuple, now: tuple) -> tuple[tuple, None]:
        flying, peak, whole, saturated = carry
        wanted, counts, number = now
        noise = jax.random.normal(jax.random.fold_in(key, number), (count, 9))
        wanted = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (count, *leaf.shape)), wanted)
        moved, command = model_rollout.tick(
            member, switches, policy, flying, wanted, vehicles, noise
        )
        error = jnp.linalg.norm(flying.state.position - wanted.position[:, 0], axis=-1)
        # What is not finite, or far away, is as bad as it gets.
        error = jnp.where(jnp.isfinite(error), jnp.minimum(error, 10.0), 10.0)
        at_limit = jnp.any(jnp.abs(command[:, 1:]) >= _NEAR_LIMIT * high[1:], axis=-1)
        at_limit = at_limit | (command[:, 0] >= _NEAR_LIMIT * high[0]) | (command[:, 0] <= low[0])
        whole = jnp.maximum(whole, error)
        peak = jnp.where(counts, jnp.maximum(peak, error), peak)
        saturated = saturated + jnp.where(counts, at_limit, False)
        return (moved, peak, whole, saturated), None

    carry = (flying, jnp.zeros(count), jnp.zeros(count), jnp.zeros(count))
    xs = (references, after_ramp, jnp.arange(ticks))
    (_, peak, whole, saturated), _ = jax.lax.scan(tick, carry, xs)
    return peak, whole, saturated / jnp.maximum(jnp.sum(after_ramp), 1)
