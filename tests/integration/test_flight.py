"""Whole flights: tracking, what is recorded, conditions that change, a run of flights."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lafr_mjx import so3
from lafr_mjx.control.departure import WINDOWS, departure
from lafr_mjx.control.geometric import geometric_controller
from lafr_mjx.learner.guarded import Guarded
from lafr_mjx.metrics import flight_metrics
from lafr_mjx.plant.plant import Plant, PlantRun
from lafr_mjx.plant.scenario import Scenario, Settings, load_scenario
from lafr_mjx.reference import clock as clocks
from lafr_mjx.reference.flatness import reference_state
from lafr_mjx.tasks import load_task
from lafr_mjx.types import CONTROL_DT, CommandLimits, Reference, Sensed, State

TICKS = 492  # 1.5 s of ramp and a lap of 8.34 s


@pytest.fixture(scope="module")
def task(vehicle):
    return load_task("figure8", vehicle.limits)


@pytest.fixture(scope="module")
def controller(vehicle):
    return geometric_controller(vehicle.limits)


@pytest.fixture(scope="module")
def flown(vehicle, task, controller):
    """Flies a scenario; `flight` picks one of a run without flying those before it."""

    def fly(scenario, flight=0, seed=0, with_controller=controller):
        scenario = load_scenario(scenario) if isinstance(scenario, str) else scenario
        plant = Plant(vehicle, scenario, engine="freebody")
        run = PlantRun(plant.start(seed).state, flight)
        run, rollout = plant.fly(
            run, with_controller, task.path, task.start_clock(), task.flight_s(1.0)
        )
        assert run.flights == flight + 1
        return plant, run, jax.tree.map(np.asarray, rollout)

    return fly


@pytest.fixture(scope="module")
def nominal(flown):
    return flown("nominal")[2]


def error_of(rollout):
    return np.linalg.norm(rollout.truth.position - rollout.reference.position, axis=-1)


# ---------------------------------------------------------------- tracking


@pytest.mark.parametrize(
    ("scenario", "rmse", "peak"),
    [
        # Ideal vehicle: only the rate loop's lag is left.
        ("still", 0.005, 0.02),
        # 30 ms of delay in all at up to 2.2 m/s are 0.07 m, and drag of 0.3/s.
        ("nominal", 0.08, 0.12),
        # 5 m/s push with 2 m/s²; the integral term learns that in about 2 s.
        ("wind5", 0.15, 0.25),
        ("payload", 0.20, 0.40),
    ],
)
def test_tracking_error(flown, task, vehicle, scenario, rmse, peak):
    rollout = flown(scenario)[2]
    figures = flight_metrics(rollout, task, vehicle.limits)
    assert not figures.crashed
    assert figures.rmse_m < rmse
    assert figures.peak_error_m < peak
    assert figures.lap_time_s == pytest.approx(task.lap_s, rel=0.02)
    assert figures.peak_speed_mps == pytest.approx(2.24, rel=0.05)
    assert figures.flight_time_s == pytest.approx(9.84)


def test_conditions_cost_what_they_should(flown, task, vehicle):
    """A still world is easiest; a wind, a payload and clipped propellers each are harder."""
    errors = {
        name: flight_metrics(flown(name)[2], task, vehicle.limits).rmse_m
        for name in ("still", "nominal", "wind5", "payload", "propeller")
    }
    assert errors["still"] < 0.2 * errors["nominal"]
    for name in ("wind5", "payload", "propeller"):
        assert errors[name] > 1.2 * errors["nominal"]


def test_both_engines_fly_the_same_flight(vehicle, task, controller, flown):
    """Headline results come from `mjx`; the fast engine must not tell another story.

    With everything at once: an off-centre payload, clipped propellers, drag, wind and noise.
    """
    scenario = load_scenario("combined").with_settings(wind_mps=(2.0, 1.0, 0.0), gust_mps=0.3)
    plant = Plant(vehicle, scenario, engine="mjx")
    assert plant.engine.name == "mjx"
    run = plant.start(0)
    _, rollout = plant.fly(run, controller, task.path, task.start_clock(), task.flight_s(1.0))
    other = flown(scenario)[2]
    assert not other.crashed.any()
    # The loop around the vehicle is stable, so rounding does not grow: well below a millimetre.
    np.testing.assert_allclose(rollout.truth.position, other.truth.position, atol=5e-4)


# ---------------------------------------------------------------- what is recorded


def test_shapes_and_times(nominal):
    assert nominal.time.shape == nominal.valid.shape == (TICKS,)
    np.testing.assert_allclose(nominal.time, CONTROL_DT * np.arange(TICKS), atol=1e-5)
    assert nominal.valid.all()
    assert nominal.command.shape == (TICKS, 4)
    for state, length in ((nominal.truth, TICKS), (nominal.sensed, TICKS), (nominal.sample, 984)):
        assert state.position.shape == state.velocity.shape == state.rates.shape == (length, 3)
        assert state.rotation.shape == (length, 3, 3)
    np.testing.assert_allclose(nominal.sample_time, 0.01 * np.arange(1, 985), atol=1e-5)
    assert nominal.sample_received.all()
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(nominal))
    for leaf in nominal.diagnostics.__dict__.values():
        assert len(leaf) == TICKS


def test_starts_at_rest_at_the_start_of_the_path(nominal, task):
    np.testing.assert_allclose(nominal.truth.position[0], task.start_position, atol=1e-6)
    np.testing.assert_array_equal(nominal.truth.velocity[0], 0.0)
    np.testing.assert_allclose(nominal.reference.position[0], task.start_position, atol=1e-6)
    np.testing.assert_allclose(nominal.reference.velocity[0], 0.0, atol=1e-6)


def test_sensed_is_the_newest_sample_and_near_the_truth(nominal):
    np.testing.assert_allclose(nominal.stamp[1:], nominal.time[1:] - 0.01, atol=1e-5)
    index = np.round(nominal.stamp[1:] / 0.01).astype(int) - 1
    for sensed, sample in zip(nominal.sensed, nominal.sample, strict=True):
        np.testing.assert_array_equal(sensed[1:], sample[index])
    # Noise: 1 mm, 0.02 m/s, 2 mrad, 0.01 rad/s; 1500 draws stay within 5 σ. Every second
    # sample lies at a tick, where the truth is recorded.
    at_ticks = jax.tree.map(lambda leaf: leaf[1:-1:2], nominal.sample)
    truth = jax.tree.map(lambda leaf: leaf[1:], nominal.truth)
    assert np.abs(at_ticks.position - truth.position).max() < 5 * 0.001
    assert np.abs(at_ticks.velocity - truth.velocity).max() < 5 * 0.02
    assert np.abs(at_ticks.rates - truth.rates).max() < 5 * 0.01
    turn = so3.log(np.swapaxes(truth.rotation, 1, 2).astype(float) @ at_ticks.rotation)
    assert np.abs(turn).max() < 5 * 0.002
    assert np.std(at_ticks.position - truth.position) == pytest.approx(0.001, rel=0.1)


def test_reference_is_that_of_its_time(nominal, task):
    """The recorded reference against the task's path and clock in float64."""
    phase, *rates = clocks.shifted(task.start_clock(), nominal.time.astype(float))
    exact = reference_state(task.path, phase, *rates)
    # 492 float32 additions to a phase of up to 8.9 s: half an ulp (2.4e-7 s) each at worst.
    np.testing.assert_allclose(nominal.phase, phase, atol=1.2e-4)
    np.testing.assert_allclose(nominal.phase_rate, rates[0], atol=2e-5)
    np.testing.assert_allclose(nominal.reference.position, exact.position, atol=3e-4)
    np.testing.assert_allclose(nominal.reference.velocity, exact.velocity, atol=1e-3)
    np.testing.assert_allclose(nominal.reference.thrust, exact.thrust, atol=5e-3)
    assert np.all(nominal.time_scale == 1.0)


