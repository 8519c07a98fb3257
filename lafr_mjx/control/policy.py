"""The learned policy: a network from observation to command.

Its output lies in the admissible set by construction: tanh maps onto the range of each axis,
with zero at hover. It needs no JAX; under JAX the same code is traced.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lafr_mjx import parts
from lafr_mjx.arrays import clip, namespace
from lafr_mjx.control.observation import HISTORY, PREVIEW_S, SIZE, observe
from lafr_mjx.errors import InputError
from lafr_mjx.types import COMMAND_HOVER, CommandLimits, Reference, Sensed

if TYPE_CHECKING:
    from lafr_mjx.arrays import Array


_REACH = 1.3
"""Of tanh, before it is clipped: without it the limits could be approached, never used."""


class Policy(NamedTuple):
    """A network, whose weights are φ, and the limits of its commands; a `Learnable`."""

    network: Any  # see `control.controller.Network`
    limits: CommandLimits

    def preview_s(self) -> Array:
        """Moments at which it wants the reference."""
        return namespace(self.limits.low).asarray(PREVIEW_S)

    def start(self) -> Array:
        """Last commands [HISTORY, 4]: hover."""
        xp = namespace(self.limits.low)
        return xp.asarray(np.tile(COMMAND_HOVER, (HISTORY, 1)))

    def resume(self, commands: Array) -> Array:
        """The last commands [HISTORY, 4] of those that were given."""
        return commands[:HISTORY]

    def __call__(self, memory: Array, sensed: Sensed, references: Reference) -> tuple[Array, Array]:
        """One command [4] from one sensed state."""
        xp = namespace(sensed.state.position, self.limits.low)
        state = sensed.state
        seen = observe(state.position, state.velocity, state.rotation, references, memory)
        command = act(self, seen, sensed)
        return xp.concatenate([command[None], memory[:-1]]), command

    def sent(self, memory: Array, command: Array) -> Array:
        """The last commands as they were sent."""
        return namespace(command, memory).concatenate([command[None], memory[1:]])

    def trained(self) -> Any:
        """The network."""
        return self.network

    def with_trained(self, parameters: Any) -> Policy:
        """The same with another network."""
        return self._replace(network=parameters)


def act(policy: Policy, observation: Array, sensed: Sensed | None = None) -> Array:
    """Command [..., 4] for an observation [..., SIZE]; a network may look at sensors, too."""
    xp = namespace(observation, policy.limits.low)
    sensing = None if sensed is None else getattr(policy.network, "sensing", None)
    output = policy.network(observation) if sensing is None else sensing(observation, sensed)
    low, high = policy.limits.low, policy.limits.high
    # Each side of hover is scaled by its own range, so that zero output is hover. The kink in
    # the thrust's slope there is mild (9.81 below, 15.19 above).
    squashed = clip(xp, _REACH * xp.tanh(output), -1.0, 1.0)
    hover = COMMAND_HOVER
    command = hover + xp.where(squashed >= 0.0, squashed * (high - hover), squashed * (hover - low))
    # Rounding may pass a limit by its last digit.
    return clip(xp, command, low, high)


def create_policy(rng: np.random.Generator, limits: CommandLimits, network: str = "mlp") -> Policy:
    """An untrained policy, which hovers, whatever it sees.

    Args:
        rng: of its weights.
        limits: of its commands.
        network: a shipped network or one's own, see `parts`.
    """
    kind, values = parts.class_of(parts.NETWORK, network)
    for name in ("create", "__call__"):
        if not any(name in vars(base) for base in kind.__mro__):
            words = "a controller, which cannot be trained, and " * hasattr(kind, "preview_s")
            raise InputError(f"--policy {network}: has no '{name}': it is {words}no network")
    made = parts.called("policy", network, partial(kind.create, rng, SIZE, 4), values)
    _check(network, made)
    low, high = np.asarray(limits.low, np.float32), np.asarray(limits.high, np.float32)
    return Policy(made, CommandLimits(low, high))


def _check(text: str, network: Any) -> None:
    """Refuse a network whose weights or outputs are not what a policy needs."""
    parts.check_weights("policy", text, network)
    for shape in ((SIZE,), (2, SIZE)):
        try:
            given = np.asarray(network(np.zeros(shape, np.float32)))
        except Exception as error:  # whatever the user's code does
            raise InputError(f"--policy {text}: fails: {parts.reason(error)}") from error
        found, wanted = given.shape, (*shape[:-1], 4)
        if given.dtype.kind not in "iuf" or not np.all(np.isfinite(given)):
            raise InputError(f"--policy {text}: gives what is no finite number: {given.ravel()[0]}")
        if found != wanted:
            raise InputError(
                f"--policy {text}: gives {found} for inputs {shape}; it must be {wanted}"
            )
