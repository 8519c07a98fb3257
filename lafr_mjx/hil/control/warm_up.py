"""Flights on paper before the first real one: nothing in the air is done for the first time.

What is imported, compiled, bound or allocated at its first use takes many times longer then.
"""

from __future__ import annotations

import contextlib
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lafr_mjx.control.policy import create_policy
from lafr_mjx.hil.control.flyer import Flyer
from lafr_mjx.hil.control.legs import Leg, check_leg, load_leg, save_leg, try_leg
from lafr_mjx.hil.safety.blind_descent import BlindDescent
from lafr_mjx.hil.wire import ros_messages as m
from lafr_mjx.logs.flown_ticks import TICK
from lafr_mjx.reference.splines import from_waypoints
from lafr_mjx.types import COMMAND_HOVER, CONTROL_DT, State

if TYPE_CHECKING:
    from lafr_mjx.hil.safety.drone_profile import Profile

_TICKS = 400


def warm_up(profile: Profile, network: str = "mlp") -> None:
    """Do once what a flight will do, with a policy of the network that will fly."""
    path = from_waypoints([[1.0, 0.0, 1.5], [1.5, 0.0, 1.5]], 2.0, periodic=False)
    policy = create_policy(np.random.default_rng(0), profile.command.limits, network)
    leg = Leg(0, path, 1.0, 0.0, 1.0, policy, np.zeros(4), 0, False, None, network)
    with (
        contextlib.suppress(OSError),  # a disk that is full does not keep it from flying
        tempfile.TemporaryDirectory(prefix="lafr-mjx-") as folder,
    ):
        leg = load_leg(save_leg(Path(folder), leg))
    flyer = _fly(leg, profile)
    _fly_blind()
    check_leg(leg, profile)
    try_leg(leg, flyer.observations)
    for kind in m.AGIROS_DIGESTS:
        m.message_type(kind)
    m.message_class(TICK)
    m.decode("std_msgs/Bool", m.encode("std_msgs/Bool", m.boolean(True)))
    socket.getaddrinfo("127.0.0.1", 0, socket.AF_INET, socket.SOCK_STREAM)


def _fly_blind() -> None:
    """Begin to, and a few ticks of it."""
    blind, state = BlindDescent(), State(np.zeros(3), np.zeros(3), np.eye(3), np.zeros(3))
    for k in range(20):
        blind.log.add(CONTROL_DT * k, np.array(COMMAND_HOVER))
        blind.see(state, CONTROL_DT * k, airborne=True)
    blind.begin(CONTROL_DT * 24, CONTROL_DT * 20, 0.0)
    for k in range(24, 40):
        blind.log.add(CONTROL_DT * k, blind.tick(CONTROL_DT * k, descend=True))


def _fly(leg: Leg, profile: Profile) -> Flyer:
    """To the leg's start, the leg, and to rest after it, with both controllers."""
    flyer = Flyer(profile)
    position = np.array([0.0, 0.0, 1.5])
    flyer.begin(0.0, position)
    flyer.offer(leg)
    for k in range(_TICKS):
        moment = CONTROL_DT * k
        state = State(position, np.zeros(3), np.eye(3), np.zeros(3))
        wanted = flyer.tick(moment, state, moment, slow=False, baseline=k % 50 == 0)
        flyer.sent(wanted.command)
        flyer.prepare()
        position = wanted.position
    return flyer
