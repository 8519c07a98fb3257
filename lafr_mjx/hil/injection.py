"""Faults for the software drone, sent to it over the wire."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lafr_mjx.errors import RunError
from lafr_mjx.hil import messages as m
from lafr_mjx.hil.node import Node

if TYPE_CHECKING:
    from lafr_mjx.hil.flight_clock import FlightClock


def inject(text: str, quad: str, master: str, clock: FlightClock) -> float:
    """Inject a fault into the software drone; the moment at which it was sent."""
    with Node(f"/lafr_mjx_inject_{os.getpid()}", master) as node:
        topic = node.advertise(f"/{quad}/sim/fault", "std_msgs/String")
        node.start()
        end = clock.now() + 5.0
        while not topic.subscribers and clock.now() < end:
            clock.sleep(0.005)
        sent = clock.now()
        if not topic.publish(m.encode("std_msgs/String", m.text(text))):
            raise RunError("the software drone does not listen for faults")
        clock.sleep(0.1)
        return sent
