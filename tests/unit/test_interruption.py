"""Ctrl-C and SIGTERM reach the command, wherever they find it."""

from __future__ import annotations

import gc
import signal
import time
import weakref
from importlib.machinery import ExtensionFileLoader

import pytest

from lafr_mjx.interruption import Interrupted, held, orderly


def wait_for_the_end():
    for _ in range(6000):
        time.sleep(0.01)
    pytest.fail("the interruption was lost")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command(number):
    with pytest.raises(Interrupted) as caught, orderly():
        signal.raise_signal(number)
        wait_for_the_end()
    assert caught.value.status == 128 + number


def test_a_signal_during_garbage_collection_is_not_lost():
    signals = []

    def collecting(phase, info):
        if signals:
            signal.raise_signal(signals.pop())
            time.sleep(0.001)  # here the signal arrives

    gc.callbacks.append(collecting)
    try:
        with pytest.raises(Interrupted), orderly():
            signals.append(signal.SIGINT)  # not before: the collector comes when it likes
            gc.collect()
            wait_for_the_end()
    finally:
        gc.callbacks.remove(collecting)


def test_a_signal_in_a_finaliser_is_not_lost():
    class Ended:
        def __del__(self):
            signal.raise_signal(signal.SIGINT)
            time.sleep(0.001)

    with pytest.raises(Interrupted), orderly():
        Ended()
        wait_for_the_end()


def test_a_signal_in_the_callback_of_a_weak_reference_is_not_lost():
    class Referred:
        pass

    class Set(weakref.WeakSet):
        """Its callback asks this for its value, as the real one does for what it iterates on."""

        @property
        def _iterating(self):
            if armed:
                armed.pop()
                signal.raise_signal(signal.SIGINT)
                time.sleep(0.001)
            return set()

        @_iterating.setter
        def _iterating(self, value):
            pass

    armed, referred = [], Referred()
    kept = Set([referred])
    with pytest.raises(Interrupted), orderly():
        armed.append(True)
        del referred
        wait_for_the_end()
    assert not armed and not len(kept)


def test_a_signal_while_an_extension_is_loaded_waits_for_it():
    loaded = []

    class Loader(ExtensionFileLoader):
        def exec_module(self, module):
            signal.raise_signal(signal.SIGINT)
            time.sleep(0.001)
            loaded.append(module)

    with pytest.raises(Interrupted), orderly():
        Loader("name", "path").exec_module(signal)
        wait_for_the_end()
    assert loaded


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_is_held_acts_at_the_end(number):
    done = []
    with pytest.raises(Interrupted) as caught, orderly():
        with held() as came:
            signal.raise_signal(number)
            done.extend(came)
        wait_for_the_end()
    assert done == [number] and caught.value.status == 128 + number


def test_handlers_are_given_back():
    before = signal.getsignal(signal.SIGINT)
    with orderly():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before
