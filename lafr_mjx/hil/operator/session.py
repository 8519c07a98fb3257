"""A session: the processes of a flight, seen from the operator's side.

    this process (operator, learner)  ── console ──  control process (50 Hz)  ── wire ──  pilot
                                                     emergency stop  ──────────  wire ──  pilot

A session also starts the software drone; they fly in lockstep unless real time is asked for.
Whatever happens here, the processes it started are ended, after the vehicle is down.
"""

from __future__ import annotations

import contextlib
import math
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

from lafr_mjx.closing import Closing
from lafr_mjx.errors import RunError
from lafr_mjx.hil.control.console import Console
from lafr_mjx.hil.control.legs import save_leg
from lafr_mjx.hil.operator.descent import bring_down, is_down
from lafr_mjx.hil.operator.flight_processes import Processes
from lafr_mjx.hil.operator.flight_record import FlightRecord
from lafr_mjx.hil.operator.injection import Injection
from lafr_mjx.hil.recording.bags import bag_of
from lafr_mjx.hil.recording.recorded_legs import RecordedLegs
from lafr_mjx.hil.safety.landing import longest_landing_s
from lafr_mjx.hil.safety.modes import Word
from lafr_mjx.hil.timing.lockstep import Lockstep
from lafr_mjx.hil.wire.node import LOOPBACK

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from lafr_mjx.hil.control.legs import Leg
    from lafr_mjx.hil.safety.drone_profile import Profile
    from lafr_mjx.hil.simulator.flight_controllers import FlightController
    from lafr_mjx.types import Rollout

_BEAT_S = 0.2
_PATIENCE_S = 8.0  # a software drone takes some seconds to start
_SILENT_S = 20.0  # of the flight: a control process that says nothing for so long hangs
_TO_THE_START_S = 45.0  # the longest that the way to a leg's start may take


class BrokenOffError(RunError):
    """A leg ended early, for the policy lost the vehicle."""


class RefusedError(RunError):
    """A word of the operator's was not followed; it says why."""


