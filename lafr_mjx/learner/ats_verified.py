"""ATS that verifies before it flies: the fastest time scale that the model speaks for.

The printed rule looks at the slope of a barrier along the last flight; the error stays small
and then jumps within one step, where the slope has not seen it yet. Here each candidate is
flown in the hybrid model first, by nominal and by stressed vehicles, and the model's own record
(predicted against flown) inflates its predictions. All branches are masks, so that adaptations
can be batched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp

from lafr_mjx.learner.time_scaling import CANDIDATES, Choice, Pace

if TYPE_CHECKING:
    import jax

    from lafr_mjx.learner.time_scaling import Evidence, LastFlight
    from lafr_mjx.learner.verify import Prediction

MIN_TRUST, MAX_TRUST = 0.024, 0.2
_SETTLING = 0.05
"""Trust region below which it grows no more: near the limit, laps shall settle."""

_SURPRISED = 2.0
"""Inflation from which on a flight's error does not speak for its speed."""

_LOST = 1.0
"""Predicted error [m] at the present time scale beyond which a policy is not trained further."""

SPEED, TRUST_REGION, VERIFICATION, SATURATION, BARRIER, SETTLED = range(6)


class Memory(NamedTuple):
    """What is remembered from iteration to iteration."""

    inflation: Any  # ρ >= 1
    trust: Any  # δ, largest relative step
    floor: Any  # α below which we do not go, after a violation
    reached: Any  # bool: the last choice was the fastest that the trust region allowed


