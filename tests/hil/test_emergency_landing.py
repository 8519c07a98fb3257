# pyright: reportOptionalMemberAccess=false, reportArgumentType=false
# pyright: reportOptionalSubscript=false
"""The emergency landing by calls alone, on the software drone and on anything that may be known."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pilot_rig import HOVER, Rig

from lafr_mjx.hil.drones.agilicious import CALLS
from lafr_mjx.hil.drones.drone_protocol import Call
from lafr_mjx.hil.safety.drone_profile import load_profile
from lafr_mjx.hil.safety.emergency_landing import DOWN, OFF, EmergencyLanding, Known
from lafr_mjx.hil.safety.landing import Heights
from lafr_mjx.hil.simulator.injected import Injector, parse
from lafr_mjx.hil.simulator.physics import GROUND_M
from lafr_mjx.hil.simulator.pilot import CYCLE_S, Settings

PROFILE = load_profile("sim")
UNGUARDED = dataclasses.replace(PROFILE, pilot=dataclasses.replace(PROFILE.pilot, guard=False))
LADDER = PROFILE.ladder
QUICK = (Phase.explicit, Phase.reuse, Phase.generate)  # flights are too long to be shrunk
KNOWN = Known(
    now=100.0, position=(0.0, 0.0, 1.5), mocap_age=0.01, climb=0.0, telemetry_age=0.01, armed=True,
    guarded=False, stream_age=math.inf,
)  # fmt: skip


def longest_s(height):
    """From the key to the motors' stop."""
    return height / 0.25 + LADDER.guard_s + 4.0 + 0.2


class Stop:
    """A vehicle, and the key; whoever streams does so as long as the guard lets it."""

    def __init__(self, profile=PROFILE, faults=()):
        pilot = profile.pilot
        self.rig = Rig(
            settings=Settings(
                has_guard=pilot.guard, guard_low=pilot.guard_low, guard_high=pilot.guard_high
            ),
            injector=Injector([parse(text) for text in faults]),
        )
        self.profile, self.landing = profile, EmergencyLanding(profile)
        self.heights, self.calls = Heights(), []  # (s since the key, name)
        self.stream = None
        self._mocap = self._telemetry = self._streamed = -math.inf
        self._position, self._said = None, (False, False)

    @property
    def names(self):
        return [name for _, name in self.calls]

    def known(self):
        now = self.rig.now
        return Known(
            now, self._position, now - self._mocap, self.heights.climb(), now - self._telemetry,
            *self._said, now - self._streamed, GROUND_M,
        )  # fmt: skip

    def look(self):
        """One cycle of the vehicle, and what is heard of it."""
        if self.stream is not None:
            self.rig.drone.feedthrough(self.rig.now, self.stream)
            self._streamed = self.rig.now
        report = self.rig.run(CYCLE_S)
        if report.mocap is not None:
            self._mocap, self._position = report.mocap.stamp, tuple(report.mocap.position.tolist())
            self.heights.see(report.mocap.stamp, self._position[2])
        if report.state is not None:
            self._telemetry = self.rig.now
            self._said = report.armed and report.bridge != "debug", report.guard

    def press(self, seconds=40.0, until=None):
        """Until it is done; every call is judged."""
        begin = self.rig.now
        self.landing.begin(begin)
        while not self.landing.done and self.rig.now < begin + seconds:
            self.look()
            known = self.known()
            for name in (CALLS[call][0] for call in self.landing.calls(known)):
                self.judge(name, known)
                self.calls.append((self.rig.now - begin, name))
                self.rig.call(name)
            if until is not None and until():
                break
        self.took = self.rig.now - begin
        return self

    def judge(self, name, known):
        box = self.profile.pilot
        if name == "trigger_guard":
            assert box.guard and np.all(self.rig.position >= box.guard_low)
            assert np.all(self.rig.position <= box.guard_high)
            for low, high, x in zip(box.guard_low, box.guard_high, known.position, strict=True):
                assert low + 0.1 <= x <= high - 0.1
        if name == "land":
            assert not self.rig.on_ground and self.rig.report.references
            sinks = self.rig.pilot.mode == "land" and self.rig.drone.plant.velocity[2] < -0.2
            assert not sinks, "it would hover"
        if name == "force_hover":
            assert not self.rig.on_ground

    def flying(self, height=None):
        self.rig.fly(height)
        for _ in range(40):
            self.look()
        return self

    def has_landed(self):
        assert self.landing.done and self.landing.doing == DOWN
        assert self.rig.on_ground and not self.rig.pilot.armed
        assert self.rig.drone.crashed == "" and self.rig.pilot.died == ""


