"""What passes between the rooms: states, references, commands, flights.

All are named tuples: JAX treats them as pytrees by itself, and the drone's control process
can use them without importing JAX. Units are SI. World frame: z up. Body frame: x forward,
y left, z up; `rotation` maps body vectors to the world. Leading batch axes are allowed
everywhere; the shapes given are those of one vehicle.

A *command* is an array [..., 4]: mass-normalised collective thrust c [m/s²] and body rates
[rad/s] (CTBR).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lafr_mjx.arrays import Array

GRAVITY = 9.81
"""Standard gravity of the plant and of the learner's nominal model [m/s²]."""

CONTROL_DT = 0.02
"""Time between two commands [s]: the policy runs at 50 Hz."""

SAMPLE_DT = 0.01
"""Time between two samples of motion capture [s]: 100 Hz."""


SLOWED = 1.01
"""Factor on a flight's own time scale from which on its clock counts as slowed down."""

COMMAND_HOVER = np.array([GRAVITY, 0.0, 0.0, 0.0], np.float32)
COMMAND_SCALE = np.array([10.0, 6.0, 6.0, 6.0], np.float32)
"""Networks and costs see commands as (u - hover) / scale."""


NOTHING: Mapping[str, Array] = {}
"""What sensors say where there are none; an empty pytree."""


class State(NamedTuple):
    """Motion of a rigid body."""

    position: Array  # [3] m, world
    velocity: Array  # [3] m/s, world
    rotation: Array  # [3, 3] body to world
    rates: Array  # [3] rad/s, body


class Reference(NamedTuple):
    """What is asked at one instant: the flat output's derivatives and the state they imply."""

    position: Array  # [3] m
    velocity: Array  # [3] m/s
    acceleration: Array  # [3] m/s²
    jerk: Array  # [3] m/s³
    rotation: Array  # [3, 3] attitude without drag
    rates: Array  # [3] rad/s, body
    thrust: Array  # [] m/s², mass-normalised


class CommandLimits(NamedTuple):
    """The admissible set U of commands, axis by axis."""

    low: Array  # [4]
    high: Array  # [4]


class Sensed(NamedTuple):
    """The newest sample that has reached the controller."""

    state: State
    stamp: Array  # [] s, when the sample was taken
    time: Array  # [] s, now; the sample's age is time - stamp
    measured: Mapping[str, Array] = NOTHING  # what other sensors said at `stamp`, by name


class Rollout(NamedTuple):
    """One recorded flight on the 50 Hz clock, with the 100 Hz samples beside it.

    The same pytree comes from the simulated plant, from hardware and from recorded logs. The
    leading axis of every field is time (T ticks); `sample_*` have 2 T entries in time order.
    """

    time: Array  # [T] s since the start of the flight
    valid: Array  # [T] bool, False beyond the end of this flight (batches share one length)
    sensed: State  # newest sample known at `time`
    stamp: Array  # [T] s, when that sample was taken
    command: Array  # [T, 4] what was really sent, after clipping
    reference: Reference  # what was asked at `time`
    phase: Array  # [T] s, phase of the path at `time`
    phase_rate: Array  # [T] ds/dt
    time_scale: Array  # [T] α in force
    truth: State  # true state at `time`; on hardware the sensed one
    crashed: Array  # [T] bool, frozen from the first True on
    sample_time: Array  # [2 T] s
    sample: State  # the sensed 100 Hz samples
    sample_received: Array  # [2 T] bool, False where the sample was lost
    diagnostics: Any  # what only this kind of plant knows (rotor speeds, saturation, voltage)
    fallback: Any = None  # [T] bool, another policy than the asked one flew; None: never
    measured: Mapping[str, Array] = NOTHING  # [T, ...] what other sensors said at `stamp`

    @property
    def slow_down(self) -> Array:
        """[T] α in force over the one that was asked for; above 1 the guard slows down."""
        return self.time_scale / self.time_scale[:1]

    @property
    def assisted(self) -> Array:
        """[T] bool, the guard has slowed the clock down, or another policy has the vehicle."""
        flying = self.valid & ~self.crashed
        fallback = False if self.fallback is None else self.fallback
        return flying & ((self.slow_down > SLOWED) | fallback)
