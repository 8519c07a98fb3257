"""One tick of the control process, without sockets and clocks: monitors, machine, flyer.

The same object flies in real time behind the wire and in tests on a simulated clock.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lafr_mjx.hil.faults import AIRBORNE_ONLY, Fault, Readings, Rung, Watch, watch
from lafr_mjx.hil.flyer import Flyer, Wanted, bounded
from lafr_mjx.hil.safety import OFF_CALLS, Inputs, Machine, Mode, Word, step
from lafr_mjx.types import COMMAND_HOVER

if TYPE_CHECKING:
    from lafr_mjx.hil.link import Heard
    from lafr_mjx.hil.profile import Profile

_DOWN = (Mode.HOVER, Mode.GUARD, Mode.LAND, Mode.OFF, Mode.DISCONNECTED)
_MOCAP_WRONG = frozenset({Fault.MOCAP_FROZEN, Fault.MOCAP_JUMP, Fault.MOCAP_LOST})
_GROUND_M = 0.3  # a vehicle that stands is lower than this
_RATE_SHARE = 0.9  # of the promised rate of a topic
_SENSING_S = 0.015  # a fresh state may be that old when it comes


class Around(NamedTuple):
    """What the process knows beside the wire."""

    word: Word | None = None
    console: bool = True
    stop: bool = False
    learner_age: float = 0.0
    learner_cold: bool = False  # there is a learner, and it is not ready yet
    late: int = 0  # periods by which the last tick was late
    rates: dict[str, float] | None = None  # messages per second by topic, if measured


class Decision(NamedTuple):
    """What a tick decides."""

    calls: tuple[str, ...]
    command: np.ndarray | None  # [4], bounded; None: nothing is sent
    expires: float  # s, monotonic: until when the command may leave
    wanted: Wanted | None
    mode: Mode
    faults: frozenset[Fault]
    age: float  # s, of the state used


class Check(NamedTuple):
    """One preflight check."""

    name: str
    good: bool
    detail: str


class Logic:
    """State of a flight. Call `tick`, send what it says, then `sent`."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.flyer = Flyer(profile)
        self.machine = Machine()
        self.checks: list[Check] = []
        self.events: list[str] = []  # new since they were last taken
        self._watch = Watch()
        self._faults: frozenset[Fault] = frozenset()
        self._last_command = np.array(COMMAND_HOVER, float)
        self._not_finite = self._clamped = False
        self._reference: np.ndarray | None = None
        self._ground = math.nan  # m, where it stood
        self._now = self._delivered = -math.inf  # this tick; when a command last left

    def tick(self, now: float, heard: Heard, around: Around) -> Decision:
        """One control interval."""
        profile, self._now = self.profile, now
        readings = self._readings(now, heard, around)
        self._watch, faults = watch(self._watch, readings, profile)
        self._not_finite = self._clamped = False
        before = self.machine.mode
        if before is not Mode.POLICY:  # there, time is better spent
            self.checks = preflight(now, heard, around, profile, faults)
        if before in (Mode.DISCONNECTED, Mode.PREFLIGHT) and heard.mocap_position is not None:
            self._ground = float(heard.mocap_position[2])
        inputs = self._inputs(now, heard, around, faults)
        self.machine, actions = step(self.machine, inputs, profile.ladder)
        self._tell(before, faults, actions.calls)
        if self.machine.mode is not before:
            self._change(before, now, heard)
        command, wanted, expires = None, None, -math.inf
        if actions.publish and heard.state is not None:
            wanted = self.flyer.tick(
                now, heard.state, heard.state_stamp, slow=actions.slow, baseline=actions.baseline
            )
            self._reference = wanted.position
            self._not_finite = wanted.not_finite
            if all(map(math.isfinite, wanted.command.tolist())):
                command, self._clamped = bounded(wanted.command, self._last_command, profile)
                # The baseline at its limits is no reason to leave it.
                self._clamped = self._clamped and wanted.controller == "policy"
                expires = heard.state_stamp + profile.limits.state_age_s
            else:
                self._not_finite = True
        return Decision(
            calls=actions.calls,
            command=command,
            expires=expires,
            wanted=wanted,
            mode=self.machine.mode,
            faults=_that_count(faults, before),
            age=now - heard.state_stamp,
        )

    def sent(self, command: np.ndarray) -> None:
        """This command left for the vehicle."""
        self._last_command = np.array(command, float)
        self._delivered = self._now
        self.flyer.sent(command)

    def prepare(self) -> None:
        """Do ahead what the next tick will need; called when nobody waits."""
        if self.machine.mode is Mode.POLICY:
            self.flyer.prepare()

    @property
    def over(self) -> bool:
        """The flight is over or has not begun: the process may end."""
        machine = self.machine
        ended = machine.mode is Mode.OFF and machine.calls >= OFF_CALLS
        return ended or machine.mode in (Mode.DISCONNECTED, Mode.PREFLIGHT)

    def _readings(self, now: float, heard: Heard, around: Around) -> Readings:
        flying = self.machine.mode is Mode.POLICY
        return Readings(
            now=now,
            state=heard.state,
            state_age=max(now - heard.state_stamp, now - heard.state_receipt),
            mocap_number=heard.mocap_number,
            mocap_age=now - heard.mocap_receipt,
            mocap_receipt=heard.mocap_receipt,
            mocap_position=heard.mocap_position,
            telemetry_age=now - heard.telemetry_receipt,
            # A pilot that takes no command for so long hovers: it must not be flown again unasked.
            subscribed=heard.subscribed
            and not (flying and now - self._delivered > self.profile.limits.link_s),
            master_age=now - heard.master_seen,
            clock_skew=heard.clock_skew,
            intruder=bool(heard.intruders),
            voltage=heard.voltage,
            guard=heard.guard,
            reference=self._reference if flying else None,
            late=around.late,
            not_finite=self._not_finite,
            clamped=self._clamped,
            learner_age=around.learner_age,
            console=around.console,
            stop=around.stop,
        )

    def _inputs(self, now: float, heard: Heard, around: Around, faults: frozenset[Fault]) -> Inputs:
        limits = self.profile.limits
        known = (
            heard.mocap_position is not None
            and now - heard.mocap_receipt <= limits.mocap_stale_s
            and not faults & _MOCAP_WRONG
        )
        height = None
        if known and heard.mocap_position is not None:
            height = float(heard.mocap_position[2]) - self._ground
        speed = math.nan
        if heard.state is not None and now - heard.state_receipt <= limits.state_age_s:
            speed = math.hypot(*heard.state.velocity)
        silent = now - heard.telemetry_receipt > limits.link_s
        return Inputs(
            now=now,
            word=around.word,
            faults=faults,
            connected=heard.connected,
            ready=all(check.good for check in self.checks if _counts(check, self.machine.mode)),
            # A pilot that is not heard must be taken to be armed.
            pilot_armed=heard.armed or silent,
            height=height,
            speed=speed,
            done=False,
        )

    def _change(self, before: Mode, now: float, heard: Heard) -> None:
        mode = self.machine.mode
        if mode is Mode.POLICY and heard.state is not None:
            self._last_command = np.array(COMMAND_HOVER, float)
            self._delivered = now
            self._reference = None
            self.flyer.begin(now, np.asarray(heard.state.position))
        if before is Mode.POLICY:
            self._reference = None
            broken = self.flyer.stop()
            if broken is not None:
                self.events.append(f"leg {broken} broken off")

    def _tell(self, before: Mode, faults: frozenset[Fault], calls: tuple[str, ...]) -> None:
        mode = self.machine.mode
        faults = _that_count(faults, before)
        if mode is not before:
            down = mode in _DOWN
            serious = [f for f in faults if f.rung >= Rung.HOVER and down]
            why = f" ({'; '.join(sorted(f.text for f in serious))})" if serious else ""
            self.events.append(f"{before.value} → {mode.value}{why}")
        flying = mode in (Mode.POLICY, Mode.HOVER, Mode.TAKEOFF, Mode.LAND, Mode.GUARD)
        for fault in faults - self._faults if flying else ():
            self.events.append(f"fault {fault.name}: {fault.text}")
        self.events += [f"call {call}" for call in calls]
        self._faults = faults


