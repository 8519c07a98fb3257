"""What is fitted in flight, and dead reckoning by it."""

import numpy as np
import pytest
from point_mass import (
    AS_EXPECTED,
    BLOWN,
    BOTH,
    LOADED,
    CannotSee,
    Fit,
    Mass,
    circle,
    fly,
    jerky,
    steer,
)

from lafr_mjx import so3
from lafr_mjx.hil.safety.command_log import DELAY_S, CommandLog
from lafr_mjx.hil.safety.dead_reckoning import DeadReckoning, Motion, MotionFit
from lafr_mjx.hil.safety.rate_loop_fit import EXPECTED, RateLoopFit, Turning
from lafr_mjx.types import CONTROL_DT, GRAVITY, State

# ------------------------------------------------------------------ the model


@pytest.mark.parametrize("motion", [AS_EXPECTED, LOADED, BLOWN, BOTH])
def test_the_fit_finds_gain_drag_and_push(motion):
    fit = Fit()
    fly(Mass(motion), fit, 6.0, circle, np.random.default_rng(0))
    found = fit.fit.motion()
    assert found.gain == pytest.approx(motion.gain, abs=0.03)
    assert found.drag == pytest.approx(motion.drag, abs=0.12)
    assert np.allclose(found.push, motion.push, atol=0.3)


def test_without_a_flight_it_is_a_vehicle_as_expected():
    gain, drag, push = MotionFit().motion()
    assert (gain, drag) == pytest.approx((1.0, 0.3)) and np.array_equal(push, np.zeros(3))


def test_a_hover_tells_the_gain_and_leaves_the_rest_as_expected():
    fit = Fit()
    fly(Mass(LOADED), fit, 4.0, lambda *_: np.zeros(3), np.random.default_rng(1))
    gain, drag, push = fit.fit.motion()
    assert gain == pytest.approx(0.76, abs=0.02)
    assert drag == pytest.approx(0.3, abs=0.1) and np.abs(push).max() < 0.3


def test_old_flight_is_forgotten():
    fit, rng = Fit(), np.random.default_rng(2)
    mass = Mass(AS_EXPECTED)
    fly(mass, fit, 4.0, circle, rng)
    mass.motion = LOADED
    fly(mass, fit, 9.0, circle, rng)
    assert fit.fit.motion().gain == pytest.approx(0.76, abs=0.04)


def test_a_pause_is_not_taken_for_an_acceleration():
    fit, rng = Fit(), np.random.default_rng(3)
    mass = Mass(AS_EXPECTED)
    for _ in range(20):
        fly(mass, fit, 0.3, circle, rng)
        fit.fit.pause()
        mass.velocity = rng.normal(size=3)  # unseen
    assert fit.fit.motion().gain == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("factor", [50.0, -50.0])
def test_what_cannot_be_is_not_believed(factor):
    fit = MotionFit()
    for k in range(100):
        velocity = np.full(3, factor * k * CONTROL_DT)
        fit.see(State(np.zeros(3), velocity, np.eye(3), np.zeros(3)), GRAVITY)
    gain, drag, push = fit.motion()
    assert 0.5 <= gain <= 1.5 and 0.0 <= drag <= 1.5 and np.abs(push).max() <= 8.0


def test_the_log_says_which_command_was_in_force():
    log = CommandLog()
    assert log.heard(0.0) is None
    for k in range(100):
        log.add(0.02 * k, np.full(4, k))
    found = [log.heard(moment + DELAY_S) for moment in (1.5, 1.519)]
    assert all(command is not None and command[0] == 75 for command in found)
    assert log.heard(9.0) is None, "whoever flies by then, it is not known how"
    assert log.heard(0.0) is None, "forgotten"


@pytest.mark.parametrize("frequency", [18.0, 24.0, EXPECTED, 55.0, 120.0])
def test_the_rate_loop_is_found_from_a_flight(frequency):
    fit = Fit()
    fly(Mass(AS_EXPECTED, frequency=frequency), fit, 4.0, jerky)
    assert fit.loop.best().frequency == pytest.approx(frequency, rel=0.2)


