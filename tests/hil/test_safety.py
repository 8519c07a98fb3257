# pyright: reportOptionalMemberAccess=false, reportArgumentType=false
"""The safety state machine: what no sequence of events may do, and what every fault must do."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safety_rig import DT, LADDER, PROFILE, flying, run

from lafr_mjx.hil.drones.drone_protocol import Call
from lafr_mjx.hil.safety.drone_profile import load_profile
from lafr_mjx.hil.safety.modes import IN_AIR, Mode, Word
from lafr_mjx.hil.safety.state_machine import Actions, Inputs, Machine, refusal
from lafr_mjx.hil.safety.trips import AIRBORNE_ONLY, Fault, Rung

event = st.builds(
    dict,
    word=st.sampled_from([None, None, None, *Word]),
    faults=st.one_of(
        st.just(frozenset()),
        st.just(frozenset()),
        st.frozensets(st.sampled_from(list(Fault)), max_size=3),
    ),
    connected=st.sampled_from([True, True, True, False]),
    ready=st.sampled_from([True, True, False]),
    pilot_armed=st.booleans(),
    height=st.sampled_from([None, 0.0, 0.5, 1.2]),
    climb=st.sampled_from([0.0, -0.5, 0.4, math.nan]),
    speed=st.sampled_from([0.0, 0.1, 1.0, 7.0, math.nan]),
    guarded=st.sampled_from([False, False, True]),
    guardable=st.booleans(),
    reachable=st.sampled_from([True, True, False]),
    seen_s=st.sampled_from([0.0, 0.04, 1.0]),
    unseen_s=st.sampled_from([0.0, 0.1, 0.3, 4.0]),
    fallen=st.sampled_from([False, False, True]),
    references=st.sampled_from([0, 1]),
    resting=st.booleans(),
    ticks=st.integers(1, 80),
)


@settings(deadline=None, max_examples=400)
@given(st.lists(event, max_size=25))
def test_policy_needs_preflight_and_every_word(events):
    ticks = run(events)
    since_ground = []
    for inputs, before, after, _ in ticks:
        if after.mode is before.mode:
            continue
        since_ground.append((before.mode, after.mode, inputs))
        if after.mode in (Mode.DISCONNECTED, Mode.PREFLIGHT):
            since_ground.clear()
        if after.mode is Mode.ARMED:
            assert before.mode is Mode.PREFLIGHT
            assert inputs.ready and inputs.connected and inputs.word is Word.ARM
            assert not inputs.faults - AIRBORNE_ONLY
        if after.mode is Mode.TAKEOFF:
            assert before.mode is Mode.ARMED
            assert inputs.word is Word.TAKEOFF and inputs.ready and inputs.pilot_armed
        if after.mode is Mode.POLICY:
            assert before.mode is Mode.HOVER
            assert inputs.word is Word.POLICY and inputs.ready
            visited = [target for _, target, _ in since_ground]
            assert visited[0] is Mode.ARMED and visited[1] is Mode.TAKEOFF


@settings(deadline=None, max_examples=400)
@given(st.lists(event, max_size=25))
def test_commands_leave_in_policy_and_blind_only_and_never_beside_a_call(events):
    last_published = -math.inf
    for inputs, _, after, actions in run(events):
        assert actions.publish == (after.mode in (Mode.POLICY, Mode.BLIND))
        assert actions.blind == (after.mode is Mode.BLIND)
        if actions.publish:
            assert actions.calls == ()
            last_published = inputs.now
        # The pilot would not obey these while it still follows the stream of commands.
        if {Call.HOVER, Call.LAND} & set(actions.calls) and not inputs.guarded:
            assert inputs.now - last_published > LADDER.hover_wait_s
        if Call.GUARD in actions.calls:
            assert inputs.guardable and not inputs.guarded
        if actions.baseline or actions.slow:
            assert actions.publish


@settings(deadline=None, max_examples=400)
@given(st.lists(event, max_size=25))
def test_a_serious_fault_ends_policy_in_the_same_tick_and_needs_a_new_word(events):
    for inputs, before, after, actions in run(events):
        serious = [f for f in inputs.faults if f.rung >= Rung.HOVER]
        if before.mode is Mode.POLICY and serious:
            assert after.mode not in (Mode.POLICY, Mode.TAKEOFF, Mode.ARMED)
            assert not actions.publish or actions.blind
            assert after.latched >= set(serious)
        if before.mode is not Mode.POLICY and after.mode is Mode.POLICY:
            assert inputs.word is Word.POLICY
            assert inputs.now - before.clear_since >= LADDER.stable_s
        if before.mode is Mode.OFF and after.mode is not Mode.OFF:
            assert inputs.word is Word.RESET and not inputs.pilot_armed


@settings(deadline=None, max_examples=200)
@given(st.lists(event, max_size=25))
def test_motors_start_on_the_word_only_and_off_always_works(events):
    for inputs, before, after, actions in run(events):
        if Call.ARM in actions.calls:
            assert after.mode is Mode.ARMED
        if Call.TAKE_OFF in actions.calls:
            assert after.mode is Mode.TAKEOFF and inputs.word is Word.TAKEOFF
        if inputs.word is Word.OFF and before.mode not in (Mode.DISCONNECTED, Mode.PREFLIGHT):
            assert after.mode is Mode.OFF
        # Motors are never cut at a known height but by the operator, also by the stop.
        cut = after.mode is Mode.OFF and before.mode is Mode.LAND and inputs.word is not Word.OFF
        unseen = Fault.MOCAP_LOST in inputs.faults or Fault.STOP in before.latched
        if cut and inputs.pilot_armed and not unseen and not inputs.last_height < 0.15:
            assert inputs.height is None or inputs.height < 0.15
        assert all(isinstance(call, Call) for call in actions.calls)


@settings(deadline=None, max_examples=400)
@given(st.lists(event, max_size=25))
def test_land_is_called_once_and_again_only_if_it_does_not_sink(events):
    called, guarded = None, False
    for inputs, _, after, actions in run(events):
        if after.mode is not Mode.LAND:
            called = None
        elif Call.LAND in actions.calls:
            if called is not None:
                assert inputs.climb > -0.15
                assert inputs.now - called > 1.0 or (inputs.guarded and not guarded)
            called, guarded = inputs.now, inputs.guarded


@settings(deadline=None, max_examples=200)
@given(st.lists(event, max_size=25))
def test_motors_that_somebody_switched_off_end_the_flight(events):
    for inputs, before, after, actions in run(events):
        if before.mode in IN_AIR and not inputs.pilot_armed:
            assert after.mode is Mode.OFF and not actions.publish


@pytest.mark.parametrize("fault", [f for f in Fault if Rung.HOVER <= f.rung < Rung.BLIND])
def test_a_fault_that_stays_ends_on_the_ground_in_bounded_time(fault):
    machine, now, air = flying()
    state = {**air, "word": None, "faults": frozenset({fault}), "guarded": fault is Fault.GUARDED}
    bound = LADDER.hover_wait_s + LADDER.hover_s + LADDER.guard_s + 3 * DT
    ticks = run([{**state, "ticks": int(bound / DT) + 2}], machine, now)
    modes = [after.mode for _, _, after, _ in ticks]
    assert modes[0] is (Mode.GUARD if fault.rung is Rung.GUARD else Mode.HOVER)
    assert modes[-1] is Mode.LAND
    landed = run([{**state, "height": 0.0, "ticks": 60}], ticks[-1][2], ticks[-1][0].now + DT)
    assert landed[-1][2].mode is Mode.OFF
    assert Call.OFF in {call for *_, actions in landed for call in actions.calls}


@pytest.mark.parametrize("fault", [Fault.STOP, Fault.TILT, Fault.OUTSIDE])
def test_where_the_guard_would_be_lost_it_hovers_and_lands(fault):
    machine, now, air = flying()
    state = {**air, "word": None, "faults": frozenset({fault}), "guardable": False, "ticks": 30}
    ticks = run([state], machine, now)
    calls = [call for *_, actions in ticks for call in actions.calls]
    assert calls == [Call.HOVER, Call.LAND]


def test_a_take_off_that_never_began_is_switched_off():
    machine, now, air = flying()
    machine = machine._replace(mode=Mode.TAKEOFF, since=now)
    state = {**air, "word": Word.LAND, "height": 0.0, "last_height": 0.0, "references": 0,
             "ticks": 1}  # fmt: skip
    assert run([state], machine, now)[-1][2].mode is Mode.OFF, "land would end the pilot"


def test_landing_without_a_known_height_ends_in_off():
    machine, now, air = flying()
    state = {**air, "word": None, "faults": frozenset({Fault.LINK}), "height": None,
             "climb": math.nan}  # fmt: skip
    seconds = LADDER.hover_s + LADDER.guard_s + LADDER.land_s + 1.0
    ticks = run([{**state, "ticks": int(seconds / DT)}], machine, now)
    assert ticks[-1][2].mode is Mode.OFF


def test_after_a_fault_the_word_counts_only_when_the_link_was_stable():
    machine, now, air = flying()
    bad = {**air, "word": None, "faults": frozenset({Fault.MOCAP_JUMP})}
    ticks = run([{**bad, "ticks": 5}, {**air, "word": None, "ticks": 24}], machine, now)
    machine, now = ticks[-1][2], ticks[-1][0].now
    assert machine.mode is Mode.HOVER
    # 0.48 s after the fault: too early. One tick later: stable for 0.5 s.
    clear = now - machine.clear_since
    early = run([{**air, "word": Word.POLICY, "ticks": 1}], machine, machine.clear_since + 0.48)
    assert clear < LADDER.stable_s and early[-1][2].mode is Mode.HOVER
    later = run([{**air, "word": Word.POLICY, "ticks": 1}], machine, machine.clear_since + 0.50)
    assert later[-1][2].mode is Mode.POLICY


def test_hover_waits_out_the_pilots_time_out_to_the_tick():
    machine, now, air = flying()
    ticks = run([{**air, "word": Word.HOVER, "ticks": 30}], machine, now)
    last_command = now - DT
    calls = [(round(i.now - last_command, 6), a.calls) for i, _, _, a in ticks if a.calls]
    first = math.floor(LADDER.hover_wait_s / DT + 1e-9) * DT + DT
    assert calls == [(pytest.approx(first), (Call.HOVER,))]


def test_rungs_within_policy():
    machine, now, air = flying()

    def fly(faults, ticks):
        nonlocal machine, now
        done = run([{**air, "word": None, "faults": frozenset(faults), "ticks": ticks}],
                   machine, now)  # fmt: skip
        machine, now = done[-1][2], done[-1][0].now + DT
        return done[-1][3]

    assert fly({Fault.TRACKING_SLOW}, 3) == Actions(publish=True, slow=True)
    assert fly(set(), 1) == Actions(publish=True)  # the clock may run again
    # A NaN is answered by the baseline, and the policy does not come back by itself.
    assert fly({Fault.NOT_FINITE}, 1) == Actions(publish=True, slow=True, baseline=True)
    assert fly(set(), 10) == Actions(publish=True, slow=True, baseline=True)
    assert fly(set(), int(LADDER.baseline_s / DT)).publish is False
    assert machine.mode is Mode.HOVER


def test_land_from_policy_rests_then_hovers_then_lands():
    machine, now, air = flying()
    moving = run([{**air, "word": Word.LAND, "resting": False, "ticks": 40}], machine, now)
    assert all(m.mode is Mode.POLICY and a.rest for _, _, m, a in moving)
    machine, now = moving[-1][2], moving[-1][0].now + DT
    ticks = run([{**air, "word": None, "ticks": 60}], machine, now)
    calls = [call for *_, actions in ticks for call in actions.calls]
    assert calls == [Call.HOVER, Call.LAND]
    assert ticks[-1][2].mode is Mode.LAND
    # A policy that does not come to rest is left in the end.
    late = run([{**air, "word": None, "resting": False, "ticks": int(LADDER.rest_s / DT)}],
               machine, now)  # fmt: skip
    assert late[-1][2].mode is Mode.LAND


def test_calls_that_get_lost_are_repeated():
    machine, now, air = flying()
    state = {**air, "word": None, "faults": frozenset({Fault.STOP})}
    ticks = run([{**state, "ticks": 60}], machine, now)
    calls = [call for *_, actions in ticks for call in actions.calls]
    assert calls.count(Call.GUARD) == 2, "until the pilot says so"
    ticks = run([{**state, "climb": 0.0, "ticks": 300}], ticks[-1][2], ticks[-1][0].now)
    lands = [i.now for i, *_, a in ticks if Call.LAND in a.calls]
    assert len(lands) >= 4 and min(b - a for a, b in itertools.pairwise(lands)) > 1.0
    machine = Machine(mode=Mode.OFF, since=now, latched=frozenset())
    ticks = run([{**air, "word": None, "ticks": 300}], machine, now)
    assert sum(Call.OFF in actions.calls for *_, actions in ticks) > 8, "as long as it is armed"


@pytest.mark.parametrize(
    ("mode", "changes", "why"),
    [
        (Mode.PREFLIGHT, {"word": Word.ARM, "connected": False}, "topics"),
        (Mode.ARMED, {"word": Word.TAKEOFF, "pilot_armed": False}, "not armed"),
        (Mode.HOVER, {"word": Word.POLICY, "speed": 0.4}, "0.40 m/s"),
        (Mode.HOVER, {"word": Word.TAKEOFF}, "hover"),
        (Mode.OFF, {"word": Word.RESET, "pilot_armed": True}, "motors"),
    ],
)
def test_a_refusal_has_its_reason(mode, changes, why):
    machine, now, air = flying()
    inputs = Inputs(now=now, **{**air, **changes})
    assert why in refusal(machine._replace(mode=mode), inputs, LADDER)


@pytest.mark.parametrize("pilot", [PROFILE.pilot, load_profile("mavlink").pilot])
@pytest.mark.parametrize(("height", "climb"), [(0.1, 0.6), (0.25, 0.0)])
def test_a_landing_that_hops_or_stands_higher_ends_too(height, climb, pilot):
    """By a pilot that is called again and again, too."""
    machine, now, air = flying()
    landing = machine._replace(mode=Mode.LAND, since=now)
    state = {**air, "word": None, "height": height, "climb": climb, "ticks": 300}
    assert run([state], landing, now, pilot)[-1][2].mode is Mode.OFF


@pytest.mark.parametrize("pilot", [PROFILE.pilot, load_profile("mavlink").pilot])
def test_motors_stay_on_where_a_slow_landing_stands_still_for_a_moment_only(pilot):
    machine, now, air = flying()
    landing = machine._replace(mode=Mode.LAND, since=now)
    sinks = {**air, "word": None, "height": 0.29, "climb": -0.3, "ticks": 40}
    hangs = {**sinks, "climb": 0.0, "ticks": 15}
    assert run([sinks, hangs] * 4, landing, now, pilot)[-1][2].mode is Mode.LAND


def test_nothing_of_a_flight_is_left_for_the_next():
    machine, _, _ = flying()
    off = machine._replace(mode=Mode.OFF, calls=3, blinds=2)
    ready = {"faults": frozenset(), "pilot_armed": False, "references": 0, "word": Word.RESET}
    fresh = run([ready], off, 900.0)[-1][2]
    assert fresh.mode is Mode.PREFLIGHT
    assert fresh.published == -math.inf and fresh.blinds == 0 and not fresh.latched


def test_motors_that_somebody_cuts_on_the_ground_stay_off():
    machine = Machine(mode=Mode.ARMED, since=0.0)
    state = {"faults": frozenset(), "word": None, "height": 0.0, "climb": 0.0}
    ticks = run([{**state, "pilot_armed": False}, {**state, "pilot_armed": True, "ticks": 5},
                 {**state, "pilot_armed": False, "ticks": 200}], machine, 0.1)  # fmt: skip
    assert ticks[0][3].calls == (Call.ARM,)
    assert ticks[-1][2].mode is Mode.OFF
    assert not any(Call.ARM in actions.calls for *_, actions in ticks[6:])
