"""One tick of the control process, without sockets and clocks: monitors, machine, flyer.

The same object flies in real time behind the wire and in tests on a simulated clock.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lafr_mjx.hil.control.flyer import Flyer, Wanted, bounded
from lafr_mjx.hil.safety.blind_descent import BlindDescent
from lafr_mjx.hil.safety.landing import LOW_M, Heights, stands
from lafr_mjx.hil.safety.modes import IN_AIR, Mode, Word
from lafr_mjx.hil.safety.preflight import Check, counts, preflight
from lafr_mjx.hil.safety.state_machine import OFF_CALLS, Inputs, Machine, refusal, step, that_count
from lafr_mjx.hil.safety.trips import Fault, Readings, Rung, Watch, watch
from lafr_mjx.types import COMMAND_HOVER, CONTROL_DT

if TYPE_CHECKING:
    from lafr_mjx.hil.drones.drone_protocol import Call, Heard
    from lafr_mjx.hil.safety.drone_profile import Profile

_DOWN = (Mode.HOVER, Mode.BLIND, Mode.GUARD, Mode.LAND, Mode.OFF, Mode.DISCONNECTED)
_MOCAP_WRONG = frozenset({Fault.MOCAP_STALE, Fault.MOCAP_FROZEN, Fault.MOCAP_JUMP})
_ASKS = (Word.ARM, Word.TAKEOFF, Word.POLICY, Word.RESET)


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

    calls: tuple[Call, ...]
    command: np.ndarray | None  # [4], bounded; None: nothing is sent
    expires: float  # s, monotonic: until when the command may leave
    wanted: Wanted | None
    mode: Mode
    faults: frozenset[Fault]


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
        self._counted: frozenset[Fault] = frozenset()  # of this tick
        self._last_command = np.array(COMMAND_HOVER, float)
        self._not_finite = self._clamped = False
        self._reference: np.ndarray | None = None
        self.ground = math.nan  # m, where it stood
        self._now = self._delivered = -math.inf  # this tick; when a command last left
        self._heights = Heights()
        self._height = self._climb = math.nan  # as last seen
        self._mocap_number = self._own_number = -1
        self._seen_since = math.inf  # since when motion capture is there
        self._blind = BlindDescent()
        self._armed = False  # the pilot, as far as is known
        self.down = False  # it stands, and the bridge to its motors is disarmed

    def tick(self, now: float, heard: Heard, around: Around) -> Decision:
        """One control interval."""
        profile, self._now = self.profile, now
        self.events += heard.said
        readings = self._readings(now, heard, around)
        self._watch, faults = watch(self._watch, readings, profile)
        self._not_finite = self._clamped = False
        before = self.machine.mode
        if before is not Mode.POLICY:  # there, time is better spent
            self.checks = preflight(now, heard, around, profile, faults)
        self._look(now, heard, faults)
        inputs = self._inputs(now, heard, around, faults)
        machine, self._counted = self.machine, that_count(faults, self.machine)
        self.machine, actions = step(machine, inputs, profile.ladder, profile.pilot)
        self.down, self._armed = _is_down(inputs), inputs.pilot_armed
        self._refuse(machine, inputs)
        self._tell(before, actions.calls)
        if self.machine.mode is not before:
            self._change(before, now, heard)
        command, wanted, expires = None, None, -math.inf
        if actions.blind:
            # There is no state to be too old: it counts for this tick only.
            expires = now + CONTROL_DT
            command, _ = bounded(self._blind.tick(now, actions.sink), self._last_command, profile)
        elif actions.publish and heard.state is not None:
            if actions.rest:
                self.flyer.brake()
            wanted = self.flyer.tick(
                now, heard.state, heard.state_stamp, slow=actions.slow, baseline=actions.baseline
            )
            self._reference = wanted.position
            self._not_finite = wanted.not_finite
            if all(map(math.isfinite, wanted.command.tolist())):
                command, self._clamped = bounded(wanted.command, self._last_command, profile)
                # The baseline at its limits is no reason to leave it.
                self._clamped = self._clamped and wanted.controller != "baseline"
                expires = heard.state_stamp + profile.limits.state_age_s
            else:
                self._not_finite = True
        return Decision(
            calls=actions.calls,
            command=command,
            expires=expires,
            wanted=wanted,
            mode=self.machine.mode,
            faults=self._counted,
        )

    def sent(self, command: np.ndarray) -> None:
        """This command left for the vehicle."""
        self._last_command = np.array(command, float)
        self._delivered = self._now
        self._blind.log.add(self._now, self._last_command)
        self.flyer.sent(command)

    def prepare(self) -> None:
        """Do ahead what the next tick will need; called when nobody waits."""
        if self.machine.mode is Mode.POLICY:
            self.flyer.prepare()

    @property
    def over(self) -> bool:
        """The flight is over or has not begun: the process may end."""
        machine = self.machine
        enough = OFF_CALLS if not self._armed else 4 * OFF_CALLS
        ended = machine.mode is Mode.OFF and machine.calls >= enough
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
            battery_age=now - heard.battery_receipt,
            guard=heard.guard,
            reference=self._reference if flying else None,
            late=around.late,
            not_finite=self._not_finite,
            clamped=self._clamped,
            learner_age=around.learner_age,
            console=around.console,
            stop=around.stop,
        )

    def _look(self, now: float, heard: Heard, faults: frozenset[Fault]) -> None:
        """What motion capture shows, as long as it does."""
        if heard.own_number != self._own_number and heard.own_command is not None:
            self._own_number = heard.own_number
            # Until it times out, our last command flies and not the pilot's own.
            ours = now - self._delivered <= self.profile.pilot.silence_s
            if heard.guard or not ours:
                self._blind.log.add(now, heard.own_command)
        position, new = heard.mocap_position, heard.mocap_number != self._mocap_number
        self._mocap_number = heard.mocap_number
        seen = position is not None and not faults & _MOCAP_WRONG
        self._seen_since = min(self._seen_since, now) if seen else math.inf
        if not seen or position is None:
            self._blind.unseen()
            return
        mode, z = self.machine.mode, float(position[2])
        if mode in (Mode.DISCONNECTED, Mode.PREFLIGHT):
            self.ground = z
        if new:
            self._heights.see(heard.mocap_receipt, z)
            self._height, self._climb = z - self.ground, self._heights.climb()
        fresh = now - heard.state_receipt <= self.profile.limits.state_age_s
        told = new and math.isinf(self._watch.same_since)  # something, by motion capture
        if told and heard.state is not None and fresh and mode is not Mode.BLIND:
            airborne = mode in IN_AIR and self._height > 2.0 * LOW_M
            self._blind.see(heard.state, heard.state_stamp, airborne)

    def _inputs(self, now: float, heard: Heard, around: Around, faults: frozenset[Fault]) -> Inputs:
        limits, pilot = self.profile.limits, self.profile.pilot
        seen, position = not math.isinf(self._seen_since), heard.mocap_position
        speed = math.nan
        fresh = now - heard.state_receipt <= limits.state_age_s
        if heard.state is not None and fresh:
            speed = math.hypot(*heard.state.velocity)
        silent = now - heard.telemetry_receipt > limits.link_s
        return Inputs(
            now=now,
            word=around.word,
            faults=faults,
            connected=heard.connected,
            ready=all(check.good for check in self.checks if counts(check, self.machine.mode)),
            # A pilot that is not heard must be taken to be armed.
            pilot_armed=heard.armed or silent,
            height=self._height if seen and position is not None else None,
            last_height=self._height,
            climb=self._climb if seen else math.nan,
            last_climb=self._climb,
            speed=speed,
            guarded=heard.guard,
            guardable=seen and position is not None and pilot.guards(position.tolist()),
            reachable=not pilot.lands_unseen
            and Fault.STATE_STALE not in faults
            and heard.subscribed
            and self._blind.ready(now),
            seen_s=now - self._seen_since if seen else 0.0,
            unseen_s=max(0.0, now - self._watch.mocap_changed),
            fallen=self._blind.down,
            references=heard.references,
            resting=self.flyer.stage == "hold",
        )

    def _refuse(self, before: Machine, inputs: Inputs) -> None:
        """Say why a word to go on was not followed."""
        if inputs.word not in _ASKS or self.machine.mode is not before.mode:
            return
        bad = [f"{check.name} ({check.detail})" for check in self.checks
               if not check.good and counts(check, before.mode)]  # fmt: skip
        why = "; ".join(filter(None, [refusal(before, inputs, self.profile.ladder), *bad]))
        self.events.append(f"refused: {inputs.word.value}: {why or 'not yet'}")

    def _change(self, before: Mode, now: float, heard: Heard) -> None:
        mode = self.machine.mode
        if mode is Mode.POLICY and heard.state is not None:
            self._last_command = np.array(COMMAND_HOVER, float)
            self._delivered = now
            self._reference = None
            self.flyer.begin(now, np.asarray(heard.state.position), self._blind.trim())
        if mode is Mode.BLIND:
            if before is not Mode.POLICY:
                self._last_command = np.array(COMMAND_HOVER, float)
            self._blind.begin(now, self._watch.mocap_changed, self.ground)
            self.events.append(
                "nobody sees the vehicle: it brakes by dead reckoning, sinks if that lasts for "
                f"{self.profile.limits.mocap_lost_s:g} s, motors off within "
                f"{self.profile.ladder.blind_s:g} s; keep away from it"
            )
        if before is Mode.BLIND:
            self._blind.end()
        if before is Mode.POLICY:
            self._reference = None
            broken = self.flyer.stop()
            if broken is not None:
                self.events.append(f"leg {broken} broken off")

    def _tell(self, before: Mode, calls: tuple[Call, ...]) -> None:
        mode, faults = self.machine.mode, self._counted
        if mode is not before:
            down = mode in _DOWN
            serious = [f for f in faults if f.rung >= Rung.HOVER and down]
            why = f" ({'; '.join(sorted(f.text for f in serious))})" if serious else ""
            self.events.append(f"{before.value} → {mode.value}{why}")
        for fault in faults - self._faults if mode in IN_AIR else ():
            self.events.append(f"fault {fault.name}: {fault.text}")
        self.events += [f"call {call}" for call in calls]
        self._faults = faults


def _is_down(inputs: Inputs) -> bool:
    """Whether the vehicle is seen to stand, with the bridge to its motors disarmed."""
    return stands(inputs.height, inputs.climb) and not inputs.pilot_armed
