"""The gyroscope: what the flight controller's rate loop senses of the body rates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flax import struct

from lafr_mjx.plant.vec3 import Scalar, Vec3
from lafr_mjx.types import SAMPLE_DT

if TYPE_CHECKING:
    from lafr_mjx.plant.noise import Draws


@struct.dataclass
class GyroState:
    """What goes on from step to step."""

    late: Vec3  # rad/s, the rates behind their low-pass filter
    noise: Vec3  # rad/s

    @property
    def sensed(self) -> Vec3:
        """The rates as the rate loop gets them."""
        return self.late + self.noise

    @staticmethod
    def start(rates: Vec3) -> GyroState:
        """Settled, and without noise yet."""
        return GyroState(rates, Vec3.zero())


@struct.dataclass
class Gyroscope:
    """Noise and delay of an IMU behind the firmware's filters; zeros make an ideal one.

    The delay is that of a low pass of first order. Noise is what such filters let through: it is
    drawn at 100 Hz and runs in straight lines between the draws, so it holds little above 50 Hz,
    where the rotors' lag would swallow it anyway.
    """

    noise: Scalar  # rad/s, standard deviation on each axis
    delay: Scalar  # s

    def drift(self, state: GyroState, draws: Draws) -> Vec3:
        """Slope of the noise [rad/s²] on its way to the next draw."""
        # Lines between independent draws have 2/3 of their variance.
        ahead = Vec3(*draws.normal(3)) * (self.noise * 1.5**0.5)
        return (ahead - state.noise) * (1.0 / SAMPLE_DT)

    def turned(self, state: GyroState, rates: Vec3, drift: Vec3, dt: float) -> GyroState:
        """After a physics step that began with these rates."""
        # y += (x - y) dt / (dt + delay) lags by exactly the delay behind a ramp.
        kept = self.delay / (self.delay + dt)
        return GyroState(rates + (state.late - rates) * kept, state.noise + drift * dt)