class Verified(NamedTuple):
    """Limits of the rule."""

    nominal_limit: Any = 0.20  # m, for the inflated error of the model itself
    saturation_limit: Any = 0.5
    fastest: Any = 0.15  # α_min
    slowest: Any = 2.0  # α_max
    settle_below: Any = 0.25  # m, flown error below which a slower choice is refused
    acceleration_step: Any = 4.0  # m/s², by how much a flight's peak may pass the one before
    reserve: Any = 0.04  # share of α that must be left to where the model itself loses the path

    outcomes = ("speed", "trust region", "verification", "saturation", "barrier", "settled")

    def start(self) -> Memory:
        """Predictions are believed, and the first step may be long."""
        one = jnp.float32(1.0)
        return Memory(one, MAX_TRUST * one, 0.0 * one, jnp.bool_(True))

    def propose(self, memory: Memory, last: LastFlight) -> tuple[Memory, jax.Array]:
        """Learn from the flown peak error; returns the new memory and the fastest candidate."""
        # The first flight is the base policy's: an error there says nothing about the model.
        first = last.first
        ratio = jnp.where(first, 1.0, jnp.clip(last.surprise, 0.5, 4.0))
        worse = jnp.maximum(1.0, ratio)
        inflation = jnp.where(worse > memory.inflation, worse, 0.6 * memory.inflation + 0.4 * worse)
        violated = last.violation & ~first
        # A small region grows again only far from the limit, as after a change that was overcome.
        far = last.error < 0.5 * self.nominal_limit
        grow = jnp.where(memory.trust > _SETTLING, 1.15, jnp.where(far, 1.5, 1.0))
        trust = memory.trust * jnp.where(ratio < 1.5, jnp.where(memory.reached, grow, 1.0), 0.8)
        # After a violation small steps, but not so small that there is no way back.
        trust = jnp.where(violated, jnp.maximum(0.5 * trust, 1.2 * _SETTLING), trust)
        trust = jnp.clip(trust, MIN_TRUST, MAX_TRUST)
        floor = jnp.where(
            violated, jnp.maximum(memory.floor, 1.04 * last.pace.time_scale), 0.99 * memory.floor
        )
        # Forces grow with 1/α²: a step that was harmless at a walk may leave at a run all that the
        # model has seen (rotors at their end, for one).
        peak = last.peak_acceleration / last.pace.time_scale**2
        faster = jnp.maximum(
            last.pace.time_scale * (1.0 - trust),
            last.pace.time_scale * jnp.sqrt(peak / (peak + self.acceleration_step)),
        )
        slower = 1.06 * last.pace.time_scale
        candidate = jnp.maximum(jnp.where(violated, slower, faster), floor)
        # What failed untrained is first learned at its own speed.
        untrained = first & last.violation
        candidate = jnp.where(untrained, last.pace.time_scale, candidate)
        candidate = jnp.clip(candidate, self.fastest, self.slowest)
        return memory._replace(inflation=inflation, trust=trust, floor=floor), candidate

    def stress_share(self, memory: Memory) -> jax.Array:
        """How much of the full stress a candidate must survive: less where predictions held."""
        return jnp.clip(memory.inflation - 0.4, 0.6, 1.0)

    def candidates(self, fastest: jax.Array, last: LastFlight) -> jax.Array:
        """[CANDIDATES] from the fastest to one that is surely slower, denser at the fast end.

        The first is faster than the fastest and never taken: it shows whether the end is near.
        """
        slowest = jnp.maximum(1.25 * fastest, 1.02 * last.pace.time_scale)
        slowest = jnp.maximum(jnp.minimum(slowest, self.slowest), fastest)
        share = (jnp.arange(CANDIDATES - 1) / (CANDIDATES - 2)) ** 1.4
        beyond = (1.0 - self.reserve) * fastest
        return jnp.concatenate([beyond[None], fastest * (slowest / fastest) ** share])

    def slower(self, memory: Memory, last: LastFlight) -> jax.Array:
        """Where to go when no candidate is acceptable."""
        step = jnp.where(self._calm(memory, last), 1.0 + self.reserve, 1.15)
        return jnp.minimum(step * last.pace.time_scale, self.slowest)

    def present(self, memory: Memory, last: LastFlight) -> jax.Array:
        """[3] where both policies are compared: the flown α, the slower one, and a bit faster."""
        nearby = (1.0 - 0.5 * self.reserve) * last.pace.time_scale
        return jnp.stack([last.pace.time_scale, self.slower(memory, last), nearby])

    def _calm(self, memory: Memory, last: LastFlight) -> jax.Array:
        """Whether the flight itself speaks for its speed.

        Not the first one, and not after a surprise: then the world has changed, and this speed is
        unproven.
        """
        well = (last.error < self.settle_below) & jnp.logical_not(last.event)
        return well & ~last.first & (memory.inflation < _SURPRISED)

    def acceptable(self, prediction: Prediction, memory: Memory, last: LastFlight) -> jax.Array:
        """Which time scales [A] the model speaks for; each with its slower neighbour.

        Error stays small and then grows without bound within a few percent of α, where thrust or
        rates end. The model does not know that place better than that, so none of the time scales
        within the reserve may lie beyond it.
        """
        rho = memory.inflation
        nominal = rho * (prediction.nominal_error + prediction.disagreement) < self.nominal_limit
        stressed = rho * prediction.stressed_error < last.threshold
        calm = prediction.saturation < self.saturation_limit
        sane = rho * prediction.nominal_error < last.threshold
        scale = prediction.time_scale
        within = scale[None] >= (0.999 - self.reserve) * scale[:, None]
        within = within & (scale[None] <= scale[:, None])
        clear = jnp.all(sane[None] | ~within, axis=1)
        good = nominal & stressed & calm & clear & (jnp.arange(scale.shape[0]) > 0)
        return good & jnp.concatenate([good[1:], good[-1:]])

    def choose(self, memory: Memory, fastest: jax.Array, evidence: Evidence) -> Choice:
        """Go as fast as the model speaks for, with the new policy or the present one."""
        last, share = evidence.last, self.stress_share(memory)
        scales, present = self.candidates(fastest, last), self.present(memory, last)
        new = evidence.predict(evidence.trained, scales, share)
        new_here = evidence.predict(evidence.trained, present, share)
        old_here = evidence.predict(evidence.flown, present, share)
        return self.decide(memory, last, fastest, new, new_here, old_here)

    def decide(
        self,
        memory: Memory,
        last: LastFlight,
        fastest: jax.Array,
        new: Prediction,
        new_here: Prediction,
        old_here: Prediction,
    ) -> Choice:
        """Take the fastest acceptable time scale, or stay, or slow down.

        `new` predicts the new policy at the candidates; `new_here` and `old_here` predict the new
        and the present policy at the three time scales of `present`.
        """
        good = self.acceptable(new, memory, last)
        any_good = jnp.any(good)
        index = jnp.argmax(good)
        chosen = new.time_scale[index]
        first = last.first
        violated = last.violation & ~first

        better = (new_here.nominal_error < old_here.nominal_error) & (
            new_here.stressed_error < old_here.stressed_error
        )
        # Settle: what just flew well is not slowed down because the model doubts it; the flight
        # is the better witness. But not at the very edge.
        nearby = jnp.where(better[0], new_here.nominal_error[2], old_here.nominal_error[2])
        clear = memory.inflation * nearby < last.threshold
        calm = self._calm(memory, last) & clear
        stay = calm & (~any_good | (chosen > last.pace.time_scale))
        dead_band = any_good & (jnp.abs(chosen / last.pace.time_scale - 1.0) < 0.008)
        chosen = jnp.where(dead_band & ~violated, last.pace.time_scale, chosen)

        slower = new_here.time_scale[1]
        time_scale = jnp.where(stay, last.pace.time_scale, jnp.where(any_good, chosen, slower))
        # When nothing passes, the new policy is still taken if it is the better of the two.
        use_new = jnp.where(stay, better[0], any_good | better[1])
        index_here = jnp.where(stay, 0, 1)

        def predicted_for(new: jax.Array, new_here: jax.Array, old_here: jax.Array) -> jax.Array:
            """What was predicted for the choice."""
            here = jnp.where(use_new, new_here[index_here], old_here[index_here])
            return jnp.where(stay | ~any_good, here, new[index])

        predicted = predicted_for(new.nominal_error, new_here.nominal_error, old_here.nominal_error)
        expected = predicted_for(new.flight_error, new_here.flight_error, old_here.flight_error)
        fastest_passes = good[1]
        saturated = new.saturation[1] >= self.saturation_limit
        bound = jnp.where(
            fastest_passes,
            jnp.where(fastest <= self.fastest * 1.001, SPEED, TRUST_REGION),
            jnp.where(saturated, SATURATION, VERIFICATION),
        )
        bound = jnp.where(stay, SETTLED, bound)
        bound = jnp.where(violated, BARRIER, bound)
        # The region shrinks where verification, not the region itself, holds us back.
        held = ~fastest_passes & ~first
        trust = jnp.where(held, jnp.maximum(0.5 * memory.trust, MIN_TRUST), memory.trust)
        return Choice(
            memory=memory._replace(trust=trust, reached=fastest_passes & ~stay),
            pace=Pace(time_scale, predicted, expected),
            use_new_policy=use_new,
            # A policy that is not ready to fly is trained further, unless it lost its way.
            keep_training=new_here.nominal_error[0] < _LOST,
            bound_by=bound,
            landscape=new,
            notes={"inflation": memory.inflation, "trust_region": memory.trust},
        )
