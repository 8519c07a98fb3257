"""An adaptation through the wire, from the operator's side: have flown what the learner asks for.

The drone flies what the learner's process asks for and keeps lapping with what it flew last while
the learner works. Laps between two legs are recorded in the bag, but belong to no flight: neither
figures nor learner see them. If the learner dies or is late, the drone keeps lapping until the
profile's `learner_s` is over; then the control process hovers and lands by itself.
"""

from __future__ import annotations

import math
import queue
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lafr_mjx.errors import RunError
from lafr_mjx.hil.control.legs import load_leg
from lafr_mjx.hil.operator.operator_steps import resume
from lafr_mjx.hil.operator.session import BrokenOffError
from lafr_mjx.metrics import event_in
from lafr_mjx.reference.path import lap_s

if TYPE_CHECKING:
    from collections.abc import Callable

    from lafr_mjx.hil.operator.learner_process import LearnerProcess
    from lafr_mjx.hil.operator.session import Session
    from lafr_mjx.runs.run_folder import RunFolder
    from lafr_mjx.types import Rollout

_DOWN_S = 60.0  # hover, landing, off
_LEARNS_S = 4.0  # of a flight in lockstep
_RESUMES = 20  # faults after which the policy is asked for again, in a whole adaptation


def wait_warm(
    learner: LearnerProcess, tell: Callable[[str], None], seconds: float = 1800.0
) -> None:
    """Until the learner has its base policy and all its programs."""
    end = time.monotonic() + seconds
    while not learner.warm:
        if learner.ended:
            raise RunError(f"{learner.ended} (before take-off)")
        if time.monotonic() > end:
            raise RunError(f"the learner is not ready after {seconds:g} s")
        try:
            message = learner.messages.get(timeout=0.2)
        except queue.Empty:
            continue
        if isinstance(message.get("told"), str):
            tell(message["told"])
        if "failed" in message:
            raise RunError(f"the learner cannot work: {message['failed']}")


class Adaptation:
    """One adaptation; `fly` returns when the learner is done, or raises when it cannot go on."""

    def __init__(
        self,
        session: Session,
        learner: LearnerProcess,
        folder: RunFolder,
        figures: Callable[[int, Rollout], dict[str, Any]],
    ) -> None:
        """Prepare.

        Args:
            session: in the mode `policy`.
            learner: warm.
            folder: of the run.
            figures: record of a flight that nothing was learned from.
        """
        self._session, self._learner, self._folder = session, learner, folder
        self._figures = figures
        self.frozen = ""  # why learning has stopped, if it has
        self._waits: tuple[int, Rollout] | None = None  # flown, and not yet learned from
        self._learns_until = 0.0
        self._over = (0.0, math.inf)  # when the last flight was over; what a lap takes since
        self.laps: list[float] = []  # while the learner worked, after each flight
        self._resumes = 0
        self._legs = 0  # asked for so far; a leg that is repeated gets a new number

    def fly(self) -> None:
        """Fly and store, until the learner is done."""
        session, learner = self._session, self._learner
        while True:
            message = self._next()
            if "fly" in message:
                self._leg(Path(message["fly"]))
            elif "learned" in message:
                self._learned(message)
            elif "frozen" in message:
                self.frozen = str(message["frozen"])
                session.note(f"learning is frozen, the last good policy flies on: {self.frozen}")
            elif "failed" in message:
                self._outlast(f"the learner failed: {message['failed']}")
            elif message.get("done"):
                learner.close()
                return

    def _next(self) -> dict[str, Any]:
        """What the learner says next; the drone is watched meanwhile."""
        session, learner = self._session, self._learner
        while True:
            # In lockstep learning takes a fixed time, or a flight would not be the same again;
            # who takes longer holds time up, unless it seems to hang.
            works = (
                session.clock.now() < self._learns_until
                or learner.silent_s > session.profile.limits.learner_s
            )
            if session.clock.lockstep and works and not learner.ended:
                session.sleep(0.05)
            else:
                try:
                    return learner.messages.get(timeout=0.05)
                except queue.Empty:
                    pass
            session.check_alive()
            if learner.ended:
                self._outlast(learner.ended)
            if session.mode != "policy" and not self._resumed():
                self._keep()
                raise RunError(f"the policy lost the vehicle; {session.trouble()}")

    def _leg(self, file: Path) -> None:
        leg, session = load_leg(file), self._session
        number = leg.number
        session.stage = f"flight {number}"
        while True:
            try:
                rollout = session.fly(leg._replace(number=self._legs))
                break
            except BrokenOffError:
                if self._learner.ended:
                    self._outlast(self._learner.ended)
                if not self._resumed():
                    raise
            finally:
                self._legs += 1
        self._waits = (number, rollout)
        self._folder.save_rollout(number, rollout, leg.path)
        now, path = session.clock.now(), leg.path
        self._learns_until = now + _LEARNS_S
        takes = leg.time_scale * float(lap_s(path)) if float(path.periodic) > 0.5 else math.inf
        self._over = (now, takes)
        self._learner.answer(self._folder.path / "rollouts" / f"{number:03d}.npz")

    def _resumed(self) -> bool:
        """The policy has the vehicle again after a fault that has passed."""
        self._resumes += 1
        return self._resumes <= _RESUMES and resume(self._session)

    def _learned(self, message: dict[str, Any]) -> None:
        since, takes = self._over
        self.laps.append((self._session.clock.now() - since) / takes)
        record = message["learned"] | {"laps_meanwhile": self.laps[-1]}
        self._waits = None
        self._store(record)
        partial = self._folder.path / ".policy.npz.partial"
        shutil.copyfile(message["policy"], partial)
        partial.replace(self._folder.path / "policy.npz")

    def _store(self, record: dict[str, Any]) -> None:
        self._folder.append_iteration(record)
        self._session.table.append(record)
        event, refused = event_in(record), record.get("plan_refused")
        if refused:
            self._session.note(
                f"the plan after flight {record['iteration']} is not flown: {refused}; the last "
                f"reference stays"
            )
        self._session.note(
            f"flight {record['iteration']}: {record['peak_speed_mps']:.2f} m/s, RMSE "
            f"{record['rmse_m']:.3f} m, time scale {record['time_scale']:.3f}, bound by "
            f"{record['bound_by']}{f', {event}' if event else ''}; "
            f"{record.get('laps_meanwhile', 0.0):.1f} laps meanwhile"
        )

    def _keep(self) -> None:
        """A flight that nobody learned from still has its figures."""
        if self._waits is not None:
            number, rollout = self._waits
            self._waits = None
            self._store(self._figures(number, rollout))

    def _outlast(self, why: str) -> None:
        """No learner any more: lap on until the control process has enough of it, and lands."""
        session = self._session
        patience = session.profile.limits.learner_s
        session.note(
            f"no learner any more: lapping with the last good policy for {patience:g} s at most"
        )
        self._keep()
        end = session.clock.now() + patience + _DOWN_S
        while session.mode != "off" and session.clock.now() < end:
            session.check_alive()
            session.sleep(0.05)
        raise RunError(why)
