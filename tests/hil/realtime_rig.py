# pyright: reportOptionalMemberAccess=false, reportArgumentType=false
"""A flight in real time for the tests: operator's side, and what the drone printed."""

import re
import time

import numpy as np
from lateness import BareLoop
from waiting import wait_for

from lafr_mjx.errors import RunError
from lafr_mjx.hil.legs import Leg, save_leg
from lafr_mjx.hil.operator import take_off
from lafr_mjx.hil.profile import load_profile
from lafr_mjx.hil.safety import Word
from lafr_mjx.hil.session import Session
from lafr_mjx.hil.spool import SpoolReader
from lafr_mjx.tasks import load_task

PROFILE = load_profile("sim")
TASK = load_task("figure8")
FAST = 0.5  # time scale: 4.5 m/s


def leg(number=0, seconds=100.0, time_scale=FAST, lap_on=False):
    return Leg(number, TASK.path, time_scale, TASK.ramp_s, seconds, None, np.zeros(4), 0, lap_on)


class Flight:
    """A session that can be brought into the air again and again."""

    def __init__(self, folder):
        folder.mkdir(exist_ok=True)
        self.session = Session(PROFILE, folder, scenario="wind5")
        self.folder = folder
        self.bare = BareLoop(folder / "lateness.txt")
        self._legs = 0

    def up(self, where):
        """In the policy's hands, at hover or at speed."""
        for attempt in range(4):
            begin = time.monotonic()
            try:
                self._rise(where)
                return self
            except (RunError, AssertionError) as error:
                # One late tick is a fault; where a bare loop is late too, it is the machine.
                late = self.bare.worst(begin, time.monotonic())
                if attempt == 3 or late < 0.01:
                    raise RunError(
                        f"{error}; a bare loop was late by {1e3 * late:.0f} ms"
                    ) from error
                self.down()
        return self

    def _rise(self, where):
        session = self.session
        take_off(session)
        if where == "at speed":
            self._legs += 1
            session._send({"leg": str(save_leg(session.folder, leg(self._legs)))})
            end = time.monotonic() + 20.0
            while session.status.get("stage") != "track":
                if time.monotonic() > end or session.mode != "policy":
                    raise RunError(f"not on the track; {session.trouble()}")
                time.sleep(0.02)
            time.sleep(3.0)
        else:
            time.sleep(1.0)
        if session.mode != "policy" or session.status.get("rung") not in ("NONE", "SLOW"):
            raise RunError(f"not in the policy's hands; {session.trouble()}")

    def down(self):
        """Landed, off, and ready for the next."""
        session = self.session
        if session.mode != "off":
            session.say(Word.LAND)
            session.wait("off", seconds=40.0, what="landing")

        def calm():
            session._send({"unstop": True})  # a stop stays until somebody takes it back
            return not session.status.get("faults")

        wait_for(calm, 20.0, "the end of the fault")
        end = time.monotonic() + 10.0
        while session.mode != "preflight" and time.monotonic() < end:
            session._send({"unstop": True})
            session.say(Word.RESET)
            time.sleep(0.3)
        assert session.mode == "preflight", session.trouble()

    def usable(self):
        """Whether another flight can begin."""
        running = all(self.session.process(n).poll() is None for n in ("control", "drone"))
        return running and self.session.mode == "preflight"

    def close(self):
        self.session.close()
        self.bare.close()

    def records(self):
        """What is on the disk by now."""
        time.sleep(0.6)
        return list(SpoolReader(self.folder / "flight.spool"))

    def crashed(self):
        return "CRASHED" in (self.folder / "drone.txt").read_text()

    def drone_log(self):
        """(seconds, words) that the drone printed."""
        text = (self.folder / "drone.txt").read_text()
        return [
            (float(t), words.split(", "))
            for t, words in re.findall(r"^ *([0-9.]+) s  (.*)$", text, re.MULTILINE)
        ]