# ------------------------------------------------------------------ on the software drone


@pytest.mark.parametrize("height", [0.8, 1.5, 4.5])
def test_guard_at_once_then_land_then_off(height):
    stop = Stop().flying(height).press()
    stop.has_landed()
    assert stop.names[0] == "trigger_guard" and stop.calls[0][0] < 0.05
    assert stop.names.count("land") == 1 and "force_hover" not in stop.names
    assert stop.took < longest_s(height)


def test_the_guard_beats_a_stream():
    stop = Stop().flying(1.5)
    stop.stream = (10.5, 0.0, 0.0, 0.0)
    stop.press(until=lambda: stop.rig.pilot.mode == "land")
    assert stop.names[0] == "trigger_guard" and not stop.rig.pilot.feeding
    stop.press().has_landed()


@pytest.mark.parametrize("height", [0.55, 4.95])
def test_near_the_sides_of_its_box_the_guard_is_not_called(height):
    """It would be lost, were the vehicle outside by then."""
    stop = Stop().flying(height).press()
    stop.has_landed()
    assert stop.names[0] == "force_hover" and "trigger_guard" not in stop.names


def test_outside_of_its_box_the_guard_is_not_called():
    stop = Stop().flying(1.0)
    stop.stream = (14.0, 0.0, 0.0, 0.0)  # up and out, so fast that the guard hovers beyond it
    while not stop.rig.report.guard:
        stop.look()
    stop.press().has_landed()
    assert "trigger_guard" not in stop.names


def test_without_a_guard_it_hovers_and_lands():
    stop = Stop(UNGUARDED).flying(2.0).press()
    stop.has_landed()
    assert stop.names[:2] == ["force_hover", "land"]
    assert stop.names.count("force_hover") == stop.names.count("land") == 1


def test_without_a_guard_a_stream_that_goes_on_is_cut():
    stop = Stop(UNGUARDED).flying(1.0)
    stop.stream = HOVER
    stop.press()
    assert stop.landing.done and set(stop.names) == {Call.OFF}
    assert 0.5 <= stop.calls[0][0] < 0.7


def test_on_the_ground_the_motors_are_switched_off_and_nothing_else():
    stop = Stop()
    stop.rig.arm()
    stop.press()  # nothing is known of its climb yet
    stop.has_landed()
    assert set(stop.names) == {Call.OFF} and stop.took < 1.0


def test_a_vehicle_that_is_off_is_left_alone():
    stop = Stop()
    stop.rig.run(0.5)
    stop.press()
    assert stop.landing.done and stop.calls == []


@pytest.mark.parametrize("profile", [PROFILE, UNGUARDED])
def test_a_landing_of_somebody_else_is_not_disturbed(profile):
    stop, called = Stop(profile).flying(2.5), []

    def somebody():
        if not called and stop.rig.now > begin + LADDER.guard_s + 0.1:
            called.append(stop.rig.now)
            stop.rig.call("land")

    begin = stop.rig.now
    stop.press(until=somebody).has_landed()
    assert called and "land" not in stop.names


def test_it_says_off_only_if_nobody_saw_it_come_down():
    stop = Stop(faults=["mocap-drop@9.7:60"]).flying(1.0).press()
    assert stop.landing.done and stop.landing.doing == OFF