class Session(FlightRecord, Closing):
    """Starts and watches the processes. Use it as a context manager."""

    def __init__(
        self,
        profile: Profile,
        folder: Path,
        *,
        master: str | None = None,
        host: str = LOOPBACK,
        scenario: str = "nominal",
        task: str | None = None,
        seed: int = 0,
        faults: tuple[str, ...] = (),
        real_time: bool = False,
        cable: bool = False,
        network: str = "mlp",
        plugins: tuple[str, ...] = (),
        drone: tuple[str, ...] = (),
        flight_controller: FlightController = "plant",
        firmware: Path | None = None,
    ) -> None:
        """Start.

        Args:
            profile: of the drone.
            folder: where control process and drone leave their files; must be there.
            master: address of the ROS master; None starts the built-in one, if one is needed.
            host: address of this machine that the drone can reach.
            scenario: of the software drone.
            task: whose fans blow around the software drone.
            seed: of the software drone.
            faults: to inject into the software drone.
            real_time: do not fly the software drone in lockstep.
            cable: feed the software drone by one, for longer than its battery lasts.
            network: of the policies that will fly, see `parts`.
            plugins: of the user's, for the software drone.
            drone: command for Python that starts a software drone of the user's own, which keeps
                the time in lockstep; nothing of the above is told to it.
            flight_controller: of the software drone.
            firmware: a build of the user's own for that.
        """
        super().__init__(folder / "events.txt")
        self.profile = profile
        self.folder = folder
        self.landed_by_stop = False  # the emergency stop has seen it stand, motors off
        self._ground = contextlib.ExitStack()
        self.processes = Processes(folder)
        self._lock, self._hearing = threading.Lock(), threading.Lock()
        self._ending = self._closing = self._closed = False
        self._injection: Injection | None = None
        self.words: list[Word] = []  # all of the operator's
        self.prompting: Callable[[], AbstractContextManager[Any]] = contextlib.nullcontext
        try:
            pace, door = [], None
            ours = profile.software_drone and not drone
            if (ours or drone) and not real_time:
                folder_of_time, door = self.processes.place_of_time()
                pace = ["--lockstep", str(folder_of_time)]
                clock = Lockstep(folder_of_time)
                clock.still = self._still
                self.begin(clock)
            self._legs = RecordedLegs(folder / "flight.spool", self.clock)
            self.master = master = self._ground.enter_context(profile.pilot.reach(master, host))
            common = ["--host", host, *(["--master", master] if master else [])]
            if ours:
                command = ["-m", "lafr_mjx.hil", "sim-drone", *common]
                command += ["--vehicle", str(profile.path), "--scenario", scenario]
                command += ["--seed", str(seed)] + (["--task", task] if task else [])
                command += ["--fault", *faults] if faults else []
                command += ["--cable"] if cable else []
                command += ["--flight-controller", flight_controller]
                command += ["--firmware", str(firmware)] if firmware else []
                command += [word for text in plugins for word in ("--plugins", text)]
                drone = tuple(command)
                self._injection = Injection(profile.pilot.software_drone, master, self.clock)
            if drone:
                door_of = ["--door", str(door.fileno())] if door else []
                self._start("drone", [*drone, *door_of, *pace], door.fileno() if door else None)
            mine, its = socket.socketpair()
            self.console = Console(mine, self.clock)
            command = ["-m", "lafr_mjx.hil.control.control_process", *common]
            command += ["--profile", str(profile.path)]
            command += ["--out", str(folder), "--console", str(its.fileno()), "--network", network]
            self._start("control", [*command, *pace], its.fileno())
            its.close()
            command = ["-m", "lafr_mjx.hil", "stop", *common, "--vehicle", str(profile.path)]
            self._start("stop", [*command, *pace])
        except BaseException:
            self._end_processes()
            raise
        self._thread = threading.Thread(target=self._listen, name="beat", daemon=True)
        self._thread.start()
        self.clock.join("operator", self._injection.node if self._injection else None)
        if door is not None:
            door.close()  # the drone has it now

    # ------------------------------------------------------------- words

    def say(self, word: Word) -> None:
        """The operator's word."""
        self.note(f"operator: {word.value}")
        self.words.append(word)
        self._send({"word": word.value})

    def stop(self) -> None:
        """Emergency: guard, then land, by both processes."""
        self.note("operator: STOP")
        self._send({"stop": True})
        self.processes.tell_stop(b"stop\n")

    def unstop(self) -> None:
        """Take an emergency stop back; nothing hears it before the motors are off."""
        self.note("operator: stop taken back")
        self._send({"unstop": True})

    def cut(self) -> None:
        """Emergency: motors off, by both processes: who would arm it must know."""
        self.note("operator: CUT")
        self.processes.tell_stop(b"off\n")
        self._send({"word": Word.OFF.value})

    def land_by_stop(self) -> None:
        """Have the emergency stop land, which nobody asked for: who has the vehicle keeps it."""
        if self.status.get("taken"):
            self.note("somebody else has taken the vehicle: the emergency stop leaves it to them")
        else:
            self.processes.tell_stop(b"land\n")

    def inject(self, text: str) -> float:
        """Inject a fault into the software drone; the moment at which it was sent."""
        if self._injection is None:
            raise RunError("only the software drone takes faults")
        return self._injection.inject(text)

    def learner(self, state: str) -> None:
        """What is known of the learner: `cold` (do not arm yet), `warm` (a heartbeat), `none`.

        After the first `warm` the control process expects to hear it again, within the time that
        the profile gives it, until `none`.
        """
        self._send({"learner": state})

    def measure(self) -> None:
        """Have the figures of punctuality begin anew."""
        self._send({"measure": True})

    # ------------------------------------------------------------- waiting

    def sleep(self, seconds: float) -> None:
        """Wait for so long by the flight's clock; then all is known that was said by then."""
        self.clock.sleep(seconds)
        if self.clock.lockstep:
            self._hear()

    def _still(self) -> bool:
        """Time in lockstep stands still: is everybody there? If all is to end, wait no longer."""
        if not self._ending:
            self.check_alive()
        return self._ending

    def wait(
        self,
        *modes: str,
        seconds: float,
        what: str,
        unless: tuple[str, ...] = (),
        word: Word | None = None,
    ) -> str:
        """Wait until the machine is in one of these modes; raise if it gets into another.

        With a word of the operator's it is said now, and its refusal is raised, too.
        """
        end, before = self.clock.now() + seconds, len(self.refusals)
        if word is not None:
            self.say(word)
        while self.clock.now() < end:
            if self.mode in modes:
                return self.mode
            if word is not None and len(self.refusals) > before:
                raise RefusedError(self.refusals[-1])
            if self.mode in unless:
                raise RunError(f"{what} was broken off; {self.trouble()}")
            self.check_alive()
            self.sleep(0.02)
        raise RunError(f"{what} did not happen within {seconds:g} s; {self.trouble()}")

    def wait_ready(self, seconds: float = 180.0) -> None:
        """Wait for all preflight checks; after a while say what stands in the way."""
        # By a real clock: a flight in lockstep may not have begun.
        begin, since, told = time.monotonic(), self.clock.now(), ""
        while time.monotonic() - begin < seconds:
            failed = self.failed_checks()
            if self.mode == "preflight" and self.status.get("checks") and not failed:
                return
            names = ", ".join(failed)
            if self.clock.now() - since > _PATIENCE_S and names != told:
                told = names
                self.note(f"waiting for: {names or 'the pilot'}")
            self.check_alive()
            self.sleep(0.05)
        raise RunError(f"not ready to fly after {seconds:g} s; {self.trouble()}")

    # ------------------------------------------------------------- legs

    def fly(self, leg: Leg) -> Rollout:
        """Have a leg flown and return what was recorded; raises if it is refused or broken off."""
        before = len(self.refused)
        self._legs.pass_over()
        self._send({"leg": str(save_leg(self.folder, leg))})
        end = self.clock.now() + leg.seconds + _TO_THE_START_S
        while leg.number not in self.status.get("finished", []):
            self.check_alive()
            if len(self.refused) > before:
                raise RunError(f"leg {leg.number} is refused: {self.refused[-1]}")
            if self.mode not in ("policy",):
                raise BrokenOffError(f"leg {leg.number} was broken off; {self.trouble()}")
            if self.clock.now() > end:
                raise RunError(f"leg {leg.number} did not end; {self.trouble()}")
            self.sleep(0.02)
        return self._there(leg.number, self._legs.newest(leg.number))

    def rest(self, seconds: float = 10.0) -> bool:
        """Have the vehicle come to rest where it laps; whether it did in this time."""
        self._send({"rest": True})
        end = self.clock.now() + seconds
        while self.mode == "policy" and self.clock.now() < end:
            if self.status.get("stage") == "hold":
                return True
            self.sleep(0.05)
        return False

    def rollout(self, number: int) -> Rollout:
        """A recorded leg, from the whole recording."""
        return self._there(number, self._legs.find(number))

    def _there(self, number: int, found: Rollout | None) -> Rollout:
        if found is None:
            raise RunError(f"leg {number} was not recorded; {self.trouble()}")
        return found

    # ------------------------------------------------------------- the end

    @property
    def landing_s(self) -> float:
        """The longest way down [s]."""
        return longest_landing_s(self.profile)

    @property
    def down(self) -> bool:
        """Whether the vehicle is known to stand with its motors off."""
        return is_down(self)

    def quit(self) -> None:
        """Have the control process land and end."""
        self._send({"quit": True})

    def hear_out(self, seconds: float) -> None:
        """Wait for the last words of a control process that has ended."""
        if self.clock.lockstep:
            self._hear()
        else:
            self._thread.join(seconds)

    def close(self) -> None:
        """Land if need be, wait for it, end everything, and make the bag.

        May be called again if it was interrupted, and goes on then.
        """
        if self._closed:
            return
        self._ending = True
        bring_down(self)
        self._closing = True
        self._end_processes()
        bag_of(self.folder / "flight.spool", self.folder / "flight.bag", self.note)
        self._closed = True

    # ------------------------------------------------------------- inside

    def _start(self, name: str, command: list[str], descriptor: int | None = None) -> None:
        self.processes.start(name, command, descriptor)

    def process(self, name: str) -> subprocess.Popen[bytes]:
        """One of the processes: drone, control, stop."""
        return self.processes[name]

    def check_alive(self) -> None:
        """Raise if a process that must be there is not, or hangs."""
        gone = None if self.ended is not None else self.processes.ended()
        if gone is not None:
            name, last = gone
            if name == "control":
                self.land_by_stop()  # the pilot hovers already; bring it down
            raise RunError(f"the {name} process has ended: {last}")
        if self.ended is None and self.clock.now() - self.status.get("time", math.inf) > _SILENT_S:
            self.land_by_stop()
            raise RunError("the control process hangs")

    def _send(self, message: dict[str, Any]) -> None:
        with self._lock:
            self.console.send(message)

    def _listen(self) -> None:
        self.clock.join("beat")
        beat = 0.0
        while not self._closing and not self.console.closed:
            if self.clock.now() - beat >= _BEAT_S:
                beat = self.clock.now()
                self._send({"beat": True})
            if self.clock.lockstep:
                self.clock.sleep(_BEAT_S)
            else:
                self.console.wait(0.05)
            self._hear()
        self.clock.leave()

    def _hear(self) -> None:
        with self._hearing:
            with self._lock:
                received = self.console.receive()
            for message in received:
                self.take(message)

    def _end_processes(self) -> None:
        self.clock.leave()  # those that end now may have to wait for something
        if self._injection is not None:
            self._injection.close()
        self.processes.end()
        self._ground.close()
        if hasattr(self, "console"):
            self.console.close()
