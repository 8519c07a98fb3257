"""The learner's process seen from the operator's: started, listened to, ended."""

from __future__ import annotations

import contextlib
import queue
import signal
import socket
import subprocess
import threading
import time
from typing import TYPE_CHECKING, Any

from lafr_mjx.closing import Closing
from lafr_mjx.hil.control.console import Console
from lafr_mjx.hil.operator import child_process

if TYPE_CHECKING:
    from pathlib import Path

    from lafr_mjx.hil.operator.learner_setup import LearnerSetup
    from lafr_mjx.hil.operator.session import Session


class LearnerProcess(Closing):
    """Passes the learner's signs of life on to the session. Use it as a context manager.

    It is started before the drone: what it must train and compile takes longest. A session that
    is given later is told at once that the learner is not ready.
    """

    def __init__(self, setup: LearnerSetup, folder: Path, *, aside: bool = True) -> None:
        self.folder = folder
        self.warm = False
        self._heard = time.monotonic()
        self.session: Session | None = None
        self.messages: queue.Queue[dict[str, Any]] = queue.Queue()
        file = folder / "learner.json"
        setup.write(file)
        mine, its = socket.socketpair()
        self._console = Console(mine)
        command = ["-m", "lafr_mjx.hil.operator.learner_work", "--setup", str(file)]
        command += ["--console", str(its.fileno())] + (["--aside"] if aside else [])
        self.process = child_process.start(command, folder / "learner.txt", its.fileno())
        its.close()
        self._closing = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._listen, name="learner", daemon=True)
        self._thread.start()

    def watch_by(self, session: Session) -> None:
        """From now on this session hears of the learner."""
        self.session = session
        session.learner("warm" if self.warm else "cold")

    def answer(self, rollout: Path) -> None:
        """The flight that it asked for."""
        with self._lock:
            self._console.send({"rollout": str(rollout)})

    def kill(self) -> None:
        """As if it had crashed; for tests and injected faults."""
        with contextlib.suppress(OSError):
            self.process.kill()

    def hang(self) -> None:
        """Stop it where it is; for tests and injected faults."""
        with contextlib.suppress(OSError):
            self.process.send_signal(signal.SIGSTOP)

    @property
    def silent_s(self) -> float:
        """For how long it has said nothing [s, real]."""
        return time.monotonic() - self._heard

    @property
    def ended(self) -> str:
        """Why it has ended, in a line; empty while it runs."""
        status = self.process.poll()
        if status is None:
            return ""
        last = child_process.last_line(self.folder / "learner.txt")
        return f"the learner's process has ended with status {status}" + (
            f": {last}" if last else ""
        )

    def close(self) -> None:
        """End it; nothing of it is needed any more."""
        if self._closing:
            return
        self._closing = True
        if self.session is not None:
            with contextlib.suppress(Exception):
                self.session.learner("none")
        self._thread.join(2.0)
        with contextlib.suppress(OSError):
            self._console.close()
        child_process.end(self.process, 3.0)

    def _listen(self) -> None:
        while not self._closing:
            self._console.wait(0.1)
            with self._lock:
                received = self._console.receive()
            for message in received:
                self._take(message)
            if self._console.closed:
                self._note_end()
                return

    def _note_end(self) -> None:
        """It has gone by itself: say so at once, whatever is being flown."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(2.0)
        if self.session is not None and not self._closing:
            self.session.note(self.ended or "the learner's process says nothing any more")

    def _take(self, message: dict[str, Any]) -> None:
        session, self._heard = self.session, time.monotonic()
        if message.get("warm"):
            self.warm = True
        if session is not None and self.warm:
            session.learner("warm")  # a sign of life, whatever it says
        if isinstance(message.get("stage"), str) and session is not None:
            session.stage = message["stage"]
        if set(message) != {"beat"} and "stage" not in message:
            self.messages.put(message)
