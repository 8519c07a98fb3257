"""The two engines against `mjx.step` and against C MuJoCo, and what they compile to."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from dm_control import mjcf
from mujoco import mjx
from payload_model import payload_model

from lafr_mjx import so3
from lafr_mjx.plant import simulation
from lafr_mjx.plant.engine import build_engine
from lafr_mjx.plant.mjx_engine import flight_model
from lafr_mjx.plant.params import as_leaves, inertial_of, stack
from lafr_mjx.plant.rate_loop import Ctbr, RateLoopState, control_rates
from lafr_mjx.plant.rigid_body import Inertial, Motion, Wrench
from lafr_mjx.plant.scenario import Settings
from lafr_mjx.plant.scenario_params import params_for
from lafr_mjx.plant.vec3 import Quat, Vec3

DRAWS = 8
STEPS = 1000  # 2 s
PAYLOAD = {"payload_kg": 0.06, "payload_position_m": (0.02, 0.008, -0.015)}


@pytest.fixture(scope="module")
def engines(vehicle):
    return {name: build_engine(vehicle, name) for name in ("freebody", "mjx")}


@pytest.fixture(scope="module")
def bodies():
    """Random bodies: off-centre, with principal axes that are not the body's."""
    rng = np.random.default_rng(1)
    drawn = []
    for _ in range(DRAWS):
        # Moments of a cloud of mass points fulfil the triangle inequality by construction:
        # J1 = b + c, J2 = a + c, J3 = a + b with second moments a, b, c > 0.
        a, b, c = rng.uniform(0.3e-4, 1.5e-4, 3)
        axes = np.asarray(so3.exp(rng.normal(size=3)))
        inertia = axes @ np.diag([b + c, a + c, a + b]) @ axes.T
        mass, centre = rng.uniform(0.1, 0.4), rng.uniform(-0.03, 0.03, 3)
        drawn.append(as_leaves(inertial_of(mass, inertia, centre)))
    return stack(drawn)


@pytest.fixture(scope="module")
def pushes(bodies):
    """Wrenches [DRAWS, STEPS, 6] as in flight: up to 2.5 times the weight, and slow torques.

    The torque about the centre of mass swings with zero mean, so that rates stay below about
    10 rad/s and two runs that differ by rounding do not part exponentially.
    """
    rng = np.random.default_rng(2)
    time = 0.002 * np.arange(STEPS)[None, :, None]
    phase, speed = rng.uniform(0, 6.28, (2, DRAWS, 1, 6))
    waves = np.sin(phase + (4.0 + speed) * time)
    mass = np.asarray(bodies.mass)[:, None, None]
    force = mass * (np.array([0.0, 0.0, 10.0]) + waves[..., :3] * np.array([2.0, 2.0, 8.0]))
    torque = 4e-3 * waves[..., 3:]
    centre = np.asarray(bodies.centre.array())[:, None, :]
    return jnp.asarray(np.concatenate([force, torque + np.cross(centre, force)], axis=-1))


def wrench_of(push):
    return Wrench(Vec3.of(push[:3]), Vec3.of(push[3:]))


def rest():
    return jax.tree.map(
        jnp.float32, Motion(Vec3(0.0, 0.0, 1.5), Vec3.zero(), Quat.identity(), Vec3.zero())
    )


def official_step(engine, inertial: Inertial, motion: Motion, push):
    """`mjx.step` itself, on the engine's flight model with these mass properties."""
    model = engine.prepare(inertial)
    data = mjx.make_data(engine.model)
    force = motion.attitude.matrix().times(Vec3.of(push[:3])).array()
    data = data.replace(
        qpos=jnp.concatenate([motion.position.array(), motion.attitude.array()]),
        qvel=jnp.concatenate([motion.velocity.array(), motion.rates.array()]),
        qfrc_applied=jnp.concatenate([force, push[3:]]),
    )
    data = mjx.step(model, data)
    return Motion.of(jnp.concatenate([data.qpos[:3], data.qvel[:3], data.qpos[3:], data.qvel[3:]]))


