"""Dynamics, limits and the path as CasADi functions, for the free path.

A state holds position, velocity and the angles roll, pitch and yaw; for rotors also the angles'
derivatives. Inputs are the collective thrust and the angles' highest derivatives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lafr_mjx.reference.path import DEGREE
from lafr_mjx.time_optimal.solver import casadi
from lafr_mjx.time_optimal.symbolic import rotor_thrusts
from lafr_mjx.types import GRAVITY

if TYPE_CHECKING:
    from lafr_mjx.reference.path import Path
    from lafr_mjx.time_optimal.ideal_vehicle import Ideal, ModelName


def path_function(path: Path) -> Any:
    """(x, y, z, yaw) [4] of the phase as a share of the lap."""
    ca = casadi()
    share = ca.SX.sym("share")
    breaks = np.asarray(path.breaks, dtype=float)
    coefficients = np.asarray(path.coefficients, dtype=float)  # [S, 4, 8]
    phase = share * breaks[-1]
    terms, begin, length = ca.DM(coefficients[0]), breaks[0], breaks[1] - breaks[0]
    for i in range(1, len(coefficients)):
        beyond = phase >= breaks[i]
        terms = terms + beyond * ca.DM(coefficients[i] - coefficients[i - 1])
        begin = begin + beyond * (breaks[i] - breaks[i - 1])
        length = length + beyond * (breaks[i + 1] - 2.0 * breaks[i] + breaks[i - 1])
    local = 2.0 * (phase - begin) / length - 1.0
    value = terms[:, DEGREE]
    for power in range(DEGREE - 1, -1, -1):
        value = value * local + terms[:, power]
    return ca.Function("path", [share], [value])


def _derivative(model: ModelName, state: Any, inputs: Any) -> Any:
    ca = casadi()
    roll, pitch, yaw = state[6], state[7], state[8]
    ahead, left = ca.sin(pitch) * ca.cos(roll), -ca.sin(roll)
    axis = ca.vertcat(
        ca.cos(yaw) * ahead - ca.sin(yaw) * left,
        ca.sin(yaw) * ahead + ca.cos(yaw) * left,
        ca.cos(pitch) * ca.cos(roll),
    )
    acceleration = inputs[0] * axis - ca.vertcat(0, 0, GRAVITY)
    if model == "ctbr":
        return ca.vertcat(state[3:6], acceleration, inputs[1:])
    return ca.vertcat(state[3:6], acceleration, state[9:], inputs[1:])


def step_function(model: ModelName) -> Any:
    """One Runge-Kutta step of order 4 with constant inputs."""
    ca = casadi()
    x = ca.SX.sym("x", 9 if model == "ctbr" else 12)
    u, dt = ca.SX.sym("u", 4), ca.SX.sym("dt")
    k1 = _derivative(model, x, u)
    k2 = _derivative(model, x + 0.5 * dt * k1, u)
    k3 = _derivative(model, x + 0.5 * dt * k2, u)
    k4 = _derivative(model, x + dt * k3, u)
    return ca.Function("step", [x, u, dt], [x + dt / 6.0 * (k1 + 2 * k2 + 2 * k3 + k4)])


def _body_rates(angles: Any, slopes: Any) -> Any:
    """Body rates [3] from roll, pitch, yaw and their derivatives in time."""
    ca = casadi()
    (sr, sp), (cr, cp) = ((f(angles[0]), f(angles[1])) for f in (ca.sin, ca.cos))
    return ca.vertcat(
        slopes[0] - slopes[2] * sp,
        slopes[1] * cr + slopes[2] * cp * sr,
        -slopes[1] * sr + slopes[2] * cp * cr,
    )


def input_function(ideal: Ideal, model: ModelName) -> Any:
    """Command [4] and, for rotors, rotor thrusts [4] at a state."""
    ca = casadi()
    x, u = ca.SX.sym("x", 9 if model == "ctbr" else 12), ca.SX.sym("u", 4)
    if model == "ctbr":
        command = ca.vertcat(u[0], _body_rates(x[6:9], u[1:]))
        return ca.Function("input", [x, u], [command])
    growth = ca.vertcat(x[9:], u[1:])  # of the angles and their derivatives
    rates = _body_rates(x[6:9], x[9:])
    thrusts = rotor_thrusts(ideal, u[0], rates, ca.jacobian(rates, x)[:, 6:] @ growth)
    return ca.Function("input", [x, u], [ca.vertcat(u[0], rates), thrusts])


def limits_function(ideal: Ideal, model: ModelName) -> Any:
    """CasADi function of state and inputs; each output must lie within ±1."""
    ca = casadi()
    x, u = ca.SX.sym("x", 9 if model == "ctbr" else 12), ca.SX.sym("u", 4)
    if model == "ctbr":
        limited = input_function(ideal, model)(x, u)[1:] / ca.DM(ideal.rates_high)
    else:
        limited = 2.0 * input_function(ideal, model)(x, u)[1] / ideal.rotor_high - 1.0
    return ca.Function("limits", [x, u], [limited])
