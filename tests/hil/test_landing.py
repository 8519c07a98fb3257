# pyright: reportOptionalMemberAccess=false, reportArgumentType=false
"""When `land` is called: once, and again only if the vehicle is known not to sink."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pilot_rig import Rig

from lafr_mjx.hil.safety.drone_profile import load_profile
from lafr_mjx.hil.safety.landing import SINKING_MPS, Heights, Landing
from lafr_mjx.hil.simulator.pilot import Settings

PATIENCE_S = 1.2
PILOT = load_profile("sim").pilot
UNKNOWN = math.nan


def test_the_first_call_is_due_whatever_is_known():
    for climb in (UNKNOWN, -1.0, 0.0, 1.0):
        assert Landing().due(PILOT, 100.0, climb, False, PATIENCE_S)


@pytest.mark.parametrize(
    ("climb", "again"),
    [(0.0, True), (1.0, True), (-SINKING_MPS + 1e-6, True), (-SINKING_MPS, False), (-0.5, False),
     (UNKNOWN, False)],
)  # fmt: skip
def test_it_is_called_again_if_the_vehicle_does_not_sink(climb, again):
    landing = Landing().call(100.0, False)
    early, late = 100.0 + PATIENCE_S - 1e-6, 100.0 + PATIENCE_S
    assert not landing.due(PILOT, early, climb, False, PATIENCE_S), "it is patient"
    assert landing.due(PILOT, late, climb, False, PATIENCE_S) == again


@pytest.mark.parametrize(("climb", "due"), [(-0.5, False), (0.0, True), (UNKNOWN, False)])
def test_it_is_called_again_when_the_guard_has_stopped_it(climb, due):
    landing = Landing().call(100.0, False)
    assert not landing.due(PILOT, 100.05, climb, True, PATIENCE_S), "a call takes its time"
    assert landing.due(PILOT, 100.07, climb, True, PATIENCE_S) is due, "not while it still sinks"
    again = landing.call(100.07, True)
    assert not again.due(PILOT, 100.5, climb, True, PATIENCE_S), "once for the guard"


SEEN = st.lists(
    st.tuples(
        st.floats(0.001, 0.5),  # s since the last look
        st.one_of(st.just(UNKNOWN), st.floats(-2.0, 2.0)),  # m/s
        st.booleans(),  # the guard has triggered
    ),
    max_size=60,
)


@settings(deadline=None, max_examples=300)
@given(SEEN, st.floats(0.2, 3.0))
def test_no_second_call_while_it_sinks_or_nothing_is_known(looks, patience):
    landing, now, last, guarded = Landing(), 10.0, -math.inf, False
    for wait, climb, triggers in looks:
        now, guarded = now + wait, guarded or triggers  # it latches
        if not landing.due(PILOT, now, climb, guarded, patience):
            continue
        first, stopped = math.isinf(last), guarded and not landing.guarded
        known = not math.isnan(climb) and climb > -SINKING_MPS
        assert first or stopped or (known and now - last >= patience - 1e-9)
        landing, last = landing.call(now, guarded), now
        assert (landing.called, landing.guarded) == (now, guarded)


@settings(deadline=None)
@given(st.lists(st.floats(-2.0, -SINKING_MPS), min_size=1, max_size=100))
def test_a_landing_that_goes_well_is_called_once(climbs):
    landing = Landing().call(0.0, False)
    assert not any(
        landing.due(PILOT, 0.1 * k, climb, False, PATIENCE_S) for k, climb in enumerate(climbs)
    )


# ------------------------------------------------------------------ how fast it sinks


@settings(deadline=None)
@given(st.floats(-3.0, 3.0), st.floats(0.005, 0.05), st.integers(1, 400), st.floats(-5.0, 5.0))
def test_climb_is_the_slope_of_the_heights(speed, step, count, start):
    heights = Heights()
    for k in range(count + 1):
        heights.see(k * step, start + speed * k * step)
    if count * step >= 0.1 + 1e-9:
        assert heights.climb() == pytest.approx(speed, abs=1e-6)
    elif count * step < 0.1 - 1e-9:
        assert math.isnan(heights.climb())


def test_climb_is_not_known_from_too_little():
    heights = Heights()
    assert math.isnan(heights.climb())
    heights.see(1.0, 2.0)
    assert math.isnan(heights.climb())


def test_climb_is_that_of_the_last_moments():
    heights = Heights()
    for k in range(200):  # it hovers for 1 s, then sinks
        heights.see(0.01 * k, 2.0 - 0.5 * max(0.0, 0.01 * k - 1.0))
    assert heights.climb() == pytest.approx(-0.5, abs=1e-6)


def test_after_a_gap_it_begins_anew():
    heights = Heights()
    for k in range(50):
        heights.see(0.01 * k, 2.0)
    heights.see(1.0, 1.0)
    assert math.isnan(heights.climb()), "2 m/s over the gap would be wrong"
    for k in range(1, 11):
        heights.see(1.0 + 0.01 * k, 1.0 - 0.004 * k)
    assert heights.climb() == pytest.approx(-0.4, abs=1e-6)


def test_one_place_twice_at_once_is_no_speed():
    heights = Heights()
    heights.see(1.0, 2.0)
    heights.see(1.0, 3.0)
    assert math.isnan(heights.climb())


# ------------------------------------------------------------------ with the pilot


@pytest.mark.parametrize(("has_guard", "calls"), [(True, 2), (False, 1)])
def test_it_lands_the_pilot_with_as_few_calls_as_it_takes(has_guard, calls):
    rig = Rig(settings=Settings(has_guard=has_guard)).fly(2.5)
    heights, landing, called = Heights(), Landing(), 0
    for _ in range(800):
        report = rig.run(0.01)
        heights.see(rig.now, float(report.mocap.position[2]))
        if report.mocap.position[2] < 0.15:
            break
        if landing.due(PILOT, rig.now, heights.climb(), report.guard, PATIENCE_S):
            landing, called = landing.call(rig.now, report.guard), called + 1
            rig.call("land")
    assert rig.height < 0.2 and called == calls
