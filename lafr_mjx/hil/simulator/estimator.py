"""The pilot's estimator: a filter on motion capture alone, with no inertial sensor.

While motion capture comes, the state is good, but for its rates, which are late and noisy. When it
stops, the filter goes on for ever with the last rates and the last acceleration and says so to
nobody: what flies by it then, flies by a guess that is wrong within tenths of a second.
"""

from __future__ import annotations

import numpy as np

from lafr_mjx.hil.simulator.pilot import CYCLE_S, Estimate

_RATES_NOISE = 0.09  # rad/s
_ACCELERATION_S = 0.06  # over so long the acceleration is averaged
_STILL_S = 0.05  # a pose that repeats itself means a vehicle that stands, after so long


class Estimator:
    """One step for each cycle."""

    def __init__(self, lead_s: float) -> None:
        self._lead = lead_s  # age of a sample when it comes
        self._rng = np.random.default_rng(0)
        self._now: Estimate | None = None
        self._acceleration = np.zeros(3)
        self._last_velocity: np.ndarray | None = None  # of the last sample; None after a gap

    def update(self, sample: np.ndarray) -> Estimate:
        """From a sample of motion capture [13], brought forward to now.

        Position and attitude are what was seen; velocity and rates are what the filter makes of
        them, and come with the noise of the scenario.
        """
        position, velocity, quaternion = sample[:3], sample[3:6], sample[6:10]
        rates = sample[10:13] + _RATES_NOISE * self._rng.standard_normal(3)
        if self._last_velocity is not None:
            change = (velocity - self._last_velocity) / CYCLE_S
            self._acceleration += CYCLE_S / _ACCELERATION_S * (change - self._acceleration)
        self._last_velocity = velocity.copy()
        return self._say(position, velocity, quaternion, rates, self._lead)

    def stand_still(self, sample: np.ndarray) -> Estimate:
        """From a sample that repeats the last one: the filter believes that nothing moves."""
        now = self._now
        velocity = np.zeros(3) if now is None else (1.0 - CYCLE_S / _STILL_S) * now.velocity
        self._acceleration[:] = 0.0
        self._last_velocity = None
        return self._say(sample[:3], velocity, sample[6:10], np.zeros(3), 0.0)

    def go_on(self) -> Estimate | None:
        """Without a sample: the last rates and the last acceleration, for ever."""
        self._last_velocity = None
        now = self._now
        return now and self._say(now.position, now.velocity, now.quaternion, now.rates, CYCLE_S)

    def _say(
        self,
        position: np.ndarray,
        velocity: np.ndarray,
        quaternion: np.ndarray,
        rates: np.ndarray,
        seconds: float,
    ) -> Estimate:
        """So much later, with what is known of the motion."""
        self._now = Estimate(
            position + seconds * velocity,
            velocity + seconds * self._acceleration,
            _turned(quaternion, seconds * rates),
            rates,
        )
        return self._now


def _turned(quaternion: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """A quaternion wxyz after a turn about its own axes [rad]."""
    size = float(np.linalg.norm(angle))
    c, s = np.cos(0.5 * size), 0.5 * np.sinc(0.5 * size / np.pi)
    (w, x, y, z), (a, b, d) = quaternion, s * angle
    turned = np.array(
        [
            w * c - x * a - y * b - z * d,
            w * a + x * c + y * d - z * b,
            w * b - x * d + y * c + z * a,
            w * d + x * b - y * a + z * c,
        ]
    )
    return turned / np.linalg.norm(turned)
