"""Shared by the plant's tests: the vehicle, engines, and a rig that flies command sequences.

Compiling costs seconds and stepping milliseconds, so a rig steps in chunks of one length: all
runs of one engine, batch size and set of plugins share one compiled program.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lafr_mjx import compilation_cache
from lafr_mjx.plant import simulation
from lafr_mjx.plant.engine import build_engine
from lafr_mjx.plant.plugins.battery import BatteryState
from lafr_mjx.plant.rigid_body import Motion
from lafr_mjx.plant.scenario_params import params_for
from lafr_mjx.plant.settings import Settings
from lafr_mjx.plant.vec3 import Quat, Vec3
from lafr_mjx.plant.vehicle import load_vehicle
from lafr_mjx.types import CONTROL_DT, SAMPLE_DT, State

CHUNK = 25  # ticks (0.5 s) per call


class Trace(NamedTuple):
    """What happened, after each tick [T]; the samples [2 T] lie on the 100 Hz clock."""

    time: Any
    truth: State
    sensed: State
    stamp: Any
    rotor_speed: Any  # [T, 4]
    steering_share: Any
    collective_shift: Any
    crash: Any
    voltage: Any
    charge_used: Any
    sample_time: Any
    sample: State
    received: Any


def _chunk(engine, params, state, commands):
    def tick(state, command):
        state, sampled = simulation.step(engine, params, state, command)
        sensed = simulation.sense(state)
        battery = next(m for m in state.memories.values() if isinstance(m, BatteryState))
        record = Trace(
            time=sensed.time,
            truth=simulation.truth(engine, state),
            sensed=sensed.state,
            stamp=sensed.stamp,
            rotor_speed=jnp.stack(state.rotor_speed),
            steering_share=state.saturation.steering,
            collective_shift=state.saturation.collective,
            crash=state.crash,
            voltage=battery.voltage,
            charge_used=battery.used,
            sample_time=sensed.time + jnp.array([-SAMPLE_DT, 0.0]),
            sample=sampled.state,
            received=sampled.received,
        )
        return state, record

    state, trace = jax.lax.scan(tick, state, commands)

    def merge(leaf):
        return leaf.reshape((-1, *leaf.shape[2:]))

    return state, trace._replace(
        sample_time=merge(trace.sample_time),
        sample=jax.tree.map(merge, trace.sample),
        received=merge(trace.received),
    )


class Rig:
    """One engine with its compiled programs, for one vehicle or for a batch."""

    def __init__(self, engine):
        self.engine = engine
        self._reset = jax.jit(lambda p, key, at: simulation.reset(engine, p, key, at))
        self._one = jax.jit(lambda p, s, c: _chunk(engine, p, s, c))
        self._many = jax.jit(jax.vmap(lambda p, s, c: _chunk(engine, p, s, c)))
        self._many_reset = jax.jit(
            jax.vmap(lambda p, key, at: simulation.reset(engine, p, key, at))
        )

    def start(self, params, seed=0, position=(0.0, 0.0, 1.5), **motion):
        """A fresh vehicle in hover; `velocity`, `rates`, `attitude` (w, x, y, z) set its motion."""
        at = jnp.asarray(position, jnp.float32)
        state = self._reset(params, jax.random.key(seed), at)
        return self.moving(state, position=position, **motion) if motion else state

    def start_batch(self, params, seeds, position=(0.0, 0.0, 1.5)):
        """Fresh vehicles, one per seed; `params` has a leading batch axis."""
        keys = jax.vmap(jax.random.key)(jnp.asarray(seeds))
        places = jnp.tile(jnp.asarray(position, jnp.float32), (len(seeds), 1))
        return self._many_reset(params, keys, places)

    def moving(
        self, state, position=(0.0, 0.0, 1.5), velocity=(0, 0, 0), rates=(0, 0, 0), attitude=None
    ):
        """The state with another motion; no sample of it has been taken yet."""
        w, x, y, z = (1.0, 0.0, 0.0, 0.0) if attitude is None else attitude
        motion = Motion(Vec3(*position), Vec3(*velocity), Quat(w, x, y, z), Vec3(*rates))
        motion = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), motion)
        return state.replace(physics=self.engine.physics(motion))

    def fly(self, params, state, command, seconds):
        """Under a constant command [4] or a sequence [T, 4]; returns final state and trace."""
        return self._run(self._one, params, state, command, seconds, axis=0)

    def fly_batch(self, params, states, command, seconds):
        """As `fly`, for a batch; the command is [4], or [B, T, 4]."""
        return self._run(self._many, params, states, command, seconds, axis=1)

    def _run(self, program, params, state, command, seconds, axis):
        ticks = round(seconds / CONTROL_DT)
        assert ticks % CHUNK == 0, "a rig flies multiples of 0.5 s"
        command = jnp.asarray(command, jnp.float32)
        if command.ndim == 1:
            lead = () if axis == 0 else (len(jax.tree.leaves(state)[0]),)
            command = jnp.broadcast_to(command, (*lead, ticks, 4))
        traces = []
        for first in range(0, ticks, CHUNK):
            part = jax.lax.slice_in_dim(command, first, first + CHUNK, axis=axis)
            state, trace = program(params, state, part)
            traces.append(jax.tree.map(np.asarray, trace))
        whole = jax.tree.map(lambda *parts: np.concatenate(parts, axis=axis), *traces)
        return state, whole


@pytest.fixture(scope="session", autouse=True)
def _compile_once():
    """What one run compiles, the next one finds, as for users."""
    compilation_cache.enable()


@pytest.fixture(scope="session")
def vehicle():
    return load_vehicle("lafr192")


@pytest.fixture(scope="session")
def still(vehicle):
    """Parameters of the ideal vehicle in a still world."""
    return params_for(vehicle, Settings())


@pytest.fixture(scope="session")
def rig(vehicle):
    """The `freebody` engine at 2 ms."""
    return Rig(build_engine(vehicle, "freebody"))


@pytest.fixture(scope="session")
def fine_rig(vehicle):
    """The `freebody` engine at 1 ms."""
    return Rig(build_engine(vehicle, "freebody", 0.001))


@pytest.fixture(scope="session")
def hover():
    return np.array([9.81, 0.0, 0.0, 0.0])
