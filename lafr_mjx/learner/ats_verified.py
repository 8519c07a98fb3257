"""ATS that verifies before it flies: the fastest time scale that the model speaks for.

The printed rule looks at the slope of a barrier along the last flight; the error stays small
and then jumps within one step, where the slope has not seen it yet. Here each candidate is
flown in the hybrid model first, by nominal and by stressed vehicles, and the model's own record
(predicted against flown) inflates its predictions.

The limit is bracketed: the last flight is its slow end, the time scale that was last refused,
by the model or by a flight, its fast end. Candidates lie in between, so that the bracket becomes
smaller by a factor in each iteration, down to the resolution. It opens again, slowly by itself
(models and policies improve), and faster when its fast end is reached.

All branches are masks, so that adaptations can be batched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp

from lafr_mjx.learner.time_scaling import CANDIDATES, Choice, Pace
from lafr_mjx.learner.verify import RESERVE

if TYPE_CHECKING:
    from lafr_mjx.learner.time_scaling import Evidence, LastFlight
    from lafr_mjx.learner.verify import Prediction

_SLOWER = (1.015, 1.04, 1.12)
"""Candidates beyond the present time scale; the last is taken if none is acceptable."""

_HERE = CANDIDATES - 1 - len(_SLOWER)
"""Index of the present time scale among the candidates."""

_SURPRISED = 2.0
"""Flown over predicted error that means another world: the bracket was that of the old one."""

_LOST = 1.0
"""Predicted error [m] beyond which the model does not follow the path any more."""

_OPENING, _REACHED = 1.25, 2.0
"""Factors by which the bracket opens after each flight, and when its fast end was accepted."""

_FORGIVEN, _REGAINED = 1.1, 1.6
"""Factors by which the distance from a time scale that failed in flight grows after each one, and
after one that was calm and went as predicted: what failed untrained is learned since."""

_CALM, _AS_PREDICTED = 0.5, 1.5
"""Share of the threshold, and flown over predicted error, below which a flight did."""

SPEED, TRUST_REGION, VERIFICATION, SATURATION, DIVERGENCE, BARRIER, SETTLED = range(7)


class Memory(NamedTuple):
    """What is remembered from iteration to iteration."""

    inflation: Any  # ρ >= 1, of predicted errors
    refused: Any  # α, fast end of the bracket, by the model; 0: there is none
    failed: Any  # α, the same by a flight


class Verified(NamedTuple):
    """Limits of the rule. Shares are of the task's error threshold."""

    nominal_share: Any = 0.57  # for the inflated error of the model itself
    settle_share: Any = 0.71  # flown error below which a slower choice is refused
    saturation_limit: Any = 0.5
    reserve: Any = RESERVE  # share of α, by which candidates are probed faster
    fastest: Any = 0.15  # α_min
    slowest: Any = 2.0  # α_max
    largest_step: Any = 0.3  # share of α
    acceleration_step: Any = 4.0  # m/s², by how much a flight's peak may pass the one before
    resolution: Any = 0.01  # share of α, of the bracket

    outcomes = (
        "speed", "trust region", "verification", "saturation", "divergence", "barrier", "settled",
    )  # fmt: skip

    def start(self) -> Memory:
        """Predictions are believed, and nothing was refused."""
        return Memory(jnp.float32(1.0), jnp.float32(0.0), jnp.float32(0.0))

    def propose(self, memory: Memory, last: LastFlight) -> tuple[Memory, jax.Array]:
        """Learn from the flown peak error; returns the new memory and the fastest candidate."""
        flown, first = last.pace.time_scale, last.first
        # The first flight is the base policy's: an error there says nothing about the model.
        worse = jnp.where(first, 1.0, jnp.clip(last.surprise, 1.0, 4.0))
        inflation = jnp.where(worse > memory.inflation, worse, 0.6 * memory.inflation + 0.4 * worse)
        bad = last.violation
        another = worse > _SURPRISED
        refused = jnp.where(another, 0.0, flown * (memory.refused / flown) ** _OPENING)
        calm = ~bad & (worse < _AS_PREDICTED) & (last.error < _CALM * last.threshold)
        forgiven = jnp.where(calm, _REGAINED, _FORGIVEN)
        # No distance would never grow. What was flown calmly as fast disproves it.
        near = 1.0 - 2.0 * self.resolution
        away = jnp.minimum(memory.failed / flown, near)
        disproved = calm & (memory.failed > near * flown)
        failed = jnp.where(another | disproved, 0.0, flown * away**forgiven)
        failed = jnp.where(bad & ~first, jnp.maximum(1.04 * flown, failed), failed)
        bracket = jnp.maximum(refused, failed)
        # Forces grow with 1/α²: a step that was harmless at a walk may leave at a run all that the
        # model has seen (rotors at their end, for one).
        peak = last.peak_acceleration / flown**2
        step = jnp.sqrt(peak / (peak + self.acceleration_step))
        faster = jnp.maximum(flown * jnp.maximum(1.0 - self.largest_step, step), bracket)
        settled = bracket > (1.0 - self.resolution) * flown
        fastest = jnp.where(settled, jnp.maximum(flown, bracket), faster)
        # After a violation slower; but what failed untrained is first learned at its own speed.
        fastest = jnp.where(bad, jnp.where(first, flown, 1.06 * flown), fastest)
        fastest = jnp.clip(fastest, self.fastest, jnp.minimum(self.slowest, last.slowest))
        return Memory(inflation, refused, failed), fastest

    def stress_share(self, memory: Memory) -> jax.Array:
        """How much of stress and reserve a candidate must survive: less where predictions held."""
        return jnp.clip(memory.inflation - 0.4, 0.6, 1.0)

    def candidates(self, fastest: jax.Array, last: LastFlight) -> jax.Array:
        """[CANDIDATES] from the fastest to the present one, denser there, and three slower ones."""
        here = jnp.maximum(last.pace.time_scale, fastest)
        share = (1.0 - jnp.arange(_HERE + 1) / _HERE) ** 1.5
        slower = here * jnp.array(_SLOWER)
        tried = jnp.concatenate([here * (fastest / here) ** share, slower])
        return jnp.minimum(tried, jnp.minimum(self.slowest, last.slowest))

    def acceptable(self, prediction: Prediction, memory: Memory, last: LastFlight) -> jax.Array:
        """Which time scales [A] the model speaks for; each with its slower neighbour."""
        within = memory.inflation * self.severity(prediction, last) < 1.0
        good = within & (prediction.saturation < self.saturation_limit)
        return good & jnp.concatenate([good[1:], good[-1:]])

    def severity(self, prediction: Prediction, last: LastFlight) -> jax.Array:
        """Largest of the predicted errors as a share of what it may be [A].

        Error stays small and then grows without bound within a few percent of α, where thrust or
        rates end. The model does not know that place better than that: so the probe, faster by a
        reserve, may not lie beyond it. Nor may the ramp leave the room.
        """
        nominal = prediction.nominal_error + prediction.disagreement
        others = jnp.maximum(prediction.stressed_error, prediction.probe_error)
        others = jnp.maximum(others, prediction.whole_error)
        return jnp.maximum(nominal / self.nominal_share, others) / last.threshold

    def choose(self, memory: Memory, fastest: jax.Array, evidence: Evidence) -> Choice:
        """Go as fast as the model speaks for, with the new policy or the present one."""
        scales = self.candidates(fastest, evidence.last)
        share = self.stress_share(memory)
        both = jax.tree.map(lambda *x: jnp.stack(x), evidence.flown, evidence.trained)
        found = jax.vmap(
            lambda policy: evidence.predict(policy, scales, share, share * self.reserve)
        )(both)
        old, new = (jax.tree.map(lambda leaf, i=i: leaf[i], found) for i in (0, 1))
        return self.decide(memory, evidence.last, fastest, new, old)

    def decide(
        self,
        memory: Memory,
        last: LastFlight,
        fastest: jax.Array,
        new: Prediction,
        old: Prediction,
    ) -> Choice:
        """Take the fastest acceptable candidate, or stay, or slow down.

        `new` and `old` predict the trained and the flown policy at the candidates; at each, the
        better of the two is taken.
        """
        is_better = self.severity(new, last) <= self.severity(old, last)
        best = jax.tree.map(
            lambda a, b: jnp.where(is_better.reshape((-1,) + (1,) * (a.ndim - 1)), a, b), new, old
        )
        good = self.acceptable(best, memory, last)
        index = jnp.where(jnp.any(good), jnp.argmax(good), CANDIDATES - 1)
        # What just flew well is not slowed down because the model doubts it: the flight is the
        # better witness. But not after a surprise, nor where the model loses the path.
        calm = (last.error < self.settle_share * last.threshold) & ~last.first & ~last.violation
        calm = calm & (memory.inflation < _SURPRISED) & (best.nominal_error[_HERE] < _LOST)
        stay = calm & (index > _HERE)
        index = jnp.where(stay, _HERE, index)
        chosen = best.time_scale[index]

        # The fast end of the bracket: the candidate beyond the choice, or if there is none, as far
        # away as before and further.
        beyond = jnp.maximum(index - 1, 0)
        refused = jnp.minimum(best.time_scale[beyond], (1.0 - 0.8 * self.resolution) * chosen)
        reached = (index == 0) & (chosen < last.pace.time_scale)
        further = chosen * (memory.refused / last.pace.time_scale) ** _REACHED
        kept = jnp.where(reached, further, memory.refused)
        refused = jnp.where(index > 0, jnp.maximum(refused, kept), kept)

        lost = jnp.maximum(best.nominal_error, best.probe_error)[beyond] > _LOST
        saturated = best.saturation[beyond] >= self.saturation_limit
        # Who has lost the path has all commands at their limits, too.
        bound = jnp.where(lost, DIVERGENCE, jnp.where(saturated, SATURATION, VERIFICATION))
        at_end = fastest <= 1.001 * self.fastest
        bound = jnp.where(index == 0, jnp.where(at_end, SPEED, TRUST_REGION), bound)
        held = (index <= _HERE) & (fastest == last.pace.time_scale) & ~last.first
        bound = jnp.where(stay | held, SETTLED, bound)
        bound = jnp.where(last.violation & ~last.first, BARRIER, bound)
        return Choice(
            memory=memory._replace(refused=refused),
            pace=Pace(chosen, best.tracking_error[index], best.departure[index]),
            use_new_policy=is_better[index],
            # A policy that is not ready to fly is trained further, unless it lost its way.
            keep_training=new.nominal_error[_HERE] < _LOST,
            bound_by=bound,
            landscape=new,
            notes={"inflation": memory.inflation, "refused_time_scale": refused},
        )
