"""The control process: 50 Hz, NumPy only, nothing in it waits for anybody.

    python -m lafr_mjx.hil.control.control_process --profile FILE --host ADDRESS [--master URI]
        --out FOLDER --console FD [--lockstep FOLDER] [--network TEXT]

Started by `Session`. Every way out of it ends in a safe state: a word of the operator's, a
signal, an exception, the end of the console. If it is killed, the pilot's time-out hovers.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import math
import signal
import socket
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lafr_mjx.errors import InputError
from lafr_mjx.hil.control.console import Console
from lafr_mjx.hil.control.flyable import check_flyable
from lafr_mjx.hil.control.leg_loader import LegLoader
from lafr_mjx.hil.control.tick_logic import Around, Decision, Logic
from lafr_mjx.hil.control.warm_up import warm_up
from lafr_mjx.hil.drones.drone_protocol import Call
from lafr_mjx.hil.recording.spool import Record, SpoolWriter
from lafr_mjx.hil.safety.drone_profile import load_profile
from lafr_mjx.hil.safety.emergency_landing import EmergencyLanding, known_of
from lafr_mjx.hil.safety.landing import Heights, longest_landing_s
from lafr_mjx.hil.safety.modes import IN_AIR, Mode, Word
from lafr_mjx.hil.timing.flight_clock import flight_clock
from lafr_mjx.hil.timing.pacer import Pacer
from lafr_mjx.hil.timing.priority import (
    freeze_garbage,
    keep_in_memory,
    prefer,
    reserve_matrix_memory,
)
from lafr_mjx.hil.timing.punctuality import Punctuality
from lafr_mjx.hil.wire import ros_messages as m
from lafr_mjx.logs.flown_ticks import TICK, TICK_TOPIC

if TYPE_CHECKING:
    from lafr_mjx.hil.drones.drone_protocol import Drone, Heard

_CONSOLE_S = 5.0  # silence after which the console counts as gone
_STATUS_TICKS = 5
_RATE_TICKS = 25
_COMPUTING = 3  # threads with matrix products: the loop, the wire's, the one that tries policies


class Control:
    """The loop."""

    def __init__(
        self, drone: Drone, logic: Logic, console: Console, folder: Path, network: str = "mlp"
    ) -> None:
        self._network = network  # of the policies that will fly
        self.drone, self.logic, self.console = drone, logic, console
        self.clock = drone.clock
        self.pacer = self._new_pacer()
        self._spool = SpoolWriter(folder / "flight.spool")
        self._folder = folder
        self._words: list[Word] = []
        self._signals = 0
        self._stop = self._quit = False
        self._learner = 0.0  # when it was last heard; 0: nobody waits for it
        self._learner_cold = False  # there is one, and it is not ready yet
        self._loader = LegLoader(logic.profile, network)
        self._punctuality = Punctuality()
        self._counted: dict[str, tuple[int, float]] = {}
        self._rates: dict[str, float] = {}
        self._told = ""
        self.errors = 0

    def run(self) -> None:
        """Until the flight is over and the operator leaves."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)
        warm_up(self.logic.profile, self._network)
        freeze_garbage()
        self.drone.join("control")
        self.pacer = self._new_pacer()
        late = 0
        while not (self._quit and self.logic.over):
            now = self.pacer.wait(self.drone.arrival, self._prepare)
            try:
                late = self._tick(now, late)
            except Exception:  # whatever is wrong, the vehicle must not be left to it
                self._on_error()
                late = self.pacer.finish()
        self._end()

    def _new_pacer(self) -> Pacer:
        return Pacer(self.logic.profile.pilot.state_hz, self.clock)

    def _tick(self, now: float, late: int) -> int:
        heard = self.drone.heard()
        around = Around(
            word=self._words.pop(0) if self._words else None,
            console=not self._console_gone(now),
            stop=self._stop,
            learner_age=now - self._learner if self._learner else 0.0,
            learner_cold=self._learner_cold,
            late=late,
            rates=self._rates,
        )
        decision = self.logic.tick(now, heard, around)
        sent = False
        if decision.command is not None:
            sent = self.drone.send(decision.command, decision.expires)
            if sent:
                self.logic.sent(decision.command)
                self._punctuality.sent(self.clock.now(), heard.state_receipt)
        elif decision.mode not in (Mode.POLICY, Mode.BLIND):
            self._punctuality.pause()
        for call in decision.calls:
            self.drone.call(call)
        late = self.pacer.finish()
        if late:
            self.logic.events.append(f"late by {late} period{'s' if late > 1 else ''}")
        # From here on nobody waits for us.
        self._record(now, heard, decision, sent)
        self._listen()
        self._leg()
        if self.pacer.ticks % _RATE_TICKS == 0:
            self._measure(now)
            gc.collect(0)
        if self.pacer.ticks % _STATUS_TICKS == 0 or self.logic.events:
            self._report(now, heard, decision)
        return late

    def _prepare(self) -> None:
        try:
            self.logic.prepare()
        except Exception:
            self._on_error()

    # ------------------------------------------------------------- who may stop us

    def _on_signal(self, number: int, frame: object) -> None:
        """Land at the first one, guard at the second."""
        del number, frame
        self._signals += 1
        self._quit = True
        if self._signals == 1:
            self._words.append(Word.LAND)
        else:
            self._stop = True

    def _console_gone(self, now: float) -> bool:
        gone = self.console.closed or now - self.console.heard > _CONSOLE_S
        if gone:
            self._quit = True  # once it is safe
        return gone

    def _on_error(self) -> None:
        """An exception in a tick: nothing was sent; the guard takes over."""
        self.errors += 1
        self._stop = True
        with contextlib.suppress(Exception):
            (self._folder / "errors.txt").open("a", encoding="utf-8").write(
                traceback.format_exc() + "\n"
            )
        if self.errors > 3:
            self._land_by_hand()
            self._quit = True
            raise SystemExit(1)

    def _land_by_hand(self) -> None:
        """The logic itself is broken: nothing of it is asked any more."""
        landing, heights, seen = EmergencyLanding(self.logic.profile), Heights(), -1
        now = self.clock.now()
        end = now + longest_landing_s(self.logic.profile)
        ground = self.logic.ground
        landing.begin(now)
        while not landing.done and now < end:
            with contextlib.suppress(Exception):
                heard, now = self.drone.heard(), self.clock.now()
                position = heard.mocap_position
                if position is not None and heard.mocap_number != seen:
                    seen = heard.mocap_number
                    heights.see(heard.mocap_receipt, float(position[2]))
                for call in landing.calls(known_of(now, heard, heights.climb(), ground)):
                    self.drone.call(call)
            self.clock.sleep(0.01)
            now = self.clock.now()
        if not landing.done:
            self.drone.call(Call.OFF)

    def _listen(self) -> None:
        for message in self.console.receive():
            word = message.get("word")
            if word in {w.value for w in Word}:
                self._words.append(Word(word))
            if message.get("stop"):
                self._stop = True
            if message.get("unstop") and self.logic.machine.mode not in IN_AIR:
                self._stop = False
            if message.get("quit"):
                self._quit = True
                self._words.append(Word.LAND)
            if isinstance(message.get("leg"), str):
                self._loader.ask(Path(message["leg"]), self.logic.flyer.observations)
            if message.get("measure"):
                self._punctuality.begin_anew()
                self.pacer.missed_in_a_row = 0
            if message.get("rest"):
                self.logic.flyer.rest()
            if message.get("learner") in ("none", "cold", "warm"):
                self._learner_cold = message["learner"] == "cold"
                self._learner = self.clock.now() if message["learner"] == "warm" else 0.0
        self.console.flush()

    def _leg(self) -> None:
        done = self._loader.result(at_once=not self.clock.lockstep)
        if done is None:
            return
        leg, trouble = done
        if leg is None:
            self.console.send({"refused": trouble})
        else:
            self.logic.flyer.offer(leg)
            self.console.send({"accepted": leg.number})

    # ------------------------------------------------------------- what is kept

    def _measure(self, now: float) -> None:
        for key, counters in self.drone.counts().items():
            count, since = self._counted.get(key, (0, now - 1e9))
            if now - since >= 0.45:
                self._rates[key] = (counters["received"] - count) / (now - since)
                self._counted[key] = (counters["received"], now)

    def _record(self, now: float, heard: Heard, decision: Decision, sent: bool) -> None:
        spool = self._spool
        for topic, kind, receipt, wall, data in self.drone.drain():
            spool.add(Record(topic, kind, receipt, wall, data))
        wanted = decision.wanted
        if wanted is None or heard.state is None:
            return
        asked, state, wall = self.logic.flyer.asked(), heard.state, self.clock.wall()
        reference = asked.reference
        command = decision.command if decision.command is not None else np.zeros(4)
        # `time` is the tick's moment: the stamp must be of the same one.
        stamp = wall - (self.clock.now() - now)
        tick = m.message_class(TICK)(
            m.header(stamp, self.pacer.ticks), now, wanted.leg, wanted.leg_time,
            decision.mode.value, wanted.controller, sent, _array(command), _array(wanted.command),
            heard.state_stamp, _array(state.position), _array(state.velocity),
            _array(state.rotation), _array(state.rates), _array(reference.position),
            _array(reference.velocity), _array(reference.acceleration), _array(reference.jerk),
            _array(reference.rotation), _array(reference.rates), float(reference.thrust),
            asked.phase, asked.phase_rate, asked.time_scale,
            [fault.name for fault in decision.faults],
        )  # fmt: skip
        spool.add(Record(TICK_TOPIC, TICK, now, stamp, m.encode(TICK, tick)))

    def _report(self, now: float, heard: Heard, decision: Decision) -> None:
        logic, events = self.logic, self.logic.events
        logic.events = []
        if self._spool.trouble and self._spool.trouble != self._told:
            self._told = self._spool.trouble
            events.append(f"recording has stopped: {self._told}")
        position = None if heard.state is None else np.round(heard.state.position, 3).tolist()
        speed = 0.0 if heard.state is None else float(np.linalg.norm(heard.state.velocity))
        motion: dict[str, Any] = {}
        if heard.state is not None:
            upright = min(max(float(heard.state.rotation[2, 2]), -1.0), 1.0)
            motion = {
                "velocity": np.round(heard.state.velocity, 3).tolist(),
                "turning": float(np.abs(heard.state.rates).max()),
                "tilt": math.degrees(math.acos(upright)),
            }
        error = None
        if decision.wanted is not None and heard.state is not None:
            away = decision.wanted.position - heard.state.position
            error = float(np.linalg.norm(away))
        self.console.send(
            {
                "status": {
                    "time": now,
                    "mode": decision.mode.value,
                    "rung": logic.machine.rung.name,
                    "stage": logic.flyer.stage,
                    "leg": logic.flyer.leg.number if logic.flyer.leg is not None else -1,
                    "finished": logic.flyer.finished[-100:],
                    "faults": sorted(fault.name for fault in decision.faults),
                    "latched": sorted(fault.name for fault in logic.machine.latched),
                    "state_age": now - heard.state_stamp,
                    "mocap_age": now - heard.mocap_receipt,
                    "telemetry_age": now - heard.telemetry_receipt,
                    "position": position,
                    "speed": speed,
                    **motion,
                    "learner_age": now - self._learner if self._learner else None,
                    "error": error,
                    "voltage": heard.voltage,
                    "armed": heard.armed,
                    "down": logic.down,
                    "guard": heard.guard,
                    "taken": heard.taken,
                    "rates": {k: round(v, 1) for k, v in self._rates.items()},
                    "checks": [list(check) for check in logic.checks],
                    "missed": self.pacer.missed,
                    "missed_in_a_row": self.pacer.missed_in_a_row,
                    "ticks": self.pacer.ticks,
                    "sent": self._punctuality.count,
                    "over": logic.over,
                },
                "events": events,
            }
        )

    def _end(self) -> None:
        """The flight is over: close the recording, say how punctual it was."""
        timing = {
            "ticks": self.pacer.ticks,
            "missed_deadlines": self.pacer.missed,
            "missed_in_a_row": self.pacer.missed_in_a_row,
            "errors": self.errors,
            "counts": self.drone.counts(),
        }
        self._punctuality.save(self._folder / "timing.npz")
        (self._folder / "timing.json").write_text(json.dumps(timing, indent=2), encoding="utf-8")
        self._spool.close()
        self.console.send({"end": timing})
        self.console.flush()


