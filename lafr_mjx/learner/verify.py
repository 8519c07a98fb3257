"""Fly candidates in the hybrid model before the drone flies one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp

from lafr_mjx.control.departure import WINDOWS, departure, window
from lafr_mjx.learner import model_rollout
from lafr_mjx.learner.model_rollout import Flying, Stress, StressScale
from lafr_mjx.model.residual import COMMANDS
from lafr_mjx.model.state import ModelState
from lafr_mjx.reference import clock as clocks
from lafr_mjx.reference.flatness import reference_state
from lafr_mjx.reference.path import derivatives, lap_s
from lafr_mjx.types import COMMAND_HOVER, CONTROL_DT

if TYPE_CHECKING:
    from lafr_mjx.control.controller import Learnable
    from lafr_mjx.learner.corridor import Corridor
    from lafr_mjx.model.residual import Residual, Switches
    from lafr_mjx.reference.path import Path

STRESSED = 16
"""Stressed flights per time scale."""

RESERVE = 0.04
"""Each time scale is probed so much faster, too: there the end of thrust or rates may lie."""

_TOLERATED = 2
"""Stressed flights that may be worse than the one that counts."""

_CHUNK = 50
"""Ticks that are flown before it is asked whether all flights are over."""

_KEPT = 1.0 - CONTROL_DT / 0.5
"""Share of a wandering acceleration that is left after a tick: it changes within half a second."""

_NEAR_LIMIT = 0.98

_LEAST_UPRIGHT = -0.1
"""Cosine of the tilt beyond which a flight is lost; beyond 100 degrees it counts as crashed."""


class Prediction(NamedTuple):
    """What the model expects of a policy at each of A time scales."""

    time_scale: Any  # [A]
    nominal_error: Any  # [A] m, peak, of the model itself with noise (mean over the ensemble)
    disagreement: Any  # [A] m, standard deviation of that over the ensemble
    whole_error: Any  # [A] m, as the nominal error, but with the ramp
    tracking_error: Any  # [A] m, as the nominal error, but from the reference, wherever that is
    departure: Any  # [A, WINDOWS] m, largest until then, third largest of the stressed flights
    stressed_error: Any  # [A] m, third largest peak of the stressed flights
    saturation: Any  # [A] share of commands at a limit
    probe_error: Any  # [A] m, as the nominal error, but faster by the reserve


class _Seen(NamedTuple):
    """What is remembered of the flights so far, [members, flights] each."""

    peak: jax.Array  # m, after the ramp, as it is judged
    used: jax.Array  # m, the same with the ramp
    tracked: jax.Array  # m, after the ramp, from the reference
    departed: jax.Array  # [..., WINDOWS] m, with the ramp
    saturated: jax.Array  # commands after the ramp that were at a limit
    counted: jax.Array  # commands after the ramp


def predict(
    policy: Learnable,
    ensemble: Residual,
    switches: Switches,
    path: Path,
    time_scale: jax.Array,
    ramp_s: Any,
    scale: StressScale,
    key: jax.Array,
    corridor: Corridor | None = None,
    reserve: Any = RESERVE,
) -> Prediction:
    """Whole flights, from hover over ramp and lap, at each time scale [A].

    All fly side by side until the longest is over. Each member of the ensemble flies its own
    vehicles in its own noise; the time scales share both, so that they differ by nothing else.
    With a corridor, errors count as they are judged there. Each time scale is also probed a
    `reserve` faster.
    """
    members, count = ensemble.lag.shape[0], time_scale.shape[0]
    each = STRESSED // members  # stressed flights per member and time scale
    vehicle_key, noise_key = jax.random.split(key)
    noise = jax.tree.map(lambda sigma: jnp.full((members, 1), sigma), scale.noise)
    plain = Stress.none((members, 1))._replace(noise=noise)
    stressed = model_rollout.draw_stress(vehicle_key, scale, members * each)
    stressed = jax.tree.map(lambda x: x.reshape((members, each, *x.shape[1:])), stressed)
    # By flight: the model itself, stressed vehicles, and the model itself again for the probe.
    vehicles = jax.tree.map(lambda *x: jnp.concatenate(x, axis=1), plain, stressed, plain)
    scales = jnp.concatenate([time_scale, (1.0 - reserve) * time_scale])
    index = jnp.arange(count)[:, None] + count * (jnp.arange(each + 2) == each + 1)

    def tiled(leaf: jax.Array) -> jax.Array:
        return jnp.tile(leaf, (1, count, *(1,) * (leaf.ndim - 2)))

    seen = _fly(
        policy, ensemble, switches, path, scales, index.ravel(), ramp_s,
        jax.tree.map(tiled, vehicles), scale.wander, noise_key, each + 2, corridor,
    )  # fmt: skip
    seen = jax.tree.map(lambda x: x.reshape((members, count, each + 2, *x.shape[2:])), seen)
    peak, saturation = seen.peak, seen.saturated / jnp.maximum(seen.counted, 1.0)

    def third_largest(leaf: jax.Array) -> jax.Array:
        stressed = jnp.moveaxis(leaf[:, :, 1:-1], 0, 1)
        ordered = jnp.sort(stressed.reshape((count, -1, *leaf.shape[3:])), axis=1)
        return ordered[:, -1 - _TOLERATED]

    return Prediction(
        time_scale=time_scale,
        nominal_error=jnp.mean(peak[:, :, 0], axis=0),
        disagreement=jnp.std(peak[:, :, 0], axis=0),
        whole_error=jnp.mean(seen.used[:, :, 0], axis=0),
        tracking_error=jnp.mean(seen.tracked[:, :, 0], axis=0),
        departure=jax.lax.cummax(third_largest(seen.departed), axis=1),
        stressed_error=third_largest(peak),
        saturation=jnp.mean(saturation[:, :, 0], axis=0),
        probe_error=jnp.mean(peak[:, :, -1], axis=0),
    )


def _fly(
    policy: Learnable,
    ensemble: Residual,
    switches: Switches,
    path: Path,
    scales: jax.Array,
    index: jax.Array,
    ramp_s: Any,
    vehicles: Stress,
    wander: Any,
    key: jax.Array,
    repeat: int,
    corridor: Corridor | None,
) -> _Seen:
    """Flights [F] at scales[index], by vehicles [members, F].

    Noise repeats after `repeat` flights.
    """
    members, count = vehicles.thrust_gain.shape
    lasting = clocks.flight_s(scales, lap_s(path), ramp_s)
    longest, lasting = jnp.max(lasting), lasting[index]
    clock = clocks.start(scales[:, None], ramp_s)
    preview = jnp.asarray(policy.preview_s())
    low, high = policy.limits.low, policy.limits.high

    def tick(carry: tuple, now: tuple) -> tuple[tuple, None]:
        flying, push, seen = carry
        wanted, beside, moment, draws = now
        wanted, beside = jax.tree.map(lambda leaf: leaf[index], (wanted, beside))
        noise = jnp.tile(draws, (1, count // repeat, 1))
        push = _KEPT * push + (1.0 - _KEPT**2) ** 0.5 * wander * noise[..., 9:]
        pushed = vehicles._replace(bias=vehicles.bias + push)

        def move(member: Residual, flying: Flying, vehicle: Stress, noise: Any) -> tuple:
            return model_rollout.tick(member, switches, policy, flying, wanted, vehicle, noise)

        moved, command = jax.vmap(move)(ensemble, flying, pushed, noise[..., :9])
        position, asked = flying.state.position, wanted.position[:, 0]
        away = jnp.linalg.norm(position - asked, axis=-1)
        away = jnp.where(flying.state.rotation[..., 2, 2] < _LEAST_UPRIGHT, jnp.inf, away)
        error = _bounded(away, moment < lasting)
        # As it is sensed.
        late = vehicles.noise.velocity_lag[..., None] * wanted.acceleration[:, 0]
        gone = departure(position - asked, flying.state.velocity - late - wanted.velocity[:, 0])
        gone = _bounded(gone, moment < lasting)
        judged = error
        if corridor is not None:
            judged = jnp.maximum(away, corridor.judged(position, asked, beside))
            judged = _bounded(judged, moment < lasting)
        counts = (moment >= ramp_s) & (moment < lasting)
        at_limit = jnp.any(jnp.abs(command[..., 1:]) >= _NEAR_LIMIT * high[1:], axis=-1)
        at_limit |= (command[..., 0] >= _NEAR_LIMIT * high[0]) | (command[..., 0] <= low[0])
        seen = _Seen(
            peak=jnp.where(counts, jnp.maximum(seen.peak, judged), seen.peak),
            used=jnp.maximum(seen.used, judged),
            tracked=jnp.where(counts, jnp.maximum(seen.tracked, error), seen.tracked),
            departed=jnp.where(
                (jnp.arange(WINDOWS) == window(moment)) & (moment < lasting)[:, None],
                jnp.maximum(seen.departed, gone[..., None]),
                seen.departed,
            ),
            saturated=seen.saturated + (counts & at_limit),
            counted=seen.counted + counts,
        )
        return (moved, push, seen), None

    def chunk(carry: tuple) -> tuple:
        first, flights = carry
        ticks = first + jnp.arange(_CHUNK)
        moments = ticks * CONTROL_DT
        # References do not depend on the vehicle: [ticks, scales, previews, ...].
        shift = moments[:, None, None] + preview
        phase, *rates = clocks.shifted(clock, shift)
        references = reference_state(path, phase, *rates)
        beside = None if corridor is None else corridor.at(phase[..., 0])
        draws = jax.vmap(
            lambda tick: jax.random.normal(jax.random.fold_in(key, tick), (members, repeat, 12))
        )(ticks)
        flights, _ = jax.lax.scan(tick, flights, (references, beside, moments, draws))
        return first + _CHUNK, flights

    zero = jnp.zeros((members, count))
    hovering = _hovering(policy, path, members, count)
    seen = _Seen(*[zero] * len(_Seen._fields))
    seen = seen._replace(departed=jnp.zeros((members, count, WINDOWS)))
    flights = (hovering, jnp.zeros((members, count, 3)), seen)
    carry = (jnp.int32(0), flights)
    _, (_, _, seen) = jax.lax.while_loop(lambda c: c[0] * CONTROL_DT < longest, chunk, carry)
    return seen


def _bounded(error: jax.Array, flying: jax.Array) -> jax.Array:
    """What is not finite, or far away, is as bad as it gets."""
    error = jnp.where(jnp.isfinite(error), jnp.minimum(error, 10.0), 10.0)
    return jnp.where(flying, error, 0.0)


def _hovering(policy: Learnable, path: Path, *shape: int) -> Flying:
    """Vehicles at rest at the path's start, [*shape]."""
    start = derivatives(path, jnp.float32(0.0))[0, :3]
    one = Flying(
        ModelState(start, jnp.zeros(3), jnp.eye(3)),
        jnp.tile(COMMAND_HOVER, (COMMANDS + 1, 1)),
        policy.start(),
    )
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (*shape, *jnp.shape(leaf))), one)
