"""ATS that verifies before it flies: the fastest time scale that the model can vouch for.

The printed rule looks at the slope of a barrier along the last flight; the error stays small
and then jumps within one step, where the slope has not seen it yet. Here each candidate is
flown in the hybrid model first, by nominal and by stressed vehicles, and the model's own record
(predicted against flown) inflates its predictions. All branches are masks, so that adaptations
can be batched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp

if TYPE_CHECKING:
    import jax

    from lafr_mjx.learner.verify import Prediction

MIN_TRUST, MAX_TRUST = 0.024, 0.2
_SETTLING = 0.05
"""Trust region below which it grows no more: near the limit, laps shall settle."""

_SURPRISED = 2.0
"""Inflation from which on a flight's error does not speak for its speed."""

CANDIDATES = 8
"""Time scales that are verified in each iteration."""

# What bound the choice.
SPEED, TRUST_REGION, VERIFICATION, SATURATION, BARRIER, SETTLED, HELD = range(7)
BOUND_NAMES = ("speed", "trust region", "verification", "saturation", "barrier", "settled", "held")


class AtsSettings(NamedTuple):
    """Limits of the rule; leaves."""

    error_threshold: Any = 0.35  # m, E_th
    nominal_limit: Any = 0.20  # m, for the inflated error of the model itself
    saturation_limit: Any = 0.5
    fastest: Any = 0.15  # α_min
    slowest: Any = 2.0  # α_max
    settle_below: Any = 0.25  # m, flown error below which a slower choice is refused
    peak_acceleration: Any = 1.7  # m/s², of the path at α = 1
    acceleration_step: Any = 4.0  # m/s², by how much a flight's peak may pass the one before
    reserve: Any = 0.04  # share of α that must be left to where the model itself loses the path


class AtsState(NamedTuple):
    """What is remembered from iteration to iteration."""

    time_scale: Any  # α that was flown or is to be flown next
    predicted: Any  # m, peak error predicted for it
    expected: Any  # m, the same with the ramp
    inflation: Any  # ρ >= 1
    trust: Any  # δ, largest relative step
    floor: Any  # α below which we do not go, after a violation
    reached: Any  # bool: the last choice was the fastest that the trust region allowed


def initial(time_scale: Any) -> AtsState:
    """Before the first flight, for which nothing was predicted."""
    one = jnp.float32(1.0)
    return AtsState(
        time_scale=jnp.float32(time_scale),
        predicted=jnp.nan * one,
        expected=jnp.nan * one,
        inflation=one,
        trust=MAX_TRUST * one,
        floor=0.0 * one,
        reached=jnp.bool_(True),
    )


def propose(
    state: AtsState, flown_error: jax.Array, settings: AtsSettings
) -> tuple[AtsState, jax.Array]:
    """Learn from the flown peak error; returns the new memory and the fastest candidate."""
    # The first flight is the base policy's: an error there says nothing about the model.
    first = jnp.isnan(state.predicted)
    ratio = jnp.clip((flown_error + 0.02) / (state.predicted + 0.02), 0.5, 4.0)
    ratio = jnp.where(first, 1.0, ratio)
    worse = jnp.maximum(1.0, ratio)
    inflation = jnp.where(worse > state.inflation, worse, 0.6 * state.inflation + 0.4 * worse)
    violated = (flown_error > settings.error_threshold) & ~first
    # A small region grows again only far from the limit, as after a change that was overcome.
    far = flown_error < 0.5 * settings.nominal_limit
    grow = jnp.where(state.trust > _SETTLING, 1.15, jnp.where(far, 1.5, 1.0))
    trust = state.trust * jnp.where(ratio < 1.5, jnp.where(state.reached, grow, 1.0), 0.8)
    # After a violation small steps, but not so small that there is no way back.
    trust = jnp.where(violated, jnp.maximum(0.5 * trust, 1.2 * _SETTLING), trust)
    trust = jnp.clip(trust, MIN_TRUST, MAX_TRUST)
    floor = jnp.where(
        violated, jnp.maximum(state.floor, 1.04 * state.time_scale), 0.99 * state.floor
    )
    # Forces grow with 1/α²: a step that was harmless at a walk may leave at a run all that the
    # model has seen (rotors at their end, for one).
    peak = settings.peak_acceleration / state.time_scale**2
    faster = jnp.maximum(
        state.time_scale * (1.0 - trust),
        state.time_scale * jnp.sqrt(peak / (peak + settings.acceleration_step)),
    )
    slower = 1.06 * state.time_scale
    candidate = jnp.maximum(jnp.where(violated, slower, faster), floor)
    # What failed untrained is first learned at its own speed.
    untrained = first & (flown_error > settings.error_threshold)
    candidate = jnp.where(untrained, state.time_scale, candidate)
    candidate = jnp.clip(candidate, settings.fastest, settings.slowest)
    return state._replace(inflation=inflation, trust=trust, floor=floor), candidate


def doubt(state: AtsState) -> jax.Array:
    """How much of the full stress a candidate must survive: less where predictions held."""
    return jnp.clip(state.inflation - 0.4, 0.6, 1.0)


def candidates(state: AtsState, fastest: jax.Array, settings: AtsSettings) -> jax.Array:
    """[CANDIDATES] from the fastest to one that is surely slower, denser at the fast end.

    The first is faster than the fastest and never taken: it shows whether the end is near.
    """
    slowest = jnp.maximum(1.25 * fastest, 1.02 * state.time_scale)
    slowest = jnp.maximum(jnp.minimum(slowest, settings.slowest), fastest)
    share = (jnp.arange(CANDIDATES - 1) / (CANDIDATES - 2)) ** 1.4
    beyond = (1.0 - settings.reserve) * fastest
    return jnp.concatenate([beyond[None], fastest * (slowest / fastest) ** share])


