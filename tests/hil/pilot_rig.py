# pyright: reportOptionalMemberAccess=false, reportArgumentType=false
"""The software drone on a simulated clock, with a plant in closed form."""

import numpy as np

from lafr_mjx.hil.simulator.physics import GROUND_M, Moment
from lafr_mjx.hil.simulator.pilot import CYCLE_S
from lafr_mjx.hil.simulator.simulated_drone import Drone

HOVER = (9.81, 0.0, 0.0, 0.0)


class PointMass:
    """Attitude follows the commanded rates at once, no drag; `gain` of the thrust is there."""

    def __init__(self, height=GROUND_M, gain=1.0):
        self.rotor_scale = np.ones(4)
        self.position = np.array([0.0, 0.0, height])
        self.velocity = np.zeros(3)
        self.rotation = np.eye(3)
        self.gain = gain

    def step(self, commands):
        impact = 0.0
        for command in commands:
            dt = CYCLE_S / len(commands)
            x, y, z = dt * np.asarray(command[1:])
            turn = np.array([[1, -z, y], [z, 1, -x], [-y, x, 1]])
            u, _, v = np.linalg.svd(self.rotation @ turn)
            self.rotation = u @ v
            thrust = self.gain * command[0] * self.rotation[:, 2]
            self.velocity = self.velocity + dt * (thrust - np.array([0, 0, 9.81]))
            self.position = self.position + dt * self.velocity
            if self.position[2] <= GROUND_M and self.velocity[2] <= 0.0:
                impact = max(impact, -self.velocity[2])
                self.position[2], self.velocity = GROUND_M, np.zeros(3)
                self.rotation = np.eye(3)
        w = 0.5 * np.sqrt(max(0.0, 1.0 + np.trace(self.rotation)))
        r = self.rotation
        xyz = np.array([r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1]]) / (4.0 * w)
        motion = np.concatenate([self.position, self.velocity, [w], xyz, commands[-1][1:]])
        return Moment(motion, motion.copy(), np.zeros(4), 16.0, impact, 1.0)


class Rig:
    """A drone with its clock."""

    def __init__(self, gain=1.0, **options):
        self.drone = Drone(PointMass(gain=gain), **options)
        self.now, self.report = 0.0, None

    @property
    def pilot(self):
        return self.drone.pilot

    def run(self, seconds, command=None, every=2):
        for k in range(round(seconds / CYCLE_S)):
            if command is not None and k % every == 0:
                self.drone.feedthrough(self.now, command)
            self.now += CYCLE_S
            self.report = self.drone.cycle(self.now)
        return self.report

    def call(self, name, value=None):
        self.drone.call(self.now, name, value)

    def arm(self):
        self.run(0.1)
        self.call("enable", True)
        self.run(0.1)
        return self

    def fly(self, height=None):
        """Up to the pilot's hover, at 4.2 s; higher up if asked for."""
        self.arm()
        self.call("start")
        self.run(4.0)
        assert self.pilot.mode == "hover"
        if height is not None:
            self.call("go_to_pose", (0.0, 0.0, height))
            self.run(5.0)
        return self

    def land(self):
        """Down, with a second call where the guard stops it."""
        self.call("land")
        self.run(3.0)
        self.call("land")
        self.run(3.0)
        assert self.on_ground and not self.drone.crashed

    @property
    def position(self):
        return self.drone.plant.position

    @property
    def height(self):
        return float(self.position[2])

    @property
    def on_ground(self):
        return self.height < GROUND_M + 0.01
