"""RASH-BPTT: improve the policy by differentiating through short flights in the hybrid model.

Flights start as far from the reference as the drone really was (anchored) or at the reference
(standard BPTT), some on the ramp, all perturbed alike. Each flight uses one member of the ensemble
of residuals, so that an ensemble costs no more than one.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from lafr_mjx import so3
from lafr_mjx.learner import model_rollout
from lafr_mjx.learner.backward import Flights, cost_and_slope
from lafr_mjx.learner.cost_tracking import Tracking
from lafr_mjx.learner.model_rollout import Stress, StressScale
from lafr_mjx.model.residual import COMMANDS
from lafr_mjx.model.state import ModelState
from lafr_mjx.reference import clock as clocks
from lafr_mjx.reference.flatness import reference_state
from lafr_mjx.reference.path import lap_s
from lafr_mjx.types import CONTROL_DT

if TYPE_CHECKING:
    from collections.abc import Callable

    from lafr_mjx.arrays import Array
    from lafr_mjx.control.controller import Learnable
    from lafr_mjx.model.residual import Residual, Switches
    from lafr_mjx.reference.path import Path
    from lafr_mjx.types import Reference


_BACK_S = -CONTROL_DT * np.arange(COMMANDS + 2)
"""Moments of the state on the reference, and of the commands before it."""

_STEADY_S = 0.02 - _BACK_S[-1]
"""After the ramp; then these commands are, too."""


class Anchors(NamedTuple):
    """How far the drone really was from its reference: N recorded moments.

    Offsets from the reference, not states: training flies another time scale than the one that
    was recorded, and a recorded velocity would be off by as much.
    """

    offset: ModelState  # [N, ...] position and velocity less the reference's; R_refᵀ R
    commands: jax.Array  # [N, COMMANDS + 1, 4] newest first, before the moment's own command, less
    # what an ideal vehicle on the reference would have been given
    phase: jax.Array  # [N] s
    usable: jax.Array  # [N] bool


class TrainSettings(NamedTuple):
    """How a policy is trained; leaves."""

    cost: Any = Tracking()  # a `Cost`
    stress: StressScale = StressScale()
    learning_rate: Any = 2e-3
    discount: Any = 0.995
    anchored_share: Any = 0.5  # of the flights; 0 is standard BPTT
    position_spread: Any = 0.09  # m, of the perturbed starts
    velocity_spread: Any = 0.24  # m/s
    tilt_spread: Any = 0.09  # rad
    fastest: Any = 1.0  # time scales are drawn between these two
    slowest: Any = 1.0
    ramping_share: Any = (
        0.25  # of the flights that are on their way up to speed, if there is a ramp
    )
    ramp_s: Any = 0.0


def no_anchors(count: int = 1) -> Anchors:
    """None were recorded yet."""
    state = ModelState(
        jnp.zeros((count, 3)), jnp.zeros((count, 3)), jnp.tile(jnp.eye(3), (count, 1, 1))
    )
    return Anchors(
        state, jnp.zeros((count, COMMANDS + 1, 4)), jnp.zeros(count), jnp.zeros(count, bool)
    )


@partial(jax.jit, static_argnames=("steps", "batch", "horizon"))
def train(
    policy: Learnable,
    ensemble: Residual,
    switches: Switches,
    path: Path,
    anchors: Anchors,
    settings: TrainSettings,
    key: jax.Array,
    *,
    steps: int = 100,
    batch: int = 32,
    horizon: int = 30,
) -> tuple[Any, jax.Array]:
    """`steps` Adam steps with a cosine learning rate; returns the policy and its last costs.

    The cost of a step that was not taken, because it or its slope is not finite, is NaN.
    """
    members = ensemble.lag.shape[0]
    optimiser = optax.chain(
        optax.clip_by_global_norm(1.0), optax.adam(optax.cosine_decay_schedule(1.0, steps, 0.05))
    )

    moments = jnp.arange(horizon)[:, None] * CONTROL_DT + jnp.asarray(policy.preview_s())[None]

    def step(carry: tuple, draws: _Draws) -> tuple[tuple, jax.Array]:
        trained, state = carry
        flights = _flights(path, anchors, settings, draws, members, moments)
        value, gradient = cost_and_slope(
            policy.with_trained(trained), ensemble, switches, settings.cost, settings.discount,
            flights,
        )  # fmt: skip
        updates, new_state = optimiser.update(gradient, state)
        updates = jax.tree.map(lambda u: settings.learning_rate * u, updates)
        new = optax.apply_updates(trained, updates)
        # A step that is not finite is not taken, and does not enter Adam's memory.
        good = jnp.isfinite(value) & jnp.isfinite(optax.tree.norm(gradient))
        keep = partial(jnp.where, good)
        carry = jax.tree.map(keep, new, trained), jax.tree.map(keep, new_state, state)
        return carry, keep(value, jnp.nan)

    carry = (policy.trained(), optimiser.init(policy.trained()))
    # All random numbers at once: JAX's generator runs loops, which cost more than the numbers.
    drawn = jax.vmap(partial(_drawn, anchors, settings, members * (batch // members), horizon))(
        jax.random.split(key, steps)
    )
    (trained, _), values = jax.lax.scan(step, carry, drawn)
    return policy.with_trained(trained), values


class _Draws(NamedTuple):
    """The chance in the flights of one step, N of them."""

    spread: jax.Array  # [N] where between the fastest and the slowest
    share: jax.Array  # [N] of the ramp
    anchor: jax.Array  # [N] recorded moment
    anchored: jax.Array  # [N] whether it is taken
    lap: jax.Array  # [N] share of the lap, elsewhere
    position: jax.Array  # [N, 3] standard normal
    velocity: jax.Array  # [N, 3]
    tilt: jax.Array  # [N, 3]
    stress: Stress  # [N] vehicles
    noise: jax.Array  # [H, N, 9] standard normal


def _drawn(
    anchors: Anchors, settings: TrainSettings, count: int, horizon: int, key: jax.Array
) -> _Draws:
    keys = jax.random.split(key, 10)
    weight = anchors.usable / jnp.maximum(jnp.sum(anchors.usable), 1.0)
    usable = anchors.usable.shape[0]
    return _Draws(
        spread=jax.random.uniform(keys[0], (count,)),
        share=jax.random.uniform(keys[9], (count,)),
        anchor=jax.random.choice(keys[1], usable, (count,), p=weight + 1e-12),
        anchored=jax.random.uniform(keys[2], (count,)) < settings.anchored_share,
        lap=jax.random.uniform(keys[3], (count,)),
        position=jax.random.normal(keys[4], (count, 3)),
        velocity=jax.random.normal(keys[5], (count, 3)),
        tilt=jax.random.normal(keys[6], (count, 3)),
        stress=model_rollout.draw_stress(keys[7], settings.stress, count),
        noise=jax.random.normal(keys[8], (horizon, count, 9)),
    )


def _flights(
    path: Path,
    anchors: Anchors,
    settings: TrainSettings,
    draws: _Draws,
    members: int,
    moments: jax.Array,
) -> Flights:
    """Flights of all members side by side, with references at moments [H, P]."""
    count, horizon = draws.lap.shape[0], moments.shape[0]
    scale = settings.fastest + draws.spread * (settings.slowest - settings.fastest)

    # Where: at a recorded moment, at the reference at a random phase, or on the ramp.
    share, index = draws.share / jnp.maximum(settings.ramping_share, 1e-6), draws.anchor
    ramping = (share < 1.0) & (settings.ramp_s > 0.0)
    anchored = draws.anchored & jnp.any(anchors.usable) & ~ramping
    phase = jnp.where(anchored, anchors.phase[index], lap_s(path) * draws.lap)
    clock = clocks.start(scale[:, None], settings.ramp_s)
    # Beyond the ramp, and so far that the commands before are, too.
    moment = jnp.where(ramping, share * settings.ramp_s, settings.ramp_s + _STEADY_S)[:, None]
    shift = jnp.where(ramping[:, None], 0.0, phase[:, None] - clocks.shifted(clock, moment)[0])

    def asked(moments: Array) -> Reference:
        phases, *rates = clocks.shifted(clock, moment + moments)
        return reference_state(path, phases + shift, *rates)

    at_reference, past = _on_reference(asked)
    none = ModelState(jnp.zeros(3), jnp.zeros(3), jnp.eye(3))
    offset = jax.tree.map(
        lambda real, no: jnp.where(_like(anchored, real[index]), real[index], no),
        anchors.offset,
        none,
    )
    commands = past + jnp.where(anchored[:, None, None], anchors.commands[index], 0.0)
    turn = so3.exp(settings.tilt_spread * draws.tilt)
    state = ModelState(
        at_reference.position + offset.position
        + settings.position_spread * draws.position,
        at_reference.velocity + offset.velocity
        + settings.velocity_spread * draws.velocity,
        so3.product(so3.product(at_reference.rotation, offset.rotation), turn),
    )  # fmt: skip
    references = asked(moments[:, None, :])  # [H, count, P, ...]

    def by_member(leaf: jax.Array) -> jax.Array:
        return leaf.reshape((members, count // members, *leaf.shape[1:]))

    def by_member_in_time(leaf: jax.Array) -> jax.Array:
        return leaf.reshape((horizon, members, count // members, *leaf.shape[2:]))

    return Flights(
        state=jax.tree.map(by_member, state),
        commands=by_member(commands),
        references=jax.tree.map(by_member_in_time, references),
        stress=jax.tree.map(by_member, draws.stress),
        noise=by_member_in_time(draws.noise),
    )


def _on_reference(asked: Callable[[Array], Reference]) -> tuple[ModelState, jax.Array]:
    """State on the reference and the commands that an ideal vehicle had just been given."""
    references = asked(_BACK_S)
    now = jax.tree.map(lambda leaf: leaf[:, 0], references)
    commands = jnp.concatenate([references.thrust[..., None], references.rates], axis=-1)
    return ModelState(now.position, now.velocity, now.rotation), commands[:, 1:]


def _like(mask: jax.Array, leaf: jax.Array) -> jax.Array:
    return mask.reshape((-1,) + (1,) * (leaf.ndim - 1))
