# pyright: reportOptionalMemberAccess=false, reportArgumentType=false
"""Monitors: each threshold at its last good value and just beyond it."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lafr_mjx import so3
from lafr_mjx.hil.safety.drone_profile import load_profile
from lafr_mjx.hil.safety.trips import Fault, Readings, Rung, Watch, watch
from lafr_mjx.types import State

PROFILE = load_profile("sim")
LIMITS = PROFILE.limits
DT = 0.02


def state(position=(0.0, 0.0, 1.5), velocity=(0.0, 0.0, 0.0), tilt=0.0, rates=(0.0, 0.0, 0.0)):
    rotation = so3.exp(np.array([math.radians(tilt), 0.0, 0.0]))
    return State(np.array(position), np.array(velocity), rotation, np.array(rates))


def readings(**changes):
    good = Readings(
        now=100.0, state=state(), state_age=0.005, mocap_number=1, mocap_age=0.005,
        mocap_receipt=99.995, mocap_position=np.array([0.0, 0.0, 1.5]), telemetry_age=0.005,
        subscribed=True, master_age=0.3, clock_skew=0.0, intruder=False, voltage=16.0,
        battery_age=0.1, guard=False, reference=np.array([0.0, 0.0, 1.5]), late=0,
        not_finite=False, clamped=False, learner_age=0.1, console=True, stop=False,
    )  # fmt: skip
    return good._replace(**changes)


def faults(**changes):
    return watch(Watch(), readings(**changes), PROFILE)[1]


def test_all_is_well():
    assert faults() == frozenset()


SIMPLE = [
    ("state_age", LIMITS.state_age_s, Fault.STATE_STALE),
    ("mocap_age", LIMITS.mocap_stale_s, Fault.MOCAP_STALE),
    ("mocap_age", LIMITS.mocap_lost_s, Fault.MOCAP_LOST),
    ("telemetry_age", LIMITS.link_s, Fault.LINK),
    ("master_age", LIMITS.master_s, Fault.MASTER),
    ("clock_skew", LIMITS.clock_skew_s, Fault.CLOCK),
    ("learner_age", LIMITS.learner_s, Fault.LEARNER),
    ("battery_age", LIMITS.battery_s, Fault.BATTERY),
]


@pytest.mark.parametrize(("name", "limit", "fault"), SIMPLE)
def test_threshold_to_the_last_good_value(name, limit, fault):
    assert fault not in faults(**{name: limit})
    assert fault in faults(**{name: np.nextafter(limit, 10.0 * limit)})
    assert fault in faults(**{name: math.nan})
    assert fault in faults(**{name: math.inf})


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"subscribed": False}, Fault.LINK),
        ({"intruder": True}, Fault.INTRUDER),
        ({"guard": True}, Fault.GUARDED),
        ({"not_finite": True}, Fault.NOT_FINITE),
        ({"console": False}, Fault.CONSOLE),
        ({"stop": True}, Fault.STOP),
        ({"clock_skew": -0.011}, Fault.CLOCK),
        ({"voltage": LIMITS.voltage_land_v - 0.01}, Fault.VOLTAGE),
        ({"late": 1}, Fault.DEADLINE),
        ({"late": 2}, Fault.DEADLINES),
    ],
)
def test_plain_faults(changes, fault):
    assert fault in faults(**changes)


def test_voltage_unknown_is_not_a_fault_in_flight():
    assert faults(voltage=math.nan) == frozenset()
    assert faults(voltage=LIMITS.voltage_land_v) == frozenset()


@pytest.mark.parametrize(
    ("moving", "fault", "inside", "outside"),
    [
        (lambda x: state(velocity=(0, 0, x)), Fault.SPEED, LIMITS.speed_mps, 12.01),
        (lambda x: state(rates=(0, -x, 0)), Fault.RATES, LIMITS.rates_radps, 15.01),
        (lambda x: state((0, 0, x)), Fault.ALTITUDE, LIMITS.altitude_max_m, 4.51),
        (lambda x: state((0, 0, x)), Fault.ALTITUDE, LIMITS.altitude_min_m, 0.59),
        (lambda x: state((x, 0, 1.5)), Fault.OUTSIDE, 8.5, 8.51),
        (lambda x: state((x, 0, 1.5)), Fault.TRACKING_SLOW, LIMITS.tracking_slow_m, 0.61),
        (lambda x: state((x, 0, 1.5)), Fault.TRACKING, LIMITS.tracking_baseline_m, 0.91),
        (lambda x: state((x, 0, 1.5)), Fault.TRACKING_LOST, LIMITS.tracking_hover_m, 1.51),
    ],
)
def test_motion(moving, fault, inside, outside):
    assert fault not in faults(state=moving(inside))
    assert fault in faults(state=moving(outside))


def test_fence_counts_the_stopping_distance():
    # At 8 m/s: 8 · 0.2 + 64 / 16 = 5.6 m; the wall is at 8.5 m.
    assert Fault.FENCE not in faults(state=state((2.89, 0, 1.5), (8.0, 0, 0)))
    assert Fault.FENCE in faults(state=state((2.91, 0, 1.5), (8.0, 0, 0)))
    assert Fault.FENCE not in faults(state=state((5.0, 0, 1.5), (-8.0, 0, 0)))
    assert Fault.FENCE in faults(state=state((-2.91, 0, 1.5), (-8.0, 0, 0)))


@settings(deadline=None)
@given(
    st.floats(-6.4, 6.4), st.floats(-12.0, 12.0), st.floats(0.2, 5.0), st.floats(0.0, 0.2)
)  # fmt: skip
def test_fence_is_right_for_who_brakes_as_promised(x, v, more, delay):
    """A vehicle that the fence lets pass can stop inside, if it brakes as the profile says."""
    fence = PROFILE.fence
    if fence.excess(np.array([x, 0.0, 1.5]), np.array([v, 0.0, 0.0])) > 0.0:
        return
    brake = fence.stop_mps2 + more
    rest = x + v * delay + math.copysign(v * v / (2.0 * brake), v)
    assert fence.low[0] <= rest <= fence.high[0]


@pytest.mark.parametrize(
    ("tilt", "seconds", "fault"),
    [(81.0, LIMITS.tilt_s, Fault.TILT), (95.0, LIMITS.inverted_s, Fault.INVERTED)],
)
def test_tilt_trips_after_its_time(tilt, seconds, fault):
    memory = Watch()
    ticks = round(seconds / DT)
    for k in range(ticks):
        memory, found = watch(memory, readings(now=100.0 + k * DT, state=state(tilt=tilt)), PROFILE)
        assert fault not in found, k
    moment = 100.0 + ticks * DT
    assert fault in watch(memory, readings(now=moment, state=state(tilt=tilt)), PROFILE)[1]
    # Upright for one tick starts the time anew.
    memory, _ = watch(memory, readings(now=moment), PROFILE)
    again = readings(now=moment + DT, state=state(tilt=tilt))
    assert fault not in watch(memory, again, PROFILE)[1]


def test_tilt_within_the_plan_never_trips():
    memory = Watch()
    for k in range(100):
        memory, found = watch(memory, readings(now=100 + k * DT, state=state(tilt=79.9)), PROFILE)
        assert not found


def mocap(number, position, now):
    return readings(
        now=now, mocap_number=number, mocap_receipt=now - 0.005,
        mocap_position=np.array(position, float),
    )  # fmt: skip


def test_state_and_motion_capture_must_agree():
    reach = LIMITS.mocap_jump_m
    assert Fault.DISAGREE not in faults(state=state((reach - 1e-6, 0, 1.5)))
    assert Fault.DISAGREE in faults(state=state((reach + 1e-6, 0, 1.5)))
    # At speed the two may be a little apart in time; a state that stands still is found out.
    moving = state((reach + 0.05 * 6.0 - 1e-6, 0, 1.5), velocity=(6.0, 0, 0))
    assert Fault.DISAGREE not in faults(state=moving)
    swapped = readings(state=state((1.0, 2.0, 1.5)), mocap_position=np.array([2.0, 1.0, 1.5]))
    assert Fault.DISAGREE in watch(Watch(), swapped, PROFILE)[1]
    # What is too old to be compared has a fault of its own.
    old = readings(state=state((3.0, 0, 1.5)), mocap_age=LIMITS.mocap_stale_s + 0.001)
    assert Fault.DISAGREE not in watch(Watch(), old, PROFILE)[1]


def test_jump_is_what_no_vehicle_can_do():
    reach = LIMITS.mocap_jump_m + LIMITS.speed_mps * DT
    for distance, bad in ((reach - 1e-6, False), (reach + 1e-6, True)):
        memory, _ = watch(Watch(), mocap(1, (0, 0, 1.5), 100.0), PROFILE)
        found = watch(memory, mocap(2, (distance, 0, 1.5), 100.0 + DT), PROFILE)[1]
        assert (Fault.MOCAP_JUMP in found) == bad


def test_frozen_position_with_fresh_messages():
    memory, found = watch(Watch(), mocap(0, (0, 0, 1.5), 100.0), PROFILE)
    seen = []
    for k in range(1, 40):
        memory, found = watch(memory, mocap(k, (0, 0, 1.5), 100.0 + k * DT), PROFILE)
        if Fault.MOCAP_FROZEN in found:
            seen.append(k)
        if Fault.MOCAP_LOST in found:
            break
    # First seen at 0 - 5 ms: beyond 60 ms at the third tick after it; lost beyond 200 ms.
    assert seen[0] == 3
    assert k == 10
    # When it last showed a new one: the first that repeats itself may be a tick older.
    assert memory.mocap_changed == pytest.approx(100.0 - 0.005 - DT)
    memory, found = watch(memory, mocap(99, (0, 0, 1.5001), 101.0), PROFILE)
    assert Fault.MOCAP_FROZEN not in found


def test_when_motion_capture_last_showed_something_new():
    memory = Watch()
    for k in range(5):
        memory, _ = watch(memory, mocap(k, (0, 0, 1.5 + 1e-3 * k), 100.0 + k * DT), PROFILE)
        assert memory.mocap_changed == pytest.approx(100.0 + k * DT - 0.005)
    newest = memory.mocap_changed
    for k in range(5, 9):
        same = mocap(4, (0, 0, 1.504), 100.0 + k * DT)  # nothing came
        memory, _ = watch(memory, same._replace(mocap_receipt=newest), PROFILE)
        assert memory.mocap_changed == newest


def test_only_unseen_vehicles_lead_to_a_blind_descent():
    blind = {fault for fault in Fault if fault.rung is Rung.BLIND}
    assert blind == {Fault.MOCAP_STALE, Fault.MOCAP_FROZEN, Fault.MOCAP_LOST}
    assert Fault.BATTERY.rung is Rung.LAND
    assert max(Rung) is Rung.BLIND


def test_clamping_must_repeat():
    memory = Watch()
    for _ in range(PROFILE.command.repeats):
        memory, found = watch(memory, readings(clamped=True), PROFILE)
        assert Fault.CLAMPED not in found
    assert Fault.CLAMPED in watch(memory, readings(clamped=True), PROFILE)[1]
    memory, _ = watch(memory, readings(), PROFILE)
    assert Fault.CLAMPED not in watch(memory, readings(clamped=True), PROFILE)[1]


@settings(deadline=None)
@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=6, max_size=6))
def test_no_number_is_too_odd(numbers):
    odd = state(tuple(numbers[:3]), tuple(numbers[3:]))
    found = watch(Watch(), readings(state=odd), PROFILE)[1]
    if not np.isfinite(numbers).all():
        assert {Fault.SPEED, Fault.OUTSIDE} & found
