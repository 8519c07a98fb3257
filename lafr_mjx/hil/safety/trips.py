"""Faults, how far down the ladder each leads, and the monitors that notice them.

The monitors are pure functions of what is read at a tick and of a small memory. Each threshold
is a key of the drone's profile. A value at its limit is still good; beyond it is a fault.
"""

from __future__ import annotations

import math
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lafr_mjx.types import CONTROL_DT

if TYPE_CHECKING:
    from lafr_mjx.arrays import Array
    from lafr_mjx.hil.safety.drone_profile import Profile
    from lafr_mjx.types import State


_APART_S = 0.05  # between the samples of motion capture and state that are compared


class Rung(IntEnum):
    """How far down the ladder; a lower rung is never skipped upwards by itself."""

    NONE = 0
    SLOW = 1  # the reference's clock slows down
    BASELINE = 2  # the geometric controller flies
    HOVER = 3  # stop publishing, the pilot hovers
    LAND = 4
    GUARD = 5  # the pilot's guard takes over at once; then land
    BLIND = 6  # nobody sees the vehicle: the pilot's hover and guard are worthless, too


class Fault(Enum):
    """What is wrong, and the rung that it leads to."""

    TRACKING_SLOW = ("tracking error above its first limit", Rung.SLOW)
    NOT_FINITE = ("the policy gave a number that is not finite", Rung.BASELINE)
    CLAMPED = ("the policy asked repeatedly for more than may be sent", Rung.BASELINE)
    DEADLINE = ("a control tick was late", Rung.BASELINE)
    TRACKING = ("tracking error above its second limit", Rung.BASELINE)
    DEADLINES = ("control ticks were late in a row", Rung.HOVER)
    TRACKING_LOST = ("tracking error above its last limit", Rung.HOVER)
    STATE_STALE = ("the state is too old", Rung.HOVER)
    MOCAP_STALE = ("motion capture is too old", Rung.BLIND)
    MOCAP_JUMP = ("motion capture jumped", Rung.HOVER)
    MOCAP_FROZEN = ("motion capture repeats itself", Rung.BLIND)
    DISAGREE = ("state and motion capture disagree", Rung.HOVER)
    CLOCK = ("the vehicle's clock jumped", Rung.HOVER)
    FENCE = ("the vehicle could not stop within the fence", Rung.HOVER)
    SPEED = ("too fast", Rung.HOVER)
    RATES = ("turning too fast", Rung.HOVER)
    ALTITUDE = ("too low or too high", Rung.HOVER)
    LINK = ("the pilot is not connected or silent", Rung.HOVER)
    MASTER = ("the ROS master, or the heartbeat, has gone", Rung.HOVER)
    INTRUDER = ("somebody else gives commands", Rung.HOVER)
    LEARNER = ("the learner is silent", Rung.HOVER)
    CONSOLE = ("the operator's console has gone", Rung.LAND)
    VOLTAGE = ("the battery is low", Rung.LAND)
    BATTERY = ("nothing is heard of the battery", Rung.LAND)
    MOCAP_LOST = ("motion capture is gone", Rung.BLIND)
    OUTSIDE = ("the vehicle is outside of the fence", Rung.GUARD)
    TILT = ("tilted too far for too long", Rung.GUARD)
    INVERTED = ("upside down", Rung.GUARD)
    STOP = ("emergency stop", Rung.GUARD)
    GUARDED = ("the pilot's guard has triggered", Rung.GUARD)

    def __init__(self, text: str, rung: Rung) -> None:
        self.text = text
        self.rung = rung


AIRBORNE_ONLY = frozenset(
    {Fault.FENCE, Fault.OUTSIDE, Fault.ALTITUDE, Fault.TRACKING, Fault.TRACKING_SLOW,
     Fault.TRACKING_LOST}
)  # fmt: skip
"""Faults that mean nothing on the ground, at take-off and while landing."""


class Readings(NamedTuple):
    """What is known at a tick. Ages are of the monotonic clock, infinite if nothing came yet."""

    now: float  # s, monotonic
    state: State | None  # newest good state
    state_age: float  # s
    mocap_number: int  # counts messages
    mocap_age: float  # s
    mocap_receipt: float  # s, monotonic
    mocap_position: np.ndarray | None  # [3] m
    telemetry_age: float  # s
    subscribed: bool  # whether the pilot takes our commands
    master_age: float  # s
    clock_skew: float  # s, how much the vehicle's clock has moved against ours
    intruder: bool
    voltage: float  # V; NaN if unknown
    battery_age: float  # s
    guard: bool  # the pilot says that its guard has triggered
    reference: np.ndarray | None  # [3] m, what was asked; None if nothing is tracked
    late: int  # control periods by which the last tick was late
    not_finite: bool  # of the last command
    clamped: bool  # of the last command
    learner_age: float  # s
    console: bool  # the operator's console is there
    stop: bool  # somebody pressed the emergency stop


class Watch(NamedTuple):
    """Memory of the monitors."""

    tilt_since: float = math.inf
    inverted_since: float = math.inf
    mocap_number: int = -1
    mocap_receipt: float = -math.inf
    mocap_position: tuple[float, ...] | None = None
    same_since: float = math.inf  # since when the position repeats itself, bit by bit
    jumped: bool = False
    clamped: int = 0  # ticks in a row

    @property
    def mocap_changed(self) -> float:
        """When motion capture last showed something new.

        The first pose that repeats itself may have come up to a tick before we looked.
        """
        return min(self.same_since - CONTROL_DT, self.mocap_receipt)


