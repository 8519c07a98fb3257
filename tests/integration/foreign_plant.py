"""A plant of another kind than our own, in plain NumPy; `test_foreign_plant.py` flies it.

Rates follow a proportional loop, thrust the motors' lag, drag is quadratic along the body's axes,
and the noise of the velocity is coloured: it goes on from sample to sample.
"""

import numpy as np
from scipy.spatial.transform import Rotation

import lafr_mjx as lm

DT = 0.002  # s
RATE_LOOP = np.array([18.0, 18.0, 8.0])  # 1/s
MOTORS = 0.035  # s
DRAG = np.array([0.05, 0.07, 0.03])  # 1/m, per unit mass
GRAVITY = np.array([0.0, 0.0, -9.81])
COLOUR = 0.8  # share of the velocity's noise that is left after 10 ms


class ForeignPlant:
    """A rigid body in steady wind; commands are late by 20 ms, samples by 10 ms."""

    def __init__(self, wind=(0.0, 0.0, 0.0), weaker=1.0):
        """Wind [m/s, world], and thrust as a share of what is commanded."""
        self.wind, self.weaker = np.array(wind, float), weaker

    def start(self, seed):
        """Seed, and flights that were made."""
        return np.array([seed, 0])

    def fly(self, run, controller, path, clock, seconds):
        """One flight."""
        self.random = np.random.default_rng(run)
        rollout = lm.fly_steps(
            controller, path, clock, seconds, self.hover_at, self.step, self.sense, sensing_delay=1
        )
        return run + np.array([0, 1]), rollout

    def hover_at(self, position):
        """At rest."""
        self.position, self.velocity = np.array(position, float), np.zeros(3)
        self.attitude, self.rates, self.thrust = np.eye(3), np.zeros(3), 9.81
        self.torque, self.coloured = np.zeros(3), np.zeros(3)
        self.under_way = np.array([9.81, 0.0, 0.0, 0.0])
        return self.state()

    def step(self, command):
        """20 ms under the command before; the states after each 10 ms."""
        acting, self.under_way = self.under_way, command
        states = []
        for _ in range(2):
            for _ in range(5):
                self.advance(acting)
            states.append(self.state())
        return tuple(states)

    def advance(self, command):
        """One Euler step; velocities first."""
        follow = DT / MOTORS
        self.thrust += follow * (self.weaker * command[0] - self.thrust)
        self.torque += follow * (RATE_LOOP * (command[1:] - self.rates) - self.torque)
        air = self.attitude.T @ (self.velocity - self.wind)
        felt = np.array([0.0, 0.0, self.thrust]) - np.linalg.norm(air) * DRAG * air
        self.velocity = self.velocity + DT * (self.attitude @ felt + GRAVITY)
        self.rates = self.rates + DT * self.torque
        self.position = self.position + DT * self.velocity
        self.attitude = self.attitude @ Rotation.from_rotvec(DT * self.rates).as_matrix()

    def state(self):
        """As the learner's."""
        return lm.State(self.position, self.velocity, self.attitude, self.rates)

    def sense(self, state):
        """With noise: 1 mm, 3 cm/s coloured, 2 mrad, 10 mrad/s."""
        p, v, tilt, w = self.random.normal(size=(4, 3)) * [[1e-3], [0.03], [2e-3], [0.01]]
        self.coloured = COLOUR * self.coloured + np.sqrt(1.0 - COLOUR**2) * v
        turned = state.rotation @ Rotation.from_rotvec(tilt).as_matrix()
        return lm.State(state.position + p, state.velocity + self.coloured, turned, state.rates + w)
