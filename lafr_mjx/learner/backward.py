"""The slope of a flight's cost in the policy, with as little work as possible between the ticks.

Backpropagation through time is a chain: tick by tick forwards, and back. What JAX makes of it
does everything within the chain, in hundreds of tiny operations. Here the chain holds only what
must be in order. Beside it, for all ticks at once:

- the derivatives of the motion and of the residual, that of the latter as a dense matrix,
- the slope of the cost itself,
- the slope in the network's weights, from what each layer got and the slope at its output.

The numbers are those of `jax.grad` over the whole flight, to rounding; a test compares them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp

from lafr_mjx import mlp
from lafr_mjx.control.network_mlp import Mlp
from lafr_mjx.learner import model_rollout
from lafr_mjx.learner.model_rollout import Flying
from lafr_mjx.model import residual
from lafr_mjx.model.hybrid import HeldSlope
from lafr_mjx.model.residual import COMMANDS
from lafr_mjx.model.state import ModelState
from lafr_mjx.types import CONTROL_DT

if TYPE_CHECKING:
    from collections.abc import Callable

    from lafr_mjx.control.controller import Learnable
    from lafr_mjx.learner.cost import Cost
    from lafr_mjx.learner.model_rollout import Stress
    from lafr_mjx.model.residual import Residual, Switches
    from lafr_mjx.types import Reference


class Flights(NamedTuple):
    """Where flights begin and what happens to them, [members, flights, ...]."""

    state: ModelState
    commands: jax.Array  # [..., COMMANDS + 1, 4] that were given just before, newest first
    references: Reference  # [H, members, flights, P, ...]
    stress: Stress
    noise: jax.Array  # [H, members, flights, 9]


def cost_and_slope(
    policy: Learnable,
    ensemble: Residual,
    switches: Switches,
    cost: Cost,
    discount: Any,
    flights: Flights,
) -> tuple[jax.Array, Any]:
    """-J(φ), the discounted cost, mean over flights and ticks, and its slope in the network φ."""
    network, stress = policy.trained(), flights.stress
    forward, transposed, pulled_back, gradient = _MLP if type(network) is Mlp else _ANY

    def decide(
        memory: Any, state: ModelState, now: tuple, act: Callable, *given: Any
    ) -> tuple[Any, jax.Array, Any]:
        """New memory and command of each flight, and what `act` tells beside its output."""

        def one(memory: Any, state: Any, stress: Any, now: tuple, *given: Any) -> tuple:
            told = []

            def network(inputs: Any) -> Any:
                output, beside = act(inputs, *given)
                told.append(beside)
                return output

            sensed = model_rollout.sense(state, stress, now[1])
            new, command = model_rollout.decide(
                policy.with_trained(network), memory, sensed, now[0]
            )
            (beside,) = told
            return new, command, beside

        return _each(one)(memory, state, stress, now, *given)

    def acting(commands: jax.Array) -> Any:
        return jax.vmap(model_rollout.acting, in_axes=(0, None, 0, 0))(
            ensemble, switches, commands, stress
        )

    def tick(flying: Flying, now: tuple) -> tuple[Flying, _Tick]:
        def act(inputs: Any) -> Any:
            output, tape = forward(network, inputs)
            return output, (output, tape)

        memory, command, (output, tape) = decide(flying.memory, flying.state, now, act)
        commands = _with(command, flying.commands)
        effective, window = acting(commands)
        missing = jax.vmap(residual.evaluate, in_axes=(0, None, 0, 0, 0))(
            ensemble, switches, flying.state, effective, window
        )
        state = model_rollout.move(flying.state, effective, missing, stress)
        seen = _Tick(flying, command, effective, window, missing, output, tape)
        return Flying(state, commands, memory), seen

    def start() -> Flying:
        memory = _each(policy.resume)(flights.commands)
        return Flying(flights.state, flights.commands, memory)

    given = (flights.references, flights.noise)
    memory = _each(policy.resume)(flights.commands)
    last, ticks = jax.lax.scan(tick, Flying(flights.state, flights.commands, memory), given)
    # Transposed once: a product with a matrix that lies the other way costs half as much again.
    turned = transposed(network)
    by_motion = HeldSlope.of(
        ticks.flying.state, ticks.effective * stress.gains, ticks.missing[1], CONTROL_DT
    )
    by_residual = _residual(ensemble, switches, ticks)

    def costs(state: ModelState, command: jax.Array, previous: jax.Array) -> jax.Array:
        present = jax.tree.map(lambda leaf: leaf[:, :, :, 0], flights.references)
        # A cost of the user's sees the flights of one tick.
        value = _each(cost)(state, present, command, previous)
        gamma = discount ** jnp.arange(value.shape[0])
        return jnp.mean(gamma[:, None, None] * value)

    value, of_cost = jax.value_and_grad(costs, argnums=(0, 1, 2))(
        ticks.flying.state, ticks.command, ticks.flying.commands[..., 0, :]
    )

    def back(later: Flying, now: tuple) -> tuple[Flying, Any]:
        """From the slope in what is after a tick to that in what is before it."""
        tick, given, by_motion, by_residual, (of_state, of_command, of_previous) = now
        moved, acts, acceleration = by_motion.pulled_back(later.state, CONTROL_DT)
        missing = jnp.concatenate([acceleration, acts[..., 1:]], axis=-1)
        more, effective, window = _parts(jnp.sum(missing[..., None] * by_residual, axis=-2))
        commands = jnp.concatenate(
            [tick.command[..., None, :], tick.flying.commands[..., :-1, :]], axis=-2
        )
        (through,) = jax.vjp(acting, commands)[1]((effective + stress.gains * acts, window))
        through = through + later.commands
        of_command = of_command + through[..., 0, :]
        before = through[..., 1:, :].at[..., 0, :].add(of_previous)
        before = jnp.concatenate([before, jnp.zeros_like(before[..., :1, :])], axis=-2)

        def decided(memory: Any, state: ModelState, output: jax.Array) -> tuple:
            return decide(memory, state, given, lambda inputs, output: (output, inputs), output)

        (_, _, inputs), pull = jax.vjp(decided, tick.flying.memory, tick.flying.state, tick.output)
        unseen = jnp.zeros_like(inputs)
        memory, direct, output = pull((later.memory, of_command, unseen))
        seen, slopes = pulled_back(turned, tick.tape, output)
        untold = jax.tree.map(jnp.zeros_like, (later.memory, of_command))
        more_memory, sensed, _ = pull((*untold, seen))
        total = jax.tree.map(lambda *x: sum(x), moved, more, of_state, direct, sensed)
        memory = jax.tree.map(jnp.add, memory, more_memory)
        return Flying(total, before, memory), slopes

    nothing = jax.tree.map(jnp.zeros_like, last)
    _, slopes = jax.lax.scan(
        back, nothing, (ticks, given, by_motion, by_residual, of_cost), reverse=True
    )
    return value, gradient(network, ticks.tape, slopes)


class _Tick(NamedTuple):
    """What is kept of a tick, [members, flights, ...]."""

    flying: Flying  # before it
    command: jax.Array  # [..., 4]
    effective: jax.Array  # [..., 4]
    window: jax.Array  # [..., COMMANDS, 4]
    missing: Any  # from the residual
    output: jax.Array  # of the network
    tape: Any  # what its slope needs


def _residual(ensemble: Residual, switches: Switches, ticks: _Tick) -> jax.Array:
    """Jacobian [H, members, flights, 6, 55] of the residual in state and commands."""

    def of_flights(numbers: jax.Array, member: Residual) -> jax.Array:
        """[flights, 6, 55]: a residual of the user's sees the flights of one tick."""

        def missing(numbers: jax.Array) -> jax.Array:
            return jnp.concatenate(residual.evaluate(member, switches, *_parts(numbers)), axis=-1)

        found, pull = jax.vjp(missing, numbers)
        rows = jnp.eye(found.shape[-1], dtype=found.dtype)
        return jax.vmap(lambda row: pull(jnp.broadcast_to(row, found.shape))[0], out_axes=-2)(rows)

    window = ticks.window.reshape((*ticks.window.shape[:-2], 4 * COMMANDS))
    numbers = jnp.concatenate([_flat(ticks.flying.state), ticks.effective, window], axis=-1)
    of_member = jax.vmap(of_flights, in_axes=(0, None))
    return jax.vmap(of_member, in_axes=(1, 0), out_axes=1)(numbers, ensemble)


