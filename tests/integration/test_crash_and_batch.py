"""Crashes freeze one vehicle and no other; batches are many single runs; users add plugins."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct

from lafr_mjx.plant import simulation
from lafr_mjx.plant.params import as_leaves, stack
from lafr_mjx.plant.plugins import ActuatorPlugin, AirPlugin, ForcePlugin, SteadyWind
from lafr_mjx.plant.rigid_body import Wrench
from lafr_mjx.plant.scenario import Settings, load_scenario
from lafr_mjx.plant.scenario_params import params_for
from lafr_mjx.plant.simulation import CRASH_NAMES, FLYING, GROUND, NOT_FINITE, SPEED, TILT
from lafr_mjx.plant.vec3 import Scalar, Vec3
from lafr_mjx.types import GRAVITY

BATCH = 8
SINK = np.array([5.0, 0.0, 0.0, 0.0])


def finite(tree):
    return all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves(tree))


def kept(state):
    """What must never hold a NaN: all that a later flight would start from."""
    return state.physics, state.rotor_speed, state.rate_loop, state.memories, state.saturation


# ---------------------------------------------------------------- crashes


@pytest.mark.parametrize(
    ("code", "motion", "command"),
    [
        (GROUND, {"position": (0.0, 0.0, 0.3), "velocity": (0, 0, -1)}, SINK),
        (TILT, {"position": (0, 0, 20.0), "rates": (6.0, 0, 0)}, np.array([GRAVITY, 6.0, 0, 0])),
        (SPEED, {"position": (0, 0, 50.0), "velocity": (19.0, 0, 0)}, np.array([25.0, 0, 0, 0])),
    ],
    ids=CRASH_NAMES[1:4],
)
def test_a_crash_freezes_the_vehicle_and_says_why(rig, still, code, motion, command):
    state, trace = rig.fly(still, rig.start(still, **motion), command, 1.0)
    assert int(state.crash) == code
    first = int(np.argmax(trace.crash != FLYING))
    assert np.all(trace.crash[:first] == FLYING)
    assert np.all(trace.crash[first:] == code)
    # It stays as it was found, and that is what the cameras see. A freshly taken first sample
    # shows the way into the crash.
    for leaf in trace.truth:
        np.testing.assert_array_equal(
            leaf[first:], np.broadcast_to(leaf[first], leaf[first:].shape)
        )
    at = trace.sample.position[2 * first :]
    np.testing.assert_array_equal(at, np.broadcast_to(trace.truth.position[first], at.shape))
    limits = still.crash
    position, velocity = trace.truth.position, trace.truth.velocity
    upright = trace.truth.rotation[:, 2, 2]
    alive = {
        GROUND: position[:first, 2] >= limits.ground,
        TILT: upright[:first] >= limits.tilt_cosine,
        SPEED: np.linalg.norm(velocity[:first], axis=-1) <= limits.speed,
    }
    assert np.all(alive[code])
    assert trace.time[-1] == pytest.approx(1.0, abs=1e-5)  # its clock goes on


def test_limits_of_the_crash(still):
    assert float(still.crash.tilt_cosine) == pytest.approx(np.cos(np.radians(100.0)))
    assert (float(still.crash.speed), float(still.crash.error)) == (20.0, 2.0)


def mixed_batch(vehicle):
    """Eight different vehicles in different worlds."""
    drawn = load_scenario("randomised").with_settings(gust_mps=0.5)
    return [params_for(vehicle, drawn.drawn(7, i).settings) for i in range(BATCH)]


def commands_for(batch, ticks=50):
    moment = np.arange(ticks) * 0.02
    commands = np.zeros((batch, ticks, 4))
    for i in range(batch):
        commands[i, :, 0] = 11.0 + np.sin(3.0 * moment + i)
        commands[i, :, 1:] = 1.5 * np.sin(4.0 * moment[:, None] + i + np.arange(3))
    return commands


@pytest.fixture(scope="module")
def healthy(rig, vehicle):
    params = stack(mixed_batch(vehicle))
    states = rig.start_batch(params, range(BATCH))
    return rig.fly_batch(params, states, commands_for(BATCH), 1.0)


def nan_command(params, commands):
    commands[3, 10:, 1] = np.nan
    return params, commands


def nan_mass(params, commands):
    mass = params.inertial.mass.at[3].set(jnp.nan)
    return params.replace(inertial=params.inertial.replace(mass=mass)), commands


def nan_inertia(params, commands):
    moments = params.inertial.moments
    moments = moments.replace(x=moments.x.at[3].set(0.0))
    return params.replace(inertial=params.inertial.replace(moments=moments)), commands


def infinite_wind(params, commands):
    wind = params.plugins["wind"].wind
    wind = SteadyWind(wind.replace(x=wind.x.at[3].set(jnp.inf)))
    return params.replace(plugins={**params.plugins, "wind": wind}), commands


@pytest.mark.parametrize("spoil", [nan_command, nan_mass, nan_inertia, infinite_wind])
def test_nan_stays_with_its_vehicle(rig, vehicle, healthy, spoil):
    """The others are bit for bit those of the batch without the bad one: the same program."""
    good = stack(mixed_batch(vehicle))
    states = rig.start_batch(good, range(BATCH))
    params, commands = spoil(good, commands_for(BATCH))
    state, trace = rig.fly_batch(params, states, commands, 1.0)
    assert int(state.crash[3]) == NOT_FINITE
    assert finite(kept(state))
    assert finite(trace.truth)
    assert finite(trace.sample)
    others = np.delete(np.arange(BATCH), 3)
    expected = jax.tree.map(lambda leaf: leaf[others], healthy)
    got = jax.tree.map(lambda leaf: leaf[others], (state, trace))
    for a, b in zip(jax.tree.leaves(expected), jax.tree.leaves(got), strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
    first = 10 if spoil is nan_command else 0
    stands = trace.truth.position[3, first:]
    np.testing.assert_array_equal(stands, np.broadcast_to(stands[0], stands.shape))


# ---------------------------------------------------------------- batches and seeds


def test_a_batch_is_many_single_runs(rig, vehicle, healthy):
    """Different masses, delays, winds, drags and noises in one program, and one by one.

    XLA contracts and vectorises differently for one vehicle and for eight, so that each step
    rounds differently (6e-8). The rate loop forgets that; velocity and position add it up over
    500 steps: about 1e-6 of numbers of size 10.
    """
    state, trace = healthy
    for i, params in enumerate(mixed_batch(vehicle)):
        single_state, single = rig.fly(
            params, rig.start(params, seed=i), commands_for(BATCH)[i], 1.0
        )
        one = jax.tree.map(lambda leaf, i=i: leaf[i], trace)
        for name in ("position", "velocity", "rotation", "rates"):
            a, b = getattr(one.truth, name), getattr(single.truth, name)
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5, err_msg=f"{i} {name}")
        np.testing.assert_allclose(one.rotor_speed, single.rotor_speed, rtol=2e-5)
        # The same random numbers: noise, gusts, arrivals.
        np.testing.assert_allclose(one.sample.position, single.sample.position, atol=2e-5)
        gusts = [np.asarray(leaf)[i] for leaf in state.memories["gusts"]]
        np.testing.assert_allclose(gusts, single_state.memories["gusts"], atol=1e-5)
        np.testing.assert_array_equal(one.crash, single.crash)
    assert np.ptp(trace.truth.position[:, -1], axis=0).min() > 0.05  # they do differ


def test_the_same_seed_gives_the_same_bits(rig, vehicle):
    params = params_for(vehicle, load_scenario("wind5").settings)
    commands = commands_for(1)[0]
    runs = [rig.fly(params, rig.start(params, seed=s), commands, 1.0) for s in (4, 4, 5)]
    same = zip(jax.tree.leaves(runs[0]), jax.tree.leaves(runs[1]), strict=True)
    for a, b in same:
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
    assert np.abs(runs[0][1].truth.position - runs[2][1].truth.position).max() > 1e-3
    assert np.abs(runs[0][1].sample.position - runs[2][1].sample.position).max() > 1e-3


# ---------------------------------------------------------------- a user's own plugins


@struct.dataclass
class Tether(ForcePlugin):
    """A damped spring between the body's origin and an anchor."""

    anchor: Vec3
    stiffness: Scalar  # N/m
    damping: Scalar  # N/(m/s)

    def wrench(self, memory, flow):
        del memory
        motion = flow.motion
        pull = (self.anchor - motion.position) * self.stiffness - motion.velocity * self.damping
        return Wrench(motion.attitude.matrix().transposed_times(pull), Vec3.zero())


