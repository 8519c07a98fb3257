# pyright: reportOptionalMemberAccess=false, reportArgumentType=false
"""A whole flight on a simulated clock: our logic and the software drone, without a wire."""

import math

import numpy as np

from lafr_mjx import so3
from lafr_mjx.hil.control.legs import Leg
from lafr_mjx.hil.control.tick_logic import Around, Logic
from lafr_mjx.hil.drones.agilicious import CALLS
from lafr_mjx.hil.drones.drone_protocol import Heard
from lafr_mjx.hil.safety.drone_profile import load_profile
from lafr_mjx.hil.safety.modes import Mode, Word
from lafr_mjx.hil.simulator.injected import Injector, parse
from lafr_mjx.hil.simulator.pilot import CYCLE_S, Settings
from lafr_mjx.hil.simulator.simulated_drone import Drone
from lafr_mjx.hil.timing.clock_map import ClockMap
from lafr_mjx.tasks import load_task
from lafr_mjx.types import State

PROFILE = load_profile("sim")
RATES = {"state": 100.0, "mocap": 100.0}
WIRE_S = 0.0005
START = 1000.0  # our clock when the drone's is 0: they have nothing in common


def leg(number=0, task="figure8", time_scale=1.0, seconds=8.0, policy=None, lap_on=False):
    task = load_task(task)
    return Leg(number, task.path, time_scale, task.ramp_s, seconds, policy, np.zeros(4), number,
               lap_on)  # fmt: skip