def _with(command: jax.Array, commands: jax.Array) -> jax.Array:
    """The last commands after a further one."""
    return jnp.concatenate([command[..., None, :], commands[..., :-1, :]], axis=-2)


def _each(function: Callable) -> Callable:
    """Over members and flights."""
    return jax.vmap(jax.vmap(function))


def _flat(state: ModelState) -> jax.Array:
    """[..., 15]."""
    rotation = state.rotation.reshape((*state.rotation.shape[:-2], 9))
    return jnp.concatenate([state.position, state.velocity, rotation], axis=-1)


def _parts(numbers: jax.Array) -> tuple[ModelState, jax.Array, jax.Array]:
    """State, effective command and window of [..., 55] numbers."""
    shape = numbers.shape[:-1]
    rotation, window = numbers[..., 6:15], numbers[..., 19:]
    state = ModelState(numbers[..., :3], numbers[..., 3:6], rotation.reshape((*shape, 3, 3)))
    return state, numbers[..., 15:19], window.reshape((*shape, COMMANDS, 4))


class _Taped(NamedTuple):
    """How the slope in a network's weights is found."""

    forward: Callable  # (network, inputs) -> output, tape
    transposed: Callable  # what the next gets in place of the network
    pulled_back: Callable  # (transposed, tape, slope) -> slope in the inputs, slopes to keep
    gradient: Callable  # (network, tapes, slopes) -> slope in the network


def _pulled_back(network: Any, inputs: jax.Array, slope: jax.Array) -> tuple[Any, Any]:
    return jax.vjp(_each(network), inputs)[1](slope)[0], slope


def _gradient(network: Any, inputs: jax.Array, slopes: jax.Array) -> Any:
    return jax.vjp(lambda network: jax.vmap(_each(network))(inputs), network)[1](slopes)[0]


_ANY = _Taped(
    lambda network, inputs: (network(inputs), inputs),
    lambda network: network,
    _pulled_back,
    _gradient,
)
"""Any network is run again for its slope."""

_MLP = _Taped(
    lambda network, inputs: mlp.taped(network.layers, inputs),
    lambda network: [layer.weight.T for layer in network.layers],
    mlp.pulled_back,
    lambda network, tape, slopes: Mlp(mlp.gradient(tape, slopes)),
)
"""Of layers it is known what is needed again."""