@struct.dataclass
class Thermal(AirPlugin):
    """A column of rising air that flickers."""

    updraft: Scalar  # m/s
    flicker: Scalar  # m/s

    def init(self, draws):
        return draws.normal(1)[0]

    def update(self, memory, draws, dt):
        del memory, dt
        return draws.normal(1)[0]

    def velocity(self, memory, point):
        return Vec3(0.0 * point.x, 0.0 * point.x, self.updraft + self.flicker * memory)


@struct.dataclass
class WornMotors(ActuatorPlugin):
    """Motors that reach a share of their top speed only."""

    share: Scalar

    def ceiling(self, memory, rotor_speed, dt):
        del rotor_speed, dt
        return memory, self.share


def users(share=1.0, stiffness=0.0, damping=0.0, updraft=0.0, flicker=0.0):
    return {
        "tether": Tether(Vec3(0.0, 0.0, 2.0), stiffness, damping),
        "thermal": Thermal(updraft, flicker),
        "motors": WornMotors(share),
    }


@pytest.fixture(scope="module")
def fly_with(rig, vehicle):
    def fly(settings, command, seconds, seed=0, **given):
        params = params_for(vehicle, settings, extra_plugins=users(**given))
        return rig.fly(params, rig.start(params, seed=seed), command, seconds)

    return fly


