# pyright: reportOptionalMemberAccess=false, reportArgumentType=false
"""The safety state machine: what no sequence of events may do, and what every fault must do."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lafr_mjx.hil.faults import AIRBORNE_ONLY, Fault, Rung
from lafr_mjx.hil.profile import load_profile
from lafr_mjx.hil.safety import SAFE, Actions, Inputs, Machine, Mode, Word, step

LADDER = load_profile("sim").ladder
DT = 0.02

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
    speed=st.sampled_from([0.0, 0.1, 1.0, 7.0, math.nan]),
    done=st.sampled_from([False, False, True]),
    ticks=st.integers(1, 80),
)


def run(events, machine=None, now=100.0):
    """All ticks: (inputs, machine before, machine after, actions)."""
    machine = machine or Machine()
    ticks = []
    for e in events:
        e = dict(e)
        for k in range(e.pop("ticks", 1)):
            # The operator says a word once.
            word = e["word"] if k == 0 else None
            inputs = Inputs(now=now, **{**e, "word": word})
            before = machine
            machine, actions = step(machine, inputs, LADDER)
            ticks.append((inputs, before, machine, actions))
            now += DT
    return ticks


def flying(now=100.0):
    """A machine in POLICY, brought there by the operator's words."""
    good = {"faults": frozenset(), "connected": True, "ready": True, "done": False}
    ground = {**good, "pilot_armed": True, "height": 0.0, "speed": 0.0}
    air = {**ground, "height": 1.0}
    ticks = run(
        [
            {**ground, "word": None, "ticks": 5},
            {**ground, "word": Word.ARM, "ticks": 5},
            {**ground, "word": Word.TAKEOFF, "ticks": 50},
            {**air, "word": None, "ticks": 30},
            {**air, "word": Word.POLICY, "ticks": 5},
        ],
        now=now,
    )
    assert [m.mode for _, _, m, _ in ticks][-1] is Mode.POLICY
    return ticks[-1][2], ticks[-1][0].now + DT, air


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
def test_commands_leave_in_policy_only_and_never_beside_a_call(events):
    last_published = -math.inf
    for inputs, _, after, actions in run(events):
        assert actions.publish == (after.mode is Mode.POLICY)
        if actions.publish:
            assert actions.calls == ()
            last_published = inputs.now
        # The pilot would not obey these while it still follows the stream of commands.
        if {"force_hover", "land"} & set(actions.calls):
            assert inputs.now - last_published > LADDER.hover_wait_s
        if actions.baseline or actions.slow:
            assert actions.publish


@settings(deadline=None, max_examples=400)
@given(st.lists(event, max_size=25))
def test_a_serious_fault_ends_policy_in_the_same_tick_and_needs_a_new_word(events):
    for inputs, before, after, actions in run(events):
        serious = [f for f in inputs.faults if f.rung >= Rung.HOVER]
        if before.mode is Mode.POLICY and serious:
            assert after.mode in SAFE
            assert not actions.publish
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
        if "enable" in actions.calls:
            assert after.mode is Mode.ARMED
        if "start" in actions.calls:
            assert after.mode is Mode.TAKEOFF and inputs.word is Word.TAKEOFF
        if inputs.word is Word.OFF and before.mode not in (Mode.DISCONNECTED, Mode.PREFLIGHT):
            assert after.mode is Mode.OFF
        # Motors are never cut at a known height but by the operator.
        cut = after.mode is Mode.OFF and before.mode is Mode.LAND and inputs.word is not Word.OFF
        if cut and inputs.pilot_armed:
            assert inputs.height is None or inputs.height < 0.15


@pytest.mark.parametrize("fault", [f for f in Fault if f.rung >= Rung.HOVER])
def test_a_fault_that_stays_ends_on_the_ground_in_bounded_time(fault):
    machine, now, air = flying()
    state = {**air, "word": None, "faults": frozenset({fault})}
    bound = LADDER.hover_wait_s + LADDER.hover_s + LADDER.guard_s + 3 * DT
    ticks = run([{**state, "ticks": int(bound / DT) + 2}], machine, now)
    modes = [after.mode for _, _, after, _ in ticks]
    assert modes[0] is (Mode.GUARD if fault.rung is Rung.GUARD else Mode.HOVER)
    assert modes[-1] is Mode.LAND
    landed = run([{**state, "height": 0.0, "ticks": 60}], ticks[-1][2], ticks[-1][0].now + DT)
    assert landed[-1][2].mode is Mode.OFF
    assert "off" in {call for *_, actions in landed for call in actions.calls}


@pytest.mark.parametrize("fault", [Fault.MOCAP_LOST, Fault.LINK])
def test_landing_without_a_known_height_ends_in_off(fault):
    machine, now, air = flying()
    state = {**air, "word": None, "faults": frozenset({fault}), "height": None}
    seconds = LADDER.hover_s + LADDER.guard_s + LADDER.land_s + 1.0
    ticks = run([{**state, "ticks": int(seconds / DT)}], machine, now)
    assert ticks[-1][2].mode is Mode.OFF


def test_after_a_fault_the_word_counts_only_when_the_link_was_stable():
    machine, now, air = flying()
    bad = {**air, "word": None, "faults": frozenset({Fault.MOCAP_STALE})}
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
    assert calls == [(pytest.approx(first), ("force_hover",))]


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


def test_land_from_policy_hovers_first():
    machine, now, air = flying()
    ticks = run([{**air, "word": Word.LAND, "ticks": 60}], machine, now)
    calls = [call for *_, actions in ticks for call in actions.calls]
    assert calls[:2] == ["force_hover", "land"]
    assert ticks[-1][2].mode is Mode.LAND


def test_calls_that_get_lost_are_repeated():
    machine, now, air = flying()
    ticks = run([{**air, "word": None, "faults": frozenset({Fault.STOP}), "ticks": 300}],
                machine, now)  # fmt: skip
    calls = [call for *_, actions in ticks for call in actions.calls]
    assert calls.count("trigger_guard") >= 2
    assert calls.count("land") >= 5
