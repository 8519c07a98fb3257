"""What `fly` does: start everything, take off, fly, land, and leave a run folder."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lafr_mjx.errors import InputError, RunError
from lafr_mjx.hil.control.legs import Leg
from lafr_mjx.hil.operator.descent import motors_off
from lafr_mjx.hil.operator.drone_adaptation import Adaptation, wait_warm
from lafr_mjx.hil.operator.keyboard import keys
from lafr_mjx.hil.operator.learner_faults import arm
from lafr_mjx.hil.operator.learner_process import LearnerProcess
from lafr_mjx.hil.operator.learner_setup import LearnerSetup
from lafr_mjx.hil.operator.live_view import view
from lafr_mjx.hil.operator.operator_steps import interruptible, land, take_off
from lafr_mjx.hil.operator.session import Session
from lafr_mjx.hil.recording.drone_report import AdaptationTable, unlearned_record
from lafr_mjx.hil.timing.priority import prefer_operator
from lafr_mjx.output import counted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lafr_mjx.control.policy import Policy
    from lafr_mjx.hil.operator.learner_faults import LearnerFault
    from lafr_mjx.hil.safety.drone_profile import Profile
    from lafr_mjx.hil.simulator.flight_controllers import FlightController
    from lafr_mjx.run_spec import RunSpec
    from lafr_mjx.runs.run_folder import RunFolder
    from lafr_mjx.tasks import Task


_NOT_DOWN = (
    "the vehicle is NOT CONFIRMED DOWN: keep away from it, and switch it off with the transmitter"
)
_UNSEEN = "its motors are off, but nobody has seen where it came down: keep away until somebody has"


@dataclass(frozen=True)
class Flights:
    """Where and what is flown, whoever flies it."""

    profile: Profile
    task: Task
    task_name: str  # as the user said it: a name or a path
    scenario: str
    seed: int = 0
    master: str | None = None
    host: str = "127.0.0.1"
    faults: tuple[str, ...] = ()
    real_time: bool = False  # of the software drone
    network: str = "mlp"  # of the policies that fly
    plugins: tuple[str, ...] = ()  # of the user's, in the software drone
    flight_controller: FlightController = "plant"  # of the software drone
    firmware: Path | None = None

    @property
    def punctual(self) -> bool:
        """Whether it flies in real time; in lockstep all wait for whoever is late."""
        return self.real_time or not self.profile.software_drone

    @property
    def where(self) -> str:
        """On which drone, in words."""
        if not self.profile.software_drone:
            return self.profile.name
        firmware = "" if self.flight_controller == "plant" else f" with {self.flight_controller}"
        return f"the software drone{firmware} in {'real time' if self.real_time else 'lockstep'}"

    def session(self, folder: RunFolder) -> Session:
        """Start the processes."""
        if self.punctual:
            prefer_operator()
        fans = self.task_name if self.task.fans else None
        return Session(
            self.profile, folder.path / "hil", master=self.master, host=self.host,
            scenario=self.scenario, task=fans, seed=self.seed, faults=self.faults,
            real_time=self.real_time, network=self.network, plugins=self.plugins,
            flight_controller=self.flight_controller, firmware=self.firmware,
        )  # fmt: skip


def fly_fixed(
    flights: Flights, folder: RunFolder, policy: Policy | None, scale: float, count: int
) -> dict[str, Any]:
    """Recorded flights with a controller that learns nothing; the summary."""
    task = flights.task
    print(f"Flying {task.name} on {flights.where}; everything is kept in {folder.path}", flush=True)
    began = time.monotonic()
    trouble: BaseException | None = None
    with flights.session(folder) as session, interruptible(session), view(session), keys(session):
        try:
            take_off(session)
            for number in range(count):
                leg = Leg(number, task.path, scale, task.ramp_s, task.flight_s(scale), policy,
                          np.zeros(4), number, False, None, flights.network)  # fmt: skip
                rollout = session.fly(leg)
                folder.save_rollout(number, rollout, leg.path)
                record = unlearned_record(rollout, task, flights.profile, number, scale)
                folder.append_iteration(record)
                session.table.append(record)
            land(session)
        except BaseException as error:  # whatever it is, the vehicle must come down first
            trouble = error
        close(session)
    return _finish(flights, folder, session, trouble, count, time.monotonic() - began)


def fly_adaptation(
    flights: Flights,
    folder: RunFolder,
    spec: RunSpec,
    faults: list[LearnerFault],
    effort: tuple[int, ...] = (),
) -> dict[str, Any]:
    """Adapt in flight; the summary. Raises if it did not come to its end, after landing."""
    task, profile, inner = flights.task, flights.profile, folder.path / "hil"
    iterations = int(spec.iterations)
    print(
        f"Adapting on {task.name} on {flights.where}: {iterations} flights, learning after each.\n"
        f"Everything is kept in {folder.path}\n"
        f"First the learner trains its base policy and compiles (minutes at the first time).",
        flush=True,
    )
    broken = [int(fault.at) for fault in faults if fault.kind == "learner-nan"]
    setup = LearnerSetup(str(profile.path), spec, effort, broken[0] if broken else -1)
    trouble: BaseException | None = None
    frozen, began = "", time.monotonic()
    laps: list[float] = []  # while the learner worked
    with LearnerProcess(setup, inner, aside=flights.punctual) as learner:
        # A vehicle is not switched on to wait for a compiler.
        wait_warm(learner, lambda text: print(text, flush=True))
        with (
            flights.session(folder) as session,
            interruptible(session),
            view(session),
            keys(session),
        ):
            try:
                learner.watch_by(session)
                take_off(session)
                arm(faults, learner, session.clock)
                adaptation = Adaptation(
                    session, learner, folder,
                    lambda number, rollout: unlearned_record(
                        rollout, task, profile, number, float(rollout.time_scale[0])
                    ),
                )  # fmt: skip
                try:
                    adaptation.fly()
                finally:
                    frozen, laps = adaptation.frozen, adaptation.laps
                land(session)
            except BaseException as error:  # whatever it is, the vehicle must come down first
                trouble = error
            close(session)
    seconds = time.monotonic() - began
    return _finish(flights, folder, session, trouble, iterations, seconds, frozen, laps)


def close(session: Session) -> None:
    """Land and end; a first Ctrl-C that comes now changes nothing, for that is what it asks for."""
    while True:
        try:
            session.close()
            return
        except KeyboardInterrupt:
            continue


def _finish(
    flights: Flights,
    folder: RunFolder,
    session: Session,
    trouble: BaseException | None,
    wanted: int,
    seconds: float,
    frozen: str = "",
    laps: Sequence[float] = (),
) -> dict[str, Any]:
    """Tables, plots and summary of what was flown, however it ended."""
    timing = session.ended or {}
    hil = {
        "flights_wanted": wanted,
        "lockstep": session.clock.lockstep,
        "missed_deadlines": timing.get("missed_deadlines"),
        "missed_in_a_row": timing.get("missed_in_a_row"),
        "trips": [text for _, text in session.events if text.startswith("fault ")],
        "learning_frozen": frozen,
        "most_laps_meanwhile": max(laps, default=0.0),
        "trouble": _words(trouble),
        "confirmed_down": session.down,
    }
    records = folder.iterations()
    summary: dict[str, Any] = {"iterations": 0}
    if records:
        table = AdaptationTable(folder)
        table.ready(f"{flights.task.name} on {flights.where}, by what was sensed:")
        summary = table.finish(seconds)
    summary |= {"hil": hil}
    folder.write_summary(summary)
    print(
        f"{len(records)} of {counted(wanted, 'flight')}, {counted(len(hil['trips']), 'trip')}, "
        f"{counted(hil['missed_deadlines'], 'missed deadline')}; recorded in {session.folder}"
    )
    if laps:
        print(f"While the learner worked the drone lapped on {max(laps):.1f} times at most.")
    late = any(text.startswith("fault DEADLINE") for text in hil["trips"])
    if late and flights.profile.software_drone:
        print("The machine was late; without --real-time the software drone flies in lockstep.")
    end = "" if session.down else f"; {_UNSEEN if motors_off(session) else _NOT_DOWN}"
    if trouble is not None and not end:
        flew = any("→ takeoff" in text for _, text in session.events)
        end = "; the vehicle was landed" if flew else "; nothing had taken off"
    if trouble is None and not end:
        return summary
    if trouble is None or isinstance(trouble, InputError | RunError | OSError | KeyboardInterrupt):
        raise RunError(f"{_words(trouble)}{end}".removeprefix("; ")) from trouble
    if end:
        print(end.removeprefix("; "), flush=True)
    raise trouble


def _words(trouble: BaseException | None) -> str:
    if isinstance(trouble, KeyboardInterrupt):
        return "interrupted by the operator"
    return str(trouble) or type(trouble).__name__ if trouble else ""