def test_commands_are_within_the_limits(flown, vehicle, task, nominal):
    wild = geometric_controller(vehicle.limits, position_gain=(400.0, 400.0, 400.0))
    for rollout in (nominal, flown("wind5", with_controller=wild)[2]):
        assert np.all(rollout.command >= vehicle.limits.low - 1e-6)
        assert np.all(rollout.command <= vehicle.limits.high + 1e-6)


def test_diagnostics_tell_the_plants_side(flown, vehicle):
    rollout = flown("wind5")[2]
    seen = rollout.diagnostics
    assert np.all(seen.rotor_speed > vehicle.rotors.speed_min)
    mean = seen.rotor_speed.mean()
    assert mean == pytest.approx(vehicle.hover_speed, rel=0.05)
    np.testing.assert_allclose(seen.air_velocity.mean(axis=0), [4.0, 3.0, 0.0], atol=1.0)
    gusts = seen.air_velocity - [4.0, 3.0, 0.0]
    assert 0.1 < gusts.std() < 1.0
    assert np.all(seen.crash == 0)


def test_an_error_beyond_two_metres_is_a_crash(flown, vehicle, task):
    """A controller that does nothing: the reference leaves the vehicle behind."""
    idle = geometric_controller(
        vehicle.limits, position_gain=(0.0,) * 3, velocity_gain=(0.0,) * 3,
        integral_gain=(0.0,) * 3, attitude_gain=(5.0,) * 3,
    )  # fmt: skip
    scenario = Scenario("strong", "", Settings(drag_scale=5.0, wind_mps=(-6.0, 0.0, 0.0)))
    rollout = flown(scenario, with_controller=idle)[2]
    figures = flight_metrics(rollout, task, vehicle.limits)
    assert figures.crashed
    first = int(np.argmax(rollout.crashed))
    assert 0 < first < TICKS - 1
    assert rollout.crashed[first:].all()
    assert set(rollout.diagnostics.crash[first:]) == {5}
    # It is noticed at the first tick beyond 2 m, and frozen with it.
    error = error_of(rollout)
    assert error[: first - 1].max() <= 2.0 < error[first - 1]
    position = rollout.truth.position[first:]
    np.testing.assert_array_equal(position, np.broadcast_to(position[0], position.shape))


