"""The methods that are compared: which parts of ours each of them has."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lafr_mjx.errors import InputError
from lafr_mjx.learner.cost import cost_of
from lafr_mjx.learner.improve import LearnerSettings
from lafr_mjx.learner.model_rollout import StressScale
from lafr_mjx.learner.pretrain import NOMINAL, Priors
from lafr_mjx.learner.rash_bptt import TrainSettings
from lafr_mjx.learner.references import planner_of
from lafr_mjx.learner.time_scaling import rule_of
from lafr_mjx.model import residual
from lafr_mjx.model.residual import Switches

if TYPE_CHECKING:
    from lafr_mjx.run_spec import RunSpec

# Share of training flights that start where the drone was.
_ALL, _ANCHORED, _RESET = 1.0, 0.5, 0.0

_ACCELERATION_ONLY = Switches(rates=0.0, learned_lag=(1.0, 0.0, 0.0))

_PARTS = {
    "ours": (Switches(), _ANCHORED),
    "all-anchored": (Switches(), _ALL),
    "residual-only": (Switches(), _RESET),
    "lotf": (_ACCELERATION_ONLY, _RESET),
    "anchor-only": (NOMINAL, _ANCHORED),
    "baseline": (NOMINAL, _RESET),
    "geometric": (Switches(), _RESET),  # the classical controller: nothing is trained
}


def settings_of(
    method: str,
    features: str = "default",
    ats: str = "verified",
    reference: str = "fixed",
    cost: str = "tracking",
    priors: Priors = Priors(),
) -> LearnerSettings:
    """Settings of a method with its parts; all share perturbations, steps and batch."""
    if method not in _PARTS:
        raise InputError(f"unknown method '{method}'; it must be one of {', '.join(_PARTS)}")
    switches, anchored = _PARTS[method]
    if features != "default" and switches is NOMINAL:
        raise InputError(
            f"features '{features}' are inputs of a learned residual; method '{method}' has none"
        )
    switches = residual.switches_for(features, switches._replace(fixed_lag=priors.lag))
    return LearnerSettings(
        switches=switches,
        train=TrainSettings(
            cost=cost_of(cost), stress=StressScale(noise=priors.noise), anchored_share=anchored
        ),
        time_scaling=rule_of(ats),
        reference=planner_of(reference),
    )


def settings_for(spec: RunSpec) -> LearnerSettings:
    """Settings of a run."""
    settings = settings_of(
        spec.method, spec.features, spec.ats, spec.reference, spec.cost,
        Priors.scaled(spec.noise_prior, spec.lag_prior),
    )  # fmt: skip
    if math.isinf(spec.corridor):
        return settings
    if not hasattr(settings.reference, "corridor"):
        raise InputError(
            f"--corridor {spec.corridor:g}: the reference '{spec.reference}' has none; "
            f"--reference space-time has"
        )
    return settings._replace(reference=settings.reference._replace(corridor=spec.corridor))
