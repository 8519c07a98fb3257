"""Commands and samples on their way: delays to the fraction of a step, jitter, loss, order."""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lafr_mjx.plant import messages
from lafr_mjx.plant.limits import COMMANDS_KEPT
from lafr_mjx.plant.messages import CommandMessage
from lafr_mjx.plant.noise import Draws
from lafr_mjx.plant.params import stack
from lafr_mjx.plant.plugins import CommandDelay, SensorLatency
from lafr_mjx.plant.rate_loop import Ctbr
from lafr_mjx.plant.scenario import Settings
from lafr_mjx.plant.scenario_params import params_for
from lafr_mjx.plant.vec3 import Vec3
from lafr_mjx.types import GRAVITY

DT = 0.002
BATCH = 8

# ---------------------------------------------------------------- commands


def roll_rate(vehicle, delay, dt, seconds=0.5, step=2.0):
    """Roll rate after a step of its command at t = 0: the loop of one axis, in float64.

    Written down from the definitions (PID, mixer of speeds, lag of the rotor speed, Euler), not
    from the code. The command is the mean over each step of a hold that switches at `delay`.
    """
    k, tau = vehicle.rotors.thrust_coefficient, vehicle.rotors.time_constant
    arm, inertia = vehicle.rotor_positions[1, 1], vehicle.inertia[0, 0]
    loop = vehicle.rate_loop
    p, i, d = (
        gain[0] for gain in (loop.gains.proportional, loop.gains.integral, loop.gains.derivative)
    )
    smoothing = 1.0 - math.exp(-dt * 2.0 * math.pi * loop.derivative_cutoff)
    hover, idle = vehicle.hover_speed, vehicle.rotors.speed_min
    top = math.sqrt(vehicle.rotors.thrust_reachable / k)
    authority = 0.5 + 0.5 * min((hover - idle) / (top - idle) / 0.5, 1.0)
    left = right = hover
    rate = previous = integral = acceleration = 0.0
    rates = []
    for n in range(round(seconds / dt)):
        switched = np.clip((n + 1) * dt - delay, 0.0, dt) / dt
        error = step * switched - rate
        acceleration += smoothing * ((rate - previous) / dt - acceleration)
        previous = rate
        torque = inertia * (p * error + i * integral - d * acceleration)
        each = authority * torque / (4.0 * arm) / (2.0 * k * hover)
        integral += error * dt
        progress = 1.0 - math.exp(-dt / tau)
        left += progress * (hover + each - left)
        right += progress * (hover - each - right)
        rate += dt * 2.0 * arm * k * (left**2 - right**2) / inertia
        rates.append(rate)
    return np.array(rates)


DELAYS = (0.0, 3.0, 10.0, 13.0, 20.0, 23.0, 37.3, 100.0)  # ms


@pytest.fixture(scope="module")
def delayed(rig, vehicle):
    """Roll rates [8, 50] at 100 Hz after a step of 2 rad/s, one vehicle per delay."""
    params = stack([params_for(vehicle, Settings(command_delay_ms=d)) for d in DELAYS])
    states = rig.start_batch(params, range(BATCH))
    _, trace = rig.fly_batch(params, states, np.array([GRAVITY, 2.0, 0.0, 0.0]), 0.5)
    return trace.sample.rates[..., 0]


@pytest.mark.parametrize("index", range(BATCH))
def test_a_delay_is_that_delay(delayed, vehicle, index):
    """Against the loop of one axis in float64 with the same switch inside the step."""
    expected = roll_rate(vehicle, 1e-3 * DELAYS[index], DT)[4::5]  # at 10, 20, ... ms
    # 250 float32 steps of the loop, which is stable: a few 1e-6 of 2 rad/s.
    np.testing.assert_allclose(delayed[index], expected, atol=5e-5)