@pytest.mark.parametrize("broken", ["position_gain", "attitude_gain"])
def test_a_controllers_nan_is_never_sent(flown, vehicle, task, broken):
    """One NaN in a gain: the whole command is replaced, and the vehicle hovers."""
    controller = geometric_controller(vehicle.limits, **{broken: (np.nan, 1.0, 1.0)})
    rollout = flown("nominal", with_controller=controller)[2]
    hover = np.broadcast_to([9.81, 0.0, 0.0, 0.0], rollout.command.shape)
    np.testing.assert_allclose(rollout.command, hover, rtol=1e-6)
    # It stays in its place until the reference has left it behind by 2 m; open loop, the
    # gyroscope's noise tilts it by fractions of a degree.
    away = np.linalg.norm(rollout.truth.position - task.start_position, axis=-1)
    assert away.max() < 0.03
    assert np.isfinite(rollout.truth.position).all()
    first = int(np.argmax(rollout.crashed))
    assert error_of(rollout)[first - 1] > 2.0


def test_what_the_guard_does_is_recorded(flown, controller, vehicle, task):
    """From the tick on at which a limit is passed; that of a slow clock is one tick later."""
    slow_from, limit = jnp.full(WINDOWS, 0.05), jnp.float32(0.12)
    key = jax.random.key_data(jax.random.key(0))
    guarded = Guarded(controller, controller, jnp.float32(0.0), slow_from, limit, key)
    rollout = flown("wind5", with_controller=guarded)[2]
    worst = np.maximum.accumulate(error_of(rollout))
    seen, asked = rollout.sensed, rollout.reference
    gone = departure(seen.position - asked.position, seen.velocity - asked.velocity)
    gone = np.maximum.accumulate(gone)
    slow, taken = (int(np.argmax(x)) for x in (rollout.slow_down > 1.0, rollout.fallback))
    assert gone[slow - 1] == pytest.approx(0.05, abs=0.02)
    assert worst[taken] == pytest.approx(0.12, abs=0.02)
    assert rollout.fallback[taken:].all() and 0 < slow < taken
    figures = flight_metrics(rollout, task, vehicle.limits)
    assert figures.fallback and figures.slow_down_factor == pytest.approx(2.2, abs=0.9)
    unguarded = flown("wind5")[2]
    assert not unguarded.fallback.any() and np.all(unguarded.slow_down == 1.0)


