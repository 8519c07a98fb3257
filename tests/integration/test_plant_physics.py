"""The plant against closed forms, through `simulation.step` wherever the step has a say.

The physics is MuJoCo's semi-implicit Euler: first order, so a closed form is met to O(dt). The
allowances say so, and where it is cheap the error is seen to halve from 2 ms to 1 ms.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lafr_mjx import so3
from lafr_mjx.plant.params import as_leaves
from lafr_mjx.plant.plugins import BodyDrag, RotorDrag, SteadyWind, World
from lafr_mjx.plant.rate_loop import Ctbr
from lafr_mjx.plant.scenario import Settings
from lafr_mjx.plant.scenario_params import params_for
from lafr_mjx.plant.simulation import FLYING
from lafr_mjx.plant.vec3 import Vec3
from lafr_mjx.plant.vehicle import add_point_mass, load_vehicle
from lafr_mjx.types import GRAVITY

DT = 0.002
HALVED = (0.45, 0.55)  # how a first-order error shrinks from 2 ms to 1 ms


def with_plugins(params, **plugins):
    return as_leaves(params.replace(plugins={**params.plugins, **plugins}))


def without_rate_loop(params):
    """The flight controller splits the thrust evenly and does not care about rates."""
    nothing = Vec3(0.0, 0.0, 0.0)
    deaf = params.controller.replace(proportional=nothing, integral=nothing, derivative=nothing)
    far = params.crash.replace(tilt_cosine=-2.0, ground=-1e6, speed=1e6)
    return as_leaves(params.replace(controller=deaf, crash=far))


def drag_of(params, vehicle, scale=1.0):
    world = World(vehicle, Settings(drag_scale=scale))
    rotor, body = RotorDrag().configured(world), BodyDrag().configured(world)
    return with_plugins(params, rotor_drag=rotor, body_drag=body)


# ---------------------------------------------------------------- thrust and weight


def test_hover_holds_its_place(rig, still, hover):
    """Thrust and weight cancel to float32: 2e-7 of g over 2 s is 4e-6 m, and 1000 roundings of
    a height of 1.5 m (1e-7 each) add up to 1e-4 m at worst."""
    state, trace = rig.fly(still, rig.start(still), hover, 2.0)
    assert np.abs(trace.truth.position - [0.0, 0.0, 1.5]).max() < 1e-4
    assert np.abs(trace.truth.velocity).max() < 2e-5
    assert np.abs(trace.truth.rates).max() < 1e-5
    assert int(state.crash) == FLYING


def fall_speed(vehicle, time):
    """Rotors run down from hover to idle: Ω = Ω_min + (Ω_h - Ω_min) e^(-t/τ)."""
    rotors = vehicle.rotors
    idle, extra, tau = rotors.speed_min, vehicle.hover_speed - rotors.speed_min, 0.0245
    decayed = np.exp(-time / tau)
    squares = (
        idle**2 * time
        + 2.0 * idle * extra * tau * (1.0 - decayed)
        + extra**2 * 0.5 * tau * (1.0 - decayed**2)
    )
    return 4.0 * rotors.thrust_coefficient * squares / vehicle.mass - GRAVITY * time


def test_free_fall_with_idling_rotors(rig, fine_rig, still, vehicle):
    errors = []
    for one in (rig, fine_rig):
        state = one.start(still, position=(0.0, 0.0, 10.0))
        _, trace = one.fly(still, state, np.zeros(4), 0.5)
        assert trace.rotor_speed[-1] == pytest.approx(vehicle.rotors.speed_min, rel=1e-4)
        errors.append(trace.truth.velocity[:, 2] - fall_speed(vehicle, trace.time))
        np.testing.assert_allclose(trace.truth.velocity[:, :2], 0.0, atol=1e-6)
    # The rotors' speed at a step's end acts over the whole step: half a step of g too soon.
    assert np.abs(errors[0]).max() < 0.55 * DT * GRAVITY
    assert HALVED[0] < errors[1][-1] / errors[0][-1] < HALVED[1]


def test_missing_thrust_of_a_payload(rig, vehicle, hover):
    """The flight controller asks for the nominal weight: a load of 60 g on top sinks."""
    params = params_for(vehicle, Settings(payload_kg=0.06))
    _, trace = rig.fly(params, rig.start(params, position=(0, 0, 9)), hover, 0.5)
    expected = -GRAVITY * 0.06 / (vehicle.mass + 0.06)
    settled = np.diff(trace.truth.velocity[:, 2])[10:] / 0.02  # 8 motor time constants later
    np.testing.assert_allclose(settled, expected, rtol=2e-3)


# ---------------------------------------------------------------- drag and wind


def drag_decay(speed, linear, quadratic, time):
    """Solution of v' = -linear v - quadratic v²."""
    decay = np.exp(-linear * time)
    return linear * speed * decay / (linear + quadratic * speed * (1.0 - decay))