def fallback(state: AtsState, flown_error: jax.Array, settings: AtsSettings) -> jax.Array:
    """Where to go when the model vouches for nothing."""
    step = jnp.where(_calm(state, flown_error, settings), 1.0 + settings.reserve, 1.15)
    return jnp.minimum(step * state.time_scale, settings.slowest)


def here(state: AtsState, flown_error: jax.Array, settings: AtsSettings) -> jax.Array:
    """[3] where both policies are compared: the present α, the fallback, and a bit faster."""
    nearby = (1.0 - 0.5 * settings.reserve) * state.time_scale
    return jnp.stack([state.time_scale, fallback(state, flown_error, settings), nearby])


def _calm(state: AtsState, flown_error: jax.Array, settings: AtsSettings) -> jax.Array:
    """Whether the flight itself speaks for its speed.

    Not the first one, and not after a surprise: then the world has changed, and this speed is
    unproven.
    """
    first = jnp.isnan(state.predicted)
    return (flown_error < settings.settle_below) & ~first & (state.inflation < _SURPRISED)


def acceptable(prediction: Prediction, state: AtsState, settings: AtsSettings) -> jax.Array:
    """Which time scales [A] the model vouches for; each with its slower neighbour.

    Error stays small and then grows without bound within a few percent of α, where thrust or
    rates end. The model does not know that place better than that, so none of the time scales
    within the reserve may lie beyond it.
    """
    rho = state.inflation
    nominal = rho * (prediction.nominal_error + prediction.disagreement) < settings.nominal_limit
    stressed = rho * prediction.stressed_error < settings.error_threshold
    calm = prediction.saturation < settings.saturation_limit
    sane = rho * prediction.nominal_error < settings.error_threshold
    scale = prediction.time_scale
    within = scale[None] >= (0.999 - settings.reserve) * scale[:, None]
    within = within & (scale[None] <= scale[:, None])
    clear = jnp.all(sane[None] | ~within, axis=1)
    good = nominal & stressed & calm & clear & (jnp.arange(scale.shape[0]) > 0)
    return good & jnp.concatenate([good[1:], good[-1:]])


class Choice(NamedTuple):
    """Outcome of one iteration."""

    state: AtsState
    use_new_policy: Any  # bool
    bound_by: Any  # one of the codes above


def choose(
    state: AtsState,
    flown_error: jax.Array,
    proposed: jax.Array,
    new: Prediction,
    new_here: Prediction,
    old_here: Prediction,
    settings: AtsSettings,
) -> Choice:
    """Take the fastest acceptable time scale, or stay, or slow down.

    `new` predicts the new policy at the candidates; `new_here` and `old_here` predict the new
    and the present policy at the three time scales of `here`.
    """
    good = acceptable(new, state, settings)
    any_good = jnp.any(good)
    index = jnp.argmax(good)
    chosen = new.time_scale[index]
    first = jnp.isnan(state.predicted)
    violated = (flown_error > settings.error_threshold) & ~first

    better = (new_here.nominal_error < old_here.nominal_error) & (
        new_here.stressed_error < old_here.stressed_error
    )
    # Settle: what just flew well is not slowed down because the model doubts it; the flight
    # is the better witness. But not at the very edge.
    nearby = jnp.where(better[0], new_here.nominal_error[2], old_here.nominal_error[2])
    clear = state.inflation * nearby < settings.error_threshold
    calm = _calm(state, flown_error, settings) & clear
    stay = calm & (~any_good | (chosen > state.time_scale))
    dead_band = any_good & (jnp.abs(chosen / state.time_scale - 1.0) < 0.008)
    chosen = jnp.where(dead_band & ~violated, state.time_scale, chosen)

    slower = new_here.time_scale[1]
    time_scale = jnp.where(stay, state.time_scale, jnp.where(any_good, chosen, slower))
    # When nothing passes, the new policy is still taken if it is the better of the two.
    use_new = jnp.where(stay, better[0], any_good | better[1])
    at_rest = jnp.where(stay, 0, 1)

    def foretold(new: jax.Array, new_here: jax.Array, old_here: jax.Array) -> jax.Array:
        """What was predicted for the choice."""
        here = jnp.where(use_new, new_here[at_rest], old_here[at_rest])
        return jnp.where(stay | ~any_good, here, new[index])

    predicted = foretold(new.nominal_error, new_here.nominal_error, old_here.nominal_error)
    expected = foretold(new.flight_error, new_here.flight_error, old_here.flight_error)
    fastest_passes = good[1]
    saturated = new.saturation[1] >= settings.saturation_limit
    bound = jnp.where(
        fastest_passes,
        jnp.where(proposed <= settings.fastest * 1.001, SPEED, TRUST_REGION),
        jnp.where(saturated, SATURATION, VERIFICATION),
    )
    bound = jnp.where(stay, SETTLED, bound)
    bound = jnp.where(violated, BARRIER, bound)
    # The region shrinks where verification, not the region itself, holds us back.
    held = ~fastest_passes & ~first
    trust = jnp.where(held, jnp.maximum(0.5 * state.trust, MIN_TRUST), state.trust)
    new_state = AtsState(
        time_scale=time_scale,
        predicted=predicted,
        expected=expected,
        inflation=state.inflation,
        trust=trust,
        floor=state.floor,
        reached=fastest_passes & ~stay,
    )
    return Choice(new_state, use_new, bound)
