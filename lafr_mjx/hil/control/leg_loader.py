"""Legs are read in a thread of the control process: a file system may take its time."""

from __future__ import annotations

import contextlib
import queue
import threading
from typing import TYPE_CHECKING

import numpy as np

from lafr_mjx.control.observation import SIZE
from lafr_mjx.control.policy import create_policy
from lafr_mjx.errors import InputError
from lafr_mjx.hil.control.legs import Leg, check_leg, load_leg, try_leg, try_policy
from lafr_mjx.hil.timing.priority import background

if TYPE_CHECKING:
    from pathlib import Path

    from lafr_mjx.hil.safety.drone_profile import Profile


_IN_TIME_S = 5.0


class LegLoader:
    """Reads and checks legs beside the control loop."""

    def __init__(self, profile: Profile, network: str = "mlp") -> None:
        self._profile, self._network = profile, network
        self._open = 0  # asked for, and not answered
        self._asked: queue.Queue[tuple[Path, np.ndarray]] = queue.Queue(4)
        self._done: queue.Queue[tuple[Leg | None, str]] = queue.Queue(4)
        threading.Thread(target=self._run, name="legs", daemon=True).start()

    def ask(self, path: Path, observations: np.ndarray) -> None:
        """Read and check a leg; `observations` are of the last flight, to try its policy on."""
        with contextlib.suppress(queue.Full):
            self._asked.put_nowait((path, observations))
            self._open += 1

    def result(self, *, at_once: bool = True) -> tuple[Leg | None, str] | None:
        """A leg, or why it is refused; None if nothing is ready (at once, or in time)."""
        try:
            wait = self._open > 0 and not at_once
            done = self._done.get(wait, _IN_TIME_S if wait else None)
            self._open -= 1
            return done
        except queue.Empty:
            return None

    def _run(self) -> None:
        background()
        # What the first trial allocates is there before a flight.
        blank = np.zeros((400, SIZE), np.float32)
        try_policy(create_policy(np.random.default_rng(0), self._profile.command.limits), blank)
        while True:
            path, observations = self._asked.get()
            try:
                leg = load_leg(path, self._network)
                trouble = check_leg(leg, self._profile) or try_leg(leg, observations)
                self._done.put((None, f"{path.name}: {trouble}") if trouble else (leg, ""))
            except InputError as error:
                self._done.put((None, str(error)))
            except Exception as error:
                self._done.put((None, f"{path.name}: {error}"))