def test_sideways_speed_decays_by_the_drag_law(rig, fine_rig, still, vehicle, hover):
    params = drag_of(still, vehicle)
    errors = []
    for one in (rig, fine_rig):
        state = one.start(params, velocity=(6.0, 0.0, 0.0))
        _, trace = one.fly(params, state, hover, 2.0)
        exact = drag_decay(6.0, vehicle.drag.rotor[0], vehicle.drag.body, trace.time)
        errors.append(trace.truth.velocity[:, 0] - exact)
        np.testing.assert_allclose(trace.truth.position[:, 2], 1.5, atol=1e-3)
    # Euler's local error is dt²/2 |v''|, with v'' about (0.3 + 2·0.02·6)·(2.5 m/s²): 1.4 m/s³.
    assert np.abs(errors[0]).max() < 2.0 * 0.5 * DT * 1.4
    assert HALVED[0] < errors[1][-1] / errors[0][-1] < HALVED[1]


def test_a_level_vehicle_drifts_with_the_wind(rig, still, vehicle, hover):
    """Relative to the air it is a decay; in the end it moves with the air."""
    wind = np.array([4.0, 3.0, 0.0])
    params = with_plugins(drag_of(still, vehicle), wind=SteadyWind(Vec3(*wind)))
    _, trace = rig.fly(params, rig.start(params), hover, 20.0)
    left = drag_decay(5.0, vehicle.drag.rotor[0], vehicle.drag.body, trace.time)
    expected = wind * (1.0 - left / 5.0)[:, None]
    np.testing.assert_allclose(trace.truth.velocity, expected, atol=DT * 1.5)
    np.testing.assert_allclose(trace.truth.velocity[-1], wind, atol=0.02)  # 0.3/s · 20 s = e^-6


def test_terminal_sink_rate(rig, still, vehicle):
    """At 5 m/s² of thrust: linear drag at the slower rotors and quadratic drag carry the rest."""
    params = drag_of(still, vehicle)
    thrust = 5.0
    state = rig.start(params, position=(0.0, 0.0, 500.0))
    _, trace = rig.fly(params, state, np.array([thrust, 0, 0, 0]), 12.0)
    linear = vehicle.drag.rotor[2] * np.sqrt(thrust / GRAVITY)
    quadratic = vehicle.drag.body
    terminal = (-linear + np.sqrt(linear**2 + 4 * quadratic * (GRAVITY - thrust))) / (2 * quadratic)
    # A fixed point is free of the step's error; after 12 s (8 time constants) e^-8 is left.
    assert trace.truth.velocity[-1, 2] == pytest.approx(-terminal, rel=1e-3)


def test_terminal_speed_when_tilted(rig, still, vehicle):
    """Flying at a constant tilt, thrust, drag in body axes and weight end up in balance."""
    params = drag_of(still, vehicle)
    tilt = np.radians(12.0)
    attitude = (np.cos(tilt / 2), 0.0, np.sin(tilt / 2), 0.0)
    thrust = 9.9
    state = rig.start(params, position=(0.0, 0.0, 50.0), attitude=attitude)
    _, trace = rig.fly(params, state, np.array([thrust, 0, 0, 0]), 20.0)
    velocity, rotation = trace.truth.velocity[-1], trace.truth.rotation[-1]
    assert rotation[0, 2] == pytest.approx(np.sin(tilt), rel=1e-3)  # still tilted
    body = rotation.T @ velocity
    share = np.sqrt(thrust / GRAVITY)
    force = np.array([0.0, 0.0, thrust]) - vehicle.drag.rotor * share * body
    force = force - vehicle.drag.body * np.linalg.norm(body) * body
    balance = rotation @ force - [0.0, 0.0, GRAVITY]
    assert velocity[0] > 3.0
    # Of 2 m/s² at the start e^(-0.4 · 20) is left.
    np.testing.assert_allclose(balance, 0.0, atol=0.01)
    np.testing.assert_allclose(np.diff(trace.truth.velocity[-25:], axis=0), 0.0, atol=1e-4)