def watch(memory: Watch, r: Readings, profile: Profile) -> tuple[Watch, frozenset[Fault]]:
    """One look: new memory, and what is wrong now.

    All of it is plain numbers: on vectors of three, arrays would take five times as long.
    """
    limits = profile.limits
    memory = _follow_mocap(memory, r, profile)
    clamped = memory.clamped + 1 if r.clamped else 0
    if clamped != memory.clamped:
        memory = memory._replace(clamped=clamped)
    frozen = r.now - memory.same_since
    # Written so that a NaN is a fault.
    found = {
        fault
        for bad, fault in (
            (not r.state_age <= limits.state_age_s, Fault.STATE_STALE),
            (not r.mocap_age <= limits.mocap_stale_s, Fault.MOCAP_STALE),
            (memory.jumped, Fault.MOCAP_JUMP),
            (frozen > limits.mocap_frozen_s, Fault.MOCAP_FROZEN),
            (
                not r.mocap_age <= limits.mocap_lost_s or frozen > limits.mocap_lost_s,
                Fault.MOCAP_LOST,
            ),
            (not abs(r.clock_skew) <= limits.clock_skew_s, Fault.CLOCK),
            (not (r.subscribed and r.telemetry_age <= limits.link_s), Fault.LINK),
            (not r.master_age <= limits.master_s, Fault.MASTER),
            (r.intruder, Fault.INTRUDER),
            (r.voltage < limits.voltage_land_v, Fault.VOLTAGE),
            (not r.battery_age <= limits.battery_s, Fault.BATTERY),
            (r.guard, Fault.GUARDED),
            (r.late >= 1, Fault.DEADLINE),
            (r.late >= limits.deadline_misses, Fault.DEADLINES),
            (r.not_finite, Fault.NOT_FINITE),
            (clamped > profile.command.repeats, Fault.CLAMPED),
            (not r.learner_age <= limits.learner_s, Fault.LEARNER),
            (not r.console, Fault.CONSOLE),
            (r.stop, Fault.STOP),
        )
        if bad
    }
    if r.state is not None:
        memory = _check_motion(memory, r, r.state, profile, found)
    return memory, frozenset(found)


def _follow_mocap(memory: Watch, r: Readings, profile: Profile) -> Watch:
    if r.mocap_position is None or r.mocap_number == memory.mocap_number:
        return memory
    position = tuple(r.mocap_position.tolist())
    last = memory.mocap_position
    if last is None:
        jumped, same_since = False, math.inf
    else:
        elapsed = max(0.0, r.mocap_receipt - memory.mocap_receipt)
        reach = profile.limits.mocap_jump_m + profile.limits.speed_mps * elapsed
        jumped = not math.dist(position, last) <= reach
        same_since = math.inf
        if position == last:
            same_since = min(memory.same_since, memory.mocap_receipt)
    return memory._replace(
        mocap_number=r.mocap_number,
        mocap_receipt=max(r.mocap_receipt, memory.mocap_receipt),  # its clock may be set back
        mocap_position=position,
        same_since=same_since,
        jumped=jumped,
    )


def _check_motion(
    memory: Watch, r: Readings, state: State, profile: Profile, found: set[Fault]
) -> Watch:
    limits, fence = profile.limits, profile.fence
    position, velocity = _numbers(state.position), _numbers(state.velocity)
    upright = float(state.rotation[2, 2])
    tilted = not upright >= limits.upright
    inverted = not upright >= 0.0
    if tilted or memory.tilt_since < math.inf or memory.inverted_since < math.inf:
        memory = memory._replace(
            tilt_since=min(memory.tilt_since, r.now) if tilted else math.inf,
            inverted_since=min(memory.inverted_since, r.now) if inverted else math.inf,
        )
    # At the tick at which the time is over, not at the one after it.
    if r.now - memory.tilt_since > limits.tilt_s - 0.5 * CONTROL_DT:
        found.add(Fault.TILT)
    if r.now - memory.inverted_since > limits.inverted_s - 0.5 * CONTROL_DT:
        found.add(Fault.INVERTED)
    speed = math.hypot(*velocity)
    if not speed <= limits.speed_mps:
        found.add(Fault.SPEED)
    if not all(abs(rate) <= limits.rates_radps for rate in _numbers(state.rates)):
        found.add(Fault.RATES)
    if not limits.altitude_min_m <= position[2] <= limits.altitude_max_m:
        found.add(Fault.ALTITUDE)
    if r.mocap_position is not None and r.mocap_age <= limits.mocap_stale_s:
        # Frames swapped, or a state that repeats itself with fresh stamps. The two were sampled
        # at moments a little apart.
        apart = math.dist(position, _numbers(r.mocap_position))
        if not apart <= limits.mocap_jump_m + _APART_S * speed:
            found.add(Fault.DISAGREE)
    if not fence.excess(position, velocity) <= 0.0:
        found.add(Fault.FENCE)
    if not fence.holds(position):
        found.add(Fault.OUTSIDE)
    if r.reference is not None:
        error = math.dist(position, _numbers(r.reference))
        if not error <= limits.tracking_slow_m:
            found.add(Fault.TRACKING_SLOW)
        if not error <= limits.tracking_baseline_m:
            found.add(Fault.TRACKING)
        if not error <= limits.tracking_hover_m:
            found.add(Fault.TRACKING_LOST)
    return memory


def _numbers(vector: Array) -> list[float]:
    return np.asarray(vector, float).tolist()
