"""The plant in steps of 10 ms for real time: any scenario, from standing on the ground.

The same equations as `plant.simulation`, driven at a finer grain: the command in force is given
for each physics step, for on a wire commands arrive at any moment. The ground is added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from lafr_mjx import compilation_cache
from lafr_mjx.errors import InputError
from lafr_mjx.plant import simulation, user_plugins
from lafr_mjx.plant.engine import build_engine
from lafr_mjx.plant.gyroscope import GyroState
from lafr_mjx.plant.messages import SampleMessage
from lafr_mjx.plant.noise import Draws
from lafr_mjx.plant.plugins.battery import Battery, BatteryState
from lafr_mjx.plant.plugins.plugin import (
    ActuatorPlugin,
    AirPlugin,
    CommandPlugin,
    ForcePlugin,
    SensePlugin,
)
from lafr_mjx.plant.rate_loop import Ctbr, RateLoopState, control_rates
from lafr_mjx.plant.rigid_body import Motion
from lafr_mjx.plant.scenario_params import params_for
from lafr_mjx.plant.vec3 import Quat, Vec3, runtime_unit
from lafr_mjx.types import SAMPLE_DT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lafr_mjx.plant.plugins.plugin import Plugin
    from lafr_mjx.plant.scenario import Settings
    from lafr_mjx.plant.vehicle import Vehicle
    from lafr_mjx.tasks import Fan

GROUND_M = 0.05
"""Height of the body's origin when the vehicle stands."""

TIMESTEP = 0.002
SUBSTEPS = round(SAMPLE_DT / TIMESTEP)


class Moment(NamedTuple):
    """The vehicle after a step; positions in the world, quaternions wxyz (NumPy)."""

    truth: np.ndarray  # [13] position, velocity, quaternion, rates
    sensed: np.ndarray  # [13] with the sensors' noise
    rotor_speed: np.ndarray  # [4] rad/s
    voltage: float  # V
    impact: float  # m/s, the hardest touch-down of this step
    impact_upright: float  # cosine of the tilt at it


class RateLoopOutside(Protocol):
    """A flight controller of its own, in lockstep with the physics."""

    timestep: float
    """Seconds between two samples of its gyroscope; divides TIMESTEP."""

    def turn(
        self,
        rates: Sequence[float],
        quaternion: Sequence[float],
        command: Sequence[float],
        armed: bool,
    ) -> np.ndarray:
        """Wanted rotor speeds [4] of the next time step."""
        ...

    def restart(self) -> None:
        """As new."""
        ...


class Physics:
    """One vehicle in one scenario, on the ground at first."""

    def __init__(
        self,
        vehicle: Vehicle,
        settings: Settings,
        fans: Sequence[Fan] = (),
        seed: int = 0,
        position: Sequence[float] = (0.0, 0.0),
        *,
        cable: bool = False,
        plugins: Mapping[str, Plugin] = {},
        rate_loop: RateLoopOutside | None = None,
    ) -> None:
        """Stand on the ground.

        Args:
            vehicle: what flies.
            settings: of the scenario.
            fans: that blow, if the scenario says so.
            seed: of noise and gusts.
            position: where it stands, x and y [m].
            cable: fed by one: the battery sags under load, but never empties.
            plugins: of the user's, see `own_plugins`.
            rate_loop: real firmware in the place of the plant's own model of one.
        """
        compilation_cache.enable()
        # Small steps are run where they are called, not handed to another thread.
        jax.config.update("jax_cpu_enable_async_dispatch", False)
        self._outside = rate_loop
        timestep = TIMESTEP if rate_loop is None else rate_loop.timestep
        engine = build_engine(vehicle, "freebody", timestep)
        params = params_for(vehicle, settings, fans, plugins)
        if cable:
            params = params.replace(plugins=_without_discharge(params.plugins))
        self._key = np.asarray(jax.random.key_data(jax.random.key(seed)))
        shapes = []

        def on_ground(key: jax.Array) -> jax.Array:
            start = simulation.reset(engine, params, key, (*position, GROUND_M))
            idle = jax.tree.map(lambda speed: jnp.zeros_like(speed), start.rotor_speed)
            carry = (start.physics, idle, start.gyro, start.rate_loop, start.memories)
            flat, unravel = ravel_pytree(carry)
            shapes.append(unravel)
            return flat

        flat = jax.jit(on_ground)(self._key)
        steps = _Steps(engine, params, shapes[0])
        self.rotor_scale = np.ones(4, np.float32)
        self.armed = False
        self._first = self._flat = flat
        self._count = 0
        if rate_loop is not None:
            self._begin, self._move = jax.jit(steps.begin_outside), jax.jit(steps.move_outside)
            self._end = jax.jit(steps.end_outside)
        else:
            blank = (np.zeros((SUBSTEPS, 4), np.float32), self.rotor_scale, np.int32(0), self._key)
            self._step = jax.jit(steps.whole).lower(flat, *blank).compile()
        self.step(np.zeros((SUBSTEPS, 4)))  # the first call is slow
        self.reset()

    def reset(self, moment: int = 0) -> None:
        """Back on the ground, as new; `moment` chooses other noise and gusts."""
        self._flat, self._count = self._first, moment
        self.rotor_scale[:] = 1.0
        self.armed = False
        if self._outside is not None:
            self._outside.restart()

    def step(self, commands: np.ndarray) -> Moment:
        """Go on by 10 ms under the commands [SUBSTEPS, 4] of its physics steps."""
        commands = np.asarray(commands, np.float32)
        given = (self.rotor_scale, np.int32(self._count), self._key)
        if self._outside is None:
            self._flat, out = self._step(self._flat, commands, *given)
        else:
            around, moving, loop, seen = self._begin(self._flat, *given)
            ratio = round(TIMESTEP / self._outside.timestep)
            for command in np.repeat(commands, ratio, axis=0).tolist():
                seen = np.asarray(seen).tolist()
                targets = self._outside.turn(seen[:3], seen[3:], command, self.armed)
                moving, seen = self._move(around, moving, targets.astype(np.float32))
            self._flat, out = self._end(around, moving, loop, *given[1:])
        self._count += 1
        out = np.asarray(out, float)
        return Moment(out[:13], out[13:26], out[26:30], out[30], out[31], out[32])


