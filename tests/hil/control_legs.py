"""Legs and policies for the tests of the control process."""

import numpy as np

from lafr_mjx.control.network_mlp import Mlp
from lafr_mjx.control.policy import create_policy
from lafr_mjx.hil.control.legs import Leg
from lafr_mjx.hil.safety.drone_profile import load_profile
from lafr_mjx.tasks import load_task

PROFILE = load_profile("sim")
TASK = load_task("figure8")


def policy(seed=0):
    made = create_policy(
        np.random.default_rng(seed), PROFILE.command.limits, "mlp(hidden=[32, 32])"
    )
    last = made.network.layers[-1]
    return made._replace(
        network=Mlp((*made.network.layers[:-1], last._replace(weight=30 * last.weight)))
    )


def leg(number=0, time_scale=0.5, with_policy=True, seconds=8.0, **changes):
    made = Leg(number, TASK.path, time_scale, TASK.ramp_s, seconds,
               policy() if with_policy else None, np.zeros(4), 3, False)  # fmt: skip
    return made._replace(**changes)
