"""The methods that are compared: which parts of ours each of them has."""

from __future__ import annotations

from typing import Literal

from lafr_mjx.errors import InputError
from lafr_mjx.learner.improve import LearnerSettings
from lafr_mjx.learner.pretrain import NOMINAL
from lafr_mjx.learner.rash_bptt import TrainSettings
from lafr_mjx.model.residual import Switches

MethodName = Literal["ours", "baseline", "lotf", "anchor-only", "residual-only", "geometric"]

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


def settings_of(method: str) -> LearnerSettings:
    """Settings of a method; all share perturbations, steps, batch and the time scaling."""
    if method not in _PARTS:
        raise InputError(f"unknown method '{method}'; it must be one of {', '.join(_PARTS)}")
    switches, anchored = _PARTS[method]
    return LearnerSettings(switches=switches, train=TrainSettings(anchored_share=anchored))