def _that_count(faults: frozenset[Fault], mode: Mode) -> frozenset[Fault]:
    return faults if mode in (Mode.HOVER, Mode.POLICY) else faults - AIRBORNE_ONLY


def _counts(check: Check, mode: Mode) -> bool:
    """In the air only some checks still mean something."""
    return mode in (Mode.PREFLIGHT, Mode.DISCONNECTED) or check.name not in (
        "on the ground", "disarmed", "voltage",
    )  # fmt: skip


def preflight(
    now: float, heard: Heard, around: Around, profile: Profile, faults: frozenset[Fault]
) -> list[Check]:
    """All checks before take-off, each with its reason."""
    limits, pilot, fence = profile.limits, profile.pilot, profile.fence
    checks = [Check("topics", heard.connected, "state, motion capture, telemetry; our commands")]
    rates = around.rates or {}
    for name, wanted in (("state", pilot.state_hz), ("mocap", pilot.mocap_hz)):
        rate = rates.get(name, math.nan)
        good = rate >= _RATE_SHARE * wanted
        checks.append(Check(f"{name} rate", good, f"{rate:.0f} Hz of {wanted:g}"))
    good = heard.voltage >= limits.voltage_preflight_v
    checks.append(
        Check("voltage", good, f"{heard.voltage:.2f} V, at least {limits.voltage_preflight_v:g}")
    )
    position = heard.mocap_position
    inside = position is not None and bool(
        np.all(position[:2] >= fence.low[:2]) and np.all(position[:2] <= fence.high[:2])
    )
    where = "unknown" if position is None else ", ".join(f"{x:.2f}" for x in position)
    checks.append(Check("position", inside, f"{where} m, within the fence"))
    low = position is not None and float(position[2]) < _GROUND_M
    checks.append(Check("on the ground", low, f"below {_GROUND_M:g} m"))
    checks.append(Check("disarmed", not heard.armed, "the pilot is disarmed"))
    checks.append(Check("guard", not heard.guard, "the pilot's guard has not triggered"))
    skew = heard.wall_skew
    good = -limits.clock_skew_s <= skew <= limits.clock_skew_s + _SENSING_S
    checks.append(Check("clocks", good, f"{1e3 * skew:.1f} ms between the machines"))
    others = ", ".join(heard.intruders) or "nobody else"
    checks.append(Check("sole commander", not heard.intruders, f"{others} publishes commands"))
    if heard.unseen:
        checks.append(Check("transport", True, heard.unseen))
    detail = "it is still preparing" if around.learner_cold else "ready, or nobody learns"
    checks.append(Check("learner warm", not around.learner_cold, detail))
    serious = sorted(f.text for f in faults if f.rung >= Rung.HOVER and f not in AIRBORNE_ONLY)
    checks.append(Check("no fault", not serious, "; ".join(serious) or "none"))
    return checks
