# pyright: reportOptionalMemberAccess=false, reportArgumentType=false
"""The safety state machine without motion capture: flown blind, or switched off."""

import math

import pytest
from safety_rig import DT, LADDER, flying, run

from lafr_mjx.hil.safety.modes import Mode, Word
from lafr_mjx.hil.safety.trips import Fault

UNSEEN = {"word": None, "height": None, "climb": math.nan, "seen_s": 0.0, "last_height": 1.0}


LOST = frozenset({Fault.MOCAP_STALE, Fault.MOCAP_LOST})


@pytest.mark.parametrize("mode", [Mode.TAKEOFF, Mode.HOVER, Mode.POLICY, Mode.LAND, Mode.GUARD])
def test_unseen_it_is_flown_blind_from_every_mode(mode):
    machine, now, air = flying()
    state = {**air, **UNSEEN, "faults": frozenset({Fault.MOCAP_STALE}), "unseen_s": 0.07}
    ticks = run([{**state, "ticks": 5}], machine._replace(mode=mode, since=now), now)
    assert all(after.mode is Mode.BLIND for _, _, after, _ in ticks)
    landing = mode in (Mode.LAND, Mode.GUARD)
    assert all(actions.blind for *_, actions in ticks)
    assert all(actions.sink == landing for *_, actions in ticks[1:])
    sinks = run([{**state, "faults": LOST, "unseen_s": 0.3, "ticks": 5}], ticks[-1][2], now + 0.1)
    assert all(actions.sink for *_, actions in sinks)
    late = {**state, "faults": LOST, "unseen_s": LADDER.blind_s + 0.01, "ticks": 1}
    assert run([late], sinks[-1][2], now + 3.0)[-1][2].mode is Mode.OFF
    fallen = {**state, "faults": LOST, "unseen_s": 1.0, "fallen": True, "ticks": 1}
    assert run([fallen], sinks[-1][2], now + 1.0)[-1][2].mode is Mode.OFF


@pytest.mark.parametrize(
    ("sank", "height", "end"),
    [(False, 1.0, Mode.HOVER), (False, 0.3, Mode.HOVER), (True, 0.8, Mode.HOVER),
     (True, 0.3, Mode.BLIND)],
)  # fmt: skip
def test_seen_again_it_hovers_unless_it_is_nearly_down(sank, height, end):
    machine, now, air = flying()
    lost = {**air, **UNSEEN, "faults": LOST if sank else LOST - {Fault.MOCAP_LOST}, "ticks": 3}
    machine = run([lost], machine, now)[-1][2]
    back = {**air, "word": None, "height": height, "climb": -0.5, "ticks": 1}
    assert run([{**back, "seen_s": 0.02}], machine, now + 0.1)[-1][2].mode is Mode.BLIND
    assert run([{**back, "seen_s": 0.06}], machine, now + 0.1)[-1][2].mode is end


@pytest.mark.parametrize(
    ("height", "climb", "after_s"), [(1.2, 0.0, 0.0), (1.2, -0.5, 0.0), (0.4, -0.5, 1.0)]
)
def test_unseen_under_the_guard_the_motors_go_off(height, climb, after_s):
    """It beats our commands and flies by a guess; only a landing that is nearly over goes on."""
    machine, now, air = flying()
    state = {**air, **UNSEEN, "faults": LOST, "guarded": True, "last_height": height,
             "last_climb": climb}  # fmt: skip
    for seconds, mode in ((after_s - 0.05, Mode.LAND), (after_s + 0.05, Mode.OFF)):
        tick = {**state, "unseen_s": max(0.21, seconds), "ticks": 1}
        if after_s or mode is Mode.OFF:
            landing = machine._replace(mode=Mode.LAND, since=now)
            assert run([tick], landing, now + 0.1)[-1][2].mode is mode


def test_whom_we_do_not_reach_we_cannot_fly_blind():
    machine, now, air = flying()
    faults = frozenset({Fault.MOCAP_STALE, Fault.STATE_STALE})
    state = {**air, **UNSEEN, "faults": faults, "reachable": False, "ticks": 20}
    assert run([state], machine, now)[-1][2].mode is Mode.HOVER


def lost(machine, now, air, ticks=4, **changes):
    state = {**air, **UNSEEN, "faults": frozenset({Fault.MOCAP_STALE}), "unseen_s": 0.07}
    return run([{**state, "ticks": ticks, **changes}], machine, now)


def test_a_word_to_land_counts_while_it_is_flown_blind():
    machine, now, air = flying()
    ticks = lost(machine, now, air, word=Word.LAND)
    ticks = run([{**air, "word": None, "ticks": 60}], ticks[-1][2], ticks[-1][0].now + DT)
    assert ticks[-1][2].mode is Mode.LAND


def test_motion_capture_that_flickers_ends_on_the_ground():
    machine, now, air = flying()
    sank = False
    for _ in range(8):
        ticks = lost(machine, now, air)
        sank = sank or any(actions.sink for *_, actions in ticks)
        back = {**air, "word": None, "seen_s": 0.12, "ticks": 6}
        ticks += run([back], ticks[-1][2], ticks[-1][0].now + DT)
        machine, now = ticks[-1][2], ticks[-1][0].now + DT
    assert machine.blinds <= 2, "the second time it must be back for longer"
    for _ in range(6):  # and if it is, the next loss counts all the same
        ticks = lost(machine, now, air)
        sank = sank or any(actions.sink for *_, actions in ticks)
        ticks += run([{**air, "word": None, "seen_s": 0.4, "ticks": 9}], ticks[-1][2],
                     ticks[-1][0].now + DT)  # fmt: skip
        machine, now = ticks[-1][2], ticks[-1][0].now + DT
    assert sank, "after a few times nobody waits for it any more"