# ---------------------------------------------------------------- conditions that change


def test_payload_before_flight_six(flown, task, vehicle):
    plant, _, before = flown("payload-midway", flight=5)
    _, _, after = flown("payload-midway", flight=6)
    loaded = vehicle.mass + 0.06
    assert float(plant.conditions(5).before.inertial.mass) == pytest.approx(vehicle.mass)
    assert float(plant.conditions(6).before.inertial.mass) == pytest.approx(loaded)
    assert float(plant.conditions(60).before.inertial.mass) == pytest.approx(loaded)
    # The same mean thrust command lifts less: the controller must ask for more, and the rotors
    # turn faster by the root of the weight.
    late = slice(250, None)
    ratio = after.command[late, 0].mean() / before.command[late, 0].mean()
    assert ratio == pytest.approx(loaded / vehicle.mass, rel=0.02)
    faster = (
        after.diagnostics.rotor_speed[late].mean() / before.diagnostics.rotor_speed[late].mean()
    )
    assert faster == pytest.approx(np.sqrt(loaded / vehicle.mass), rel=0.02)
    # In front of the centre: the front rotors (1 and 4) carry more.
    speeds = after.diagnostics.rotor_speed[late].mean(axis=0)
    assert min(speeds[0], speeds[3]) > 1.1 * max(speeds[1], speeds[2])


def test_wind_rises_within_flight_six(flown):
    _, _, rollout = flown("wind-midway", flight=6)
    air = rollout.diagnostics.air_velocity
    time = rollout.time
    np.testing.assert_array_equal(air[time < 2.0], 0.0)
    share = np.clip((time - 2.0) / 3.0, 0.0, 1.0)[:, None]
    mean = share * [4.0, 3.0, 0.0]
    # Gusts of 0.5 m/s rise with it, 5 σ.
    assert np.all(np.abs(air - mean) <= 5 * 0.5 * share + 1e-5)
    middle = (time > 3.4) & (time < 3.6)
    assert np.linalg.norm(air[middle].mean(axis=0)) == pytest.approx(2.5, abs=1.0)
    assert np.linalg.norm(air[time > 6.0].mean(axis=0)) == pytest.approx(5.0, abs=1.5)
    error = error_of(rollout)
    assert error[time > 3.5].max() > 1.2 * error[(time > 1.5) & (time < 2.0)].max()
    # The flight before knew nothing of it, the one after has it from the start.
    np.testing.assert_array_equal(flown("wind-midway", flight=5)[2].diagnostics.air_velocity, 0.0)
    after = flown("wind-midway", flight=7)[2].diagnostics.air_velocity
    assert np.linalg.norm(after[0]) > 2.5


def test_the_battery_goes_on_from_flight_to_flight(vehicle, task, controller):
    plant = Plant(vehicle, load_scenario("battery"), engine="freebody")
    run = plant.start(0)
    used, voltage = [0.0], []
    for _ in range(3):
        run, rollout = plant.fly(run, controller, task.path, task.start_clock(), task.flight_s(1.0))
        used.append(float(run.state.memories["battery"].used))
        voltage.append(np.asarray(rollout.diagnostics.voltage))
    assert run.flights == 3
    drawn = np.diff(used)
    # About the hover power over the voltage, for 9.84 s each.
    expected = 9.84 * vehicle.hover_power / voltage[0].mean()
    np.testing.assert_allclose(drawn, expected, rtol=0.15)
    np.testing.assert_allclose(drawn, drawn[0], rtol=0.02)
    assert voltage[0].mean() > voltage[1].mean() > voltage[2].mean()
    full = vehicle.battery.voltage_full
    assert voltage[0][0] < vehicle.battery.voltage_empty + 0.8 * (
        full - vehicle.battery.voltage_empty
    )


