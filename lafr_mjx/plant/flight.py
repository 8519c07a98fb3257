"""One flight: a controller follows a path on the plant, and everything is recorded."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import struct

from lafr_mjx.plant import simulation
from lafr_mjx.plant.plugins.battery import BatteryState
from lafr_mjx.plant.simulation import ERROR, FLYING, PlantState
from lafr_mjx.plant.vec3 import Scalar, Vec3
from lafr_mjx.reference import clock as clocks
from lafr_mjx.reference.flatness import reference_state
from lafr_mjx.reference.path import derivatives
from lafr_mjx.types import COMMAND_HOVER, CONTROL_DT, Rollout

if TYPE_CHECKING:
    from lafr_mjx.control.controller import Controller
    from lafr_mjx.plant.engine import Engine
    from lafr_mjx.plant.params import PlantParams
    from lafr_mjx.reference.clock import Clock
    from lafr_mjx.reference.path import Path
    from lafr_mjx.types import Sensed


@struct.dataclass
class Conditions:
    """The plant's parameters over one flight: from `before` to `after`, all in leaves."""

    before: PlantParams
    after: PlantParams
    start: Scalar  # s into the flight; infinite if nothing changes
    duration: Scalar  # s; 0 is a jump

    @staticmethod
    def constant(params: PlantParams) -> Conditions:
        """Nothing changes."""
        return Conditions(params, params, jnp.float32(jnp.inf), jnp.float32(0.0))

    def at(self, time: Scalar) -> PlantParams:
        """Parameters at a moment of the flight."""
        jump = jnp.where(time >= self.start, 1.0, 0.0)
        slope = jnp.clip((time - self.start) / jnp.maximum(self.duration, 1e-6), 0.0, 1.0)
        share = jnp.where(self.duration > 0.0, slope, jump)
        share = jnp.where(jnp.isinf(self.start), 0.0, share)

        def blend(before: jax.Array, after: jax.Array) -> jax.Array:
            return jnp.where(before == after, before, before + share * (after - before))

        return jax.tree.map(blend, self.before, self.after)


class Now(NamedTuple):
    """What goes on from control interval to control interval of a flight."""

    state: PlantState
    memory: Any  # of the controller
    clock: Clock


@struct.dataclass
class Diagnostics:
    """What only the simulated plant knows, per control interval."""

    rotor_speed: jax.Array  # [T, 4] rad/s
    air_velocity: jax.Array  # [T, 3] m/s, world, at the vehicle
    voltage: jax.Array  # [T] V; 0 without a battery plugin
    steering_share: jax.Array  # [T] what the mixer granted at worst
    collective_shift: jax.Array  # [T] rad/s by which it moved the collective at most
    crash: jax.Array  # [T] code, see `simulation.CRASH_NAMES`


def ready_to_fly(
    engine: Engine, params: PlantParams, state: PlantState, position: Any
) -> PlantState:
    """At rest in hover at a position, as every flight starts.

    Battery, wind and random numbers go on; how the vehicle came there is not simulated.
    """
    fresh = simulation.reset(engine, params, state.key, position)
    return fresh.replace(memories=state.memories, tick=state.tick)


@partial(jax.jit, static_argnames=("engine", "ticks"))
def fly(
    engine: Engine,
    conditions: Conditions,
    state: PlantState,
    controller: Controller,
    path: Path,
    clock: Clock,
    seconds: Scalar,
    *,
    ticks: int,
) -> tuple[PlantState, Rollout]:
    """Fly for `seconds` (at most `ticks` control intervals) and record.

    Pure, so that it can be batched with `vmap` over everything but the engine and `ticks`.
    """
    start_tick = state.tick
    time_scale = jnp.asarray(clock.time_scale, jnp.float32)

    def tick(now: Now, _: None) -> tuple[Now, Rollout]:
        time = (now.state.tick - start_tick) * jnp.float32(CONTROL_DT)
        params = conditions.at(time)
        after, record = fly_tick(engine, params, now, controller, path, time_scale, time)
        valid = time < seconds - 0.5 * CONTROL_DT
        # Beyond the end everything stands still, so that batches share one length.
        still = now._replace(state=now.state.replace(tick=after.state.tick))
        received = record.sample_received & valid
        return (
            jax.tree.map(partial(jnp.where, valid), after, still),
            record._replace(valid=valid, sample_received=received),
        )

    memory = jax.tree.map(jnp.asarray, controller.start())
    clock = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), clock)
    (state, _, _), rollout = jax.lax.scan(tick, Now(state, memory, clock), None, length=ticks)

    def merge(leaf: Any) -> Any:
        return leaf.reshape((-1, *leaf.shape[2:]))

    rollout = rollout._replace(
        sample_time=merge(rollout.sample_time),
        sample=jax.tree.map(merge, rollout.sample),
        sample_received=merge(rollout.sample_received),
    )
    return state, rollout


