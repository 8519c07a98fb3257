"""Commands of the last moments by when they were sent, whoever sent them."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

DELAY_S = 0.02
"""From our sending a command to the vehicle's hearing it: wire, pilot's cycle, radio."""

_FORCE_S = 0.2  # nobody sends commands as seldom as that


class CommandLog:
    """The last second."""

    def __init__(self) -> None:
        self._log: deque[tuple[float, np.ndarray]] = deque(maxlen=64)

    def add(self, now: float, command: np.ndarray | Sequence[float]) -> None:
        """One more."""
        self._log.append((now, np.asarray(command, float)))

    def heard(self, moment: float) -> np.ndarray | None:
        """The command [4] that the vehicle followed at a moment; None if that is not known."""
        moment -= DELAY_S
        for when, command in reversed(self._log):
            if when <= moment:
                return command if moment - when <= _FORCE_S else None
        return None