def own_plugins(texts: Iterable[str]) -> dict[str, Plugin]:
    """A user's plugins for the software drone.

    Raises:
        InputError: one cannot be built, or acts on commands, which come over the wire here.
    """
    plugins = user_plugins.build(texts)
    for name, plugin in plugins.items():
        if isinstance(plugin, CommandPlugin):
            raise InputError(
                f"--plugins {name}: acts on commands; those of the software drone come over the "
                f"wire as they are: use a fault (see sim-drone)"
            )
    return plugins


class _Steps:
    """The step of a scenario in parts: one program for all seeds."""

    def __init__(self, engine: Any, params: Any, unravel: Any) -> None:
        self._engine, self._params, self._unravel = engine, params, unravel

    def _of(self, kind: type) -> list[tuple[str, Any]]:
        return sorted((n, p) for n, p in self._params.plugins.items() if isinstance(p, kind))

    def whole(
        self, flat: jax.Array, commands: jax.Array, *given: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """10 ms under the plant's own rate loop."""
        around, moving, loop = self.begin(flat, *given)

        def substep(carry: tuple, command: jax.Array) -> tuple[tuple, None]:
            moving, loop = carry
            wanted = Ctbr(command[0], Vec3.of(command[1:]))
            gyro = self.sense(around, moving)
            new_loop, targets, _ = control_rates(
                self._params.controller, loop, wanted, gyro.sensed, TIMESTEP
            )
            moving, down = self.move(around, moving, gyro, targets)
            rest = RateLoopState.start(Vec3.zero())
            loop = jax.tree.map(lambda a, b: jnp.where(down, a, b), rest, new_loop)
            return (moving, loop), None

        (moving, loop), _ = jax.lax.scan(substep, (moving, loop), commands)
        return self.end(around, moving, loop, *given[1:])

    def begin(
        self, flat: jax.Array, scale: jax.Array, count: jax.Array, key: jax.Array
    ) -> tuple[tuple, tuple, RateLoopState]:
        """What is constant for 10 ms, what moves, and the memory of the plant's own rate loop."""
        physics, speeds, gyro, loop, memories = self._unravel(flat)
        memories, params = dict(memories), self._params
        ceiling = jnp.float32(1.0)
        for name, plugin in self._of(ActuatorPlugin):
            memories[name], factor = plugin.ceiling(memories[name], speeds, SAMPLE_DT)
            ceiling = ceiling * factor
        for name, plugin in self._of(AirPlugin) + self._of(ForcePlugin):
            draws = Draws.of(key, 2 * count, name)
            memories[name] = plugin.update(memories[name], draws, SAMPLE_DT)
        drift = params.gyroscope.drift(gyro, Draws.of(key, 2 * count + 1, "gyroscope"))
        around = (memories, scale, ceiling, drift, self._engine.prepare(params.inertial))
        return around, (physics, speeds, gyro, jnp.float32(0.0), jnp.float32(1.0)), loop

    def sense(self, around: tuple, moving: tuple) -> GyroState:
        """The gyroscope at the beginning of a time step."""
        drift, gyroscope = around[3], self._params.gyroscope
        return gyroscope.turned(moving[2], moving[0].rates, drift, self._engine.timestep)

    def move(
        self, around: tuple, moving: tuple, gyro: GyroState, targets: Any
    ) -> tuple[tuple, jax.Array]:
        """One time step towards these rotor speeds; whether the vehicle is on the ground then."""
        (memories, scale, ceiling, _, mass), params = around, self._params
        motion, before, _, impact, upright = moving
        engine, unit = self._engine, runtime_unit(params.inertial.mass)
        weak = params.replace(
            rotors=params.rotors.replace(
                thrust_coefficient=tuple(
                    k * scale[i] for i, k in enumerate(params.rotors.thrust_coefficient)
                )
            )
        )
        speeds = params.rotors.turn(before, targets, ceiling, engine.timestep)
        turned = (before, speeds)
        wrench = simulation.total_wrench(weak, memories, motion, turned, engine.timestep, unit)
        moved = engine.advance(mass, motion, wrench)
        down = (moved.position.z <= GROUND_M) & (moved.velocity.z <= 0.0)
        cosine = moved.attitude.matrix().c.z
        hard = down & (-moved.velocity.z > impact)
        impact = jnp.where(hard, -moved.velocity.z, impact)
        upright = jnp.where(hard, cosine, upright)
        rest = (_standing(moved), GyroState.start(Vec3.zero()))
        motion, gyro = jax.tree.map(lambda a, b: jnp.where(down, a, b), rest, (moved, gyro))
        return (motion, speeds, gyro, impact, upright), down

    def end(
        self, around: tuple, moving: tuple, loop: RateLoopState, count: jax.Array, key: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """The state after 10 ms, and what is measured of it."""
        memories = dict(around[0])
        motion, speeds, gyro, impact, upright = moving
        sample = SampleMessage(motion, jnp.float32(0.0), jnp.float32(0.0))
        for name, plugin in self._of(SensePlugin):
            draws = Draws.of(key, 2 * count + 1, name)
            memories[name], sample = plugin.sense(memories[name], draws, sample)
        voltages = [m.voltage for m in memories.values() if isinstance(m, BatteryState)]
        rest = jnp.stack([*speeds, voltages[0], impact, upright])
        out = jnp.concatenate([motion.array(), sample.motion.array(), rest])
        return ravel_pytree((motion, speeds, gyro, loop, memories))[0], out

    # ------------------------------------------------------------- with a rate loop outside

    def begin_outside(self, *given: jax.Array) -> tuple[jax.Array, ...]:
        """As `begin`, flat, and what the rate loop outside senses: rates and attitude [7]."""
        around, moving, loop = self.begin(*given)
        moving, seen = self._seen(around, moving)
        self._flat_around, self._flat_moving = ravel_pytree(around)[1], ravel_pytree(moving)[1]
        self._flat_loop = ravel_pytree(loop)[1]
        return *(ravel_pytree(part)[0] for part in (around, moving, loop)), seen

    def move_outside(
        self, around: jax.Array, moving: jax.Array, targets: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """As `move`, and what the rate loop outside senses then."""
        beside, before = self._flat_around(around), self._flat_moving(moving)
        after, _ = self.move(beside, before, before[2], tuple(targets))
        after, seen = self._seen(beside, after)
        return ravel_pytree(after)[0], seen

    def end_outside(
        self, around: jax.Array, moving: jax.Array, loop: jax.Array, *given: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """As `end`."""
        parts = (self._flat_around(around), self._flat_moving(moving), self._flat_loop(loop))
        return self.end(*parts, *given)

    def _seen(self, around: tuple, moving: tuple) -> tuple[tuple, jax.Array]:
        motion, speeds, _, *rest = moving
        gyro = self.sense(around, moving)
        q = motion.attitude
        seen = [gyro.sensed.x, gyro.sensed.y, gyro.sensed.z, q.w, q.x, q.y, q.z]
        return (motion, speeds, gyro, *rest), jnp.stack(seen)


def _without_discharge(plugins: dict[str, Any]) -> dict[str, Any]:
    return {
        name: plugin.replace(capacity=jnp.inf) if isinstance(plugin, Battery) else plugin
        for name, plugin in plugins.items()
    }


def _standing(motion: Motion) -> Motion:
    """At rest and level on the ground, with the heading that it had."""
    q = motion.attitude
    length = jnp.sqrt(jnp.maximum(q.w * q.w + q.z * q.z, 1e-9))
    zero = jnp.zeros_like(q.w)
    point = motion.position
    return Motion(
        position=Vec3(point.x, point.y, jnp.full_like(point.z, GROUND_M)),
        velocity=Vec3(zero, zero, zero),
        attitude=Quat(q.w / length, zero, zero, q.z / length),
        rates=Vec3(zero, zero, zero),
    )