def test_23_ms_shift_the_response_by_23_ms(delayed, vehicle):
    """The same physics in steps of 0.1 ms (where 23 ms are whole steps), merely shifted.

    Euler at 2 ms errs by about dt/2 times the slope of the response (100 rad/s²) in either
    direction; a shift by another sub-step (2 ms) would show as 0.2 rad/s.
    """
    fine = roll_rate(vehicle, 0.0, 1e-4, seconds=0.6)
    undelayed = delayed[DELAYS.index(0.0)]
    late = delayed[DELAYS.index(23.0)]
    moments = 0.01 * np.arange(1, 51)

    def response(shift):
        return np.interp(moments - shift, 1e-4 * np.arange(1, len(fine) + 1), fine, left=0.0)

    assert np.all(late[:2] == 0.0)  # nothing yet at 10 and 20 ms
    assert late[2] > 1e-3  # but at 30 ms
    discretisation = np.abs(undelayed - response(0.0)).max()
    assert discretisation < 0.1
    assert np.abs(late - response(0.023)).max() < 1.1 * discretisation + 1e-3
    shifts = np.arange(0.019, 0.0271, 0.0001)
    # The discretisation itself looks like half a sub-step of shift; it is the same for both.
    own = shifts[np.argmin([np.abs(undelayed - response(s - 0.023)).max() for s in shifts])]
    best = shifts[np.argmin([np.abs(late - response(s)).max() for s in shifts])]
    assert best - (own - 0.023) == pytest.approx(0.023, abs=4e-4)


def test_whole_sampling_intervals_shift_exactly(delayed):
    """13 ms is 3 ms, one sample later; 23 ms two."""
    three, thirteen = delayed[DELAYS.index(3.0)], delayed[DELAYS.index(13.0)]
    later = delayed[DELAYS.index(23.0)]
    np.testing.assert_allclose(thirteen[1:], three[:-1], atol=5e-6)
    np.testing.assert_allclose(later[2:], three[:-2], atol=5e-6)


def buffer_of(arrivals, values=None):
    """Newest first; each command's thrust is its number, the oldest being 0."""
    values = range(len(arrivals) - 1, -1, -1) if values is None else values
    return tuple(
        CommandMessage(Ctbr(jnp.float32(v), Vec3.zero()), jnp.float32(a))
        for a, v in zip(arrivals, values, strict=True)
    )


@jax.jit
def thrust_in_force(arrivals, start):
    return messages.in_force(buffer_of(tuple(arrivals)), start, DT, jnp.float32(1.0)).thrust


@pytest.mark.parametrize(
    ("arrival", "expected"), [(-1.0, 1.0), (0.010, 1.0), (0.0105, 0.75), (0.0119, 0.05), (0.012, 0)]
)
def test_arrival_inside_a_step_counts_for_its_share(arrival, expected):
    old = [-1e3] * (COMMANDS_KEPT - 1)
    buffer = buffer_of([arrival, *old], values=[1.0] + [0.0] * (COMMANDS_KEPT - 1))
    got = messages.in_force(buffer, jnp.float32(0.010), DT, jnp.float32(1.0))
    # Times in float32 are good to 1e-9 s, of 2 ms.
    assert float(got.thrust) == pytest.approx(expected, abs=2e-6)


times = st.one_of(st.floats(-0.05, 0.1), st.just(math.inf))


@settings(deadline=None, max_examples=60)
@given(st.lists(times, min_size=COMMANDS_KEPT - 1, max_size=COMMANDS_KEPT - 1))
def test_overtaken_and_lost_commands_never_count(arrivals):
    """Whatever arrives when, what is in force is the newest that has arrived, exactly."""
    arrivals = np.array([*arrivals, -1e3], np.float32)
    starts = (DT * np.arange(50)).astype(np.float32)
    got = np.asarray(jax.vmap(thrust_in_force, (None, 0))(arrivals, starts))
    # Exact mean of a step function over each step, from its switching moments.
    numbers = np.arange(COMMANDS_KEPT - 1, -1, -1)
    for start, mean in zip(starts, got, strict=True):
        edges = np.unique(np.clip([start, start + DT, *arrivals], start, start + DT))
        total = 0.0
        for a, b in itertools.pairwise(edges):
            arrived = arrivals <= 0.5 * (a + b)
            total += (b - a) * numbers[arrived].max()
        assert mean == pytest.approx(total / DT, abs=1e-4)
    assert np.all(np.diff(got) >= -1e-4)  # numbers never go back


