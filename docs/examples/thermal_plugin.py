"""A plugin of your own: a thermal, a column of rising air that pulses.

Run it from the root of the repository: `python docs/examples/thermal_plugin.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from flax import struct

from lafr_mjx.control.geometric import geometric_controller
from lafr_mjx.metrics import flight_metrics
from lafr_mjx.plant.plant import Plant
from lafr_mjx.plant.plugins import AirPlugin
from lafr_mjx.plant.scenario import load_scenario
from lafr_mjx.plant.vec3 import Scalar, Vec3
from lafr_mjx.plant.vehicle import load_vehicle
from lafr_mjx.tasks import load_task

if TYPE_CHECKING:
    from lafr_mjx.plant.noise import Draws


# --8<-- [start:plugin]
@struct.dataclass
class Thermal(AirPlugin):
    """Rising air: strongest on a vertical axis, Gaussian around it, pulsing at random."""

    x: Scalar = 0.0  # m, where the axis stands
    y: Scalar = 0.0  # m
    radius: Scalar = 1.0  # m, where the updraught has fallen to 1/e
    strength: Scalar = 0.0  # m/s, mean updraught on the axis
    pulse: Scalar = 0.0  # m/s, standard deviation of its strength
    time_constant: Scalar = 1.0  # s, how long a pulse lasts

    def init(self, draws: Draws) -> Scalar:
        """The memory is one number: the pulse, drawn from its stationary distribution."""
        return draws.normal(1)[0]

    def update(self, memory: Scalar, draws: Draws, dt: float) -> Scalar:
        """Advance the pulse by one control interval; exact for any `dt`."""
        decay = jnp.exp(-dt / self.time_constant)
        return decay * memory + jnp.sqrt(1.0 - decay * decay) * draws.normal(1)[0]

    def velocity(self, memory: Scalar, point: Vec3) -> Vec3:
        """Velocity of the air at a point [m/s, world]."""
        dx, dy = point.x - self.x, point.y - self.y
        share = jnp.exp(-(dx * dx + dy * dy) / (self.radius * self.radius))
        return Vec3(0.0, 0.0, (self.strength + self.pulse * memory) * share)


# --8<-- [end:plugin]


# --8<-- [start:fly]
def fly_with(thermal: Thermal) -> None:
    """Fly the figure-8 through a thermal and print what it did."""
    vehicle, task = load_vehicle("lafr192"), load_task("figure8")
    plant = Plant(
        vehicle, load_scenario("nominal"), engine="freebody", plugins={"thermal": thermal}
    )
    controller = geometric_controller(vehicle.limits)
    _, rollout = plant.fly(
        plant.start(seed=0), controller, task.path, task.start_clock(), task.flight_s(1.0)
    )
    updraught = np.asarray(rollout.diagnostics.air_velocity)[:, 2].max()
    height = np.asarray(rollout.truth.position)[:, 2].max()
    rmse = flight_metrics(rollout, task, vehicle.limits).rmse_m
    print(f"updraught {updraught:.2f} m/s, highest point {height:.3f} m, RMSE {rmse:.3f} m")


if __name__ == "__main__":
    fly_with(Thermal())
    fly_with(Thermal(x=2.0, radius=0.8, strength=4.0, pulse=0.5))
# --8<-- [end:fly]
