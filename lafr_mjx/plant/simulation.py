"""The plant's pure functions: `reset`, `step`, `sense`.

One `step` is one control interval (20 ms): the command travels, the flight controller runs
at every physics step, the state estimator samples at 100 Hz.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from lafr_mjx.plant import messages
from lafr_mjx.plant.gyroscope import GyroState
from lafr_mjx.plant.messages import CommandMessage, SampleMessage
from lafr_mjx.plant.mixer import Saturation
from lafr_mjx.plant.noise import Draws
from lafr_mjx.plant.plugins.plugin import (
    ActuatorPlugin,
    AirPlugin,
    CommandPlugin,
    Flow,
    ForcePlugin,
    MeasurePlugin,
    Plugin,
    SensePlugin,
)
from lafr_mjx.plant.rate_loop import Ctbr, RateLoopState, control_rates
from lafr_mjx.plant.rigid_body import Motion, Wrench
from lafr_mjx.plant.vec3 import Quat, Scalar, Vec3, materialise, runtime_unit
from lafr_mjx.types import CONTROL_DT, GRAVITY, SAMPLE_DT, Sensed, State

if TYPE_CHECKING:
    from lafr_mjx.plant.engine import Engine
    from lafr_mjx.plant.params import PlantParams
    from lafr_mjx.plant.rotors import Four

SAMPLES_PER_TICK = round(CONTROL_DT / SAMPLE_DT)

_INIT_MOMENT = np.uint32(0xFFFFFFFF)

# Why a vehicle is frozen. 0: it flies.
FLYING, GROUND, TILT, SPEED, NOT_FINITE, ERROR = range(6)
CRASH_NAMES = ("flying", "ground", "tilt", "speed", "not finite", "error")


@struct.dataclass
class PlantState:
    """All that goes on from step to step, for one vehicle."""

    physics: Any  # the engine's own state
    rotor_speed: Four  # rad/s
    gyro: GyroState
    rate_loop: RateLoopState
    commands: tuple[CommandMessage, ...]  # on their way or in force, newest first
    samples: tuple[SampleMessage, ...]  # newest first
    memories: dict[str, Any]  # the plugins'
    key: jax.Array  # [2] uint32
    tick: jax.Array  # [] int32, control intervals since the reset
    crash: jax.Array  # [] int32, one of the codes above
    saturation: Saturation  # the worst of the last control interval


@struct.dataclass
class Sampled:
    """The samples of one control interval, in time order."""

    state: State  # [SAMPLES_PER_TICK, ...]
    received: jax.Array  # [SAMPLES_PER_TICK] bool


def reset(
    engine: Engine, params: PlantParams, key: jax.Array, position: Any = (0.0, 0.0, 1.5)
) -> PlantState:
    """A vehicle at rest in hover, rotors turning, with its first sample taken."""
    motion = Motion(Vec3.of(position), Vec3.zero(), Quat.identity(), Vec3.zero())
    motion = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), motion)
    hover = Ctbr(jnp.float32(GRAVITY), Vec3.zero())
    if jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        key = jax.random.key_data(key)
    memories = {
        name: plugin.init(Draws.of(key, _INIT_MOMENT, name))
        for name, plugin in params.plugins.items()
    }
    speeds = params.rotors.hover_speeds(params.inertial.mass, GRAVITY)
    memories, measured = _measured(params, memories, motion, speeds, (key, _INIT_MOMENT))
    return PlantState(
        physics=engine.physics(motion),
        rotor_speed=speeds,
        gyro=GyroState.start(motion.rates),
        rate_loop=RateLoopState.start(motion.rates),
        commands=messages.full_of(hover),
        samples=messages.first_sample(motion, measured),
        memories=memories,
        key=key,
        tick=jnp.int32(0),
        crash=jnp.int32(FLYING),
        saturation=Saturation.none(),
    )


def step(
    engine: Engine, params: PlantParams, state: PlantState, command: jax.Array
) -> tuple[PlantState, Sampled]:
    """Fly one control interval under a command [4] (clipped to what the vehicle accepts)."""
    moment = state.tick * (SAMPLES_PER_TICK + 1)
    memories = dict(state.memories)

    clipped = jnp.clip(command, params.command_low, params.command_high)
    message = CommandMessage(Ctbr(clipped[0], Vec3.of(clipped[1:])), jnp.float32(0.0))
    for name, plugin in _of(params, CommandPlugin):
        memories[name], message = plugin.send(
            memories[name], Draws.of(state.key, moment, name), message
        )
    commands = messages.send(state.commands, message)

    ceiling = jnp.float32(1.0)
    for name, plugin in _of(params, ActuatorPlugin):
        memories[name], factor = plugin.ceiling(memories[name], state.rotor_speed, CONTROL_DT)
        ceiling = ceiling * factor
    for name, plugin in _of(params, AirPlugin) + _of(params, ForcePlugin):
        memories[name] = plugin.update(
            memories[name], Draws.of(state.key, moment, name), CONTROL_DT
        )

    mass = engine.prepare(params.inertial)
    unit = runtime_unit(params.inertial.mass)
    dt = engine.timestep
    substeps = round(SAMPLE_DT / dt)

    def physics_step(carry: tuple, index: jax.Array) -> tuple[tuple, None]:
        physics, speeds, gyro, loop, saturation, offset, drift = carry
        motion = engine.motion(physics)
        start = offset + index * dt
        wanted = materialise(messages.in_force(commands, start, dt, unit), unit)
        gyro = params.gyroscope.turned(gyro, motion.rates, drift, dt)
        loop, targets, limited = control_rates(params.controller, loop, wanted, gyro.sensed, dt)
        before = speeds
        speeds = materialise(params.rotors.turn(before, targets, ceiling, dt), unit)
        wrench = total_wrench(params, memories, motion, (before, speeds), dt, unit)
        physics = engine.advance(mass, physics, wrench)
        return (physics, speeds, gyro, loop, saturation.worst(limited), offset, drift), None

    def sampling_interval(carry: tuple, index: jax.Array) -> tuple[tuple, SampleMessage]:
        physics, speeds, gyro, loop, saturation, sense_memories = carry
        draws = Draws.of(state.key, moment + 1 + index, "gyroscope")
        drift = params.gyroscope.drift(gyro, draws)
        inner = (physics, speeds, gyro, loop, saturation, index * jnp.float32(SAMPLE_DT), drift)
        steps = jnp.arange(substeps, dtype=jnp.float32)
        inner, _ = jax.lax.scan(physics_step, inner, steps)
        physics, speeds, gyro, loop, saturation, _, _ = inner

        motion = engine.motion(physics)
        sense_memories, measured = _measured(
            params, {**memories, **sense_memories}, motion, speeds, (state.key, moment + 1 + index)
        )
        sense_memories = {name: sense_memories[name] for name in sensing}
        sample = SampleMessage(motion, jnp.float32(0.0), jnp.float32(0.0), measured)
        for name, plugin in _of(params, SensePlugin):
            draws = Draws.of(state.key, moment + 1 + index, name)
            sense_memories[name], sample = plugin.sense(sense_memories[name], draws, sample)
        return (physics, speeds, gyro, loop, saturation, sense_memories), sample

    sensing = [name for phase in (SensePlugin, MeasurePlugin) for name, _ in _of(params, phase)]
    sense_memories = {name: memories[name] for name in sensing}
    carry = (
        state.physics, state.rotor_speed, state.gyro, state.rate_loop, Saturation.none(),
        sense_memories,
    )  # fmt: skip
    carry, taken = jax.lax.scan(sampling_interval, carry, jnp.arange(SAMPLES_PER_TICK))
    physics, speeds, gyro, loop, saturation, sense_memories = carry

    moving = _Moving(physics, speeds, gyro, loop, {**memories, **sense_memories}, saturation)
    before = _Moving(
        state.physics, state.rotor_speed, state.gyro, state.rate_loop, state.memories,
        state.saturation,
    )  # fmt: skip
    crash, held = _frozen_if_crashed(engine, params, state.crash, before, moving)
    # What a frozen vehicle senses is where it stands, not what its physics would have done.
    standing = engine.motion(held.physics)
    frozen = crash != FLYING
    samples, sampled = state.samples, []
    for i in range(SAMPLES_PER_TICK):
        sample = jax.tree.map(lambda leaf, i=i: leaf[i], taken)
        motion, measured = jax.tree.map(
            partial(jnp.where, frozen),
            (standing, state.samples[0].measured), (sample.motion, sample.measured),
        )  # fmt: skip
        sample = sample.replace(motion=motion, measured=measured)
        samples = messages.take(messages.samples_later(samples, SAMPLE_DT), sample)
        sampled.append(motion.array())

    new = PlantState(
        physics=held.physics,
        rotor_speed=held.rotor_speed,
        gyro=held.gyro,
        rate_loop=held.rate_loop,
        commands=messages.commands_later(commands, CONTROL_DT),
        samples=samples,
        memories=held.memories,
        key=state.key,
        tick=state.tick + 1,
        crash=crash,
        saturation=held.saturation,
    )
    received = jnp.isfinite(taken.arrival)
    return new, Sampled(Motion.of(jnp.stack(sampled)).state(), received)


def sense(state: PlantState) -> Sensed:
    """The newest sample that has reached the controller; times are since the reset."""
    sample = messages.newest_arrived(state.samples)
    now = state.tick * jnp.float32(CONTROL_DT)
    return Sensed(sample.motion.state(), now - sample.age, now, sample.measured)


def truth(engine: Engine, state: PlantState) -> State:
    """The true state, for metrics and pictures; no controller sees it."""
    return engine.motion(state.physics).state()


def air_velocity(params: PlantParams, memories: dict[str, Any], point: Vec3) -> Vec3:
    """Velocity of the air at a point [m/s, world]: the sum over all air plugins."""
    total = Vec3.zero()
    for name, plugin in _of(params, AirPlugin):
        total = total + plugin.velocity(memories[name], point)
    return total


def total_wrench(
    params: PlantParams,
    memories: dict[str, Any],
    motion: Motion,
    turned: tuple[Four, Four],
    dt: float,
    unit: Scalar,
) -> Wrench:
    """All that acts on the body while its rotors go from the first to the second speeds."""
    rotors, (before, speeds) = params.rotors, turned
    flow = flow_around(params, memories, motion, speeds, unit)
    total = rotors.wrench(flow.rotor_thrust)
    momentum = rotors.momentum_torque(before, speeds, motion.rates, dt)
    total = Wrench(total.force, total.torque + momentum)
    for name, plugin in _of(params, ForcePlugin):
        total = total + plugin.wrench(memories[name], flow)
    return materialise(total, unit)


def flow_around(
    params: PlantParams, memories: dict[str, Any], motion: Motion, speeds: Four, unit: Scalar
) -> Flow:
    """A vehicle in the air with its rotors at these speeds."""
    rotors = params.rotors
    thrusts = rotors.thrusts(speeds)
    rotation, rates = materialise(motion.attitude.matrix(), unit), motion.rates

    def relative(point: Vec3) -> Vec3:
        world = motion.position + rotation.times(point)
        air = materialise(motion.velocity - air_velocity(params, memories, world), unit)
        return materialise(rotation.transposed_times(air) + rates.cross(point), unit)

    at_rotors = tuple(relative(point) for point in rotors.position)
    mean = materialise((at_rotors[0] + at_rotors[1] + at_rotors[2] + at_rotors[3]) * 0.25, unit)
    return Flow(
        motion=motion,
        air_velocity=mean,
        rotor_air_velocity=at_rotors,
        rotor_position=rotors.position,
        rotor_speed=speeds,
        rotor_thrust=thrusts,
    )


def _measured(
    params: PlantParams,
    memories: dict[str, Any],
    motion: Motion,
    speeds: Four,
    moment: tuple[jax.Array, Any],
) -> tuple[dict[str, Any], dict[str, jax.Array]]:
    """Memories after the sensors have measured, and what they said, by their names."""
    sensors, said = _of(params, MeasurePlugin), {}
    if not sensors:
        return memories, said
    key, index = moment
    unit = runtime_unit(params.inertial.mass)
    flow, memories = flow_around(params, memories, motion, speeds, unit), dict(memories)
    for name, sensor in sensors:
        memories[name], value = sensor.measure(memories[name], Draws.of(key, index, name), flow)
        value = value.array() if isinstance(value, Vec3) else value
        said[name] = jnp.asarray(value, jnp.float32)
    return memories, said


@struct.dataclass
class _Moving:
    """The part of the state that stops when the vehicle crashes."""

    physics: Any
    rotor_speed: Four
    gyro: GyroState
    rate_loop: RateLoopState
    memories: dict[str, Any]
    saturation: Saturation


def _frozen_if_crashed(
    engine: Engine, params: PlantParams, crash: jax.Array, old: _Moving, new: _Moving
) -> tuple[jax.Array, _Moving]:
    """Detect a crash; a crashed vehicle stays as it is, and NaN never enters its state."""
    leaves = [jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves((new.physics, new.rotor_speed))]
    finite = jnp.all(jnp.stack(leaves))
    motion = engine.motion(new.physics)
    limits = params.crash
    upright = motion.attitude.matrix().c.z
    cause = jnp.int32(FLYING)
    cause = jnp.where(motion.velocity.norm() > limits.speed, SPEED, cause)
    cause = jnp.where(upright < limits.tilt_cosine, TILT, cause)
    cause = jnp.where(motion.position.z < limits.ground, GROUND, cause)
    cause = jnp.where(finite, cause, NOT_FINITE)
    flying = crash == FLYING
    unit = runtime_unit(params.inertial.mass)
    # Written so that a NaN mass, which makes the unit NaN, keeps the old state too.
    keep = ~(materialise((flying & finite).astype(jnp.float32), unit) > 0.5)
    held = jax.tree.map(partial(jnp.where, keep), old, new)
    return jnp.where(flying, cause, crash).astype(jnp.int32), held


def _of(params: PlantParams, phase: type[Plugin]) -> list[tuple[str, Any]]:
    """The plugins of a phase, ordered by name: the order in which they were given is moot."""
    chosen = [(name, p) for name, p in params.plugins.items() if isinstance(p, phase)]
    return sorted(chosen, key=lambda pair: pair[0])
