"""What is flown while the policy has the vehicle: legs, the way to their start, and holding.

    hold → transfer (to the leg's start) → hold → track (recorded) → lap or brake → hold

It has no clock of its own: each tick is told the time and the newest state. All NumPy.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lafr_mjx.arrays import clip
from lafr_mjx.control.geometric import geometric_controller
from lafr_mjx.control.observation import HISTORY, PREVIEW_S, SIZE, observe_one
from lafr_mjx.control.policy import act
from lafr_mjx.hil.control.fallback import Trouble
from lafr_mjx.reference import clock as clocks
from lafr_mjx.reference.path import derivatives, lap_s
from lafr_mjx.reference.plain_reference import PlainPath, plain_path, references_at
from lafr_mjx.reference.splines import from_waypoints
from lafr_mjx.types import COMMAND_HOVER, CONTROL_DT, GRAVITY, Reference, Sensed

if TYPE_CHECKING:
    from lafr_mjx.control.policy import Policy
    from lafr_mjx.hil.control.legs import Leg
    from lafr_mjx.hil.safety.drone_profile import Profile
    from lafr_mjx.reference.path import Path
    from lafr_mjx.types import State

SLOW_DOWN = 1.6
"""Factor on the time scale on the ladder's first rung."""

_STANDSTILL = 50.0  # time scale of a clock that brakes
_AT_REST_MPS = 0.05
_NEAR_M = 0.15
_SETTLED_S = 0.4
_TRANSFER_MPS = 1.8
_MOST_TICKS = 6000
_EARLY_S = 0.003  # a tick so near to its expected moment takes what was prepared for it
_SAME_SAMPLE_S = 0.001


class Wanted(NamedTuple):
    """What one tick asks for, before clipping."""

    command: np.ndarray  # [4]
    position: np.ndarray  # [3] m, the reference of this moment
    controller: str  # policy, fallback (the last good policy) or baseline
    leg: int  # number of the leg that is recorded, else -1
    leg_time: float  # s
    not_finite: bool  # the policy's own command could not be used


class Asked(NamedTuple):
    """The reference of a tick, with its clock."""

    reference: Reference
    phase: float
    phase_rate: float
    time_scale: float


class _Prepared(NamedTuple):
    """What was computed ahead for the next tick."""

    now: float  # s, moment that it is for
    stamp: float  # s, of the sample that is expected
    slow: bool
    clock: clocks.Clock
    seen: Reference  # at the previews, relative to the stamp
    asked: Reference  # at the moment itself


class _Coming(NamedTuple):
    """A leg that has been offered, with what its start needs: computed when it is offered."""

    leg: Leg
    start: np.ndarray  # [3] m
    plain: PlainPath
    rng: np.random.Generator  # of its dither


class _Way(NamedTuple):
    """From where the vehicle holds to where the coming leg starts."""

    origin: np.ndarray  # [3] m
    start: np.ndarray  # [3] m
    path: Path
    plain: PlainPath


