"""A plant of your own: a point mass whose body turns as it is told."""

# --8<-- [start:plant]
import numpy as np
from scipy.spatial.transform import Rotation

import lafr_mjx as lm


class PointMass:
    """Thrust along an axis that turns at once; linear drag."""

    def __init__(self, drag=0.3):
        """Drag in 1/s."""
        self.drag = drag

    def start(self, seed):
        """What goes on from flight to flight: a pytree, here the number of flights."""
        return np.int32(0)

    def fly(self, run, controller, path, clock, seconds):
        """One flight."""
        rollout = lm.fly_steps(controller, path, clock, seconds, self.hover_at, self.step)
        return run + np.int32(1), rollout

    def hover_at(self, position):
        """At rest at the path's start."""
        self.state = lm.State(np.array(position, float), np.zeros(3), np.eye(3), np.zeros(3))
        return self.state

    def step(self, command):
        """A command for 20 ms; the states after 10 ms and after 20 ms."""
        return self.half(command), self.half(command)

    def half(self, command):
        """10 ms of motion."""
        position, velocity, rotation, _ = self.state
        rates, gravity = command[1:], np.array([0.0, 0.0, -9.81])
        rotation = rotation @ Rotation.from_rotvec(lm.SAMPLE_DT * rates).as_matrix()
        pull = command[0] * rotation[:, 2] + gravity - self.drag * velocity
        velocity = velocity + lm.SAMPLE_DT * pull
        position = position + lm.SAMPLE_DT * velocity
        self.state = lm.State(position, velocity, rotation, rates)
        return self.state


# --8<-- [end:plant]
# --8<-- [start:fly]
if __name__ == "__main__":
    from lafr_mjx.control.geometric import geometric_controller

    vehicle = lm.load_vehicle("lafr192")
    task = lm.load_task("figure8", vehicle.limits)
    plant, controller = PointMass(drag=0.3), geometric_controller(vehicle.limits)
    _, flown = plant.fly(plant.start(0), controller, task.path, task.start_clock(0.6), 8.0)
    error = np.linalg.norm(flown.truth.position - flown.reference.position, axis=1)
    print(f"{len(flown.time)} commands, largest error {error.max():.3f} m")
# --8<-- [end:fly]
