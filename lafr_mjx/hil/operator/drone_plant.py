"""The drone on the wire as the learner knows a plant: `fly` and nothing else.

`Plant` of `lafr_mjx/learner/loop.py` is the seam: what learns on the simulated plant learns here.
A flight blocks in real time. The controllers that a learner flies are turned into what the
control process can load: policy files with dither and fallback, or the baseline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lafr_mjx import parts
from lafr_mjx.control.departure import DITHER
from lafr_mjx.control.geometric import GeometricController
from lafr_mjx.control.policy import Policy
from lafr_mjx.errors import InputError
from lafr_mjx.hil.control.fallback import Fallback
from lafr_mjx.hil.control.legs import Leg
from lafr_mjx.reference.path import Path

if TYPE_CHECKING:
    from lafr_mjx.control.controller import Controller
    from lafr_mjx.hil.operator.session import Session
    from lafr_mjx.reference.clock import Clock
    from lafr_mjx.types import Rollout


class HilPlant:
    """A session in the air, in the policy's hands. The run is the number of flights made."""

    def __init__(
        self, session: Session, *, lap_on: bool = True, seed: int = 0, network: str = "mlp"
    ) -> None:
        """Take over a session.

        Args:
            session: in the mode `policy`.
            lap_on: keep lapping with the last policy while the learner works.
            seed: of the dither.
            network: what the policy's network is called, see `parts`; the session's.
        """
        self.session = session
        self.lap_on = lap_on
        self._seed, self._network = seed, network

    def start(self, seed: int = 0) -> int:
        """No flight made."""
        del seed
        return 0

    def fly(
        self, run: int, controller: Controller, path: Path, clock: Clock, seconds: float
    ) -> tuple[int, Rollout]:
        """Fly along a path from rest in hover at its start; blocks until it is flown."""
        leg = leg_of(
            run, controller, path, clock, seconds, self._seed, lap_on=self.lap_on,
            network=self._network,
        )  # fmt: skip
        return run + 1, self.session.fly(leg)


def leg_of(
    number: int,
    controller: Controller,
    path: Path,
    clock: Clock,
    seconds: float,
    seed: int,
    *,
    lap_on: bool,
    network: str = "mlp",
) -> Leg:
    """A flight as the control process can make it."""
    policy, dither, fallback = as_flown(controller)
    return Leg(
        number=number,
        path=Path(*(np.asarray(field, float) for field in path)),
        time_scale=float(np.asarray(clock.time_scale)),
        ramp_s=float(np.asarray(clock.ramp_s)),
        seconds=float(seconds),
        policy=policy,
        dither=dither,
        seed=1000 * seed + number,
        lap_on=lap_on,
        fallback=fallback,
        network=network,
    )


def as_flown(controller: Any) -> tuple[Policy | None, np.ndarray, Fallback | None]:
    """A controller in the form that the control process flies: policy, dither [4], fallback.

    Known are the geometric controller (None: flown as the baseline), a `Policy`, and a policy
    behind the learner's guard (`lafr_mjx/learner/guarded.py`).
    """
    if isinstance(controller, GeometricController):
        return None, np.zeros(4), None
    if isinstance(controller, Policy):
        return _plain(controller), np.zeros(4), None
    if not isinstance(getattr(controller, "last_good", None), Policy):
        raise InputError(f"a {type(controller).__name__} cannot be flown on a drone")
    fallback = Fallback(
        _plain(controller.last_good),
        np.asarray(controller.slow_from, float),
        float(np.asarray(controller.error_limit)),
    )
    return _plain(controller.policy), float(np.asarray(controller.dither)) * DITHER, fallback


def _plain(policy: Policy) -> Policy:
    """A policy of NumPy arrays."""
    return parts.map_leaves(lambda leaf: np.asarray(leaf, np.float32), policy)
