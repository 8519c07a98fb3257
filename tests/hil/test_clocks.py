# pyright: reportOptionalMemberAccess=false, reportArgumentType=false
"""The map of the vehicle's clock: delays are old messages, jumps are told."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lafr_mjx.hil.timing.clock_map import ClockMap

OFFSET = 5000.0  # our clock minus the vehicle's


def run(delays, jumps=None, rate=1.0):
    clock, skews = ClockMap(), []
    for k, delay in enumerate(delays):
        true = 0.01 * k
        jump = 0.0 if jumps is None else jumps[k]
        clock = clock.seen(true + OFFSET + delay, rate * true + jump)
        skews.append(clock.skew)
    return clock, np.array(skews)


@settings(deadline=None)
@given(st.lists(st.floats(0.0005, 0.0019), min_size=30, max_size=200))
def test_small_jitter_is_no_jump_and_the_map_is_exact(delays):
    clock, skews = run(delays)
    assert np.all(skews == 0.0)
    assert clock.offset == pytest.approx(OFFSET + min(delays))


def test_late_messages_are_old_not_a_jump():
    delays = np.full(100, 0.001)
    delays[50:65] = 0.3
    clock, skews = run(delays)
    assert np.all(skews == 0.0)
    assert clock.offset == pytest.approx(OFFSET + 0.001)


@pytest.mark.parametrize("jump", [0.011, 0.5, 100.0])
def test_forward_jump_is_told_at_once(jump):
    _, skews = run(np.full(100, 0.001), np.where(np.arange(100) >= 50, jump, 0.0))
    assert np.all(skews[:50] == 0.0)
    assert skews[50] == pytest.approx(jump)
    assert skews[60] == pytest.approx(jump), "and remembered, for not every message is looked at"


def test_backward_jump_is_told_when_all_are_late():
    _, skews = run(np.full(100, 0.001), np.where(np.arange(100) >= 50, -0.03, 0.0))
    assert np.all(skews[:69] == 0.0)
    assert skews[69] == pytest.approx(-0.03)


def test_drift_of_a_cheap_clock_is_followed():
    rng = np.random.default_rng(0)
    for rate in (1.0 + 5e-5, 1.0 - 5e-5):
        clock, skews = run(0.001 + 0.0005 * rng.random(6000), rate=rate)
        assert np.abs(skews).max() < 0.003
        true = 0.01 * 5999
        mapped = rate * true + clock.offset
        assert abs(mapped - (true + OFFSET)) < 0.003