@pytest.fixture(scope="module")
def official(engines, bodies, pushes):
    """Motions [DRAWS, STEPS + 1, 13] by `mjx.step`."""
    step = partial(official_step, engines["mjx"])

    def run(inertial, sequence):
        def one(motion, push):
            new = step(inertial, motion, push)
            return new, new.array()

        return jax.lax.scan(one, rest(), sequence)[1]

    motions = np.asarray(jax.jit(jax.vmap(run))(bodies, pushes))
    start = np.broadcast_to(np.asarray(rest().array()), (DRAWS, 1, 13))
    assert np.abs(motions[..., 10:]).max() > 4.0  # the bodies do turn
    assert np.abs(motions[..., 10:]).max() < 40.0
    return np.concatenate([start, motions], axis=1)


def c_step(model, data, push):
    """One step of C MuJoCo in float64 under a body wrench; returns the motion [13]."""
    rotation = so3.quaternion_to_matrix(data.qpos[3:7])
    data.qfrc_applied[:] = [*(rotation @ push[:3]), *push[3:]]
    mujoco.mj_step(model, data)
    return [*data.qpos[:3], *data.qvel[:3], *data.qpos[3:], *data.qvel[3:]]


@pytest.fixture(scope="module")
def exact(vehicle, bodies, pushes, official):
    """By C MuJoCo in float64: each single step from the official states, and whole flights."""
    singles, flights = [], []
    for i in range(DRAWS):
        body = jax.tree.map(lambda leaf, i=i: leaf[i], bodies)
        model = flight_model(vehicle.mjcf_path, 0.002)
        model.body_sameframe[1] = mujoco.mjtSameFrame.mjSAMEFRAME_NONE
        model.body_mass[1], model.body_ipos[1] = body.mass, body.centre.array()
        model.body_inertia[1], model.body_iquat[1] = body.moments.array(), body.axes.array()
        sequence = np.asarray(pushes[i], float)
        data = mujoco.MjData(model)
        single = []
        for state, push in zip(official[i, :-1].astype(float), sequence, strict=True):
            data.qpos[:] = [*state[:3], *state[6:10]]
            data.qvel[:] = [*state[3:6], *state[10:]]
            single.append(c_step(model, data, push))
        singles.append(single)
        flights.append(c_mujoco(model, sequence))
    return np.array(singles), np.array(flights)


def worst(difference):
    """Largest deviation in position, velocity, attitude and rates."""
    parts = np.split(np.abs(difference), [3, 6, 10], axis=-1)
    return np.array([part.max() for part in parts])


@pytest.mark.parametrize("name", ["freebody", "mjx"])
class TestAgainstMjxStep:
    """What may differ is rounding, and how much that is says C MuJoCo in float64.

    The yardstick is the deviation of `mjx.step` itself (float32) from C. An engine that solves
    the same equations differs from `mjx.step` by about that much, and is no further from C; a
    wrong term would show in the first step, and 1000 steps of tumbling would magnify it.
    """

    def test_each_single_step(self, engines, bodies, pushes, official, exact, name):
        """From every visited state the engine makes the step that `mjx.step` makes."""
        engine = engines[name]

        @jax.jit
        @jax.vmap
        def advance(inertial, states, sequence):
            mass = engine.prepare(inertial)

            def one(state, push):
                physics = engine.physics(Motion.of(state))
                return engine.motion(engine.advance(mass, physics, wrench_of(push))).array()

            return jax.vmap(one)(states, sequence)

        ours = np.asarray(advance(bodies, jnp.asarray(official[:, :-1]), pushes))
        yardstick = worst(official[:, 1:] - exact[0])
        # In one step velocities change by up to 0.1 m/s and 1 rad/s: rounding is far below.
        assert np.all(yardstick < [5e-6, 1e-5, 1e-6, 3e-4])
        assert np.all(worst(ours - official[:, 1:]) <= 2.0 * yardstick)
        assert np.all(worst(ours - exact[0]) <= 1.5 * yardstick)

    def test_whole_flight(self, engines, bodies, pushes, official, exact, name):
        """Left alone for 1000 steps, the engine ends where `mjx.step` ends."""
        engine = engines[name]

        @jax.jit
        @jax.vmap
        def run(inertial, sequence):
            mass = engine.prepare(inertial)

            def one(physics, push):
                physics = engine.advance(mass, physics, wrench_of(push))
                return physics, engine.motion(physics).array()

            return jax.lax.scan(one, engine.physics(rest()), sequence)[1]

        ours = np.asarray(run(bodies, pushes))
        yardstick = worst(official[:, 1:] - exact[1])
        # Over paths of 25 m at up to 26 m/s and 24 rad/s.
        assert np.all(yardstick < [1e-3, 3e-3, 5e-4, 5e-3])
        assert np.all(worst(ours - official[:, 1:]) <= 2.0 * yardstick)
        assert np.all(worst(ours - exact[1]) <= 1.5 * yardstick)


