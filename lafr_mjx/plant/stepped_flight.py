"""A flight on somebody else's simulator: it makes steps, the rest is done here."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from lafr_mjx.plant.flight import decided
from lafr_mjx.reference import clock as clocks
from lafr_mjx.reference.flatness import reference_state
from lafr_mjx.types import CONTROL_DT, SAMPLE_DT, Rollout, Sensed

if TYPE_CHECKING:
    from collections.abc import Callable

    from lafr_mjx.control.controller import Controller
    from lafr_mjx.reference.clock import Clock
    from lafr_mjx.reference.path import Path
    from lafr_mjx.types import State

_LOST_M = 2.0
"""Distance from the reference beyond which a flight is over."""

_FLOOR_M = 0.05
"""Height below which it is over, too."""


_decided = jax.jit(decided)


def fly_steps(
    controller: Controller,
    path: Path,
    clock: Clock,
    seconds: float,
    start: Callable[[np.ndarray], State],
    step: Callable[[np.ndarray], tuple[State, State]],
    sense: Callable[[State], State] = lambda state: state,
    *,
    sensing_delay: int = 0,
) -> Rollout:
    """Fly along a path and record it; for the method `fly` of a plant of your own.

    Examples:
        >>> def fly(self, run, controller, path, clock, seconds):
        ...     rollout = lm.fly_steps(controller, path, clock, seconds, self.hover_at, self.step)
        ...     return run, rollout

    Args:
        controller: what flies.
        path: to be followed.
        clock: at the start of the flight.
        seconds: of flight.
        start: puts the vehicle at rest in hover at a position [3]; returns its state.
        step: sends a command [4], 20 ms long; returns the states after 10 and after 20 ms.
        sense: a state as it is sensed, e.g. with noise.
        sensing_delay: samples (10 ms) by which the controller sees the state late.

    Returns:
        The flight. It is over, as a crash, where the state is no longer finite, below the floor
        or 2 m off.
    """
    controller, path, clock = jax.tree.map(jnp.asarray, (controller, path, clock))
    memory, asked = jax.tree.map(jnp.asarray, controller.start()), clock.time_scale
    now = start(np.asarray(_asked(path, clock)[0].position))
    seen = [sense(now)] * (sensing_delay + 1)
    rows: list[Rollout] = []
    crashed = False
    for tick in range(math.ceil(seconds / CONTROL_DT - 1e-6)):
        time = np.asarray(tick * CONTROL_DT, np.float32)
        late = np.asarray(min(sensing_delay * SAMPLE_DT, tick * CONTROL_DT), np.float32)
        sensed = Sensed(seen[-1 - sensing_delay], np.asarray(time - late), time)
        reference, rate = _asked(path, clock)
        memory, command, after, fallback = _decided(controller, path, memory, clock, asked, sensed)
        off = np.linalg.norm(now.position - np.asarray(reference.position))
        crashed = crashed or not (off < _LOST_M and now.position[2] > _FLOOR_M)
        samples = (now, now) if crashed else step(np.asarray(command, float))
        seen += map(sense, samples)
        rows.append(
            Rollout(
                time=time,
                valid=np.asarray(True),
                sensed=sensed.state,
                stamp=sensed.stamp,
                command=command,
                reference=reference,
                phase=clock.phase,
                phase_rate=rate,
                time_scale=clock.time_scale,
                truth=now,
                crashed=np.asarray(crashed),
                sample_time=time + SAMPLE_DT * np.arange(1, 3),
                sample=_stacked(seen[-2:]),
                sample_received=np.full(2, not crashed),
                diagnostics=None,
                fallback=fallback,
            )
        )
        now, clock = samples[-1], after
    whole = _stacked(rows)
    samples = ("sample_time", "sample", "sample_received")
    merged = jax.tree.map(
        lambda leaf: leaf.reshape((-1, *leaf.shape[2:])), {k: getattr(whole, k) for k in samples}
    )
    return whole._replace(**merged)


@jax.jit
def _asked(path: Path, clock: Clock) -> tuple[Any, Any]:
    """The reference of now, and the phase's rate."""
    return reference_state(path, *clocks.shifted(clock, 0.0)), clocks.rates(clock)[0]


def _stacked(rows: list[Any]) -> Any:
    return jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *rows)
