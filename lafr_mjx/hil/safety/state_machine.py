"""The safety state machine: a pure function of its state and of what is known at a tick.

    DISCONNECTED → PREFLIGHT → ARMED → TAKEOFF → HOVER → POLICY → HOVER → LAND → OFF
                                                   └── BLIND, GUARD ──┘

Each step up needs the operator's word. Commands are published in POLICY and BLIND only. A fault
leads down the ladder by itself: slow clock, baseline controller, hover, land, off; the pilot's
guard is the last resort in the air. After a fault nothing goes up again until the operator asks.

The pilot obeys a stream of commands even after calls to hover and to land. So hover means: stop
publishing, wait out the pilot's time-out, then call; only then land, by the rule of `landing.py`.
The guard is called only where it is not lost by it.

Where the pilot's own hover, guard and landing are a guess without motion capture, BLIND brakes and
then sinks by commands of ours; elsewhere it hovers and lands. Under a guard that has triggered no
command is heard: then the motors are switched off.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from lafr_mjx.hil.drones.drone_protocol import Call
from lafr_mjx.hil.safety.landing import LANDED_S, LOW_M, STILL_MPS, Landing, stands
from lafr_mjx.hil.safety.modes import IN_AIR, Mode, Word
from lafr_mjx.hil.safety.trips import AIRBORNE_ONLY, Fault, Rung

if TYPE_CHECKING:
    from lafr_mjx.hil.drones.drone_protocol import Pilot
    from lafr_mjx.hil.safety.drone_profile import Ladder

_REPEAT_S = 0.5  # between two calls of the same kind, for calls may get lost
_AGAIN_S = 1.2  # a vehicle that does not sink is told to land again
_BACK_S = 0.05  # motion capture that is there for so long is back ...
_BACK_AGAIN_S = 0.3  # ... for so long, when it was lost before
_FLICKERS = 3  # times that it was lost, after which nobody waits for it any more
_HIGH_M = 0.7  # above this a blind descent ends in a hover when motion capture is back
_LOW_BLIND_M = 0.6  # from here a landing that has begun ends by itself
_LAND_MPS = 0.4  # at least so fast it does
_HOVERED_S = 0.1  # from a call to hover to one to land, which may take different ways
_HOPS_S = 3.0  # so long near the ground, whatever it does there
_OBSTACLE_M = 0.3  # a vehicle that stands may be so much higher than where it stood before
OFF_CALLS = 3
"""How often OFF is called before it counts as heard."""


class Inputs(NamedTuple):
    """What is known at a tick."""

    now: float  # s, monotonic
    word: Word | None = None
    faults: frozenset[Fault] = frozenset()
    connected: bool = True  # all topics are there
    ready: bool = True  # all preflight checks are good
    pilot_armed: bool = False  # the bridge to the motors, or the pilot is not heard
    height: float | None = None  # m above where it stood at the start; None if not seen now
    last_height: float = math.nan  # m, when it was last seen
    climb: float = math.nan  # m/s by motion capture; NaN if not known
    last_climb: float = math.nan  # m/s, when it was last seen
    speed: float = 0.0  # m/s; NaN if not known
    guarded: bool = False  # the pilot's guard has triggered
    guardable: bool = True  # a call of the guard would work here
    reachable: bool = True  # it can and must be flown blind: the pilot hears us
    seen_s: float = math.inf  # s, for how long motion capture has been there; 0: it is not
    unseen_s: float = 0.0  # s, for how long it has not
    fallen: bool = False  # a blind descent must have reached the ground
    references: int = 1  # that the pilot holds
    resting: bool = True  # what is flown has come to rest


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
    near_since: float = math.inf  # since when it is as low as that, still or not
    higher_since: float = math.inf  # since when it may stand on an obstacle
    blinds: int = 0  # how often it was flown blind since the policy had it
    latched: frozenset[Fault] = frozenset()  # why the operator must ask again
    landing: bool = False  # hover is only on the way down
    leaving: float = math.inf  # since when the policy brings the vehicle to rest
    sinking: bool = False  # a blind descent has begun to sink
    was_armed: bool = False  # in ARMED: the pilot has been
    lands: Landing = Landing()  # the calls of this landing


class Actions(NamedTuple):
    """What must be done at this tick."""

    publish: bool = False
    slow: bool = False
    baseline: bool = False
    rest: bool = False  # come to rest
    blind: bool = False  # fly by dead reckoning
    sink: bool = False  # ... to the ground
    calls: tuple[Call, ...] = ()


def step(m: Machine, i: Inputs, ladder: Ladder, pilot: Pilot) -> tuple[Machine, Actions]:
    """One tick."""
    faults = that_count(i.faults, m)
    serious = frozenset(f for f in faults if f.rung >= Rung.HOVER)
    if serious:
        m = m._replace(clear_since=math.inf)
    elif math.isinf(m.clear_since):
        m = m._replace(clear_since=i.now)
    worst = max((_rung(f, i) for f in faults), default=Rung.NONE)
    if m.mode in IN_AIR or m.mode is Mode.ARMED:
        m = m._replace(latched=m.latched | serious)
    m = _moved(m, i, worst, ladder)
    return _act(m, i, ladder, pilot)


def that_count(faults: frozenset[Fault], m: Machine) -> frozenset[Fault]:
    """Faults that mean something in this mode."""
    if m.mode in (Mode.LAND, Mode.OFF):
        faults -= {Fault.GUARDED}  # at the floor of its box the guard stops every landing
    flying = m.mode is Mode.POLICY or (m.mode is Mode.HOVER and not m.landing)
    return faults if flying else faults - AIRBORNE_ONLY


def refusal(m: Machine, i: Inputs, ladder: Ladder) -> str:
    """Why a word to go on does not count now; empty if nothing stands against it."""
    faults = that_count(i.faults, m)
    reasons = sorted(fault.text for fault in faults)
    before = {Word.ARM: Mode.PREFLIGHT, Word.TAKEOFF: Mode.ARMED, Word.POLICY: Mode.HOVER,
              Word.RESET: Mode.OFF}  # fmt: skip
    if i.word in before and m.mode is not before[i.word]:
        return f"the mode is {m.mode.value}"
    if i.word is Word.ARM and not i.connected:
        reasons.append("not all topics are there")
    if i.word is Word.TAKEOFF and not i.pilot_armed:
        reasons.append("the pilot is not armed")
    if i.word is Word.RESET and i.pilot_armed:
        reasons.append("the motors are not known to be off")
    if i.word is Word.POLICY:
        if m.landing:
            reasons.append("it lands")
        if not i.now - m.clear_since >= ladder.stable_s:
            reasons.append(f"not {ladder.stable_s:g} s without a fault yet")
        if not i.speed < ladder.settled_mps:
            reasons.append(f"it moves at {i.speed:.2f} m/s, not below {ladder.settled_mps:g}")
    return "; ".join(reasons)


def _rung(fault: Fault, i: Inputs) -> Rung:
    """Where a fault leads. Whom we do not reach, or need not, we do not fly blind: it hovers."""
    return Rung.HOVER if fault.rung is Rung.BLIND and not i.reachable else fault.rung


def _to(m: Machine, mode: Mode, now: float, landing: bool = False) -> Machine:
    if mode is m.mode:
        return m._replace(landing=m.landing or landing)
    latched = frozenset() if mode is Mode.PREFLIGHT else m.latched
    if mode is Mode.PREFLIGHT:
        m = m._replace(published=-math.inf)
    blinds = 0 if mode in (Mode.PREFLIGHT, Mode.POLICY) else m.blinds + (mode is Mode.BLIND)
    return m._replace(
        mode=mode, since=now, rung=Rung.NONE, rung_since=math.inf, called=-math.inf, calls=0,
        low_since=math.inf, near_since=math.inf, higher_since=math.inf, latched=latched,
        landing=landing, leaving=math.inf, sinking=False, was_armed=False, lands=Landing(),
        blinds=blinds,
    )  # fmt: skip


def _moved(m: Machine, i: Inputs, worst: Rung, ladder: Ladder) -> Machine:
    """The mode of this tick."""
    if i.word is Word.OFF and m.mode not in (Mode.DISCONNECTED, Mode.PREFLIGHT):
        return _to(m, Mode.OFF, i.now)
    if m.mode in IN_AIR and not i.pilot_armed:
        return _to(m, Mode.OFF, i.now)  # somebody has switched the motors off
    if m.mode in IN_AIR and m.mode is not Mode.BLIND and worst is Rung.BLIND:
        if i.last_height < LOW_M:
            return _to(m, Mode.OFF, i.now)  # it stands, or nearly so
        if not i.guarded:
            landing = m.landing or m.mode in (Mode.LAND, Mode.GUARD) or i.word is Word.LAND
            return _to(m, Mode.BLIND, i.now, landing)
        if _hopeless(i):
            return _to(m, Mode.OFF, i.now)
    elif worst >= Rung.GUARD and m.mode in (Mode.TAKEOFF, Mode.HOVER, Mode.POLICY):
        if i.guarded or i.guardable:
            return _to(m, Mode.GUARD, i.now)
        if m.mode is not Mode.HOVER:
            return _on_the_way_down(m, i)
    return _MOVES[m.mode](m, i, worst, ladder)


def _hopeless(i: Inputs) -> bool:
    """Whether a vehicle under the guard that nobody sees must be switched off.

    The guard beats our commands and flies on a guess. Only a landing that was nearly over may
    come to its end.
    """
    landing = i.last_height < _LOW_BLIND_M and i.last_climb < -0.1
    left = max(i.last_height, 0.0) / _LAND_MPS if landing else 0.0
    return Fault.MOCAP_LOST in i.faults and i.unseen_s >= left


def _on_the_way_down(m: Machine, i: Inputs) -> Machine:
    """Hover, then land; one that has not left the ground is switched off."""
    if m.mode is Mode.TAKEOFF and i.references == 0 and i.last_height < LOW_M:
        return _to(m, Mode.OFF, i.now)
    return _to(m, Mode.HOVER, i.now, landing=True)


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
    cut = m.was_armed and not i.pilot_armed  # by somebody else, who must have the last word
    m = m._replace(was_armed=m.was_armed or i.pilot_armed)
    if worst >= Rung.HOVER or late or cut or i.word is Word.LAND or not i.connected:
        return _to(m, Mode.OFF, i.now)
    if i.word is Word.TAKEOFF and i.pilot_armed and i.ready:
        return _to(m, Mode.TAKEOFF, i.now)
    return m


def _from_takeoff(m: Machine, i: Inputs, worst: Rung, ladder: Ladder) -> Machine:
    if worst >= Rung.HOVER or i.word is Word.LAND or i.now - m.since > ladder.takeoff_s:
        return _on_the_way_down(m, i)
    # A hover without integral action hangs lower, the more so with a payload.
    risen = i.height is not None and i.height > 0.5 * ladder.hover_height_m
    return _to(m, Mode.HOVER, i.now) if risen and i.speed < ladder.settled_mps else m


def _from_hover(m: Machine, i: Inputs, worst: Rung, ladder: Ladder) -> Machine:
    landing = m.landing or i.word is Word.LAND or worst >= Rung.LAND
    landing = landing or (worst >= Rung.HOVER and i.now - m.since > ladder.hover_s)
    m = m._replace(landing=landing)
    hovering = i.now - m.published > ladder.hover_wait_s  # the pilot has taken over
    if landing:
        hovering = hovering and m.calls > 0 and i.now - m.called >= _HOVERED_S
        return _to(m, Mode.LAND, i.now) if hovering else m
    clear = i.now - m.clear_since >= ladder.stable_s
    asked = i.word is Word.POLICY and i.ready
    if asked and clear and worst is Rung.NONE and hovering and i.speed < ladder.settled_mps:
        return _to(m._replace(latched=frozenset()), Mode.POLICY, i.now)
    return m


def _from_policy(m: Machine, i: Inputs, worst: Rung, ladder: Ladder) -> Machine:
    if worst >= Rung.HOVER or i.word is Word.HOVER:
        return _to(m, Mode.HOVER, i.now, m.landing or worst >= Rung.LAND or i.word is Word.LAND)
    if i.word is Word.LAND:  # first to rest along the path: the pilot brakes harder than that
        m = m._replace(landing=True, leaving=min(m.leaving, i.now))
    if i.now > m.leaving and (i.resting or i.now - m.leaving > ladder.rest_s):
        return _to(m, Mode.HOVER, i.now, m.landing)
    if worst is Rung.BASELINE and m.rung < Rung.BASELINE:
        m = m._replace(rung=Rung.BASELINE, rung_since=i.now)  # until the policy is asked for anew
    elif m.rung < Rung.BASELINE:
        m = m._replace(rung=worst)
    if i.now - m.rung_since > ladder.baseline_s:
        return _to(m, Mode.HOVER, i.now, m.landing)
    return m


def _from_blind(m: Machine, i: Inputs, worst: Rung, ladder: Ladder) -> Machine:
    if i.guarded:
        return _to(m, Mode.LAND, i.now)  # it beats our commands
    m = m._replace(landing=m.landing or i.word is Word.LAND)
    back = i.seen_s >= (_BACK_S if m.blinds <= 1 else _BACK_AGAIN_S) and i.height is not None
    if back and (not m.sinking or (i.height or 0.0) > _HIGH_M):
        return _to(m, Mode.HOVER, i.now, m.landing)
    sinking = m.sinking or Fault.MOCAP_LOST in i.faults or m.landing or m.blinds > _FLICKERS
    m = m._replace(sinking=sinking)
    m, landed = _landed(m, i)
    late = i.unseen_s > ladder.blind_s or i.now - m.since > 2.0 * ladder.blind_s
    return _to(m, Mode.OFF, i.now) if landed or late or (i.fallen and not back) else m


def _from_land(m: Machine, i: Inputs, worst: Rung, ladder: Ladder) -> Machine:
    m, landed = _landed(m, i)
    # Without a known height the time must do; motors are never cut at a known height ...
    over = i.height is None and i.now - m.since > ladder.land_s
    # ... but after an emergency stop, where the vehicle cannot be brought to sink.
    stopped = Fault.STOP in m.latched and i.now - m.since > 2.0 * ladder.land_s
    return _to(m, Mode.OFF, i.now) if landed or over or stopped else m


def _landed(m: Machine, i: Inputs) -> tuple[Machine, bool]:
    """Whether it has been low and still for a while, or hops near the ground, or stands higher."""
    height = math.inf if i.height is None else i.height
    still = stands(i.height, i.climb)
    stays = height < _OBSTACLE_M and abs(i.climb) < STILL_MPS
    m = m._replace(
        low_since=min(m.low_since, i.now) if still else math.inf,
        near_since=min(m.near_since, i.now) if height < LOW_M else math.inf,
        higher_since=min(m.higher_since, i.now) if stays else math.inf,
    )
    # Some pilots are called all the time: the calls after those that were in vain do not count.
    higher = i.now - m.lands.vain >= _AGAIN_S and i.now - m.higher_since >= LANDED_S
    landed = i.now - m.low_since >= LANDED_S or i.now - m.near_since >= _HOPS_S
    return m, landed or higher


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
    Mode.BLIND: _from_blind,
    Mode.LAND: _from_land,
    Mode.GUARD: _from_guard,
    Mode.OFF: _from_off,
}


def _act(m: Machine, i: Inputs, ladder: Ladder, pilot: Pilot) -> tuple[Machine, Actions]:
    """What the mode asks for now; calls are repeated where that does no harm: they may get lost."""
    if m.mode is Mode.POLICY:
        leaving = not math.isinf(m.leaving)
        actions = Actions(
            publish=True, slow=m.rung >= Rung.SLOW, baseline=m.rung >= Rung.BASELINE, rest=leaving
        )
        return m._replace(published=i.now), actions
    if m.mode is Mode.BLIND:
        return m._replace(published=i.now), Actions(publish=True, blind=True, sink=m.sinking)
    due = i.now - m.called >= _REPEAT_S
    waited = i.now - m.published > ladder.hover_wait_s
    call: Call | None = None
    if m.mode is Mode.ARMED and due and not i.pilot_armed:
        call = Call.ARM
    elif m.mode is Mode.TAKEOFF and m.calls == 0:
        call = Call.TAKE_OFF
    elif m.mode is Mode.HOVER and waited and m.calls == 0:
        # After take-off the pilot hovers by itself.
        if m.landing or not math.isinf(m.published):
            call = Call.HOVER
    elif m.mode is Mode.LAND and (waited or i.guarded):
        again = m.lands.due(pilot, i.now, i.climb, i.guarded, _AGAIN_S)
        if again and not math.isfinite(m.low_since):
            call = Call.LAND
            m = m._replace(lands=m.lands.call(i.now, i.guarded))
    elif m.mode is Mode.GUARD and due and not i.guarded and i.guardable:
        call = Call.GUARD
    elif m.mode is Mode.OFF and due and (m.calls < OFF_CALLS or i.pilot_armed or i.references):
        call = Call.OFF
    if call is not None:
        m = m._replace(called=i.now, calls=m.calls + 1)
    return m, Actions(calls=() if call is None else (call,))
