"""A plugin of your own inside an adaptation: an updraught over half of the room."""

import lafr_mjx as lm  # before JAX: it quietens XLA
import jax.numpy as jnp
from flax import struct


@struct.dataclass
class Updraught(lm.AirPlugin):
    """Rising air."""

    strength: float = 0.0  # m/s

    def velocity(self, memory, point):
        return lm.Vec3(0.0, 0.0, jnp.where(point.x > 0.0, self.strength, 0.0))


if __name__ == "__main__":
    run = lm.adapt("figure8", plugins={"updraught": Updraught(3.0)}, iterations=12, out="runs/up")
    print(run.config["run"]["plugins"], run.table["rmse_m"])