class Flyer:
    """Flies legs one after the other.

    References are computed ahead, between two ticks: they take longer than all the rest, and the
    next sample's stamp is known to a fraction of a millisecond. A tick that finds itself or its
    sample elsewhere computes them anew.
    """

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.stage = "hold"
        self.leg: Leg | None = None
        self._coming: _Coming | None = None
        self._way: _Way | None = None
        self._to_rest = False  # lap no further
        self._broken: int | None = None  # leg that was broken off on the way to rest
        self.finished: list[int] = []  # legs that were flown to their end
        self.observations = np.zeros((0, SIZE))  # of the last leg that was flown with a policy
        self._baseline = geometric_controller(profile.command.limits)
        self._path: Path | None = None
        self._plain: PlainPath | None = None  # the same, for the references of a tick
        self._clock = clocks.plain(clocks.start(1.0))
        self._hold = np.zeros(3)
        self._memory = self._baseline.start()
        self._history = np.tile(COMMAND_HOVER, (HISTORY, 1))
        self._rng = np.random.default_rng(0)
        self._seen = np.zeros((_MOST_TICKS, SIZE), np.float32)
        self._count = 0
        self._now = -np.inf
        self._settled = -np.inf
        self._started = 0.0
        self._slow = False
        self._stamp = -np.inf
        self._trouble = Trouble()
        self._asked = Reference(*(field[0] for field in _still(self._hold, 1)))
        self._prepared: _Prepared | None = None

    def begin(self, now: float, position: np.ndarray, trim: np.ndarray = np.zeros(3)) -> None:
        """Take the vehicle over from the pilot's hover.

        Args:
            now: s.
            position: where it hovers [m].
            trim: acceleration that holding there needs beside gravity's: the baseline need not
                find it out by sagging first [m/s²].
        """
        self.stage, self._hold = "hold", np.array(position, float)
        self._memory = np.asarray(trim) / np.asarray(self._baseline.integral_gain)
        self._history = np.tile(COMMAND_HOVER, (HISTORY, 1))
        self._now, self._settled = now, now

    def offer(self, leg: Leg) -> None:
        """The next leg; replaces one that has not begun."""
        start = np.asarray(derivatives(leg.path, 0.0))[0, :3]
        rng = np.random.default_rng(leg.seed)
        self._coming = _Coming(leg, start, plain_path(leg.path), rng)
        self._to_rest = False

    def rest(self) -> None:
        """Come to rest after the leg that is being flown, and hold there."""
        self._to_rest = True

    def brake(self) -> None:
        """Come to rest now, along the path; a leg that is being flown is broken off."""
        self._to_rest, self._coming = True, None
        if self.stage in ("track", "lap"):
            if self.leg is not None and self.stage == "track":
                self._broken = self.leg.number
            self.stage, self._prepared = "brake", None

    def stop(self) -> int | None:
        """Give the vehicle back; the number of the leg that this breaks off, if any."""
        broken, self._broken = self._broken, None
        if self.leg is not None and self.stage == "track":
            broken = self.leg.number
        self.stage, self.leg, self._coming = "hold", None, None
        self._prepared = None
        return broken

    def sent(self, command: np.ndarray) -> None:
        """What really left for the vehicle: the policy's history."""
        self._history = np.concatenate([np.asarray(command)[None], self._history[:-1]])

    def tick(self, now: float, state: State, stamp: float, *, slow: bool, baseline: bool) -> Wanted:
        """The command for this moment."""
        prepared, self._prepared = self._prepared, None
        if prepared is not None and (
            slow is not prepared.slow
            or abs(now - prepared.now) > _EARLY_S
            or abs(stamp - prepared.stamp) > _SAME_SAMPLE_S
        ):
            prepared = None
        if prepared is not None:
            now = prepared.now
        elapsed = min(max(now - self._now, 0.0), 0.1)
        self._now, self._stamp, self._slow = now, stamp, slow
        stage = self.stage
        self._move(now, elapsed, state, slow, prepared)
        if prepared is not None and self.stage == stage:
            seen, self._asked = prepared.seen, prepared.asked
        else:
            age = min(max(now - stamp, -0.005), 0.1)
            seen, self._asked = _apart(self._references(_moments(age)))
        policy = self._guarded(state, seen)
        flies = policy is not None and self.stage in ("track", "lap", "brake") and not baseline
        not_finite = False
        command = None
        if flies and policy is not None and self.leg is not None:
            # In the precision that it was trained in; else each tick would convert all weights.
            observation = observe_one(
                np.asarray(state.position), np.asarray(state.velocity),
                np.asarray(state.rotation), seen, self._history,
            )  # fmt: skip
            command = np.asarray(act(policy, observation), float)
            if self.stage == "track":  # nobody learns from the other stages
                command = command + self.leg.dither * self._rng.standard_normal(4)
                command = clip(np, command, policy.limits.low, policy.limits.high)
            if self.stage == "track" and self._count < _MOST_TICKS:
                self._seen[self._count] = observation
                self._count += 1
            if not all(map(math.isfinite, command.tolist())):
                not_finite, command = True, None
        if command is None:
            sensed = Sensed(state, np.asarray(stamp), np.asarray(now))
            now_and_ahead = Reference(*(field[[0, 0]] for field in seen))
            self._memory, command = self._baseline(self._memory, sensed, now_and_ahead)
        recorded = self.stage == "track" and self.leg is not None
        own = self.leg is not None and policy is self.leg.policy
        return Wanted(
            command=np.asarray(command, float),
            position=np.asarray(seen.position[0] + (now - stamp) * seen.velocity[0]),
            controller="baseline" if not flies or not_finite else "policy" if own else "fallback",
            leg=self.leg.number if recorded and self.leg is not None else -1,
            leg_time=now - self._started if recorded else 0.0,
            not_finite=not_finite,
        )

    def prepare(self) -> None:
        """Compute the references of the next tick, or the way to the coming leg's start."""
        if self.stage == "hold" or self._plain is None:
            self._prepared = None
            if self._coming is not None:
                self._way_to(self._coming.start)
            return
        now, stamp = self._now + CONTROL_DT, self._stamp + CONTROL_DT
        clock = self._advanced(CONTROL_DT, self._slow)
        references = references_at(self._plain, clock, _moments(now - stamp))
        self._prepared = _Prepared(now, stamp, self._slow, clock, *_apart(references))
        if self.leg is not None and self.leg.policy is not None:
            # For nothing but the caches: the weights are used once in 20 ms only.
            act(self.leg.policy, self._seen[0])

    def asked(self) -> Asked:
        """What was asked at the last tick, for the recording."""
        moving = self.stage != "hold" and self._path is not None
        return Asked(
            reference=self._asked,
            phase=float(self._clock.phase),
            phase_rate=float(clocks.rates(self._clock)[0]) if moving else 0.0,
            time_scale=float(self._clock.time_scale),
        )

    # ------------------------------------------------------------- stages

    def _guarded(self, state: State, seen: Reference) -> Policy | None:
        """The policy that has the vehicle, after a look at the error."""
        leg = self.leg
        if leg is None or self.stage not in ("track", "lap", "brake"):
            return None
        if leg.fallback is None:
            return leg.policy
        position = np.asarray(state.position) - seen.position[0]
        velocity = np.asarray(state.velocity) - seen.velocity[0]
        elapsed = self._now - self._started
        self._trouble = leg.fallback.seen(self._trouble, elapsed, position, velocity)
        return leg.fallback.last_good if leg.fallback.takes_over(self._trouble) else leg.policy

    def _advanced(self, elapsed: float, slow: bool) -> clocks.Clock:
        leg = None if self.stage == "transfer" else self.leg
        factor = SLOW_DOWN if slow else 1.0
        if leg is not None and leg.fallback is not None:
            factor = max(factor, self._trouble.time_scale_factor)
        scale = factor * (1.0 if leg is None else leg.time_scale)
        target = _STANDSTILL if self.stage == "brake" else scale
        return clocks.advance(clocks.with_time_scale(self._clock, float(target)), float(elapsed))

    def _move(
        self, now: float, elapsed: float, state: State, slow: bool, prepared: _Prepared | None
    ) -> None:
        """Advance the clock and change the stage."""
        if self.stage != "hold":
            self._clock = self._advanced(elapsed, slow) if prepared is None else prepared.clock
        if self.stage == "hold":
            self._from_hold(now, state)
        elif self.stage == "transfer":
            if self._path is None or float(self._clock.phase) >= float(lap_s(self._path)):
                self._rest(now)
        elif self.leg is not None and self.stage == "track":
            if now - self._started >= self.leg.seconds - 0.5 * CONTROL_DT:
                self.finished.append(self.leg.number)
                if self._count:
                    self.observations = self._seen[: self._count].copy()
                lap = self.leg.lap_on and self._coming is None and not self._to_rest
                self.stage = "lap" if lap else "brake"
        elif self.stage == "lap" and (self._coming is not None or self._to_rest):
            self.stage = "brake"
        elif self.stage == "brake" and self._speed() < _AT_REST_MPS:
            self._rest(now)
            self.leg = None

    def _from_hold(self, now: float, state: State) -> None:
        coming = self._coming
        if coming is None:
            return
        way = self._way_to(coming.start)
        if way is not None:
            self._follow(way.path, way.plain, 1.0, 0.0)
            self.stage = "transfer"
            return
        away = float(np.linalg.norm(state.position - coming.start))
        if away > _NEAR_M or float(np.linalg.norm(state.velocity)) > 0.3:
            self._settled = now
        if now - self._settled >= _SETTLED_S:
            leg, self._coming = coming.leg, None
            self.leg = leg
            self._follow(leg.path, coming.plain, leg.time_scale, leg.ramp_s)
            self._rng = coming.rng
            self._memory = self._baseline.start() if leg.policy is not None else self._memory
            self._count, self._started, self.stage = 0, now, "track"
            self._trouble = Trouble()

    def _way_to(self, start: np.ndarray) -> _Way | None:
        """The way from here; None if the vehicle holds there already."""
        distance = math.dist(start.tolist(), self._hold.tolist())
        if distance <= 1e-3:
            return None
        way = self._way
        if way is None or way.origin is not self._hold or way.start is not start:
            seconds = max(2.0, 2.2 * distance / _TRANSFER_MPS)
            path = from_waypoints(np.stack([self._hold, start]), seconds, periodic=False)
            self._way = way = _Way(self._hold, start, path, plain_path(path))
        return way

    def _follow(self, path: Path, plain: PlainPath, time_scale: float, ramp_s: float) -> None:
        """From the start of a path."""
        self._path, self._plain = path, plain
        self._clock = clocks.plain(clocks.start(time_scale, ramp_s))

    def _rest(self, now: float) -> None:
        """Hold where the reference is now."""
        if self._plain is not None:
            self._hold = np.array(self._references([0.0]).position[0], float)
        self.stage, self._settled = "hold", now

    def _speed(self) -> float:
        if self._plain is None:
            return 0.0
        return math.hypot(*self._references([0.0]).velocity[0].tolist())

    def _references(self, offsets: list[float]) -> Reference:
        """References at moments relative to the clock's."""
        if self.stage == "hold" or self._plain is None:
            return _still(self._hold, len(offsets))
        return references_at(self._plain, self._clock, offsets)


def _moments(age: float) -> list[float]:
    """Moments of the previews of a sample of this age, and the moment itself [s from now]."""
    return [*(preview - age for preview in PREVIEW_S), 0.0]


def _apart(references: Reference) -> tuple[Reference, Reference]:
    """The previews, and the moment itself."""
    return Reference(*(f[:-1] for f in references)), Reference(*(f[-1] for f in references))


def _still(position: np.ndarray, count: int) -> Reference:
    zero = np.zeros((count, 3))
    return Reference(
        np.tile(position, (count, 1)), zero, zero, zero, np.tile(np.eye(3), (count, 1, 1)), zero,
        np.full(count, GRAVITY),
    )  # fmt: skip


def bounded(command: np.ndarray, last: np.ndarray, profile: Profile) -> tuple[np.ndarray, bool]:
    """A command within range and slew, and whether it had to be changed."""
    bounds = profile.command
    clipped = clip(np, command, bounds.limits.low, bounds.limits.high)
    slewed = clip(np, clipped, last - bounds.slew, last + bounds.slew)
    changed = any(abs(step) > 1e-6 for step in (slewed - command).tolist())
    return slewed, changed