def test_again_after_it_is_done():
    stop = Stop().flying().press()
    stop.has_landed()
    stop.rig.arm()
    stop.rig.call("start")
    stop.rig.run(4.0)
    stop.calls.clear()
    stop.press().has_landed()
    assert stop.names[0] == "trigger_guard"


@settings(deadline=None, max_examples=20, phases=QUICK)
@given(
    guard=st.booleans(),
    height=st.floats(0.3, 5.8),
    streams=st.booleans(),
    lands=st.sampled_from([None, 0.1, 0.8, 1.6]),
    mocap=st.sampled_from([None, (0.0, 0.3), (0.0, 60.0), (1.5, 0.1), (2.5, 0.5), (3.0, 60.0)]),
)
def test_motors_are_off_in_bounded_time(guard, height, streams, lands, mocap):
    profile = PROFILE if guard else UNGUARDED
    stop = Stop(profile).flying(height)
    top = max(stop.rig.height, 0.5)
    if mocap is not None:
        stop.rig.drone.injector.add(parse(f"mocap-drop@{stop.rig.now + mocap[0]:.3f}:{mocap[1]:g}"))
    if lands is not None:
        stop.rig.call("land")
        for _ in range(round(lands / CYCLE_S)):
            stop.look()
    stop.stream = HOVER if streams else None
    stop.press()
    assert stop.landing.done and not stop.rig.pilot.armed and not stop.rig.pilot.died
    assert stop.took < longest_s(top)


# ------------------------------------------------------------------ when nobody sees it


def test_off_if_nobody_sees_the_vehicle_and_nobody_flies_it():
    for known in (KNOWN._replace(position=None), KNOWN._replace(mocap_age=0.21)):
        landing = EmergencyLanding(PROFILE)
        landing.begin(100.0)
        assert landing.calls(known) == (Call.OFF,)


def test_for_a_moment_without_motion_capture_it_waits():
    landing = EmergencyLanding(PROFILE)
    landing.begin(100.0)
    for age in (0.07, 0.12, 0.19):
        assert landing.calls(KNOWN._replace(now=100.0 + age, mocap_age=age)) == ()


def test_who_flies_it_blind_may_go_on_but_not_for_ever():
    landing = EmergencyLanding(PROFILE)
    landing.begin(100.0)
    calls = []
    for k in range(400):
        now = 100.0 + 0.01 * k
        blind = KNOWN._replace(now=now, mocap_age=0.3 + 0.01 * k, stream_age=0.02)
        calls += [(now - 100.0, name) for name in landing.calls(blind)]
    assert {name for _, name in calls} == {Call.OFF}
    assert calls[0][0] == pytest.approx(LADDER.blind_s, abs=0.06)


def test_off_as_soon_as_the_blind_descent_ends():
    landing = EmergencyLanding(PROFILE)
    landing.begin(100.0)
    blind = KNOWN._replace(mocap_age=0.5, stream_age=0.02)
    assert landing.calls(blind) == () and "blind" in landing.doing
    assert landing.calls(blind._replace(now=101.0, stream_age=0.12)) == (Call.OFF,)


# ------------------------------------------------------------------ whatever is known

LOOKS = st.lists(
    st.tuples(
        st.one_of(
            st.none(),
            st.tuples(st.floats(-11, 15), st.floats(-10, 10), st.floats(0.0, 7.0)),
            st.tuples(st.just(0.0), st.just(0.0), st.floats(0.0, 1.0)),
        ),
        st.sampled_from([0.0, 0.05, 0.07, 0.3, math.inf]),
        st.one_of(st.just(math.nan), st.floats(-2.0, 2.0)),
        st.sampled_from([0.0, 0.5]),
        st.booleans(),
        st.sampled_from([0.0, math.inf]),
        st.floats(0.01, 0.6),
    ),
    max_size=40,
)


