# pyright: reportOptionalMemberAccess=false, reportArgumentType=false
"""Ticks of the safety state machine, one after the other."""

from lafr_mjx.hil.safety.drone_profile import load_profile
from lafr_mjx.hil.safety.modes import Mode, Word
from lafr_mjx.hil.safety.state_machine import Inputs, Machine, step

PROFILE = load_profile("sim")
LADDER = PROFILE.ladder
DT = 0.02


def run(events, machine=None, now=100.0, pilot=PROFILE.pilot):
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
            machine, actions = step(machine, inputs, LADDER, pilot)
            ticks.append((inputs, before, machine, actions))
            now += DT
    return ticks


def flying(now=100.0):
    """A machine in POLICY, brought there by the operator's words."""
    good = {"faults": frozenset(), "connected": True, "ready": True}
    ground = {**good, "pilot_armed": True, "height": 0.0, "speed": 0.0, "climb": 0.0}
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