def test_a_users_tether_holds_the_vehicle(fly_with, vehicle):
    """With idling rotors it hangs: k (z0 - z) = m g - idle thrust. Critically damped, 2 rad/s."""
    rotors = vehicle.rotors
    stiffness, damping = 4.0 * vehicle.mass * 4.0, 2.0 * vehicle.mass * 4.0
    state, trace = fly_with(Settings(), np.zeros(4), 4.0, stiffness=stiffness, damping=damping)
    weight = vehicle.mass * GRAVITY - 4.0 * rotors.thrust_coefficient * rotors.speed_min**2
    assert int(state.crash) == FLYING
    assert trace.truth.position[-1, 2] == pytest.approx(2.0 - weight / stiffness, abs=1e-3)


def test_a_users_thermal_adds_to_the_wind(fly_with, vehicle):
    """In hover thrust the vehicle ends up moving with the air, whoever moves it."""
    _, trace = fly_with(
        Settings(drag_scale=10.0, wind_mps=(2.0, 0.0, 0.0)), np.array([GRAVITY, 0, 0, 0]), 8.0,
        updraft=1.0,
    )  # fmt: skip
    np.testing.assert_allclose(trace.truth.velocity[-1], [2.0, 0.0, 1.0], atol=1e-2)


def test_a_users_actuator_limits_the_rotors(fly_with, vehicle):
    share = 0.4
    _, trace = fly_with(Settings(), np.array([25.0, 0, 0, 0]), 0.5, share=share)
    np.testing.assert_allclose(trace.rotor_speed[-1], share * vehicle.rotors.speed_max, rtol=1e-4)


def test_random_draws_do_not_care_who_else_draws(rig, vehicle, fly_with):
    """A user's plugin that draws changes neither gusts nor noise (rounding apart)."""
    settings = load_scenario("wind5").settings
    command = np.array([GRAVITY, 0, 0, 0])
    params = params_for(vehicle, settings)
    alone, trace = rig.fly(params, rig.start(params, seed=9), command, 1.0)
    more, other = fly_with(settings, command, 1.0, seed=9)
    np.testing.assert_allclose(
        np.array(alone.memories["gusts"]), np.array(more.memories["gusts"]), atol=1e-6
    )
    noise = trace.sample.position[1::2] - trace.truth.position
    same = other.sample.position[1::2] - other.truth.position
    np.testing.assert_allclose(noise, same, atol=1e-6)
    assert np.std(noise) > 5e-4


def test_the_order_of_plugins_is_moot(vehicle, still):
    """They combine by phase and name."""
    turned = dict(reversed(list(still.plugins.items())))
    again = as_leaves(still.replace(plugins=turned))
    assert jax.tree.structure(again) == jax.tree.structure(still)
    params = params_for(vehicle, Settings(), extra_plugins=users())
    names = [name for name, _ in simulation._of(params, ForcePlugin)]
    assert names == ["body_drag", "rotor_drag", "tether"]
