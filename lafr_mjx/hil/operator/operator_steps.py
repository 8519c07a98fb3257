"""The operator's words: a person types them for a real drone, the software one gets them."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING

from lafr_mjx.errors import InputError, RunError
from lafr_mjx.hil.operator.session import RefusedError
from lafr_mjx.hil.safety.modes import Word
from lafr_mjx.interruption import would_be_lost
from lafr_mjx.resources import data_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lafr_mjx.hil.operator.session import Session
    from lafr_mjx.hil.safety.drone_profile import Profile

_SETTLE_S = 0.8
_ONCE_MORE_S = 0.3  # after a refusal
_GOING_DOWN = ("guard", "blind", "land", "off")
_SAME_SIGNAL_S = 0.1  # some starters send one twice


def require_person(profile: Profile) -> None:
    """A real drone needs a person at the keyboard."""
    if not profile.simulated and not sys.stdin.isatty():
        raise InputError(
            f"{profile.path}: is a real drone; an operator must confirm each step at a terminal"
        )


def confirm_checklist(profile: Profile) -> None:
    """Each line of the checklist, confirmed by its own 'yes'."""
    if profile.simulated:
        return
    for line in checklist(profile):
        if input(f"{line} [yes] ").strip() != "yes":
            raise RunError(f"not confirmed: {line}")


def checklist(profile: Profile) -> list[str]:
    """What only a person can see, with the figures of the profile."""
    text = (data_folder("hil") / "checklist.txt").read_text(encoding="utf-8")
    return [*(line for line in text.splitlines() if line), *profile.pilot.checklist()]


def take_off(session: Session) -> None:
    """From standing to the policy's hands, with a word for each step."""
    session.wait_ready()
    _go(session, Word.ARM, "armed", "arming", 5.0)
    _until_armed(session)
    _go(session, Word.TAKEOFF, "hover", "take-off", session.profile.ladder.takeoff_s + 5.0)
    session.sleep(_SETTLE_S)
    _go(session, Word.POLICY, "policy", "letting the policy in", 10.0)


def _go(session: Session, word: Word, mode: str, what: str, seconds: float) -> None:
    """One step up. A refusal is told with its reason; then the word is asked for once more."""
    end = session.clock.now() + seconds
    while True:
        _ask(session, word)
        try:
            session.wait(mode, seconds=seconds, what=what, unless=_GOING_DOWN, word=word)
            return
        except RefusedError as error:
            if not session.profile.simulated:
                print(f"  {error}", flush=True)
            elif session.clock.now() > end:
                raise
            session.sleep(_ONCE_MORE_S)


def resume(session: Session, seconds: float = 10.0) -> bool:
    """After a fault that has passed, ask for the policy again; whether it got the vehicle.

    Only on the software drone: with a real one nobody but a person decides that, and the flight
    ends.
    """
    if not session.profile.simulated:
        return False
    end = session.clock.now() + seconds
    while session.clock.now() < end:
        session.check_alive()
        if session.mode not in ("hover", "policy", "blind"):
            return False  # on its way down
        if session.mode == "policy" and session.status.get("rung") != "BASELINE":
            return True
        if session.mode == "hover" and not session.status.get("faults"):
            session.say(Word.POLICY)
        session.sleep(0.5)
    return False


def again(session: Session) -> None:
    """After a fault that ended with a landing: take off anew. Only on the software drone."""
    reset(session)
    take_off(session)


def reset(session: Session) -> None:
    """After a landing: back to the preflight checks. Only on the software drone."""
    if not session.profile.simulated:
        raise RunError(f"the flight is over; {session.trouble()}")
    session.wait("off", seconds=session.landing_s, what="landing")
    end = session.clock.now() + 20.0
    while session.mode != "preflight":
        if session.clock.now() > end:
            raise RunError(f"it does not get ready again; {session.trouble()}")
        session.say(Word.RESET)
        session.sleep(0.3)


def land(session: Session) -> None:
    """Come to rest, hover, land, motors off."""
    session.rest()
    session.say(Word.LAND)
    session.wait("off", seconds=session.landing_s, what="landing")


def _until_armed(session: Session) -> None:
    end = session.clock.now() + 5.0
    while not session.status.get("armed"):
        if session.clock.now() > end:
            raise RunError(f"the pilot does not arm; {session.trouble()}")
        session.sleep(0.05)


def _ask(session: Session, word: Word) -> None:
    if not session.profile.simulated:
        for name, good, why in session.status.get("checks", []):
            print(f"  {'good' if good else 'BAD '}  {name}: {why}")
        with session.prompting():
            given = input(
                f"type '{word.value}' to go on, anything else to end, 'stop' for the guard, "
                f"'K' to cut the motors: "
            ).strip()
        if given == "K":
            session.cut()
        elif given == "stop":
            session.stop()
        if given != word.value:
            raise RunError(f"the operator did not say '{word.value}'")


@contextlib.contextmanager
def interruptible(session: Session) -> Iterator[None]:
    """The first Ctrl-C or SIGTERM ends the flight with a landing, a further one asks for the guard.

    Only the first one raises: what brings the vehicle down is not interrupted by the others.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    first = 0.0

    def handle(number: int, frame: object) -> None:
        nonlocal first
        now = time.monotonic()
        if first and now - first > _SAME_SIGNAL_S:
            # In a thread: this one may hold what it needs.
            threading.Thread(target=session.stop, daemon=True).start()
        elif not first:
            if would_be_lost(frame):
                later = threading.Timer(_SAME_SIGNAL_S, os.kill, (os.getpid(), number))
                later.daemon = True
                later.start()
                return
            first = now
            session.note("operator: interrupted")
            raise KeyboardInterrupt

    before = [(each, signal.signal(each, handle)) for each in (signal.SIGINT, signal.SIGTERM)]
    try:
        yield
    finally:
        for each, handler in before:
            signal.signal(each, handler)