def test_a_lost_command_leaves_the_old_one_in_force(rig, vehicle):
    """From some moment on all is lost: the last thrust that came goes on for ever."""
    reliable = params_for(vehicle, Settings(command_delay_ms=20.0))
    deaf = params_for(vehicle, Settings(command_delay_ms=20.0, command_loss=1.0))
    commands = np.tile([GRAVITY, 0.0, 0.0, 0.0], (50, 1))
    commands[25:, 0] = 25.0
    state, _ = rig.fly(reliable, rig.start(reliable), np.array([11.0, 0.0, 0.0, 0.0]), 0.5)
    _, trace = rig.fly(deaf, state, commands, 1.0)
    acceleration = np.diff(trace.truth.velocity[:, 2]) / 0.02
    np.testing.assert_allclose(acceleration, 11.0 - GRAVITY, atol=1e-3)


def test_half_of_the_commands_lost(rig, vehicle):
    """Ramp of the thrust with loss: what the rotors do is always a command that was sent."""
    params = params_for(vehicle, Settings(command_loss=0.5))
    # They show it at once. Rotors that jump must not weigh anything.
    weightless = (jnp.float32(0.0),) * 4
    rotors = params.rotors.replace(time_constant=jnp.float32(0.0), inertia=weightless)
    params = params.replace(rotors=rotors)
    sent = np.tile([0.0, 0.0, 0.0, 0.0], (50, 1))
    sent[:, 0] = 10.0 + 0.1 * np.arange(50)
    _, trace = rig.fly(params, rig.start(params, seed=5), sent, 1.0)
    k = 4.0 * vehicle.rotors.thrust_coefficient / vehicle.mass
    number = (k * trace.rotor_speed[:, 0] ** 2 - 10.0) / 0.1
    np.testing.assert_allclose(number[number > -0.5], np.round(number[number > -0.5]), atol=2e-2)
    age = np.arange(50) - np.round(number)
    assert np.all(age >= 0)
    assert np.all(np.diff(np.round(number)) >= 0)
    arrived = np.mean(age == 0)
    assert 0.22 < arrived < 0.78  # 0.5 ± 4 · √(0.25 / 50)


@pytest.mark.parametrize("plugin", [CommandDelay, SensorLatency])
def test_jitter_and_loss_statistics(plugin):
    """20 000 messages: fractions are known to √(p (1 - p) / n), means to j/√(3 n); 4 σ each."""
    link = plugin(delay=0.030, jitter=0.012, loss=0.2)
    count = 20_000

    @jax.jit
    @jax.vmap
    def travel(moment):
        draws = Draws.of(jnp.array([1, 2], jnp.uint32), moment, "link")
        message = CommandMessage(Ctbr(0.0, Vec3.zero()), jnp.float32(0.0))
        call = link.send if plugin is CommandDelay else link.sense
        return call((), draws, message)[1].arrival

    arrival = np.asarray(travel(jnp.arange(count)))
    lost = np.isinf(arrival)
    assert lost.mean() == pytest.approx(0.2, abs=4 * np.sqrt(0.16 / count))
    there = arrival[~lost]
    assert there.min() >= 0.018 - 1e-8
    assert there.max() <= 0.042 + 1e-8
    assert there.mean() == pytest.approx(0.030, abs=4 * 0.012 / np.sqrt(3 * len(there)))
    assert there.std() == pytest.approx(0.012 / np.sqrt(3), rel=0.02)
    # Lost or late: one does not tell the other, nor the next.
    assert abs(np.corrcoef(lost[1:], lost[:-1])[0, 1]) < 4 / np.sqrt(count)