@pytest.fixture(scope="module")
def aggressive(engines):
    """Per engine: a function from parameters to the wrenches and motions of flying hard."""
    return {name: jax.jit(partial(aggressive_flight, engine)) for name, engine in engines.items()}


def aggressive_flight(engine, params):
    """Of 1 s in which rate commands flip at high thrust: what the air does [500, 6], all wrenches
    [500, 6], rotor speeds [501, 4] and motions [500, 13]."""
    commands = np.zeros((500, 4), np.float32)
    moment = 0.002 * np.arange(500)
    commands[:, 0] = 14.0 + 9.0 * np.sin(9.0 * moment)
    commands[:, 1] = 6.0 * np.sign(np.sin(12.0 * moment + 0.3))
    commands[:, 2] = 6.0 * np.sign(np.cos(10.0 * moment))
    commands[:, 3] = 3.0 * np.sin(5.0 * moment)

    mass = engine.prepare(params.inertial)

    def one(carry, command):
        physics, speeds, loop = carry
        wanted = Ctbr(command[0], Vec3.of(command[1:]))
        loop, targets, _ = control_rates(
            params.controller, loop, wanted, engine.motion(physics).rates, 0.002
        )
        before, speeds = speeds, params.rotors.turn(speeds, targets, 1.0, 0.002)
        air = params.rotors.wrench(params.rotors.thrusts(speeds))
        rates = engine.motion(physics).rates
        momentum = params.rotors.momentum_torque(before, speeds, rates, 0.002)
        wrench = Wrench(air.force, air.torque + momentum)
        physics = engine.advance(mass, physics, wrench)
        pushes = [jnp.concatenate([w.force.array(), w.torque.array()]) for w in (air, wrench)]
        return (physics, speeds, loop), (*pushes, jnp.stack(speeds), engine.motion(physics).array())

    speeds = params.rotors.hover_speeds(params.inertial.mass, 9.81)
    start = (engine.physics(rest()), speeds, RateLoopState.start(Vec3.zero()))
    air, pushes, turned, motions = jax.lax.scan(one, start, jnp.asarray(commands))[1]
    return air, pushes, jnp.concatenate([jnp.stack(speeds)[None], turned]), motions


def c_mujoco(model, pushes):
    """Motions [T, 13] of C MuJoCo in float64 under these body wrenches."""
    model.opt.timestep = 0.002
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER
    model.opt.gravity[:] = (0.0, 0.0, -9.81)
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
    data = mujoco.MjData(model)
    data.qpos[:] = [0.0, 0.0, 1.5, 1.0, 0.0, 0.0, 0.0]
    return np.array([c_step(model, data, push) for push in pushes.astype(float)])


@pytest.mark.parametrize("name", ["freebody", "mjx"])
@pytest.mark.parametrize("load", [{}, PAYLOAD], ids=["plain", "payload"])
def test_aggressive_flight_agrees_with_c_mujoco(vehicle, aggressive, name, load):
    """The C model gets its payload as a welded body: MuJoCo computes the mass properties."""
    params = params_for(vehicle, Settings(**load))
    _, pushes, _, motions = (np.asarray(x) for x in aggressive[name](params))
    payload = (load.get("payload_kg", 0.0), load.get("payload_position_m", (0.0, 0.0, 0.0)))
    expected = c_mujoco(payload_model(vehicle, *payload), pushes)
    assert np.abs(expected[:, 10:]).max() > 4.0  # it does turn
    assert np.all(worst(motions - expected) < [1e-4, 5e-4, 5e-5, 5e-4])


