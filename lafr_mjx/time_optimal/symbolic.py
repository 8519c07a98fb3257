"""The flatness map and the rotor thrusts as CasADi functions.

The same formulas as `reference/flatness.py`, one derivative further, because torques need the
angular acceleration. A test compares the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lafr_mjx.time_optimal.solver import casadi
from lafr_mjx.types import GRAVITY

if TYPE_CHECKING:
    from lafr_mjx.time_optimal.ideal_vehicle import Ideal


def flat_function() -> Any:
    """CasADi function of one point of a path.

    Inputs: [4, 4] derivatives of (x, y, z, yaw), a column for each order from 1 to 4, and the
    four derivatives in time of the parameter they are taken by. Outputs: thrust [m/s²], rates
    [3], their derivatives [3], and the sine of the angle to the yaw singularity.
    """
    ca = casadi()
    table, clock = ca.SX.sym("table", 4, 4), ca.SX.sym("clock", 4)
    p1, p2, p3, p4 = (table[:, i] for i in range(4))
    q1, q2, q3, q4 = (clock[i] for i in range(4))
    first = p1 * q1
    second = p2 * q1**2 + p1 * q2
    third = p3 * q1**3 + 3 * p2 * q1 * q2 + p1 * q3
    fourth = p4 * q1**4 + 6 * p3 * q1**2 * q2 + p2 * (3 * q2**2 + 4 * q1 * q3) + p1 * q4

    # In the frame that is turned by the yaw, x_C and y_C are the axes.
    yaw, yaw_rate, yaw_acceleration = ca.SX.sym("yaw"), ca.SX.sym("r"), ca.SX.sym("dr")
    acceleration, jerk = ca.SX.sym("a", 3), ca.SX.sym("j", 3)
    snap = ca.SX.sym("s", 3)
    lift = acceleration + ca.vertcat(0, 0, GRAVITY)
    x_c = ca.vertcat(ca.cos(yaw), ca.sin(yaw), 0)
    y_c = ca.vertcat(-ca.sin(yaw), ca.cos(yaw), 0)
    thrust = ca.norm_2(lift)
    z_b = lift / thrust
    side = ca.cross(y_c, z_b)
    sine = ca.norm_2(side)
    x_b = side / sine
    y_b = ca.cross(z_b, x_b)
    roll_rate = -ca.dot(y_b, jerk) / thrust
    pitch_rate = ca.dot(x_b, jerk) / thrust
    turn = (yaw_rate * ca.dot(x_c, x_b) + pitch_rate * ca.dot(y_c, z_b)) / sine
    rates = ca.vertcat(roll_rate, pitch_rate, turn)
    given = ca.vertcat(acceleration, jerk, yaw, yaw_rate)
    growth = ca.vertcat(jerk, snap, yaw_rate, yaw_acceleration)
    inner = ca.Function(
        "attitude",
        [acceleration, jerk, snap, yaw, yaw_rate, yaw_acceleration],
        [thrust, rates, ca.jtimes(rates, given, growth), sine],
    )
    heading = ca.SX.sym("heading")
    outputs = inner(second[:3], third[:3], fourth[:3], heading, first[3], second[3])
    return ca.Function("flat", [table, heading, clock], list(outputs))


def rotor_thrusts(ideal: Ideal, thrust: Any, rates: Any, angular_acceleration: Any) -> Any:
    """Rotor thrusts [4] N by Newton and Euler: τ = J ω̇ + ω × J ω."""
    ca = casadi()
    inertia = ca.DM(ideal.inertia)
    torque = inertia @ angular_acceleration + ca.cross(rates, inertia @ rates)
    return ca.DM(ideal.mixing) @ ca.vertcat(ideal.mass * thrust, torque)