# ---------------------------------------------------------------- rotation


def test_torque_free_rotation_keeps_its_angular_momentum(rig, fine_rig, still, vehicle):
    """A tumbling body with three moments; L = R J ω in the world, free of any torque."""
    params = without_rate_loop(still)
    rates = np.array([4.0, 5.0, 3.0])
    drift = []
    for one in (rig, fine_rig):
        state = one.start(params, rates=rates, position=(0, 0, 100))
        _, trace = one.fly(params, state, np.array([9.81, 0, 0, 0]), 1.0)
        momentum = np.einsum(
            "tij,tj->ti", trace.truth.rotation, trace.truth.rates @ vehicle.inertia
        )
        start = vehicle.inertia @ rates
        drift.append(np.linalg.norm(momentum - start, axis=1).max() / np.linalg.norm(start))
        assert np.ptp(trace.truth.rates[:, 0]) > 1.0  # it tumbles
        assert np.ptp(trace.truth.rotation[:, 2, 2]) > 1.0
    # One step of |ω| = 7 rad/s turns by 0.014 rad; a few per cent of that stay each second.
    assert drift[0] < 0.014
    assert HALVED[0] - 0.05 < drift[1] / drift[0] < HALVED[1] + 0.05


@pytest.mark.parametrize("name", ["lafr192", "kingfisher"])
def test_accelerating_rotors_turn_the_body_the_other_way(rig, name):
    """Without air in the propellers the momentum about z of body and rotors together is kept."""
    vehicle = load_vehicle(name)
    params = params_for(vehicle, Settings())
    vacuum = params.rotors.replace(torque_per_thrust=(0.0,) * 4)
    params = as_leaves(params.replace(rotors=vacuum))
    start = rig.start(params)
    _, trace = rig.fly(params, start, np.array([GRAVITY, 0.0, 0.0, 2.0]), 0.5)
    # A rotor turns against the torque that its drag has on the body.
    rotors = trace.rotor_speed @ (-vehicle.rotors.spin * vehicle.rotors.inertia)
    before = np.array(start.rotor_speed) @ (-vehicle.rotors.spin * vehicle.rotors.inertia)
    body = vehicle.inertia[2, 2] * trace.truth.rates[:, 2]
    assert body.max() > 1.0 * vehicle.inertia[2, 2]
    np.testing.assert_allclose(body + rotors - before, 0.0, atol=1e-4 * body.max())


def test_equal_thrusts_turn_an_off_centre_payload(rig, vehicle):
    """60 g at 20 mm in front: pitch acceleration c T / J'yy, nose down (positive about y)."""
    place = np.array([0.02, 0.0, 0.0])
    settings = Settings(payload_kg=0.06, payload_position_m=tuple(place))
    params = without_rate_loop(params_for(vehicle, settings))
    mass, inertia, centre = add_point_mass(
        vehicle.mass, vehicle.inertia, vehicle.centre_of_mass, 0.06, place
    )
    # By hand: J'yy = Jyy + m p/(m + p) d².
    assert inertia[1, 1] == pytest.approx(1.65e-4 + 0.192 * 0.06 / 0.252 * 0.02**2)
    assert centre[0] == pytest.approx(0.06 * 0.02 / 0.252)
    carry = np.array([GRAVITY * float(mass) / vehicle.mass, 0, 0, 0])
    _, trace = rig.fly(params, rig.start(params), carry, 0.5)
    angular = centre[0] * float(mass) * GRAVITY / inertia[1, 1]
    # A constant torque about a principal axis: no error of the step at all.
    np.testing.assert_allclose(
        trace.sample.rates[:5, 1], angular * trace.sample_time[:5], rtol=1e-4
    )
    np.testing.assert_allclose(trace.sample.rates[:5, [0, 2]], 0.0, atol=1e-4)
    # The centre of mass does not accelerate yet, so the origin rises: a = -ω̇ × c.
    assert trace.sample.velocity[0, 2] == pytest.approx(angular * centre[0] * 0.01, rel=0.02)


