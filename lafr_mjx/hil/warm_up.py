"""Flights on paper before the first real one: nothing in the air is done for the first time.

What is imported, compiled, bound or allocated at its first use takes many times longer then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lafr_mjx.control.policy import create_policy
from lafr_mjx.hil import messages as m
from lafr_mjx.hil.bags import TICK
from lafr_mjx.hil.flyer import Flyer
from lafr_mjx.hil.legs import Leg
from lafr_mjx.reference.splines import from_waypoints
from lafr_mjx.types import CONTROL_DT, State

if TYPE_CHECKING:
    from lafr_mjx.hil.profile import Profile

_TICKS = 400


def warm_up(profile: Profile) -> None:
    """Fly to a leg's start, the leg, and to rest after it, with both controllers."""
    path = from_waypoints([[1.0, 0.0, 1.5], [1.5, 0.0, 1.5]], 2.0, periodic=False)
    policy = create_policy(np.random.default_rng(0), profile.command.limits)
    flyer = Flyer(profile)
    flyer.begin(0.0, np.array([0.0, 0.0, 1.5]))
    flyer.offer(Leg(0, path, 1.0, 0.0, 1.0, policy, np.zeros(4), 0, False))
    position = np.array([0.0, 0.0, 1.5])
    for k in range(_TICKS):
        moment = CONTROL_DT * k
        state = State(position, np.zeros(3), np.eye(3), np.zeros(3))
        wanted = flyer.tick(moment, state, moment, slow=False, baseline=k % 50 == 0)
        flyer.sent(wanted.command)
        flyer.prepare()
        position = wanted.position
    for kind in m.AGIROS_DIGESTS:
        m.message_type(kind)
    m.message_class(TICK)
