"""What flies allows no more than some speed on a reference, and some references not at all."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lafr_mjx import batching
from lafr_mjx.learner.references import NOT_ALLOWED
from lafr_mjx.learner.time_scaling import Pace

if TYPE_CHECKING:
    from collections.abc import Callable

    from lafr_mjx.learner.improve import Calibrated, LearnerSettings, LearnerState
    from lafr_mjx.learner.references import Planned
    from lafr_mjx.learner.time_scaling import Choice, Evidence, LastFlight
    from lafr_mjx.reference.path import Path

    FastestOn = Callable[[Path, float], float]
    """The fastest time scale that is allowed on a reference; infinite if it is none up to the
    given one. Asked on the host."""

_ROUNDING = 1e-4
"""Share of α: time scales and references are kept in single precision."""


class SpeedLimit(NamedTuple):
    """Any rule, and the fastest time scale that a drone's profile allows on the next reference.

    What comes of the policy is predicted for what will be flown. The guard is on, whatever the
    rule says: it is a drone that flies.
    """

    rule: Any  # a `TimeScaling`
    fastest: Any  # α, set after each plan by `keep_to`

    guarded = 1.0

    @property
    def outcomes(self) -> tuple[str, ...]:
        """Those of the rule, and the limit."""
        return (*self.rule.outcomes, "profile")

    def start(self) -> Any:
        """As the rule does."""
        return self.rule.start()

    def propose(self, memory: Any, last: LastFlight) -> tuple[Any, jax.Array]:
        """As the rule does: nothing is planned yet that could be limited."""
        return self.rule.propose(memory, last)

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


def keep_to(
    fastest_on: FastestOn,
    state: LearnerState,
    settings: LearnerSettings,
    calibrated: Calibrated,
    plan: Planned,
) -> tuple[LearnerSettings, Calibrated, Planned]:
    """Keep a batch to what flies: no plan that is not allowed as fast as was just flown.

    There the last reference stays. The policy is trained for what may be flown. On the host,
    between two programs.
    """
    plan, flown, scales = jax.device_get((plan, state.path, state.pace.time_scale))
    limits, paths, refused = [], [], []
    for i, scale in enumerate((1.0 + _ROUNDING) * np.asarray(scales, float)):
        path, last, why = batching.row(plan.path, i), batching.row(flown, i), plan.refused[i]
        limit = fastest_on(path, scale)
        if not limit <= scale and not all(map(np.array_equal, path, last)):
            path, why = last, NOT_ALLOWED
            limit = fastest_on(path, scale)
        limit = min(limit, scale)  # what just flew may fly again
        limits.append(np.float32(limit))
        paths.append(path)
        refused.append(np.asarray(why, np.int32))
    fastest = np.stack(limits)
    rule = settings.time_scaling._replace(fastest=fastest)
    return (
        settings._replace(time_scaling=rule),
        calibrated._replace(fastest=jnp.maximum(calibrated.fastest, fastest)),
        plan._replace(path=batching.stacked(paths), refused=np.stack(refused)),
    )
