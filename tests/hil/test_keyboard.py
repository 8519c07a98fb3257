# pyright: reportArgumentType=false
"""The operator's keys in a terminal."""

import contextlib
import os
import pty
import sys
import threading

import pytest
from waiting import wait_for

from lafr_mjx.errors import RunError
from lafr_mjx.hil.operator import operator_steps as operator
from lafr_mjx.hil.operator.keyboard import keys
from lafr_mjx.hil.safety.drone_profile import load_profile
from lafr_mjx.hil.safety.modes import Word


class Operated:
    """What of a session the keys reach."""

    def __init__(self, profile="sim"):
        self.profile, self.done, self.status = load_profile(profile), [], {}
        self.prompting = contextlib.nullcontext

    def cut(self):
        self.done.append("cut")

    def stop(self):
        self.done.append("stop")

    def say(self, word):
        self.done.append(word.value)


@pytest.fixture
def terminal(monkeypatch):
    """Its other end: what is written there was typed."""
    typed, descriptor = pty.openpty()
    with os.fdopen(descriptor, "r") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield typed
    os.close(typed)


def test_each_of_two_quick_keys_counts(terminal):
    session = Operated()
    with keys(session):
        os.write(terminal, b"lK")
        wait_for(lambda: len(session.done) == 2, what="both")
    assert session.done == ["land", "cut"]


@pytest.mark.parametrize(("key", "what"), [(b" ", "stop"), (b"s", "stop"), (b"K", "cut")])
def test_keys(terminal, key, what):
    session = Operated()
    with keys(session):
        os.write(terminal, b"x" + key)
        wait_for(lambda: session.done, what="it")
    assert session.done == [what]


def test_a_prompt_has_the_keyboard_for_itself(terminal):
    session = Operated("agilicious192")
    with keys(session):
        # Its l is a key as well, and must not count.
        threading.Timer(0.3, os.write, (terminal, b"policy\n")).start()
        operator._ask(session, Word.POLICY)
        assert session.done == []
        os.write(terminal, b"K")
        wait_for(lambda: session.done == ["cut"], what="keys again")


@pytest.mark.parametrize(("answer", "done"), [("K", ["cut"]), ("stop", ["stop"]), ("no", [])])
def test_at_a_prompt_the_vehicle_can_be_stopped_too(monkeypatch, answer, done):
    session = Operated("agilicious192")
    with keys(session):
        monkeypatch.setattr("builtins.input", lambda text: answer)
        with pytest.raises(RunError, match="did not say 'policy'"):
            operator._ask(session, Word.POLICY)
    assert session.done == done
