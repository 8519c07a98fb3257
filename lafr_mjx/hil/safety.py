"""The safety state machine: a pure function of its state and of what is known at a tick.

    DISCONNECTED → PREFLIGHT → ARMED → TAKEOFF → HOVER → POLICY → HOVER → LAND → OFF

Each step up needs the operator's word. Commands are published in POLICY only. A fault leads down
the ladder by itself: slow clock, baseline controller, hover, land, off; the pilot's guard is the
last resort in the air. After a fault nothing goes up again until the operator asks.

The pilot obeys a stream of commands even after `force_hover` and `land`. So hover means: stop
publishing, wait out the pilot's time-out, then `force_hover`; only then `land`.
"""

from __future__ import annotations

import math
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from lafr_mjx.hil.faults import AIRBORNE_ONLY, Fault, Rung

if TYPE_CHECKING:
    from lafr_mjx.hil.profile import Ladder


class Mode(Enum):
    """Where the flight is."""

    DISCONNECTED = "disconnected"
    PREFLIGHT = "preflight"
    ARMED = "armed"
    TAKEOFF = "takeoff"
    HOVER = "hover"
    POLICY = "policy"
    LAND = "land"
    GUARD = "guard"
    OFF = "off"


class Word(Enum):
    """What the operator says."""

    ARM = "arm"
    TAKEOFF = "takeoff"
    POLICY = "policy"
    HOVER = "hover"
    LAND = "land"
    OFF = "off"
    RESET = "reset"  # after OFF: begin again with the preflight checks


IN_AIR = frozenset({Mode.TAKEOFF, Mode.HOVER, Mode.POLICY, Mode.LAND, Mode.GUARD})
SAFE = frozenset({Mode.DISCONNECTED, Mode.PREFLIGHT, Mode.HOVER, Mode.LAND, Mode.GUARD, Mode.OFF})
"""Modes in which nothing of ours flies the vehicle and no motor starts."""

_REPEAT_S = 0.5  # between two calls of the same kind, for calls may get lost
_LANDED_S = 0.5
OFF_CALLS = 3
"""How often `off` is called before it counts as heard."""


class Inputs(NamedTuple):
    """What is known at a tick."""

    now: float  # s, monotonic
    word: Word | None = None
    faults: frozenset[Fault] = frozenset()
    connected: bool = True  # all topics are there
    ready: bool = True  # all preflight checks are good
    pilot_armed: bool = False
    height: float | None = None  # m above where it stood at the start; None if not known
    speed: float = 0.0  # m/s; NaN if not known
    done: bool = False  # nothing more is to be flown


class Machine(NamedTuple):
    """State of the machine."""

    mode: Mode = Mode.DISCONNECTED
    since: float = -math.inf  # when the mode was entered
    rung: Rung = Rung.NONE  # in POLICY
    rung_since: float = math.inf  # when the baseline took over
    published: float = -math.inf  # when a command was last allowed out
    called: float = -math.inf  # when the mode's own call was last made
    calls: int = 0  # how often
    clear_since: float = math.inf  # since when there is no fault
    low_since: float = math.inf  # since when it stands on the ground
    latched: frozenset[Fault] = frozenset()  # why the operator must ask again
    landing: bool = False  # hover is only on the way down


class Actions(NamedTuple):
    """What must be done at this tick."""

    publish: bool = False
    slow: bool = False
    baseline: bool = False
    calls: tuple[str, ...] = ()  # enable, start, force_hover, land, off, disable, trigger_guard


def step(m: Machine, i: Inputs, ladder: Ladder) -> tuple[Machine, Actions]:
    """One tick."""
    faults = i.faults if m.mode in (Mode.HOVER, Mode.POLICY) else i.faults - AIRBORNE_ONLY
    serious = frozenset(f for f in faults if f.rung >= Rung.HOVER)
    if serious:
        m = m._replace(clear_since=math.inf)
    elif math.isinf(m.clear_since):
        m = m._replace(clear_since=i.now)
    worst = max((f.rung for f in faults), default=Rung.NONE)
    if m.mode in IN_AIR or m.mode is Mode.ARMED:
        m = m._replace(latched=m.latched | serious)
    m = _moved(m, i, worst, ladder)
    return _act(m, i, worst, ladder)


def _to(m: Machine, mode: Mode, now: float, landing: bool = False) -> Machine:
    if mode is m.mode:
        return m._replace(landing=m.landing or landing)
    latched = frozenset() if mode is Mode.PREFLIGHT else m.latched
    return m._replace(
        mode=mode, since=now, rung=Rung.NONE, rung_since=math.inf, called=-math.inf, calls=0,
        low_since=math.inf, latched=latched, landing=landing,
    )  # fmt: skip


def _moved(m: Machine, i: Inputs, worst: Rung, ladder: Ladder) -> Machine:
    """The mode of this tick."""
    if i.word is Word.OFF and m.mode not in (Mode.DISCONNECTED, Mode.PREFLIGHT):
        return _to(m, Mode.OFF, i.now)
    if worst >= Rung.GUARD and m.mode in (Mode.TAKEOFF, Mode.HOVER, Mode.POLICY):
        return _to(m, Mode.GUARD, i.now)
    return _MOVES[m.mode](m, i, worst, ladder)


def _from_disconnected(m: Machine, i: Inputs, worst: Rung, ladder: Ladder) -> Machine:
    return _to(m, Mode.PREFLIGHT, i.now) if i.connected else m


def _from_preflight(m: Machine, i: Inputs, worst: Rung, ladder: Ladder) -> Machine:
    if not i.connected:
        return _to(m, Mode.DISCONNECTED, i.now)
    if i.word is Word.ARM and i.ready and worst is Rung.NONE:
        return _to(m, Mode.ARMED, i.now)
    return m


