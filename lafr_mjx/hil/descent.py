"""How a session ends: the vehicle is brought down, by whoever still can."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from lafr_mjx.hil.safety import Word

if TYPE_CHECKING:
    from lafr_mjx.hil.profile import Profile
    from lafr_mjx.hil.session import Session

_HANGS_S = 20.0  # real silence of a process that should say something all the time ...
_STATUS_S = 1.0  # ... and of the flight's clock: it does so ten times in it
_STOP_LANDS_S = 12.0  # guard, then its calls to land
_LANDING_S = 40.0  # the longest way down, if the profile's own times are not longer
_HEARD_S = 1.0  # so old at most is what is still known of the vehicle
_ON_GROUND = ("disconnected", "preflight", "off")


def longest_landing_s(profile: Profile) -> float:
    """The longest way down: hover, guard, a landing without a known height [s]."""
    ladder = profile.ladder
    return max(_LANDING_S, ladder.hover_s + ladder.guard_s + 2.0 * ladder.land_s)


def is_down(session: Session) -> bool:
    """Whether the vehicle is known to stand with its motors off."""
    if Word.ARM not in session.words:
        return True
    status = session.status
    heard = status.get("telemetry_age", math.inf) < _HEARD_S
    return session.mode in _ON_GROUND and heard and not status.get("armed")


def bring_down(session: Session) -> None:
    """Have the control process land; where it cannot, the independent stop."""
    processes, clock = session.processes, session.clock
    session.quit()
    end = clock.now() + longest_landing_s(session.profile)
    while processes.running("control") and clock.now() < end and not _hangs(session):
        clock.sleep(0.05)
    if not processes.running("control"):
        session.hear_out(2.0)  # what it said last
    armed = session.mode not in _ON_GROUND or session.words[-1:] == [Word.ARM]
    if session.ended is None and armed and processes.running("stop"):
        # The pilot hovers by itself; this brings it down.
        what = "hangs" if processes.running("control") else "has ended"
        session.note(f"the control process {what}: the emergency stop lands")
        processes.tell_stop(b"stop\n")
        clock.sleep(_STOP_LANDS_S)


def _hangs(session: Session) -> bool:
    """Whether the control process has said nothing for far too long."""
    silence = time.monotonic() - session.last_said
    return silence > _HANGS_S + session.clock.real_s(_STATUS_S)
