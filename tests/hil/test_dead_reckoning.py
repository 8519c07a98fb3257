"""The blind descent: its fitted model, dead reckoning, and flights of a point mass."""

import math

import numpy as np
import pytest

from lafr_mjx import so3
from lafr_mjx.hil.blind_descent import BlindDescent
from lafr_mjx.hil.command_log import DELAY_S, CommandLog
from lafr_mjx.hil.dead_reckoning import DeadReckoning, Motion, MotionFit
from lafr_mjx.hil.flyer import Flyer
from lafr_mjx.hil.profile import load_profile
from lafr_mjx.hil.rate_loop_fit import EXPECTED, RateLoopFit, Turning
from lafr_mjx.types import CONTROL_DT, GRAVITY, State

PROFILE = load_profile("sim")
AS_EXPECTED = Motion(1.0, 0.3, np.zeros(3))
LOADED = Motion(0.76, 0.4, np.array([0.0, 0.0, 0.0]))
BLOWN = Motion(1.0, 0.3, np.array([2.0, 0.0, 0.0]))
BOTH = Motion(0.76, 0.5, np.array([-1.2, 1.6, 0.0]))


class Mass:
    """A point mass with the lags of motors and rate loop, in steps of 1 ms."""

    DT, THRUST_S = 0.001, 0.03

    def __init__(
        self, motion, position=(0.0, 0.0, 2.0), velocity=(0.0, 0.0, 0.0), frequency=EXPECTED
    ):
        self.motion, self.time, self.frequency = motion, 0.0, frequency
        self.slope = np.zeros(3)
        self.position, self.velocity = np.array(position), np.array(velocity)
        self.rotation, self.rates, self.thrust = np.eye(3), np.zeros(3), GRAVITY
        self.impact = None  # m/s, downwards
        self.log = []  # (when it counts, command)

    def send(self, command):
        self.log.append((self.time + DELAY_S - 1e-9, np.array(command, float)))

    def run(self, seconds):
        for _ in range(round(seconds / self.DT)):
            while len(self.log) > 1 and self.log[1][0] <= self.time:
                self.log.pop(0)
            command = np.array([GRAVITY, 0.0, 0.0, 0.0])
            if self.log and self.log[0][0] <= self.time:
                command = self.log[0][1]
            self._step(command)

    def _step(self, command):
        dt, motion = self.DT, self.motion
        self.time += dt
        if self.impact is not None:
            return
        pull = self.frequency**2 * (command[1:] - self.rates)
        self.slope = self.slope + dt * (pull - 1.1 * self.frequency * self.slope)
        self.rates = self.rates + dt * self.slope
        self.thrust += (1.0 - math.exp(-dt / self.THRUST_S)) * (command[0] - self.thrust)
        self.rotation = self.rotation @ so3.exp(dt * self.rates)
        force = motion.gain * self.thrust * self.rotation[:, 2] - np.array([0, 0, GRAVITY])
        force += motion.push - motion.drag * self.velocity
        self.position = self.position + dt * self.velocity + 0.5 * dt**2 * force
        self.velocity = self.velocity + dt * force
        if self.position[2] <= 0.0:
            self.impact = -float(self.velocity[2])

    def state(self, rng=None):
        noise = np.zeros(3) if rng is None else rng.normal(scale=0.02, size=3)
        return State(
            self.position.copy(), self.velocity + noise, self.rotation.copy(), self.rates.copy()
        )


def steer(mass, wanted):
    """A command towards an acceleration, by one who knows the state."""
    force = np.asarray(wanted) + np.array([0, 0, GRAVITY]) - mass.motion.push
    body = mass.rotation.T @ (force + mass.motion.drag * mass.velocity)
    up = body / np.linalg.norm(body)
    return np.array([body[2] / mass.motion.gain, -8.0 * up[1], 8.0 * up[0], 0.0])


def circle(mass, time):
    """An acceleration of 4 m/s² that turns, with some heave."""
    turn = 1.3 * time
    heave = math.sin(2.0 * time) - 2.0 * (mass.position[2] - 2.0) - 1.5 * mass.velocity[2]
    return np.array([4.0 * math.cos(turn), 4.0 * math.sin(turn), heave])


def jerky(mass, time):
    """Accelerations that change their sides."""
    home = -1.0 * (mass.position - [0, 0, 2.0]) - 1.2 * mass.velocity
    return home + 5.0 * np.array([np.sign(math.sin(5.0 * time)), np.sign(math.cos(7.0 * time)), 0])


def fly(mass, see, seconds, wanted, rng=None):
    for _ in range(round(seconds / CONTROL_DT)):
        see(mass.state(rng), mass.time)
        command = steer(mass, wanted(mass, mass.time))
        mass.send(command)
        see.log.add(mass.time, command)
        mass.run(CONTROL_DT)


class Fit:
    """Both fits with the log that they need."""

    def __init__(self):
        self.fit, self.loop, self.log = MotionFit(), RateLoopFit(), CommandLog()

    def __call__(self, state, stamp):
        self.loop.see(state.rotation, stamp, self.log)
        command = self.log.heard(stamp)
        if command is not None:
            self.fit.see(state, float(command[0]))


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


@pytest.mark.parametrize("frequency", [21.0, EXPECTED, 34.0, 55.0])
def test_the_rate_loop_is_found_from_a_flight(frequency):
    fit = Fit()
    fly(Mass(AS_EXPECTED, frequency=frequency), fit, 4.0, jerky)
    assert fit.loop.best().frequency == pytest.approx(frequency, rel=0.15)


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


# ------------------------------------------------------------------ the blind descent