@pytest.mark.parametrize("scale", [(0.8, 1, 1, 1), (0.80, 0.90, 0.85, 0.90)])
def test_moments_of_weak_rotors(rig, vehicle, scale):
    params = without_rate_loop(params_for(vehicle, Settings(rotor_scale=scale)))
    state = rig.start(params)
    turning = tuple(jnp.float32(vehicle.hover_speed) for _ in range(4))
    _, trace = rig.fly(params, state.replace(rotor_speed=turning), np.array([9.81, 0, 0, 0]), 0.5)
    thrusts = vehicle.mass * GRAVITY / 4.0 * np.array(scale)
    x, y = vehicle.rotor_positions[:, 0], vehicle.rotor_positions[:, 1]
    yaw = vehicle.rotors.spin * vehicle.rotors.torque_per_thrust
    torque = np.array([y @ thrusts, -x @ thrusts, yaw @ thrusts])
    expected = np.linalg.solve(vehicle.inertia, torque) * 0.01
    assert np.all(np.abs(expected) > 1e-3)
    # In 10 ms the rates reach 0.3 rad/s, whose gyroscopic moments are 1e-3 of the others.
    np.testing.assert_allclose(trace.sample.rates[0], expected, rtol=5e-3, atol=2e-4)
    lift = (thrusts.sum() / vehicle.mass - GRAVITY) * 0.01
    assert trace.sample.velocity[0, 2] == pytest.approx(lift, rel=1e-3)


# ---------------------------------------------------------------- fan, radio, battery, noise


def test_fan_jet():
    from lafr_mjx.plant.plugins import FanJet

    direction = np.array([-0.8, 0.6, 0.0])
    outlet = np.array([3.0, 1.0, 1.4])
    spread = np.tan(np.radians(12.0))
    fan = FanJet(Vec3(*outlet), Vec3(*direction), speed=6.0, radius=0.2, spread=spread)

    def at(points):
        return np.asarray(fan.velocity((), Vec3.of(np.asarray(points, np.float32))).array())

    side = np.array([0.6, 0.8, 0.0])
    for ahead in (1e-3, 0.5, 2.0, 5.0):
        width = 0.2 + spread * ahead
        axis = outlet + ahead * direction
        speed = 6.0 * 0.2 / width
        np.testing.assert_allclose(at(axis), speed * direction, atol=1e-4)
        # Gaussian profile: 1/e of the axis' speed at the jet's radius, wherever one looks.
        np.testing.assert_allclose(at(axis + width * side), speed / np.e * direction, atol=1e-4)
        np.testing.assert_allclose(
            at(axis + np.array([0, 0, width])), speed / np.e * direction, atol=1e-4
        )
        # Momentum ∫ u² 2π ρ dρ does not depend on the distance.
        radii = np.linspace(0.0, 6.0 * width, 4001)
        u = at(axis + radii[:, None] * [0.0, 0.0, 1.0]) @ direction
        momentum = np.trapezoid(u**2 * 2.0 * np.pi * radii, radii)
        assert momentum == pytest.approx(np.pi / 2.0 * (6.0 * 0.2) ** 2, rel=1e-3)
    np.testing.assert_array_equal(at(outlet - 0.01 * direction), 0.0)
    np.testing.assert_array_equal(at(outlet - 2.0 * direction + 0.1 * side), 0.0)


def test_radio_steps(vehicle):
    from lafr_mjx.plant.messages import CommandMessage

    params = params_for(vehicle, Settings(radio_steps=1600))
    rng = np.random.default_rng(0)
    wanted = rng.uniform([0, -6, -6, -6], [25, 6, 6, 6], (500, 4)).astype(np.float32)

    @jax.jit
    @jax.vmap
    def send(c):
        message = CommandMessage(Ctbr(c[0], Vec3.of(c[1:])), jnp.float32(0.0))
        _, sent = params.plugins["radio"].send((), None, message)
        return jnp.concatenate([sent.command.thrust[None], sent.command.rates.array()])

    got = np.asarray(send(wanted))
    steps = np.array([25.0, *np.radians([2044.0, 2044.0, 1048.0])]) / 1600.0
    np.testing.assert_allclose(got / steps, np.round(got / steps), atol=1e-3)  # on the grid
    assert np.all(np.abs(got - wanted) <= 0.5 * steps * (1.0 + 1e-3))  # the nearest
    assert np.all(np.abs(got - wanted).max(axis=0) > 0.45 * steps)  # and no finer


