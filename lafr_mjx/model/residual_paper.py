"""The paper's inputs: as the default ones, with the position, and commands that act at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lafr_mjx.model.residual import NO_LAG
from lafr_mjx.model.residual_default import Default

if TYPE_CHECKING:
    import numpy as np

    from lafr_mjx.model.residual import Switches


class Paper:
    """The default network with other switches: it needs no program of its own."""

    @staticmethod
    def create(rng: np.random.Generator, hidden: int = 64) -> Default:
        """Nearly zero."""
        return Default.create(rng, hidden)

    @staticmethod
    def switches(switches: Switches) -> Switches:
        """The position is an input, and there is no lag."""
        off = (0.0, 0.0, 0.0)
        return switches._replace(position=1.0, learned_lag=off, fixed_lag=NO_LAG)
