"""A sensor of your own: a sonar, which is recorded with each flight."""

import lafr_mjx as lm  # before JAX: it quietens XLA
from flax import struct


@struct.dataclass
class Sonar(lm.MeasurePlugin):
    """Height above the floor."""

    noise: float = 0.02  # m

    def measure(self, memory, draws, flow):
        return memory, flow.motion.position.z + self.noise * draws.normal(1)[0]


if __name__ == "__main__":
    run = lm.adapt("figure8", plugins={"sonar": Sonar()}, iterations=12, out="runs/sonar")
    flight = run.flight(-1)
    print((flight.measured["sonar"] - flight.sensed.position[:, 2]).std())
