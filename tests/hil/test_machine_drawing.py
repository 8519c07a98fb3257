"""The drawing of the safety state machine, and its table, are what the code does."""

import math
import random

import machine_drawing
from safety_rig import run

from lafr_mjx.hil.safety.modes import Mode, Word
from lafr_mjx.hil.safety.state_machine import OFF_CALLS, Machine
from lafr_mjx.hil.safety.trips import Fault


def test_drawing_and_table_of_the_docs_are_those_of_the_code():
    made = machine_drawing.transitions()
    page = machine_drawing.PAGE.read_text(encoding="utf-8")
    what = "not those of the code: run `python tests/hil/machine_drawing.py`"
    drawn = machine_drawing.DRAWING.read_text(encoding="utf-8")
    assert drawn == machine_drawing.drawing(made), what
    assert machine_drawing.page_with(page, machine_drawing.table(made)) == page, what
    assert {mode for way in made for mode in way} == set(Mode)
    found = _seen_at_random()
    assert found - set(made) == set(), "ways that are not drawn"
    assert set(made) - found == set(), "ways that nothing at random has taken"


def _seen_at_random():
    """All changes of mode when anything comes after anything, from each mode."""
    draw, seen = random.Random(20), set()
    for mode in Mode:
        for _ in range(150):
            begin = Machine(mode=mode, since=100.0, clear_since=0.0, published=0.0,
                            calls=draw.choice([0, OFF_CALLS]))  # fmt: skip
            for _, before, after, _ in run([_anything(draw) for _ in range(8)], begin):
                if after.mode is not before.mode:
                    seen.add((before.mode, after.mode))
    return seen


def _anything(draw):
    height = draw.choice([None, 0.0, 0.5, 1.2])
    return {
        "word": draw.choice([None, None, *Word]),
        "faults": frozenset(draw.sample(list(Fault), draw.choice([0, 0, 0, 1, 2]))),
        "connected": draw.random() < 0.9,
        "ready": draw.random() < 0.9,
        "pilot_armed": draw.random() < 0.8,
        "height": height,
        "last_height": draw.choice([0.0, 1.2]) if height is None else height,
        "climb": draw.choice([0.0, -0.5, 0.4, math.nan]),
        "last_climb": draw.choice([0.0, -0.5]),
        "speed": draw.choice([0.0, 0.1, 3.0]),
        "guarded": draw.random() < 0.1,
        "guardable": draw.random() < 0.8,
        "reachable": draw.random() < 0.8,
        "seen_s": draw.choice([0.0, 1.0]),
        "unseen_s": draw.choice([0.0, 0.3, 4.0]),
        "fallen": draw.random() < 0.1,
        "references": draw.choice([0, 1]),
        "resting": draw.random() < 0.5,
        "ticks": draw.choice([1, 1, 5, 60]),
    }
