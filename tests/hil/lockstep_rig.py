# pyright: reportOptionalMemberAccess=false, reportArgumentType=false
"""A flight with real processes in lockstep: operator's side, and what the drone printed."""

import os
import re
import signal
import time
from pathlib import Path

import fault_table
import numpy as np
import pytest
from waiting import wait_for

from lafr_mjx.errors import RunError
from lafr_mjx.hil.control.legs import Leg, save_leg
from lafr_mjx.hil.operator.operator_steps import reset, resume, take_off
from lafr_mjx.hil.operator.session import Session
from lafr_mjx.hil.recording.bags import read_records
from lafr_mjx.hil.recording.spool import SpoolReader
from lafr_mjx.hil.safety.drone_profile import load_profile
from lafr_mjx.hil.safety.modes import Word
from lafr_mjx.hil.simulator.injected import parse
from lafr_mjx.tasks import load_task

PROFILE = load_profile("sim")
TASK = load_task("figure8")
FAST = 0.5  # time scale: 4.5 m/s
CLOCK = "lockstep"
TICK_S = 0.02
MARGIN_S = 0.005  # from a decision to the kernel, and the wire
REPEATS = int(os.environ.get("LAFR_HIL_PROCESS_REPEATS", "1"))
WHERE = ["at hover", "at speed"]
_TO_THE_DISK_S = 60.0  # real
_CHARGED_V = PROFILE.limits.voltage_preflight_v + 0.2  # for one more flight


def leg(number=0, seconds=100.0, time_scale=FAST, lap_on=False):
    return Leg(number, TASK.path, time_scale, TASK.ramp_s, seconds, None, np.zeros(4), 0, lap_on)


def until(session, condition, seconds, what):
    """Wait by the flight's clock until a condition holds; say what did not happen."""
    end = session.clock.now() + seconds
    while not condition():
        if session.clock.now() >= end:
            pytest.fail(f"{what} did not happen within {seconds:g} s; {session.trouble()}")
        session.sleep(0.005)


def drone_log(session):
    """(seconds, words) that the drone of a session printed."""
    text = (session.folder / "drone.txt").read_text()
    return [
        (float(t), words.split(", "))
        for t, words in re.findall(r"^ *([0-9.]+) s  (.*)$", text, re.MULTILINE)
    ]


def crashed(session):
    return "CRASHED" in (session.folder / "drone.txt").read_text()


class Breakable(Session):
    """A session whose control process can be broken from the inside: `broken_control.py`."""

    def _start(self, name, command, descriptor=None):
        if name == "control":
            command = [str(Path(__file__).with_name("broken_control.py")), *command[2:]]
        super()._start(name, command, descriptor)

    def break_control(self, kind):
        """From now on; the moment. An empty kind mends it."""
        told = self.folder / "broken.txt"
        told.write_text(kind)
        os.kill(self.process("control").pid, signal.SIGUSR1)
        wait_for(lambda: not told.exists(), 60.0, "the control process")  # time waits for us
        return self.clock.now()