def test_flights_of_a_run_differ_but_runs_repeat(vehicle, task, controller):
    plant = Plant(vehicle, load_scenario("wind5"), engine="freebody")

    def two(seed):
        run, positions = plant.start(seed), []
        for _ in range(2):
            run, rollout = plant.fly(
                run, controller, task.path, task.start_clock(), task.flight_s(1.0)
            )
            positions.append(np.asarray(rollout.truth.position))
        return positions

    one, again, other = two(1), two(1), two(2)
    np.testing.assert_array_equal(one, again)
    assert np.abs(one[0] - one[1]).max() > 0.01  # gusts go on, they are not played again
    assert np.abs(one[0] - other[0]).max() > 0.01


# ---------------------------------------------------------------- the controller's two faces


def test_numpy_and_jax_give_the_same_command(vehicle, task):
    """On the drone it runs in NumPy (float64), on the plant in JAX (float32)."""
    controller = geometric_controller(
        vehicle.limits, rotor_drag=(0.3, 0.3, 0.15), lead_s=0.03, integral_gain=(3.0, 3.0, 4.0)
    )
    rng = np.random.default_rng(0)
    on_jax = jax.jit(lambda c, m, s, r: c(m, s, r))
    on_device = jax.tree.map(jnp.asarray, controller)
    worst = 0.0
    for _ in range(100):
        phase = rng.uniform(0.0, task.lap_s)
        rate = rng.uniform(0.3, 2.5)
        preview = np.asarray(controller.preview_s())
        wanted = reference_state(task.path, phase + rate * preview, rate)
        state = State(
            position=np.asarray(wanted.position)[0] + 0.2 * rng.normal(size=3),
            velocity=np.asarray(wanted.velocity)[0] + 0.5 * rng.normal(size=3),
            rotation=np.asarray(wanted.rotation)[0] @ so3.exp(0.2 * rng.normal(size=3)),
            rates=rng.normal(size=3),
        )
        sensed = Sensed(state, np.zeros(()), np.zeros(()))
        references = Reference(*(np.asarray(field) for field in wanted))
        memory = 0.1 * rng.normal(size=3)
        new, command = controller(memory, sensed, references)
        assert isinstance(command, np.ndarray)
        new_jax, command_jax = on_jax(on_device, memory, sensed, references)
        scale = np.array([25.0, 6.0, 6.0, 6.0])
        worst = max(worst, np.abs((command - np.asarray(command_jax)) / scale).max())
        np.testing.assert_allclose(new, new_jax, atol=1e-6)
    assert worst < 1e-5


def test_controller_respects_limits_and_hovers(vehicle):
    controller = geometric_controller(vehicle.limits)
    assert isinstance(controller.limits, CommandLimits)
    eye, zero = np.eye(3), np.zeros(3)
    rest = Reference(zero, zero, zero, zero, eye, zero, np.array(9.81))
    references = Reference(*(np.stack([field, field]) for field in rest))
    at_rest = Sensed(State(zero, zero, eye, zero), np.zeros(()), np.zeros(()))
    _, command = controller(controller.start(), at_rest, references)
    np.testing.assert_allclose(command, [9.81, 0.0, 0.0, 0.0], atol=1e-12)
    far = at_rest._replace(state=at_rest.state._replace(position=np.array([50.0, -50.0, -50.0])))
    _, command = controller(controller.start(), far, references)
    assert np.all(command <= vehicle.limits.high)
    assert np.all(command >= vehicle.limits.low)
    assert command[0] == vehicle.limits.high[0]
    assert command[1] < -1.0  # it must go to +y: roll to the left is negative
    assert command[2] < -1.0  # and to -x: nose up
