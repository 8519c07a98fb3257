"""A rule of time scaling that is not free: what flies allows no more than some speed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp

from lafr_mjx.learner.time_scaling import Pace

if TYPE_CHECKING:
    from lafr_mjx.learner.time_scaling import Choice, Evidence, LastFlight


class SpeedLimit(NamedTuple):
    """Any rule, and the fastest time scale that a drone's profile allows.

    The policy is trained, and what comes of it is predicted, for what will be flown. The guard is
    on, whatever the rule says: it is a drone that flies.
    """

    rule: Any  # a `TimeScaling`
    fastest: Any  # α

    guarded = 1.0

    @property
    def outcomes(self) -> tuple[str, ...]:
        """Those of the rule, and the limit."""
        return (*self.rule.outcomes, "profile")

    def start(self) -> Any:
        """As the rule does."""
        return self.rule.start()

    def propose(self, memory: Any, last: LastFlight) -> tuple[Any, jax.Array]:
        """As the rule does, within the limit."""
        memory, fastest = self.rule.propose(memory, last)
        return memory, jnp.maximum(fastest, self.fastest)

    def choose(self, memory: Any, fastest: jax.Array, evidence: Evidence) -> Choice:
        """As the rule does, within the limit; what it forbids is predicted anew."""
        choice = self.rule.choose(memory, fastest, evidence)
        wanted = choice.pace.time_scale
        take = partial(jnp.where, choice.use_new_policy)
        policy = jax.tree.map(take, evidence.trained, evidence.flown)
        here = evidence.predict(policy, jnp.maximum(wanted, self.fastest)[None], 1.0)
        limited = Pace(here.time_scale[0], here.tracking_error[0], here.departure[0])
        pace = jax.tree.map(partial(jnp.where, wanted < self.fastest), limited, choice.pace)
        bound = jnp.where(wanted > 1.001 * self.fastest, choice.bound_by, len(self.rule.outcomes))
        return choice._replace(pace=pace, bound_by=bound)
