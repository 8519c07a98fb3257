"""How a session ends: the vehicle is brought down, by whoever still can."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from lafr_mjx.hil.safety.emergency_landing import DOWN, OFF, SILENT, TAKEN
from lafr_mjx.hil.safety.landing import longest_landing_s
from lafr_mjx.hil.safety.modes import Word
from lafr_mjx.hil.timing.lockstep import Lockstep

if TYPE_CHECKING:
    from lafr_mjx.hil.operator.session import Session

_HANGS_S = 20.0  # real silence of a process that should say something all the time
_HEARD_S = 1.0  # so old at most is what is still known of the vehicle
_ON_GROUND = ("disconnected", "preflight", "off")


def is_down(session: Session) -> bool:
    """Whether the vehicle is known to stand, with the bridge to its motors disarmed.

    The control process says so, by motion capture and telemetry, or the emergency stop.
    """
    if Word.ARM not in session.words:
        return True
    status = session.status
    heard = status.get("telemetry_age", math.inf) < _HEARD_S
    by_control = session.mode in _ON_GROUND and heard and bool(status.get("down"))
    return by_control or session.landed_by_stop


def motors_off(session: Session) -> bool:
    """Whether at least its motors are known to be off."""
    status = session.status
    heard = status.get("telemetry_age", math.inf) < _HEARD_S
    return is_down(session) or (heard and not status.get("armed", True))


def bring_down(session: Session) -> None:
    """Have the control process land; where it cannot, the independent stop."""
    processes, clock = session.processes, session.clock
    session.quit()
    begin = time.monotonic()
    end = clock.now() + longest_landing_s(session.profile)
    while processes.running("control") and clock.now() < end and not _hangs(session, begin):
        session.sleep(0.05)
    if not processes.running("control"):
        session.hear_out(2.0)  # what it said last
    if Word.ARM in session.words and not is_down(session) and session.status.get("taken"):
        session.note("somebody else has taken the vehicle, and keeps it: it is NOT CONFIRMED DOWN")
    elif Word.ARM in session.words and not is_down(session) and processes.running("stop"):
        # The pilot hovers by itself; this brings it down.
        what = "has ended" if not processes.running("control") else "has not landed in time"
        what = "hangs" if processes.running("control") and _hangs(session, begin) else what
        session.note(f"the control process {what}: the emergency stop lands")
        before = processes.said_by_stop()
        session.land_by_stop()
        end, said = clock.now() + longest_landing_s(session.profile), ""
        while clock.now() < end and processes.running("stop"):
            session.sleep(0.05)
            said = processes.said_by_stop()[len(before) :]
            if OFF in said or SILENT in said or TAKEN in said:
                break
        session.landed_by_stop = DOWN in said


def _hangs(session: Session, begin: float) -> bool:
    """Whether the control process has said nothing for far too long, since it was told to end.

    A flight in lockstep may have stood still for any time before that. One that never began
    has nothing to land.
    """
    clock = session.clock
    silence = time.monotonic() - max(session.last_said, begin if clock.lockstep else 0.0)
    return silence > _HANGS_S or (isinstance(clock, Lockstep) and not clock.began)
