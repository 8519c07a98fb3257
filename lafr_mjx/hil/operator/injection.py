"""Faults for the software drone, sent to it over the wire."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from lafr_mjx.errors import RunError
from lafr_mjx.hil.wire import ros_messages as m
from lafr_mjx.hil.wire.addresses import own_name
from lafr_mjx.hil.wire.node import DEFAULT_MASTER, Node

if TYPE_CHECKING:
    from lafr_mjx.hil.timing.flight_clock import FlightClock

_REACH_S = 5.0  # real


class Injection:
    """Tells the drone of faults; its node begins with the first one."""

    def __init__(self, quad: str, master: str | None, clock: FlightClock) -> None:
        self.node = Node(own_name("inject"), master or DEFAULT_MASTER, clock=clock)
        self._topic = self.node.advertise(f"/{quad}/sim/fault", "std_msgs/String")
        self._clock, self._begun = clock, False

    def inject(self, text: str) -> float:
        """Inject a fault; the moment at which it was sent."""
        if not self._begun:
            self._begun = True
            self.node.start()
        end = time.monotonic() + _REACH_S
        while not self._topic.subscribers and time.monotonic() < end:
            time.sleep(0.005)
        sent = self._clock.now()
        if not self._topic.publish(m.encode("std_msgs/String", m.text(text))):
            raise RunError("the software drone does not listen for faults")
        if not self._clock.lockstep:
            self._clock.sleep(0.1)
        return sent

    def close(self) -> None:
        """Leave."""
        self.node.close()