def test_a_jitter_larger_than_the_delay_is_never_early():
    draws = Draws.of(jnp.array([1, 2], jnp.uint32), jnp.arange(1000), "link")
    message = CommandMessage(Ctbr(0.0, Vec3.zero()), jnp.float32(0.0))
    arrival = CommandDelay(delay=0.005, jitter=0.02).send((), draws, message)[1].arrival
    assert np.asarray(arrival).min() == 0.0


# ---------------------------------------------------------------- samples

LATENCIES = (0.0, 1.0, 10.0, 13.0, 20.0, 27.0, 50.0, 60.0)  # ms


@pytest.fixture(scope="module")
def seen(rig, vehicle):
    """A vehicle that rises ever faster, seen with different latencies."""
    params = stack([params_for(vehicle, Settings(sensing_delay_ms=d)) for d in LATENCIES])
    states = rig.start_batch(params, range(BATCH))
    return rig.fly_batch(params, states, np.array([12.0, 0.5, 0.0, 0.2]), 0.5)[1]


@pytest.mark.parametrize("index", range(BATCH))
def test_sample_in_use_is_as_old_as_the_latency_says(seen, index):
    """Samples are taken at 100 Hz: 13 ms of latency means the sample of 20 ms ago."""
    age = 0.01 * math.ceil(LATENCIES[index] / 10.0)
    time = seen.time[index]
    expected = np.maximum(time - age, 0.0)
    np.testing.assert_allclose(seen.stamp[index], expected, atol=2e-6)
    # And its content is the true motion of that moment (there is no noise here).
    where = np.round(expected[expected > 0.005] / 0.01).astype(int) - 1
    for sensed, sample in zip(seen.sensed, seen.sample, strict=True):
        np.testing.assert_array_equal(sensed[index][expected > 0.005], sample[index][where])
    at_ticks = jax.tree.map(lambda leaf: leaf[index, 1::2], seen.sample)
    np.testing.assert_allclose(at_ticks.position, seen.truth.position[index], atol=1e-7)
    np.testing.assert_allclose(at_ticks.rotation, seen.truth.rotation[index], atol=1e-6)


def test_drop_outs(rig, vehicle):
    """With half the samples lost the controller sees the newest of those that came."""
    params = params_for(vehicle, Settings(sensing_loss=0.5, sensing_delay_ms=10.0))
    _, trace = rig.fly(params, rig.start(params, seed=1), np.array([GRAVITY, 0, 0, 0]), 10.0)
    received = trace.sample_time[trace.received]
    share = trace.received.mean()
    assert share == pytest.approx(0.5, abs=4 * np.sqrt(0.25 / len(trace.received)))
    for time, stamp in zip(trace.time, trace.stamp, strict=True):
        known = received[received <= time - 0.01 + 1e-4]
        newest = known.max() if len(known) else 0.0
        assert stamp == pytest.approx(newest, abs=2e-5)


def test_all_samples_lost_leaves_the_last_one(rig, vehicle):
    params = params_for(vehicle, Settings(sensing_loss=1.0))
    _, trace = rig.fly(params, rig.start(params), np.array([12.0, 0, 0, 0]), 1.0)
    np.testing.assert_allclose(trace.stamp, 0.0, atol=1e-5)
    np.testing.assert_array_equal(trace.sensed.position, np.tile([0, 0, 1.5], (50, 1)))
    assert not trace.received.any()


def test_jittered_samples_never_go_back(rig, vehicle):
    params = params_for(vehicle, Settings(sensing_delay_ms=30.0, sensing_jitter_ms=30.0))
    _, trace = rig.fly(params, rig.start(params), np.array([GRAVITY, 0, 0, 0]), 5.0)
    age = trace.time - trace.stamp
    assert np.all(np.diff(trace.stamp) >= -1e-5)
    assert age.max() < 0.0601
    assert len(np.unique(np.round(age, 3))) > 2