def test_battery_bookkeeping(rig, vehicle, hover):
    """In hover: charge = ∫ P/U dt, terminal voltage = open circuit - R I, and no more."""
    battery = vehicle.battery
    params = params_for(vehicle, Settings(battery_strength=1.0, battery_charge=0.8))
    state, trace = rig.fly(params, rig.start(params), hover, 10.0)
    capacity = battery.capacity * 3.6
    span = battery.voltage_full - battery.voltage_empty
    # Current at a moment follows from the voltage one tick before.
    current = vehicle.hover_power / np.concatenate(
        [[battery.voltage_empty + 0.8 * span], trace.voltage[:-1]]
    )
    used = np.cumsum(current) * 0.02
    np.testing.assert_allclose(trace.charge_used, used, rtol=1e-4)
    open_circuit = battery.voltage_empty + (0.8 - used / capacity) * span
    np.testing.assert_allclose(
        trace.voltage, open_circuit - battery.resistance * current, atol=1e-3
    )
    # The energy that left the terminals is the power that was asked for: 10 s of hover.
    energy = np.sum(current * trace.voltage) * 0.02
    assert energy == pytest.approx(10.0 * vehicle.hover_power, rel=2e-3)
    assert int(state.crash) == FLYING


def test_sag_lowers_the_rotors_ceiling(rig, vehicle):
    """A flat battery under full thrust: the rotors turn as fast as the voltage allows."""
    base = params_for(vehicle, Settings(battery_strength=1.0, battery_charge=0.0))
    full = np.array([25.0, 0.0, 0.0, 0.0])
    per_volt = vehicle.rotors.speed_max / vehicle.battery.voltage_full
    shaft = vehicle.rotors.thrust_coefficient * vehicle.rotors.torque_per_thrust
    reached = []
    for resistance, voltage in ((0.05, 13.2), (0.02, 8.0), (0.10, 8.0)):
        worn = base.plugins["battery"].replace(resistance=resistance, voltage_empty=voltage)
        params = with_plugins(base, battery=worn)
        _, trace = rig.fly(params, rig.start(params, position=(0, 0, 5)), full, 0.5)
        speed = trace.rotor_speed[-1, 0]
        reached.append(speed)
        power = 4.0 * shaft * speed**3 / vehicle.battery.efficiency + 3.0
        # Fixed point: U = U0 - R P / U.
        loaded = 0.5 * (voltage + np.sqrt(voltage**2 - 4.0 * resistance * power))
        assert trace.voltage[-1] == pytest.approx(loaded, rel=2e-3)
        if voltage < 13.0:
            assert speed == pytest.approx(per_volt * loaded, rel=3e-3)
    wanted = np.sqrt(25.0 * vehicle.mass / 4.0 / vehicle.rotors.thrust_coefficient)
    assert reached[0] == pytest.approx(wanted, rel=1e-3)  # the good battery has room
    assert wanted > 1.1 * reached[1] > 1.1 * 1.03 * reached[2]


def test_sensor_noise(rig, vehicle, hover):
    """1000 ticks, 3 axes: a standard deviation is known to 1/√6000 = 1.3 %; allowed are 4 σ."""
    settings = Settings(
        noise_scale=2.0,
        position_noise_m=0.001,
        velocity_noise_mps=0.02,
        attitude_noise_rad=0.002,
        rates_noise_radps=0.01,
    )
    params = params_for(vehicle, settings)
    _, trace = rig.fly(params, rig.start(params, seed=3), hover, 20.0)
    sample = jax.tree.map(lambda leaf: leaf[1::2], trace.sample)  # those at the ticks
    turned = np.einsum("tji,tjk->tik", trace.truth.rotation, sample.rotation)
    noise = {
        0.002: sample.position - trace.truth.position,
        0.04: sample.velocity - trace.truth.velocity,
        0.004: np.asarray(so3.log(turned.astype(float))),
        0.02: sample.rates - trace.truth.rates,
    }
    for expected, values in noise.items():
        assert np.std(values) == pytest.approx(expected, rel=0.052)
        assert np.abs(values.mean(axis=0)).max() < 4.0 * expected / np.sqrt(1000)
        successive = np.mean(values[1:] * values[:-1]) / expected**2
        assert abs(successive) < 4.0 / np.sqrt(3000)  # white
    both = np.corrcoef(np.concatenate(list(noise.values()), axis=1).T)
    assert np.abs(both - np.eye(12)).max() < 4.5 / np.sqrt(1000)  # 66 pairs