def c_mujoco_with_rotors(vehicle, air, speeds):
    """Motions [T, 13] of C MuJoCo whose rotors are bodies on hinges, driven along these speeds."""
    root: Any = mjcf.from_path(str(vehicle.mjcf_path))
    root.keyframe.remove()
    body = root.find("body", vehicle.body_name)
    disc = np.array([0.51, 0.51, 1.0]) * vehicle.rotors.inertia
    body.inertial.diaginertia = np.diag(vehicle.inertia) - 4.0 * disc
    for place in vehicle.rotor_positions:
        rotor = body.add("body", pos=place)
        rotor.add("inertial", pos=[0.0] * 3, mass=1e-9, diaginertia=disc)
        rotor.add("joint", type="hinge", axis=[0.0, 0.0, 1.0])
    model = mujoco.MjModel.from_xml_string(root.to_xml_string(), root.get_assets())
    model.opt.timestep, model.opt.integrator = 0.002, mujoco.mjtIntegrator.mjINT_EULER
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
    data, mass = mujoco.MjData(model), np.zeros((10, 10))
    turns = -vehicle.rotors.spin * speeds.astype(float)  # against the torque on the body
    data.qpos[:7], data.qvel[6:] = [0.0, 0.0, 1.5, 1.0, 0.0, 0.0, 0.0], turns[0]
    motions = []
    for push, rise in zip(air.astype(float), np.diff(turns, axis=0) / 0.002, strict=True):
        data.qfrc_applied[:] = 0.0
        mujoco.mj_forward(model, data)
        mujoco.mj_fullM(model, data, mass)
        force = so3.quaternion_to_matrix(data.qpos[3:7]) @ push[:3]
        free = np.array([*force, *push[3:]])
        known = free - data.qfrc_bias[:6] - mass[:6, 6:] @ rise
        acceleration = np.concatenate([np.linalg.solve(mass[:6, :6], known), rise])
        # The motors' torques that spin the rotors up just so.
        motors = mass[6:] @ acceleration + data.qfrc_bias[6:]
        data.qfrc_applied[:] = [*free, *motors]
        mujoco.mj_step(model, data)
        motions.append([*data.qpos[:3], *data.qvel[:3], *data.qpos[3:7], *data.qvel[3:6]])
    return np.array(motions)


@pytest.mark.parametrize("name", ["freebody", "mjx"])
def test_rotor_inertia_agrees_with_c_mujoco(vehicle, aggressive, name):
    """Reaction and gyroscopic torques against four more bodies that really turn."""
    air, _, speeds, motions = (
        np.asarray(x) for x in aggressive[name](params_for(vehicle, Settings()))
    )
    expected = c_mujoco_with_rotors(vehicle, air, speeds)
    without = c_mujoco(payload_model(vehicle), air)
    assert worst(without - expected)[3] > 1.0  # it matters
    assert np.all(worst(motions - expected) < [1e-4, 5e-4, 5e-5, 5e-4])


def test_flight_model_keeps_the_coupling_of_an_off_centre_mass(vehicle):
    """MuJoCo drops it from the structure of a body that is centred when compiled."""
    model = flight_model(vehicle.mjcf_path, 0.002)
    assert not model.body_simple[1]
    assert model.opt.jacobian == mujoco.mjtJacobian.mjJAC_SPARSE


_CALL = re.compile(r'custom_call_target="([^"]+)"')


@pytest.mark.parametrize("name", ["freebody", "mjx"])
def test_no_call_leaves_xla(vehicle, engines, name):
    """The compiled batched step calls no library.

    Searched in the optimised HLO text: the targets of all `custom-call` instructions (LAPACK's
    potrf, trsm, getrf and the like appear as lapack_*), and the instructions `cholesky` and
    `triangular-solve`, which CPU runs in a thread pool that can hang for large batches.
    """
    params = stack([params_for(vehicle, Settings())] * 4)
    engine = engines[name]
    keys = jax.random.key_data(jax.vmap(jax.random.key)(jnp.arange(4)))
    states = jax.vmap(partial(simulation.reset, engine))(params, keys)
    commands = jnp.tile(jnp.array([9.81, 0.0, 0.0, 0.0]), (4, 1))
    step = jax.jit(jax.vmap(partial(simulation.step, engine)))
    text = step.lower(params, states, commands).compile().as_text() or ""
    assert "fusion" in text  # it is the optimised program
    assert set(_CALL.findall(text)) == set()
    assert "lapack" not in text.lower()
    assert re.search(r"\b(cholesky|triangular-solve)\(", text) is None
