"""Geometric tracking controller: the classical baseline, and the fallback on hardware.

In the manner of Faessler, Franchi and Scaramuzza ("Differential flatness of quadrotor dynamics
subject to rotor drag", RA-L 2018): feedback on position and velocity gives a wanted specific
force, its direction and the reference's yaw a wanted attitude, and an attitude error the body
rates. One source serves NumPy (on the drone) and JAX (on the plant).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lafr_mjx import so3
from lafr_mjx.arrays import namespace
from lafr_mjx.types import CONTROL_DT, GRAVITY, CommandLimits, Reference, Sensed

if TYPE_CHECKING:
    from lafr_mjx.arrays import Array

_LEAST_THRUST = 2.0  # m/s²; a smaller wanted force has no useful direction
_INTEGRAL_LIMIT = 2.0  # m s


class GeometricController(NamedTuple):
    """Gains of the controller; every field is a leaf."""

    limits: CommandLimits
    position_gain: Any = (10.0, 10.0, 12.0)  # 1/s²
    velocity_gain: Any = (5.5, 5.5, 6.0)  # 1/s
    attitude_gain: Any = (9.0, 9.0, 4.0)  # 1/s
    integral_gain: Any = (3.0, 3.0, 4.0)  # 1/s³
    rotor_drag: Any = (0.0, 0.0, 0.0)  # 1/s, body axes; known drag is fed forward
    lead_s: Any = 0.0  # s, how far ahead of the sample the feed-forward looks

    def preview_s(self) -> Array:
        """The sample's own moment for the feedback, and one ahead for the feed-forward."""
        xp = namespace(self.lead_s)
        return xp.stack([xp.zeros_like(xp.asarray(self.lead_s)), xp.asarray(self.lead_s)])

    def start(self) -> Array:
        """Integrated position error [3]."""
        return namespace(self.lead_s).zeros(3)

    def resume(self, commands: Array) -> Array:
        """The commands do not tell the integrated error."""
        del commands
        return self.start()

    def sent(self, memory: Array, command: Array) -> Array:
        """What was sent is not remembered."""
        del command
        return memory

    def trained(self) -> tuple[()]:
        """Its gains are what they are."""
        return ()

    def with_trained(self, parameters: Any) -> GeometricController:
        """The same."""
        del parameters
        return self

    def __call__(self, memory: Array, sensed: Sensed, references: Reference) -> tuple[Array, Array]:
        """One step of the control law."""
        state = sensed.state
        xp = namespace(state.position, references.position, self.lead_s)
        now = Reference(*(field[0] for field in references))
        ahead = Reference(*(field[1] for field in references))
        error = now.position - state.position
        integral = xp.clip(memory + CONTROL_DT * error, -_INTEGRAL_LIMIT, _INTEGRAL_LIMIT)
        drag = xp.asarray(self.rotor_drag)
        drag_force = ahead.rotation @ (drag * (ahead.rotation.T @ ahead.velocity))
        wanted = (
            ahead.acceleration
            + xp.asarray([0.0, 0.0, GRAVITY])
            + xp.asarray(self.position_gain) * error
            + xp.asarray(self.velocity_gain) * (now.velocity - state.velocity)
            + xp.asarray(self.integral_gain) * integral
            + drag_force
        )
        # A force that points down cannot be flown upright: keep the horizontal part.
        wanted = xp.stack([wanted[0], wanted[1], xp.maximum(wanted[2], _LEAST_THRUST)])
        attitude = _attitude(wanted, ahead.rotation)
        thrust = wanted @ state.rotation[:, 2]
        turn = so3.log(state.rotation.T @ attitude)
        feed_forward = state.rotation.T @ (ahead.rotation @ ahead.rates)
        rates = feed_forward + xp.asarray(self.attitude_gain) * turn
        command = xp.concatenate([thrust[None], rates])
        return integral, xp.clip(command, self.limits.low, self.limits.high)


def _attitude(force: Array, reference: Array) -> Array:
    """Attitude with body z along a force and the heading of a reference attitude."""
    xp = namespace(force, reference)
    z_b = so3.normalise(force)
    x_ref = reference[:, 0]
    # The horizontal axis to the left of the heading; the reference's x axis is normal to it.
    left = so3.normalise(xp.stack([-x_ref[1], x_ref[0], xp.zeros_like(x_ref[0])]))
    x_b = so3.normalise(so3.cross(left, z_b))
    return xp.stack([x_b, so3.cross(z_b, x_b), z_b], axis=-1)


def geometric_controller(limits: CommandLimits, **gains: Any) -> GeometricController:
    """Controller with arrays as gains (NumPy), for a vehicle with these command limits."""
    controller = GeometricController(limits, **gains)
    fields = [np.asarray(field, dtype=float) for field in controller[1:]]
    low, high = np.asarray(limits.low, float), np.asarray(limits.high, float)
    return GeometricController(CommandLimits(low, high), *fields)