def _from_armed(m: Machine, i: Inputs, worst: Rung, ladder: Ladder) -> Machine:
    # On the ground every fault means motors off.
    late = i.now - m.since > ladder.armed_s
    if worst >= Rung.HOVER or late or i.word is Word.LAND or not i.connected:
        return _to(m, Mode.OFF, i.now)
    if i.word is Word.TAKEOFF and i.pilot_armed and i.ready:
        return _to(m, Mode.TAKEOFF, i.now)
    return m


def _from_takeoff(m: Machine, i: Inputs, worst: Rung, ladder: Ladder) -> Machine:
    if worst >= Rung.HOVER or i.word is Word.LAND or i.now - m.since > ladder.takeoff_s:
        return _to(m, Mode.LAND, i.now)
    risen = i.height is not None and i.height > 0.8 * ladder.hover_height_m
    return _to(m, Mode.HOVER, i.now) if risen and i.speed < ladder.settled_mps else m


def _from_hover(m: Machine, i: Inputs, worst: Rung, ladder: Ladder) -> Machine:
    landing = m.landing or i.word is Word.LAND or worst >= Rung.LAND
    landing = landing or (worst >= Rung.HOVER and i.now - m.since > ladder.hover_s)
    m = m._replace(landing=landing)
    hovering = i.now - m.published > ladder.hover_wait_s  # the pilot has taken over
    if landing:
        return _to(m, Mode.LAND, i.now) if hovering and m.calls > 0 else m
    clear = i.now - m.clear_since >= ladder.stable_s
    asked = i.word is Word.POLICY and not i.done and i.ready
    if asked and clear and worst is Rung.NONE and hovering and i.speed < ladder.settled_mps:
        return _to(m._replace(latched=frozenset()), Mode.POLICY, i.now)
    return m


def _from_policy(m: Machine, i: Inputs, worst: Rung, ladder: Ladder) -> Machine:
    if worst >= Rung.HOVER or i.word in (Word.HOVER, Word.LAND) or i.done:
        landing = worst >= Rung.LAND or i.word is Word.LAND
        return _to(m, Mode.HOVER, i.now, landing)
    if worst is Rung.BASELINE and m.rung < Rung.BASELINE:
        m = m._replace(rung=Rung.BASELINE, rung_since=i.now)  # until the policy is asked for anew
    elif m.rung < Rung.BASELINE:
        m = m._replace(rung=worst)
    if i.now - m.rung_since > ladder.baseline_s:
        return _to(m, Mode.HOVER, i.now)
    return m


def _from_land(m: Machine, i: Inputs, worst: Rung, ladder: Ladder) -> Machine:
    low = i.height is not None and i.height < 0.15 and not i.speed >= 0.3
    if low or not i.pilot_armed:
        m = m._replace(low_since=min(m.low_since, i.now))
        if i.now - m.low_since >= _LANDED_S:
            return _to(m, Mode.OFF, i.now)
        return m
    m = m._replace(low_since=math.inf)
    # Without a known height the time must do; motors are never cut at a known height.
    blind = i.height is None and i.now - m.since > ladder.land_s
    return _to(m, Mode.OFF, i.now) if blind else m


def _from_guard(m: Machine, i: Inputs, worst: Rung, ladder: Ladder) -> Machine:
    return _to(m, Mode.LAND, i.now) if i.now - m.since > ladder.guard_s else m


def _from_off(m: Machine, i: Inputs, worst: Rung, ladder: Ladder) -> Machine:
    called = m.calls >= OFF_CALLS
    if i.word is Word.RESET and called and not i.pilot_armed and worst is Rung.NONE:
        return _to(m, Mode.PREFLIGHT if i.connected else Mode.DISCONNECTED, i.now)
    return m


_MOVES = {
    Mode.DISCONNECTED: _from_disconnected,
    Mode.PREFLIGHT: _from_preflight,
    Mode.ARMED: _from_armed,
    Mode.TAKEOFF: _from_takeoff,
    Mode.HOVER: _from_hover,
    Mode.POLICY: _from_policy,
    Mode.LAND: _from_land,
    Mode.GUARD: _from_guard,
    Mode.OFF: _from_off,
}


def _act(m: Machine, i: Inputs, worst: Rung, ladder: Ladder) -> tuple[Machine, Actions]:
    """What the mode asks for now; calls are repeated, for they may get lost."""
    if m.mode is Mode.POLICY:
        baseline = m.rung >= Rung.BASELINE
        actions = Actions(publish=True, slow=m.rung >= Rung.SLOW, baseline=baseline)
        return m._replace(published=i.now), actions
    due = i.now - m.called >= _REPEAT_S
    waited = i.now - m.published > ladder.hover_wait_s
    calls: tuple[str, ...] = ()
    if m.mode is Mode.ARMED and due and not i.pilot_armed:
        calls = ("enable",)
    elif m.mode is Mode.TAKEOFF and m.calls == 0:
        calls = ("start",)
    elif m.mode is Mode.HOVER and waited and m.calls == 0:
        # After take-off the pilot hovers by itself.
        if m.landing or not math.isinf(m.published):
            calls = ("force_hover",)
    elif m.mode is Mode.LAND and due and waited:
        calls = ("land",)
    elif m.mode is Mode.GUARD and due:
        calls = ("trigger_guard",)
    elif m.mode is Mode.OFF and due and (m.calls < OFF_CALLS or i.pilot_armed):
        calls = ("off", "disable")
    if calls:
        m = m._replace(called=i.now, calls=m.calls + 1)
    return m, Actions(calls=calls)