class Blind:
    """A descent that sees as long as there is something to see."""

    def __init__(self):
        self.blind = BlindDescent()
        self.log = self.blind.log

    def __call__(self, state, stamp):
        self.blind.see(state, stamp, airborne=True)


def descend(motion, speed, height=1.5, seed=0):
    """From a flight that was seen to `down`; rows of time, height and speeds."""
    see, mass, rng = Blind(), Mass(motion, (0.0, 0.0, 2.0)), np.random.default_rng(seed)

    def straight(mass, time):
        way = np.array([speed, 0.0, 0.0]) - mass.velocity
        way[2] += 2.0 * (height - mass.position[2])
        return np.clip(2.0 * way, -4.0, 4.0)

    fly(mass, see, 3.0, circle, rng)
    fly(mass, see, 4.0, straight, rng)
    lost, blind, rows = mass.time - CONTROL_DT, see.blind, []
    fly(mass, CannotSee(see), 0.06, straight)
    begin = mass.position.copy()
    blind.begin(mass.time, lost, 0.0)
    while not blind.down and mass.time - lost < 6.0:
        command = blind.tick(mass.time, descend=mass.time - lost > PROFILE.limits.mocap_lost_s)
        rows.append((mass.time - lost, mass.position[2], np.hypot(*mass.velocity[:2]),
                     mass.velocity[2], command[0]))  # fmt: skip
        mass.send(command)
        blind.log.add(mass.time, command)
        mass.run(CONTROL_DT)
    return mass, blind, np.array(rows), float(np.linalg.norm(mass.position[:2] - begin[:2]))


class CannotSee:
    """Commands go on for a moment."""

    def __init__(self, see):
        self.log = see.log

    def __call__(self, state, stamp):
        pass


@pytest.mark.parametrize("motion", [AS_EXPECTED, LOADED, BLOWN, BOTH])
@pytest.mark.parametrize(("speed", "height"), [(0.0, 1.0), (4.0, 1.5), (4.0, 4.3)])
def test_it_brakes_sinks_and_says_when_it_must_be_down(motion, speed, height):
    mass, blind, rows, away = descend(motion, speed, height)
    time, height, level, _, _ = rows.T
    assert level[0] > 0.8 * speed, "it was flying"
    assert level[(time > 1.7) & (height > 0.0)].max() < 0.6, "and stands by then"
    assert np.diff(height).max() < 0.02, "it does not climb"
    assert away < 0.5 + 0.9 * speed
    assert mass.impact is not None and mass.impact < 1.5, "softer than what breaks it"
    assert mass.rotation[2, 2] > 0.96, "and level"
    touch = time[np.argmax(height <= 0.0)]
    assert touch < PROFILE.ladder.blind_s, "then it is switched off in any case"
    assert blind.down and touch + 0.3 < time[-1] < touch + 1.2, "not before, and soon after it"


def test_from_a_hover_it_is_down_before_the_time_is_over():
    _, _, rows, _ = descend(AS_EXPECTED, 0.0, height=1.0)
    assert rows[-1, 0] < PROFILE.ladder.blind_s


def test_it_only_brakes_as_long_as_motion_capture_may_come_back():
    see, mass = Blind(), Mass(AS_EXPECTED, velocity=(0.0, 0.0, 0.0))
    fly(mass, see, 3.0, lambda m, _: -2.0 * m.velocity - [0, 0, 2.0 * (m.position[2] - 2.0)])
    see.blind.begin(mass.time, mass.time, 0.0)
    for _ in range(50):
        command = see.blind.tick(mass.time, descend=False)
        mass.send(command)
        see.log.add(mass.time, command)
        mass.run(CONTROL_DT)
    assert mass.position[2] == pytest.approx(2.0, abs=0.1) and not see.blind.down


def test_from_high_up_it_sinks_slowly_near_the_ground():
    _, _, rows, _ = descend(AS_EXPECTED, 1.0, height=4.3)
    _, height, _, climb, _ = rows.T
    assert -2.7 < climb.min() < -2.0
    assert climb[(height > 0.0) & (height < 0.4)].min() > -1.4


def test_near_the_ground_its_thrust_is_below_its_weight():
    _, _, rows, _ = descend(LOADED, 0.0)
    last = rows[-40:, 4]  # it stands, or must
    assert np.all(0.76 * last < 0.97 * GRAVITY)


def test_trim_is_what_the_baseline_needs_to_hold():
    see, mass = Blind(), Mass(LOADED)
    assert np.allclose(see.blind.trim(), 0.0), "nothing is known"
    fly(mass, see, 4.0, circle, np.random.default_rng(4))
    trim = see.blind.trim()
    assert trim[2] == pytest.approx((1.0 / 0.76 - 1.0) * GRAVITY, abs=0.4)
    flyer, here = Flyer(PROFILE), np.array([0.0, 0.0, 1.5])
    flyer.begin(0.0, here, trim)
    still = State(here, np.zeros(3), np.eye(3), np.zeros(3))
    command = flyer.tick(0.0, still, 0.0, slow=False, baseline=False).command
    assert command[0] == pytest.approx(GRAVITY / 0.76, abs=0.5)


def test_it_is_ready_as_soon_as_something_was_seen():
    blind = BlindDescent()
    assert not blind.ready and not blind.down
    blind.see(State(np.zeros(3), np.zeros(3), np.eye(3), np.zeros(3)), 1.0, airborne=False)
    assert blind.ready
    blind.begin(1.1, 1.0, 0.0)
    assert np.isfinite(blind.tick(1.12, descend=True)).all()
