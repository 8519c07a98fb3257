"""A point mass with the lags of a drone, who flies it, and who watches it."""

import math

import numpy as np

from lafr_mjx import so3
from lafr_mjx.hil.safety.blind_descent import BlindDescent
from lafr_mjx.hil.safety.command_log import DELAY_S, CommandLog
from lafr_mjx.hil.safety.dead_reckoning import Motion, MotionFit
from lafr_mjx.hil.safety.drone_profile import load_profile
from lafr_mjx.hil.safety.rate_loop_fit import EXPECTED, RateLoopFit
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
        self.loop.see(state, stamp, self.log)
        command = self.log.heard(stamp)
        if command is not None:
            self.fit.see(state, float(command[0]))


class Blind:
    """A descent that sees as long as there is something to see."""

    def __init__(self):
        self.blind = BlindDescent()
        self.log = self.blind.log

    def __call__(self, state, stamp):
        self.blind.see(state, stamp, airborne=True)


class CannotSee:
    """Commands go on for a moment."""

    def __init__(self, see):
        self.log = see.log

    def __call__(self, state, stamp):
        pass