class Flight:
    """A session that can be brought into the air again and again."""

    def __init__(self, folder, kind=Session, scenario="wind5", master=None):
        folder.mkdir(exist_ok=True)
        self.session = kind(PROFILE, folder, scenario=scenario, master=master)
        self.clock = self.session.clock
        self.folder = folder
        self._legs = 0
        self._broken_until = 0.0  # what was injected has ended then
        self._tail, self._recorded = SpoolReader(folder / "flight.spool", follow=True), []

    def inject(self, text):
        """Break something of the drone's; the moment at which it was told."""
        sent = self.session.inject(text)
        self._broken_until = max(self._broken_until, parse(text, sent).end)
        return sent

    def up(self, where):
        """In the policy's hands, at hover or at speed."""
        # A test that failed half-way leaves its fault behind, and the end of one may be another.
        self.clock.sleep_until(self._broken_until + 0.5)
        session = self.session
        if session.mode != "hover" or not resume(session):
            self.down()
            session.wait_ready()
            take_off(session)
        if where == "at speed":
            self._legs += 1
            session._send({"leg": str(save_leg(session.folder, leg(self._legs)))})
            end = self.clock.now() + 20.0
            while session.status.get("stage") != "track":
                if self.clock.now() > end or session.mode != "policy":
                    raise RunError(f"not on the track; {session.trouble()}")
                session.sleep(0.02)
            session.sleep(2.5)
        else:
            session.sleep(0.5)
        if session.mode != "policy" or session.status.get("rung") not in ("NONE", "SLOW"):
            raise RunError(f"not in the policy's hands; {session.trouble()}")
        return self

    def over(self):
        """After a test: ready for the next one, in the air where it hovers without a fault."""
        session = self.session
        if session.mode != "hover" or session.status.get("faults") or not self._charged():
            self.down()

    def down(self):
        """Landed, off, and ready for the next."""
        session = self.session
        if session.mode in ("disconnected", "preflight"):
            return
        if session.mode != "off":
            session.say(Word.LAND)
            session.wait("off", seconds=40.0, what="landing")
        session.unstop()  # a stop stays until somebody takes it back
        until(session, lambda: not session.status.get("faults"), 20.0, "the end of the fault")
        reset(session)

    def usable(self):
        """Whether another flight can begin."""
        running = all(self.session.process(n).poll() is None for n in ("control", "drone"))
        return running and self._charged() and self.session.mode in ("preflight", "hover")

    def _charged(self):
        return self.session.status.get("voltage", 0.0) > _CHARGED_V

    def close(self):
        self.session.close()

    def records(self):
        """What was recorded by now, once it is on the disk."""
        now, end = self.clock.now(), time.monotonic() + _TO_THE_DISK_S
        runs = self.session.process("control").poll() is None
        while runs and time.monotonic() < end:
            self._recorded += self._tail
            if self._recorded and self._recorded[-1].time > now - 0.03:
                break
            time.sleep(0.02)
        time.sleep(0.1 if runs else 0.6)  # the rest of the last tick
        self._recorded += self._tail
        return list(self._recorded)

    def crashed(self):
        return crashed(self)

    def drone_log(self):
        return drone_log(self)


class Hangar:
    """Flights one after the other on one session, as long as it is usable."""

    def __init__(self, folders, kind=Session, scenario="wind5"):
        self._folders, self._kind, self._flight = folders, kind, None
        self._scenario = scenario

    def __call__(self):
        """The session, or a new one."""
        if self._flight is not None and not self._flight.usable():
            self._flight.close()
            self._flight = None
        if self._flight is None:
            self._flight = Flight(self._folders.mktemp("hil"), self._kind, self._scenario)
        return self._flight

    def close(self):
        """End it, if there is one; what was recorded must all be in the bag."""
        flight = self._flight
        if flight is not None:
            flight.close()
            spooled = [(r.topic, r.data) for r in flight.records()]
            bagged = [(r.topic, r.data) for r in read_records(flight.folder / "flight.bag")]
            assert len(bagged) == len(spooled) and set(bagged) == set(spooled), "complete"
            self._flight = None


def fly_until_a_moment(flight, where, attempt, name):
    """In the policy's hands, each time elsewhere on the lap: (session, number of its events)."""
    session = flight.up(where).session
    seen = len(session.events)
    session.sleep(1.2 * np.random.default_rng([attempt, len(name)]).random())
    return session, seen


def guarded_by(flight):
    return any("guard" in words for _, words in flight.drone_log())


def note_last_command(flight, begin, name, where, bound):
    """How long our commands went on, to the tick."""
    sent = [r.time for r in flight.records() if r.topic.endswith("feedthrough_command")]
    assert begin - sent[-1] < 2 * TICK_S, "the policy had the vehicle"
    reaction = max(0.0, sent[-1] - begin)
    assert reaction <= bound + TICK_S + MARGIN_S
    fault_table.note(CLOCK, name, where, reaction, bound, "off")