@partial(jax.jit, static_argnames=("engine", "ticks"))
def fly_all(
    engine: Engine,
    conditions: Conditions,
    keys: jax.Array,
    controller: Controller,
    path: Path,
    clock: Clock,
    seconds: Scalar,
    *,
    ticks: int,
) -> Rollout:
    """A first flight of each of many vehicles [N], which differ in conditions and noise."""
    path, clock = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), (path, clock))
    start = derivatives(path, clock.phase)[0, :3]

    def one(conditions: Conditions, key: jax.Array) -> Rollout:
        state = simulation.reset(engine, conditions.before, key, start)
        return fly(engine, conditions, state, controller, path, clock, seconds, ticks=ticks)[1]

    return jax.vmap(one)(conditions, keys)


def fly_tick(
    engine: Engine,
    params: PlantParams,
    now: Now,
    controller: Controller,
    path: Path,
    asked: Scalar,
    time: Scalar,
) -> tuple[Now, Rollout]:
    """One control interval: sense, compare with the reference, command, fly; what is recorded.

    Args:
        engine: of the plant.
        params: of the plant, at this moment.
        now: what goes on from interval to interval.
        controller: what flies.
        path: to be followed.
        asked: time scale, but for what the controller does to it in trouble.
        time: [s] since the start of the flight.
    """
    state, memory, clock = now
    newest = simulation.sense(state)
    sensed = newest._replace(stamp=time - (newest.time - newest.stamp), time=time)
    reference = reference_state(path, *clocks.shifted(clock, 0.0))
    memory, command, following, fallback = decided(controller, path, memory, clock, asked, sensed)
    command = jnp.clip(command, params.command_low, params.command_high)

    true = simulation.truth(engine, state)
    after, sampled = simulation.step(engine, params, state, command)
    error = jnp.linalg.norm(true.position - reference.position)
    lost = (after.crash == FLYING) & ~(error <= params.crash.error)
    after = after.replace(crash=jnp.where(lost, ERROR, after.crash))
    record = Rollout(
        time=time,
        valid=jnp.bool_(True),
        sensed=sensed.state,
        stamp=sensed.stamp,
        command=command,
        reference=reference,
        phase=clock.phase,
        phase_rate=clocks.rates(clock)[0],
        time_scale=clock.time_scale,
        truth=true,
        crashed=state.crash != FLYING,
        sample_time=time + jnp.array([0.5, 1.0]) * CONTROL_DT,
        sample=sampled.state,
        sample_received=sampled.received,
        diagnostics=_diagnose(params, after, true),
        fallback=fallback,
        measured=sensed.measured,
    )
    return Now(after, memory, following), record


def decided(
    controller: Controller, path: Path, memory: Any, clock: Clock, asked: Scalar, sensed: Sensed
) -> tuple[Any, jax.Array, Clock, jax.Array]:
    """What a controller does about a sample, by the reference of the sample's own moment.

    Returns:
        What it remembers, its command [4], the clock after the interval, which it may slow down
        from the time scale that is asked for, and whether a fallback gave the command.
    """
    age = sensed.time - sensed.stamp
    wanted = jax.vmap(lambda offset: reference_state(path, *clocks.shifted(clock, offset - age)))(
        controller.preview_s()
    )
    memory, command = controller(memory, sensed, wanted)
    # A controller's NaN is never sent: the vehicle is told to hover.
    command = jnp.where(jnp.all(jnp.isfinite(command)), command, COMMAND_HOVER)
    # What a controller may have for when it is in trouble.
    factor = getattr(controller, "time_scale_factor", lambda memory: 1.0)(memory)
    fallback = getattr(controller, "fallback", lambda memory: False)(memory)
    slowed = clocks.with_time_scale(clock, asked * factor)
    return memory, command, clocks.advance(slowed, CONTROL_DT), jnp.asarray(fallback)


def _diagnose(params: PlantParams, state: PlantState, true: Any) -> Diagnostics:
    batteries = [m for m in state.memories.values() if isinstance(m, BatteryState)]
    air = simulation.air_velocity(params, state.memories, Vec3.of(true.position))
    return Diagnostics(
        rotor_speed=jnp.stack(state.rotor_speed),
        air_velocity=air.array(),
        voltage=batteries[0].voltage if batteries else jnp.float32(0.0),
        steering_share=state.saturation.steering,
        collective_shift=state.saturation.collective,
        crash=state.crash,
    )
