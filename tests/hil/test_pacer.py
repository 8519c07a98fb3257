# pyright: reportOptionalMemberAccess=false, reportArgumentType=false, reportOptionalCall=false
"""The pacer: 50 Hz, in step with the states."""

import numpy as np
import pytest

from lafr_mjx.hil.timing.pacer import AHEAD_S, WINDOW_S, Pacer


class FakeTime:
    """A clock and states that arrive on it, for the pacer."""

    def __init__(self, arrivals):
        self.at, self.arrivals, self.flag = 0.0, list(arrivals), False

    # The interface of a clock.
    def now(self):
        return self.at

    def sleep_until(self, moment):
        self._to(moment)

    def wait(self, event, until):
        end = max(self.at, until)
        if not self.flag and self.arrivals and self.arrivals[0] <= end:
            self.at = max(self.at, self.arrivals.pop(0))
            self.flag = True
        if not self.flag:
            self.at = end
        return self.flag

    def _to(self, moment):
        while self.arrivals and self.arrivals[0] <= moment:
            self.at = max(self.at, self.arrivals.pop(0))
            self.flag = True
        self.at = max(self.at, moment)

    # The interface of an event.
    def is_set(self):
        return self.flag

    def clear(self):
        self.flag = False


def paced(arrivals, ticks, compute=0.001, stall=None, hz=100.0):
    fake = FakeTime(arrivals)
    pacer, begins = Pacer(hz, fake), []
    for k in range(ticks):
        begins.append(pacer.wait(fake))
        fake._to(fake.at + (stall[1] if stall and k == stall[0] else compute))
        pacer.finish()
    return pacer, np.array(begins)


@pytest.mark.parametrize("phase", [0.0, 0.003, 0.0071, 0.0099])
@pytest.mark.parametrize("rate", [1.0, 1.0002, 0.9998])
def test_pacer_locks_to_the_states_and_keeps_50_hz(phase, rate):
    arrivals = phase + 0.01 * rate * np.arange(3000)
    pacer, begins = paced(arrivals, 1000)
    late = begins[100:, None] - arrivals[None]
    age = np.where(late >= 0, late, np.inf).min(axis=1)
    assert age.max() < 1e-6, "each tick begins at the arrival of a state"
    assert np.allclose(np.diff(begins[100:]), 0.02 * rate, atol=1e-6)
    assert pacer.missed == 0


def test_pacer_goes_on_without_states():
    pacer, begins = paced([], 200)
    assert np.allclose(np.diff(begins), 0.02)
    assert pacer.missed == 0


def test_pacer_keeps_50_hz_with_faster_states_and_jitter():
    rng = np.random.default_rng(0)
    for hz in (100, 200, 400):
        arrivals = np.sort(np.arange(4 * hz) / hz + 0.0005 * rng.random(4 * hz))
        _, begins = paced(arrivals, 150, hz=hz)
        mean = np.diff(begins[40:]).mean()
        assert abs(1.0 / mean - 50.0) < 1.0, hz


@pytest.mark.parametrize("moved", [0.001, 0.003, 0.0051, 0.0079, 0.0099])
def test_pacer_finds_states_that_have_moved_at_once(moved):
    """The vehicle stood still and goes on: its states come at other moments from then on."""
    before = 0.01 * np.arange(400)
    arrivals = np.concatenate([before, before[-1] + 0.01 + moved + 0.01 * np.arange(400)])
    _, begins = paced(arrivals, 350)
    late = begins[100:, None] - arrivals[None]
    age = np.where(late >= 0, late, np.inf).min(axis=1)
    assert np.sum(age > 1e-6) <= 1, "at most the tick whose state did not come"
    steps = np.diff(begins[100:])
    assert steps.min() > 0.0099 and steps.max() < 0.0251


def test_pacer_prepares_each_tick_before_its_state():
    fake = FakeTime(0.003 + 0.01 * np.arange(1000))
    pacer, prepared, begins = Pacer(100.0, fake), [], []
    for _ in range(300):
        begins.append(pacer.wait(fake, lambda: prepared.append(fake.at)))
        fake._to(fake.at + 0.001)
        pacer.finish()
    ahead = np.array(begins[100:]) - np.array(prepared[-200:])
    assert np.allclose(ahead, AHEAD_S, atol=1e-4)


@pytest.mark.parametrize(("stall", "missed"), [(0.019, 0), (0.0215, 1), (0.041, 2), (0.101, 5)])
def test_pacer_counts_what_was_late(stall, missed):
    pacer, _ = paced([], 100, stall=(50, stall - WINDOW_S))
    assert pacer.missed == missed == pacer.missed_in_a_row
