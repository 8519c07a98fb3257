"""The methods that are compared: which parts of ours each of them has."""

from __future__ import annotations

from typing import get_args

from lafr_mjx.errors import InputError
from lafr_mjx.learner.improve import LearnerSettings
from lafr_mjx.learner.pretrain import NOMINAL
from lafr_mjx.learner.rash_bptt import TrainSettings
from lafr_mjx.model.residual import NO_LAG, Switches
from lafr_mjx.run_spec import Features

_ANCHORED, _RESET = 0.5, 0.0  # share of training flights that start where the drone was

_ACCELERATION_ONLY = Switches(rates=0.0, learned_lag=(1.0, 0.0, 0.0))

_PARTS = {
    "ours": (Switches(), _ANCHORED),
    "residual-only": (Switches(), _RESET),
    "lotf": (_ACCELERATION_ONLY, _RESET),
    "anchor-only": (NOMINAL, _ANCHORED),
    "baseline": (NOMINAL, _RESET),
    "geometric": (Switches(), _RESET),  # the classical controller: nothing is trained
}


def settings_of(method: str, features: str = "default") -> LearnerSettings:
    """Settings of a method; all share perturbations, steps, batch and the time scaling."""
    if method not in _PARTS:
        raise InputError(f"unknown method '{method}'; it must be one of {', '.join(_PARTS)}")
    if features not in get_args(Features):
        known = ", ".join(get_args(Features))
        raise InputError(f"unknown features '{features}'; they must be one of {known}")
    switches, anchored = _PARTS[method]
    if features != "default" and switches is NOMINAL:
        raise InputError(
            f"features '{features}' are inputs of a learned residual; method '{method}' has none"
        )
    if features == "paper":
        off = (0.0, 0.0, 0.0)
        switches = switches._replace(position=1.0, learned_lag=off, fixed_lag=NO_LAG)
    return LearnerSettings(switches=switches, train=TrainSettings(anchored_share=anchored))
