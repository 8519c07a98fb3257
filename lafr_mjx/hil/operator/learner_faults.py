"""Faults of the learner that can be injected on the command line.

learner-kill@20     its process is killed 20 s after the policy got the vehicle
learner-hang@20     its process stands still from then on
learner-nan@3       what it learns in iteration 3 is not finite
"""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, NamedTuple

from lafr_mjx.errors import InputError
from lafr_mjx.hil.timing.flight_clock import REAL_TIME

if TYPE_CHECKING:
    from collections.abc import Callable

    from lafr_mjx.hil.operator.learner_process import LearnerProcess
    from lafr_mjx.hil.timing.flight_clock import FlightClock

KINDS = ("learner-kill", "learner-hang", "learner-nan")
_PATTERN = re.compile(r"(learner-[a-z]+)@([0-9]{1,6}(?:\.[0-9]{1,6})?)")


class LearnerFault(NamedTuple):
    """One fault."""

    kind: str
    at: float  # s since the policy got the vehicle; the iteration for learner-nan
    text: str


def split(texts: list[str]) -> tuple[list[str], list[LearnerFault]]:
    """Faults of the software drone (checked) and those of the learner."""
    from lafr_mjx.hil.simulator import injected

    drone, learner = [], []
    for text in texts:
        kind = text.strip().partition("@")[0]
        if kind in injected.KINDS:
            injected.parse(text)
            drone.append(text)
            continue
        match = _PATTERN.fullmatch(text.strip())
        if match is None or kind not in KINDS:
            raise InputError(
                f"--fault '{text[:80]}': must be KIND@START[:DURATION[:VALUE]] with a kind of "
                f"{', '.join(injected.KINDS)}, or KIND@SECONDS (KIND@ITERATION for learner-nan) "
                f"with a kind of {', '.join(KINDS)}"
            )
        learner.append(LearnerFault(match[1], float(match[2]), text.strip()))
    return drone, learner


def arm(
    faults: list[LearnerFault], learner: LearnerProcess, clock: FlightClock = REAL_TIME
) -> None:
    """Have them happen in time, from now on."""
    for fault in faults:
        if fault.kind == "learner-nan":
            continue  # in the learner's own setup
        act = learner.kill if fault.kind == "learner-kill" else learner.hang

        def wait(at: float = fault.at, act: Callable[[], None] = act) -> None:
            clock.sleep(at)
            act()

        threading.Thread(target=wait, name="learner fault", daemon=True).start()