class SimFlight:
    """Runs both sides; keeps what happened."""

    def __init__(self, plant, faults=()):
        injector = Injector([parse(text) for text in faults])
        self.drone = Drone(plant, Settings(), injector=injector)
        self.logic = Logic(PROFILE)
        self.time = 0.0
        self.history = []  # (time, mode, faults, sent, truth)
        self.calls = []  # (time, name)
        self.events = []
        self.word = None
        self.around = {}
        self.alive = True  # our process
        self.hook = None  # changes what is heard
        self.deliver = True  # commands reach the pilot's machine
        self.outdated = 0  # states that were dropped, as the link does
        self.loss, self.jitter = 0.0, 0.0  # share of messages; s, both ways
        self.mocap_outdated = 0
        self._wire = []  # reports on their way: (due, number, report)
        self._commands = []  # the same for commands
        self._rng = np.random.default_rng(0)
        self.looks = []  # (time, age of motion capture, age of the state, rung) at each tick
        self._clock = ClockMap()
        self._stamp = self._mocap_stamp = -math.inf
        self._heard = Heard(
            state=None, state_stamp=-math.inf, state_receipt=-math.inf,
            mocap_position=None, mocap_receipt=-math.inf, mocap_number=-1,
            telemetry_receipt=-math.inf, armed=False, guard=False, references=0,
            voltage=math.nan, battery_receipt=-math.inf, own_command=None, own_number=-1,
            clock_skew=0.0, wall_skew=0.001, subscribed=True, connected=False,
            master_seen=START, intruders=(),
        )  # fmt: skip
        self.late = 0
        self.ages = []  # s, of the states from which commands were sent
        self.truth = None

    @property
    def mode(self):
        return self.logic.machine.mode

    def say(self, word):
        self.word = word

    def run(self, seconds, until=None):
        """Go on; whether `until` came true."""
        for _ in range(round(seconds / CYCLE_S)):
            self._cycle()
            if until is not None and until():
                return True
        return until is None

    def _cycle(self):
        self.time += CYCLE_S
        report = self.drone.cycle(self.time)
        self.truth = report.truth
        self._carry(self._wire, report)
        for _, _, arrived in self._arrived(self._wire):
            self._hear(arrived)
        for _, _, (call, *values) in self._arrived(self._commands):
            call(self.time, *values)
        if round(self.time / CYCLE_S) % 2 == 0 and self.alive:
            self._tick()

    def _carry(self, wire, message):
        if self.loss == 0.0 or self._rng.random() >= self.loss:
            wire.append((self.time + self.jitter * self._rng.random(), len(self.looks), message))

    def _arrived(self, wire):
        """What is due by now, in the order of its arrival."""
        due = sorted((m for m in wire if m[0] <= self.time), key=lambda m: m[0])
        wire[:] = [m for m in wire if m[0] > self.time]
        return due

    def _hear(self, report):
        receipt = START + self.time + WIRE_S
        heard = self._heard._replace(master_seen=receipt, subscribed=True, intruders=())
        if report.state is not None:
            s = report.state
            quaternion = np.asarray(s.quaternion)
            old = report.time <= self._stamp and receipt - self._heard.state_receipt < 1.0
            self.outdated += old
            if np.isfinite(s.position).all() and not old:
                self._stamp = report.time
                self._clock = self._clock.seen(receipt, report.time)
                heard = heard._replace(
                    state=State(s.position, s.velocity, so3.quaternion_to_matrix(quaternion),
                                s.rates),
                    state_stamp=report.time + self._clock.offset, state_receipt=receipt,
                    clock_skew=self._clock.skew,
                )  # fmt: skip
            heard = heard._replace(
                telemetry_receipt=receipt, armed=report.armed and report.bridge != "debug",
                guard=report.guard, references=report.references, connected=True,
                own_command=report.command, own_number=heard.own_number + 1,
            )  # fmt: skip
        if report.battery is not None:
            heard = heard._replace(voltage=report.battery, battery_receipt=receipt)
        stamp = -math.inf if report.mocap is None else report.mocap.stamp
        old = stamp <= self._mocap_stamp and receipt - self._heard.mocap_receipt < 1.0
        self.mocap_outdated += old and report.mocap is not None
        if report.mocap is not None and not old:
            self._mocap_stamp = stamp
            heard = heard._replace(
                mocap_position=report.mocap.position, mocap_receipt=receipt,
                mocap_number=heard.mocap_number + 1,
            )  # fmt: skip
        self._heard = heard if self.hook is None else self.hook(heard)

    def _tick(self):
        now = START + self.time + 2 * WIRE_S
        around = Around(word=self.word, late=self.late, rates=RATES, **self.around)
        self.word, self.late = None, 0
        decision = self.logic.tick(now, self._heard, around)
        self.events += [(self.time, text) for text in self.logic.events]
        self.logic.events.clear()
        sent = None
        self.looks.append((self.time, now - self._heard.mocap_receipt,
                           now - self._heard.state_stamp, self.logic.machine.rung))  # fmt: skip
        if decision.command is not None and now <= decision.expires and self.deliver:
            sent = decision.command
            self.ages.append(now - self._heard.state_stamp)
            self.logic.sent(sent)
            if self.jitter or self.loss:
                self._carry(self._commands, (self.drone.feedthrough, sent))
            else:
                self.drone.feedthrough(self.time, sent)
        for name in (CALLS[call][0] for call in decision.calls):
            self.calls.append((self.time, name))
            self.drone.call(self.time, name, name == "enable")
        self.logic.prepare()
        self.history.append((self.time, decision.mode, decision.faults, sent, self.truth))

    # ------------------------------------------------------------- a whole flight

    def hover(self):
        """Up to the pilot's hover."""
        assert self.run(1.0, lambda: self.mode is Mode.PREFLIGHT), self.logic.checks
        self.run(0.3)
        self.say(Word.ARM)
        assert self.run(1.0, lambda: self.mode is Mode.ARMED), self.logic.checks
        self.run(0.3)
        self.say(Word.TAKEOFF)
        assert self.run(8.0, lambda: self.mode is Mode.HOVER), self.mode
        self.run(0.6)
        return self

    def policy(self, *legs):
        """Into the policy's hands, with a leg to fly."""
        self.hover()
        for _ in range(20):  # in gusts it may not be settled at the first word
            self.say(Word.POLICY)
            if self.run(0.2, lambda: self.mode is Mode.POLICY):
                break
        assert self.mode is Mode.POLICY, self.events
        for one in legs:
            self.logic.flyer.offer(one)
        return self

    def tracking(self, *legs):
        """Until the leg is being flown."""
        self.policy(*legs)
        assert self.run(20.0, lambda: self.logic.flyer.stage == "track"), self.events
        return self

    def left_policy(self):
        """Moment at which commands stopped."""
        sent = [time for time, _, _, command, _ in self.history if command is not None]
        return sent[-1] if sent else None
