"""Dryden gusts by the low-altitude model of MIL-F-8785C.

Longitudinal: Φ_u = σ² (2 L / π V) / (1 + (L Ω / V)²), a first-order process. Lateral and
vertical: Φ = σ² (L / π V) (1 + 3 (L Ω / V)²) / (1 + (L Ω / V)²)², a second-order one. Both are
advanced by their exact discrete solutions, so that intensity and correlation do not depend on
the step, and start in their stationary distribution.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from flax import struct

from lafr_mjx.plant.plugins.plugin import AirPlugin, Memory, Setting, World
from lafr_mjx.plant.vec3 import Scalar, Vec3

if TYPE_CHECKING:
    from lafr_mjx.plant.noise import Draws

_FEET = 0.3048
_ALTITUDE = 1.5  # m; below 3.05 m the model does not depend on it
_SQRT3 = math.sqrt(3.0)


def dryden_time_constants(altitude: float, airspeed: float) -> tuple[float, float, float]:
    """L / V of the three axes [s].

    The model holds from 10 ft (3.05 m) up; lower altitudes are treated as that one, and air
    slower than 1 m/s as 1 m/s.
    """
    height = max(altitude / _FEET, 10.0)
    horizontal = height / (0.177 + 0.000823 * height) ** 1.2 * _FEET
    vertical = height * _FEET
    speed = max(airspeed, 1.0)
    return horizontal / speed, horizontal / speed, vertical / speed


_IN_5_MPS = dryden_time_constants(_ALTITUDE, 5.0)


@struct.dataclass
class DrydenGusts(AirPlugin):
    """Gusts that are uniform over the vehicle and change with time."""

    shipped_as, listed = "gusts", 60
    scenario_keys = (Setting("gust_mps", at_most=10.0),)  # intensity σ on each axis

    intensity: Vec3 = struct.field(default_factory=Vec3.zero)  # σ [m/s]: along, across, up
    time_constant: Vec3 = struct.field(default_factory=lambda: Vec3(*_IN_5_MPS))  # L / V [s]
    # Horizontal unit vector of the mean wind.
    along: Vec3 = struct.field(default_factory=lambda: Vec3(1.0, 0.0, 0.0))

    def configured(self, world: World) -> DrydenGusts:
        """Along the scenario's mean wind."""
        wind = np.asarray(world.settings.wind_mps, float)
        level = float(np.hypot(wind[0], wind[1]))
        along = (wind[0] / level, wind[1] / level) if level > 0.0 else (1.0, 0.0)
        times = dryden_time_constants(_ALTITUDE, float(np.linalg.norm(wind)))
        return DrydenGusts(Vec3(*(world.settings.gust_mps,) * 3), Vec3(*times), Vec3(*along, 0.0))

    def init(self, draws: Draws) -> Memory:
        """Unit processes in their stationary distribution: [along, across 1, 2, up 1, 2]."""
        n = draws.normal(5)
        return (n[0], n[1], 0.5 * (n[1] + n[2]), n[3], 0.5 * (n[3] + n[4]))

    def update(self, memory: Memory, draws: Draws, dt: float) -> Memory:
        """Advance the five unit processes by `dt`."""
        u, v1, v2, w1, w2 = memory
        n = draws.normal(5)
        decay = jnp.exp(-dt / self.time_constant.x)
        u = decay * u + jnp.sqrt(1.0 - decay * decay) * n[0]
        v1, v2 = _second_order(v1, v2, n[1], n[2], dt / self.time_constant.y)
        w1, w2 = _second_order(w1, w2, n[3], n[4], dt / self.time_constant.z)
        return (u, v1, v2, w1, w2)

    def velocity(self, memory: Memory, point: Vec3) -> Vec3:
        """The gust in world axes."""
        del point
        u, v1, v2, w1, w2 = memory
        along = self.intensity.x * u
        across = self.intensity.y * _output(v1, v2)
        up = self.intensity.z * _output(w1, w2)
        return Vec3(
            self.along.x * along - self.along.y * across,
            self.along.y * along + self.along.x * across,
            up,
        )


def _second_order(x1: Scalar, x2: Scalar, n1: Scalar, n2: Scalar, a: Scalar) -> tuple:
    """Exact step of T ẋ1 = noise - x1, T ẋ2 = x1 - x2 with a = dt / T.

    The stationary covariance is P = [[1, 1/2], [1/2, 1/2]]; the noise of one step has
    P - A P Aᵀ with A = e^-a [[1, 0], [a, 1]].
    """
    e = jnp.exp(-a)
    e2 = e * e
    q11 = 1.0 - e2
    q12 = 0.5 - e2 * (a + 0.5)
    q22 = 0.5 - e2 * (a * a + a + 0.5)
    l11 = jnp.sqrt(q11)
    l21 = q12 / l11
    l22 = jnp.sqrt(jnp.maximum(q22 - l21 * l21, 0.0))
    return e * x1 + l11 * n1, e * (a * x1 + x2) + l21 * n1 + l22 * n2


def _output(x1: Scalar, x2: Scalar) -> Scalar:
    """(1 + √3 T s) / (1 + T s)² of the noise, scaled to unit variance."""
    return (_SQRT3 * x1 + (1.0 - _SQRT3) * x2) / math.sqrt(2.0)