def test_a_hover_leaves_the_rate_loop_as_expected():
    fit, rng = Fit(), np.random.default_rng(5)
    mass = Mass(AS_EXPECTED, frequency=55.0)
    for _ in range(100):
        shaken = so3.exp(0.003 * rng.normal(size=3))
        fit(mass.state()._replace(rotation=mass.rotation @ shaken), mass.time)
        fit.log.add(mass.time, np.array([GRAVITY, 0.0, 0.0, 0.0]))
        mass.run(CONTROL_DT)
    assert fit.loop.best().frequency == EXPECTED


def test_after_a_gap_the_rate_loop_goes_on():
    fit, mass = Fit(), Mass(AS_EXPECTED, frequency=34.0)
    fly(mass, fit, 4.0, jerky)
    fly(mass, CannotSee(fit), 1.0, jerky)
    fly(mass, fit, 0.3, jerky)
    best = fit.loop.best()
    assert best.frequency == 34.0
    heard = fit.log.heard(mass.time)
    assert heard is not None
    ahead = best.after(mass.time - best.moment, heard[1:])
    assert np.allclose(ahead.rates[:2], mass.rates[:2], atol=0.4)


@pytest.mark.parametrize("wrong", [np.nan, 3.0])
def test_attitudes_that_cannot_be_leave_no_trace(wrong):
    fit, mass = Fit(), Mass(AS_EXPECTED, frequency=34.0)
    fly(mass, fit, 3.0, jerky)
    for _ in range(10):
        turned = np.full((3, 3), wrong) if np.isnan(wrong) else so3.exp(np.array([wrong, 0, 0]))
        fit.loop.see(mass.state()._replace(rotation=mass.rotation @ turned), mass.time, fit.log)
        mass.run(CONTROL_DT)
    fly(mass, fit, 1.0, jerky)
    best = fit.loop.best()
    assert best.frequency == 34.0 and np.isfinite(best.rates).all()


def test_where_commands_are_not_known_the_sensed_rates_count():
    fit, rates = RateLoopFit(), np.array([2.0, -1.0, 0.5])
    state = State(np.zeros(3), np.zeros(3), np.eye(3), rates)
    for k in range(20):
        fit.see(state, CONTROL_DT * k, CommandLog())
    assert np.allclose(fit.best().rates, rates) and fit.best().frequency == EXPECTED


# ------------------------------------------------------------------ dead reckoning


@pytest.mark.parametrize("motion", [AS_EXPECTED, BOTH])
def test_dead_reckoning_agrees_with_an_exact_integration(motion):
    fit, mass = Fit(), Mass(motion)
    fly(mass, fit, 2.0, circle)
    lost, state = mass.time, mass.state()
    turning = Turning(EXPECTED, mass.rates.copy(), mass.slope.copy(), lost)
    fly(mass, CannotSee(fit), 0.1, circle)
    flown = DeadReckoning(lost, state, turning, mass.time, motion, fit.log)
    for _ in range(50):
        command = steer(mass, circle(mass, mass.time))
        mass.send(command)
        flown.advance(CONTROL_DT, command)
        mass.run(CONTROL_DT)
    mass.send(command)
    mass.run(DELAY_S)  # it is that far ahead
    assert np.linalg.norm(flown.velocity - mass.velocity) < 0.15, "after 1.1 s"
    assert np.linalg.norm(flown.position - mass.position) < 0.1
    assert np.abs(flown.rotation - mass.rotation).max() < 0.03


def test_dead_reckoning_of_a_fall():
    log, still = CommandLog(), State(np.zeros(3), np.zeros(3), np.eye(3), np.zeros(3))
    for k in range(60):
        log.add(0.44 + 0.02 * k, np.zeros(4))
    turning = Turning(EXPECTED, np.zeros(3), np.zeros(3), 0.5)
    end = 0.5 + 1.0 - DELAY_S
    flown = DeadReckoning(0.5, still, turning, end, Motion(1.0, 0.0, np.zeros(3)), log)
    assert flown.velocity[2] == pytest.approx(-GRAVITY * 1.0, rel=1e-3), "with its delay"
    assert flown.position[2] == pytest.approx(-GRAVITY / 2.0, rel=0.01)
