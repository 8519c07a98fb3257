"""Noise of the state estimator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flax import struct

from lafr_mjx.plant.plugins.plugin import Memory, SensePlugin, Setting, World
from lafr_mjx.plant.rigid_body import Motion
from lafr_mjx.plant.vec3 import Scalar, Vec3

if TYPE_CHECKING:
    from lafr_mjx.plant.messages import SampleMessage
    from lafr_mjx.plant.noise import Draws


@struct.dataclass
class SensorNoise(SensePlugin):
    """White noise, independent from sample to sample; standard deviations per axis."""

    shipped_as, listed = "noise", 40
    scenario_keys = (
        Setting("noise_scale", 1.0, at_most=100.0, factor=True),  # times those below
        Setting("position_noise_m", at_most=1.0),
        Setting("velocity_noise_mps", at_most=5.0),
        Setting("attitude_noise_rad", at_most=0.5),
        Setting("rates_noise_radps", at_most=5.0),
    )

    position: Scalar = 0.0  # m
    velocity: Scalar = 0.0  # m/s
    attitude: Scalar = 0.0  # rad
    rates: Scalar = 0.0  # rad/s

    def configured(self, world: World) -> SensorNoise:
        """As the scenario says."""
        given = world.settings
        return SensorNoise(
            position=given.noise_scale * given.position_noise_m,
            velocity=given.noise_scale * given.velocity_noise_mps,
            attitude=given.noise_scale * given.attitude_noise_rad,
            rates=given.noise_scale * given.rates_noise_radps,
        )

    def sense(
        self, memory: Memory, draws: Draws, message: SampleMessage
    ) -> tuple[Memory, SampleMessage]:
        """Add noise; the attitude is turned by a small rotation vector."""
        n = draws.normal(12)
        true = message.motion
        motion = Motion(
            position=true.position + Vec3(*n[0:3]) * self.position,
            velocity=true.velocity + Vec3(*n[3:6]) * self.velocity,
            attitude=true.attitude.turned(Vec3(*n[6:9]) * self.attitude),
            rates=true.rates + Vec3(*n[9:12]) * self.rates,
        )
        return memory, message.replace(motion=motion)