def _array(values: Any) -> np.ndarray:
    return np.ascontiguousarray(values, float).reshape(-1)


def main() -> None:
    """Entry of the process."""
    parser = argparse.ArgumentParser()
    for name in ("--profile", "--host", "--out"):
        parser.add_argument(name, required=True)
    parser.add_argument("--master")
    parser.add_argument("--console", type=int, required=True)
    parser.add_argument("--lockstep", type=Path)
    parser.add_argument("--network", default="mlp")
    given = parser.parse_args()
    clock = flight_clock(given.lockstep)
    console = Console(socket.socket(fileno=given.console), clock)
    profile = load_profile(given.profile)
    if clock.lockstep:
        if not profile.simulated:
            raise InputError("--lockstep: a real drone flies in real time")
        console.send({"priority": "in lockstep"})
    else:
        locked = keep_in_memory()
        reserve_matrix_memory(_COMPUTING)
        # Threads have the priority of who starts them.
        priority = prefer(own_core=True)
        console.send({"priority": priority + (", memory locked" if locked else "")})
    if given.network != "mlp":
        check_flyable(given.network, profile.command.limits)
    drone = profile.pilot.connect(profile, given.master, given.host, clock)
    try:
        Control(drone, Logic(profile), console, Path(given.out), given.network).run()
    finally:
        drone.close()
        console.close()


if __name__ == "__main__":
    main()
