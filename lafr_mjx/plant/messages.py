"""What travels over a link: commands to the vehicle, samples back; each with its arrival.

Links delay, lose and reorder. Both directions keep a short buffer of messages with the time
at which each arrives, relative to now, so that delays are exact and precision does not fade
in long flights. A lost message arrives never (at +inf).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from flax import struct

from lafr_mjx.plant.limits import COMMANDS_KEPT, SAMPLES_KEPT
from lafr_mjx.plant.rate_loop import Ctbr
from lafr_mjx.plant.vec3 import Scalar, Vec3, materialise

if TYPE_CHECKING:
    from lafr_mjx.plant.rigid_body import Motion

_LONG_AGO = -1e3
_EPSILON = 1e-5  # s; a message due at this very instant counts as arrived


@struct.dataclass
class CommandMessage:
    """A command on its way; `arrival` [s] counts from the moment it is sent."""

    command: Ctbr
    arrival: Scalar


@struct.dataclass
class SampleMessage:
    """A measured motion on its way; `arrival` and `age` [s] count from the moment it is taken.

    With it travels what the sensors said at that moment, by their names.
    """

    motion: Motion
    arrival: Scalar
    age: Scalar
    measured: dict[str, jax.Array] = struct.field(default_factory=dict)


# ---------------------------------------------------------------- commands


def full_of(command: Ctbr) -> tuple[CommandMessage, ...]:
    """A buffer in which this command has been in force for long."""
    arrived = CommandMessage(command, jnp.float32(_LONG_AGO))
    return (arrived,) * COMMANDS_KEPT


def send(buffer: tuple[CommandMessage, ...], message: CommandMessage) -> tuple[CommandMessage, ...]:
    """Put the newest message in front; the oldest falls out."""
    # The last slot holds what has been in force longest, in case that all newer ones are lost.
    lost = jnp.isinf(buffer[-2].arrival)
    oldest = jax.tree.map(
        lambda a, b: jnp.where(lost, b, a), buffer[-2].command, buffer[-1].command
    )
    return (message, *buffer[:-2], CommandMessage(oldest, jnp.float32(_LONG_AGO)))


def in_force(buffer: tuple[CommandMessage, ...], start: Scalar, dt: float, unit: Scalar) -> Ctbr:
    """Mean over [start, start + dt] of the newest arrived command (zero-order hold).

    A command that arrives inside the interval counts for its share of it: the switch is exact
    in its effect and never interpolated.
    """
    end = start + dt
    thrust: Scalar = 0.0
    rates = Vec3(0.0, 0.0, 0.0)
    replaced: Scalar = jnp.inf  # when a newer command takes over
    for message in buffer:
        begins = jnp.maximum(message.arrival, start)
        ends = jnp.minimum(replaced, end)
        share = materialise(jnp.maximum(ends - begins, 0.0) * (1.0 / dt), unit)
        thrust = thrust + share * message.command.thrust
        rates = rates + message.command.rates * share
        replaced = jnp.minimum(replaced, message.arrival)
    return Ctbr(thrust, rates)


def commands_later(
    buffer: tuple[CommandMessage, ...], seconds: float
) -> tuple[CommandMessage, ...]:
    """The buffer as seen after some time: all arrivals have come nearer."""
    return tuple(m.replace(arrival=jnp.maximum(m.arrival - seconds, _LONG_AGO)) for m in buffer)


# ---------------------------------------------------------------- samples


def first_sample(motion: Motion, measured: dict[str, jax.Array]) -> tuple[SampleMessage, ...]:
    """A buffer in which this motion was sampled and received just now."""
    sample = SampleMessage(motion, jnp.float32(_LONG_AGO), jnp.float32(0.0), measured)
    return (sample,) * SAMPLES_KEPT


def take(buffer: tuple[SampleMessage, ...], message: SampleMessage) -> tuple[SampleMessage, ...]:
    """Put the newest sample in front.

    The last slot keeps the newest arrived one of those that fall out, so that the controller
    always has a sample, however old.
    """
    arrived = buffer[-2].arrival <= _EPSILON
    oldest = jax.tree.map(lambda a, b: jnp.where(arrived, a, b), buffer[-2], buffer[-1])
    return (message, *buffer[:-2], oldest.replace(arrival=jnp.float32(_LONG_AGO)))


def samples_later(buffer: tuple[SampleMessage, ...], seconds: float) -> tuple[SampleMessage, ...]:
    """The buffer as seen after some time: samples are older, arrivals nearer."""
    return tuple(
        m.replace(arrival=jnp.maximum(m.arrival - seconds, _LONG_AGO), age=m.age + seconds)
        for m in buffer
    )


def newest_arrived(buffer: tuple[SampleMessage, ...]) -> SampleMessage:
    """What the controller knows: the newest sample that has arrived."""
    chosen = buffer[-1]
    for message in reversed(buffer[:-1]):
        arrived = message.arrival <= _EPSILON
        chosen = jax.tree.map(
            lambda a, b, arrived=arrived: jnp.where(arrived, a, b), message, chosen
        )
    return chosen
