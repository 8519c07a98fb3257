"""The operator's words: a person types them for a real drone, the software one gets them."""

from __future__ import annotations

import contextlib
import select
import sys
import termios
import threading
import time
import tty
from typing import TYPE_CHECKING

from lafr_mjx.errors import InputError, RunError
from lafr_mjx.hil.safety import Word
from lafr_mjx.resources import data_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lafr_mjx.hil.profile import Profile
    from lafr_mjx.hil.session import Session

_SETTLE_S = 0.8


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
    lines = (data_folder("hil") / "checklist.txt").read_text(encoding="utf-8").splitlines()
    for line in filter(None, lines):
        if input(f"{line} [yes] ").strip() != "yes":
            raise RunError(f"not confirmed: {line}")


def take_off(session: Session) -> None:
    """From standing to the policy's hands, with a word for each step."""
    session.wait_ready()
    _ask(session, Word.ARM)
    session.wait("armed", seconds=5.0, what="arming")
    _until_armed(session)
    _ask(session, Word.TAKEOFF)
    session.wait("hover", seconds=session.profile.ladder.takeoff_s + 5.0, what="take-off")
    time.sleep(_SETTLE_S)
    _ask(session, Word.POLICY)
    end = time.monotonic() + 10.0
    while session.mode != "policy":
        if time.monotonic() > end or session.mode != "hover":
            raise RunError(f"the policy was not let in; {session.trouble()}")
        time.sleep(0.3)
        if session.mode == "hover" and session.profile.simulated:
            session.say(Word.POLICY)  # it was not settled yet


def resume(session: Session, seconds: float = 10.0) -> bool:
    """After a fault that has passed, ask for the policy again; whether it got the vehicle.

    Only on the software drone: with a real one nobody but a person decides that, and the flight
    ends.
    """
    if not session.profile.simulated:
        return False
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        session.check_alive()
        if session.mode not in ("hover", "policy"):
            return False  # on its way down
        if session.mode == "policy" and session.status.get("rung") != "BASELINE":
            return True
        if session.mode == "hover" and not session.status.get("faults"):
            session.say(Word.POLICY)
        time.sleep(0.5)
    return False


def land(session: Session) -> None:
    """Come to rest, hover, land, motors off."""
    session.rest()
    session.say(Word.LAND)
    session.wait("off", seconds=40.0, what="landing")


def _until_armed(session: Session) -> None:
    end = time.monotonic() + 5.0
    while not session.status.get("armed"):
        if time.monotonic() > end:
            raise RunError(f"the pilot does not arm; {session.trouble()}")
        time.sleep(0.05)


def _ask(session: Session, word: Word) -> None:
    if not session.profile.simulated:
        for name, good, why in session.status.get("checks", []):
            print(f"  {'good' if good else 'BAD '}  {name}: {why}")
        given = input(f"type '{word.value}' to go on, anything else to stop: ").strip()
        if given != word.value:
            raise RunError(f"the operator did not say '{word.value}'")
    session.say(word)


@contextlib.contextmanager
def keys(session: Session) -> Iterator[None]:
    """While flying: space or s stops (guard, land), K cuts the motors, l lands."""
    if not sys.stdin.isatty():
        yield
        return
    descriptor, before = sys.stdin.fileno(), termios.tcgetattr(sys.stdin.fileno())
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            if select.select([descriptor], [], [], 0.05)[0]:
                key = sys.stdin.read(1)
                if key == "K":
                    session.cut()
                elif key in " s":
                    session.stop()
                elif key == "l":
                    session.say(Word.LAND)

    thread = threading.Thread(target=watch, daemon=True)
    try:
        tty.setcbreak(descriptor)
        thread.start()
        yield
    finally:
        done.set()
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