@settings(deadline=None, max_examples=300)
@given(LOOKS, st.sampled_from([PROFILE, UNGUARDED]))
def test_no_call_that_must_not_be_made(looks, profile):
    landing, now, landed, hovered = EmergencyLanding(profile), 100.0, [], 0
    landing.begin(now)
    for position, age, climb, silence, guarded, stream, wait in looks:
        now += wait
        known = Known(now, position, age, climb, silence, True, guarded, stream, GROUND_M)
        calls = landing.calls(known)
        assert len(calls) <= 1 and not landing.done
        fresh = position is not None and age <= profile.limits.mocap_stale_s
        if calls and calls != (Call.OFF,):
            assert fresh, "nothing but off without motion capture"
        if calls == (Call.GUARD,):
            assert profile.pilot.guards(position) and not guarded
        if calls == (Call.HOVER,):
            hovered += 1
            assert hovered == 1 and not guarded and stream == math.inf
            assert position[2] >= GROUND_M + 0.15 or abs(climb) >= 0.2
        if calls == (Call.LAND,):
            stopped = bool(landed) and guarded and not landed[-1]
            assert stopped or climb > -0.15
            assert position[2] >= GROUND_M + 0.15 or not abs(climb) < 0.2
            assert now - 100.0 >= LADDER.guard_s
            landed.append(guarded)


@settings(deadline=None)
@given(st.floats(0.5, 5.0), st.floats(-1.0, 1.0), st.booleans(), st.booleans())
def test_a_vehicle_that_obeys_nothing_is_switched_off(height, speed, guarded, guard):
    landing = EmergencyLanding(PROFILE if guard else UNGUARDED)
    landing.begin(100.0)
    for k in range(2000):
        at = max(0.4, height + speed * 0.02 * k)
        known = KNOWN._replace(now=100.0 + 0.02 * k, position=(0.0, 0.0, at), climb=speed)
        if Call.OFF in landing.calls(known._replace(guarded=guarded)):
            break
    assert 0.02 * k < longest_s(height)
    stands = known._replace(now=known.now + 0.2, armed=False, position=(0.0, 0.0, 0.1), climb=0.0)
    assert not landing.calls(stands) and landing.done, "when telemetry says so"


def test_a_pilot_that_is_not_heard_counts_as_armed():
    landing = EmergencyLanding(PROFILE)
    landing.begin(100.0)
    silent = KNOWN._replace(armed=False, telemetry_age=0.2)
    assert landing.calls(silent) == (Call.GUARD,) and not landing.done
    assert landing.calls(silent._replace(now=100.1, telemetry_age=0.05)) == ()


@pytest.mark.parametrize(
    ("position", "age", "climb", "told"),
    [((0.0, 0.0, 0.1), 0.01, 0.0, DOWN), ((0.0, 0.0, 0.1), 0.01, -2.0, OFF),
     ((0.0, 0.0, 1.0), 0.01, 0.0, OFF), ((0.0, 0.0, 0.1), 0.5, 0.0, OFF), (None, 0.01, 0.0, OFF)],
)  # fmt: skip
def test_with_its_motors_off_it_stands_only_if_that_is_seen(position, age, climb, told):
    landing = EmergencyLanding(PROFILE)
    landing.begin(100.0)
    off = KNOWN._replace(armed=False, position=position, mocap_age=age, climb=climb)
    assert landing.calls(off) == () and landing.done == (told == DOWN), "it may still fall"
    for k in range(1, 20):
        assert landing.calls(off._replace(now=100.0 + 0.1 * k)) == ()
    assert landing.done and landing.doing == told


def test_the_key_pressed_again_changes_nothing():
    landing = EmergencyLanding(PROFILE)
    assert landing.done and landing.calls(KNOWN) == ()
    landing.begin(100.0)
    assert landing.calls(KNOWN) == (Call.GUARD,)
    landing.begin(100.5)
    later = KNOWN._replace(now=102.0, guarded=True)
    assert landing.calls(later) == (Call.LAND,), "counted from the first time"
