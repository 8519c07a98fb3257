"""Fastest motion that stays exactly on the path: only the clock along it is free.

The path is a function of a parameter q from 0 to 1, and the unknown is b(q) = q̇². With the
primes taken by q, q̈ = b'/2, q⃛ = b'' q̇/2 and q⁗ = b''' q̇²/2 + b'' q̈/2, and the duration is
∫ dq/√b. The path's derivatives are then plain numbers at fixed points, and no path has to be
evaluated at an unknown place. b is a polynomial on each interval: of degree 2 for the CTBR
vehicle (body rates need the jerk, which may jump), 3 for the rotors (torques need the snap).
Limits hold at both ends and in the middle of each interval.

At the ends of a rest-to-rest path, P ~ s⁴ while the fastest motion out of hover goes with t³
for CTBR (the rate jumps) and with t⁴ for rotors (the torque jumps). With s ~ q^¾ for the
former and s ~ q for the latter, q̇ is neither zero nor infinite there.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lafr_mjx.reference.flatness import flat_state
from lafr_mjx.reference.path import derivatives, lap_s
from lafr_mjx.tasks import MIN_SINGULARITY_DEG, MIN_THRUST
from lafr_mjx.time_optimal.motion import Motion, Solution, angles_of
from lafr_mjx.time_optimal.solver import Program, casadi
from lafr_mjx.time_optimal.symbolic import flat_function, rotor_thrusts
from lafr_mjx.types import GRAVITY

if TYPE_CHECKING:
    from lafr_mjx.reference.path import Path
    from lafr_mjx.time_optimal.ideal_vehicle import Ideal, ModelName

_EDGE = 1e-4  # q never comes nearer to the ends of a rest-to-rest path, where s(q) is singular
_GAUSS = np.polynomial.legendre.leggauss(4)
_SAMPLES = 9  # of each interval in a motion


class Placed(NamedTuple):
    """Where the parameter q lies on the path, with derivatives by q."""

    phase: np.ndarray  # [M] s
    by_parameter: np.ndarray  # [M, 3] first to third derivative of the phase [s]
    table: np.ndarray  # [M, 5, 4] derivatives of (x, y, z, yaw) of order 0 to 4


def solve_exact(
    path: Path,
    ideal: Ideal,
    model: ModelName,
    nodes: int,
    slow_s: float,
    what: str,
    yaw_band: float = 0.0,
) -> Solution:
    """The fastest exact tracking of a path.

    Args:
        path: closed paths are flown in laps without a start, others from hover to hover.
        ideal: the vehicle.
        model: which of its limits hold.
        nodes: intervals of the grid.
        slow_s: a duration that the vehicle can surely fly; the search starts there.
        what: name of the problem in messages.
        yaw_band: how far the heading may deviate from the path's [rad].
    """
    ca = casadi()
    order = 2 if model == "ctbr" else 3
    closed = bool(path.periodic > 0.5)
    width = 1.0 / nodes
    program = Program(what)
    # In units of the slow rate squared, so that all unknowns are near 1.
    unit = slow_s**-2
    start = np.zeros((order, nodes + 1))
    start[0] = 1.0
    low = np.full((order, 1), -np.inf)
    low[0] = 1e-4
    states = program.variable(start, low)
    highest = program.variable(np.zeros((1, nodes)))
    left = [states[i, :-1] for i in range(order)] + [highest]
    ends = taylor(left, width)
    program.require(ca.vertcat(*ends[:order]) - states[:, 1:])
    if closed:
        program.require(states[:, -1] - states[:, 0])

    yaw = _free_yaw(program, nodes, yaw_band, closed)
    tables = place(path, model, np.linspace(0.0, 1.0, 2 * nodes + 1)).table
    limits = _limits_function(ideal, model)
    for i, fraction in enumerate((0.0, 0.5, 1.0)):
        value = taylor(left, fraction * width)
        points = tables[i : i + 2 * nodes : 2]
        columns = ca.MX(ca.DM(np.concatenate(points[:, 1:].transpose(0, 2, 1), axis=1)))
        deviation = taylor(yaw, fraction * width)
        for derivative in (1, 2):
            columns[3, derivative - 1 :: 4] += deviation[derivative]
        heading = ca.DM(points[:, 0, 3]).T + deviation[0]
        clock = ca.vertcat(*clock_rates([unit * x for x in value], ca.sqrt))
        program.require(limits.map(nodes)(columns, heading, clock), -1.0, 1.0)

    duration = 0.0
    for node, weight in zip(*_GAUSS, strict=True):
        value = taylor(left, 0.5 * (node + 1.0) * width)[0]
        duration += 0.5 * weight * width * ca.sum2(1.0 / ca.sqrt(value))
    optimum = program.minimise(duration, tolerance=1e-8)
    clock = program.values(optimum, *(unit * x for x in left))
    deviation = program.values(optimum, *yaw)
    motion = _motion(path, ideal, model, clock, deviation)
    return Solution(optimum.value * slow_s, optimum, motion)


def _free_yaw(program: Program, nodes: int, band: float, closed: bool) -> list[Any]:
    """Deviation of the heading from the path's: value and two derivatives by q, [1, N] each."""
    ca = casadi()
    if band == 0.0:
        return [ca.DM.zeros(1, nodes)] * 3
    low = np.broadcast_to([[-band], [-np.inf]], (2, nodes + 1)).copy()
    if not closed:
        low[1, [0, -1]] = 0.0  # in hover
    high = np.where(low == 0.0, 0.0, -low)
    states = program.variable(np.zeros((2, nodes + 1)), low, high)
    second = program.variable(np.zeros((1, nodes)))
    left = [states[0, :-1], states[1, :-1], second]
    program.require(ca.vertcat(*taylor(left, 1.0 / nodes)[:2]) - states[:, 1:])
    if closed:
        program.require(states[:, -1] - states[:, 0])
    return left


def taylor(coefficients: list[Any], step: Any) -> list[Any]:
    """A polynomial's value and derivatives a step on; the highest derivative is constant."""
    count = len(coefficients)
    return [
        sum(coefficients[j] * (step ** (j - i) / math.factorial(j - i)) for j in range(i, count))
        for i in range(count)
    ]


def clock_rates(squared: list[Any], root: Any) -> tuple[Any, Any, Any, Any]:
    """First to fourth derivative of q in time, from b and its derivatives by q."""
    b, b1, b2 = squared[:3]
    b3 = squared[3] if len(squared) > 3 else 0.0 * b
    rate = root(b)
    return rate, 0.5 * b1, 0.5 * b2 * rate, 0.5 * b3 * b + 0.25 * b2 * b1


def place(path: Path, model: ModelName, parameter: np.ndarray) -> Placed:
    """Phase and path derivatives at values [M] of q."""
    lap = float(lap_s(path))
    if path.periodic > 0.5 or model == "rotor":
        by_parameter = np.zeros((*parameter.shape, 3))
        by_parameter[..., 0] = lap
        # A hair inside: beyond its ends a rest-to-rest path has no derivatives.
        phase = lap * parameter
        if not path.periodic > 0.5:
            phase = np.clip(phase, 1e-9 * lap, (1.0 - 1e-9) * lap)
    else:
        share, by_parameter = _from_hover(np.clip(parameter, _EDGE, 1.0 - _EDGE))
        phase, by_parameter = lap * share, lap * by_parameter
    p0, p1, p2, p3, p4 = np.moveaxis(np.asarray(derivatives(path, phase)), -2, 0)
    s1, s2, s3 = (by_parameter[..., i, None] for i in range(3))
    table = np.stack(
        [
            p0,
            p1 * s1,
            p2 * s1**2 + p1 * s2,
            p3 * s1**3 + 3.0 * p2 * s1 * s2 + p1 * s3,
            p4 * s1**4,  # of use for rotors alone, where s2 = s3 = 0
        ],
        axis=-2,
    )
    return Placed(phase, by_parameter, table)


def _from_hover(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Share of the phase that goes with q^¾ at the start and alike at the end; derivatives.

    s = σ(¾ logit q) with the logistic function σ.
    """
    w, w1, power = q * (1.0 - q), 1.0 - 2.0 * q, 0.75
    l1, l2 = power / w, -power * w1 / w**2
    l3 = power * (2.0 * w1**2 / w**3 + 2.0 / w**2)
    share = 1.0 / (1.0 + ((1.0 - q) / q) ** power)
    g1 = share * (1.0 - share)
    g2 = g1 * (1.0 - 2.0 * share)
    g3 = g2 * (1.0 - 2.0 * share) - 2.0 * g1**2
    first, second = g1 * l1, g2 * l1**2 + g1 * l2
    third = g3 * l1**3 + 3.0 * g2 * l1 * l2 + g1 * l3
    return share, np.stack([first, second, third], axis=-1)


def _limits_function(ideal: Ideal, model: ModelName) -> Any:
    """CasADi function of one point; each output must lie within ±1."""
    ca = casadi()
    table, heading = ca.SX.sym("table", 4, 4), ca.SX.sym("heading")
    clock = ca.SX.sym("clock", 4)
    thrust, rates, accelerations, sine = flat_function()(table, heading, clock)
    least = max(ideal.thrust_low, MIN_THRUST)
    # Where flatness has no answer: the rule that paths obey, too. 1 at the limit, 0 far away.
    outputs = [math.sin(math.radians(MIN_SINGULARITY_DEG)) / sine]
    if model == "ctbr":
        outputs += [_centred(thrust, least, ideal.thrust_high), rates / ca.DM(ideal.rates_high)]
    else:
        rotors = rotor_thrusts(ideal, thrust, rates, accelerations)
        outputs += [_centred(rotors, 0.0, ideal.rotor_high), least / thrust]
    return ca.Function("limits", [table, heading, clock], [ca.vertcat(*outputs)])


def _centred(value: Any, low: float, high: float) -> Any:
    return (2.0 * value - (low + high)) / (high - low)


def _motion(
    path: Path,
    ideal: Ideal,
    model: ModelName,
    squared: list[np.ndarray],
    deviation: list[np.ndarray],
) -> Motion:
    """Dense samples; commands come from the project's own path and flatness map.

    `squared` and `deviation` hold b and the heading's deviation, with their derivatives by q,
    at the left end of each interval: [1, N] each.
    """
    nodes = squared[0].shape[1]
    fraction = np.linspace(0.0, 1.0, _SAMPLES)
    step = fraction / nodes
    value = taylor([x.T for x in squared], step)
    rates = [np.broadcast_to(x, (nodes, _SAMPLES)) for x in clock_rates(value, np.sqrt)]
    placed = place(path, model, (np.arange(nodes)[:, None] + fraction) / nodes)
    table = placed.table.copy()
    for order, term in enumerate(taylor([x.T for x in deviation], step)):
        table[..., order, 3] += term
    q1, q2, q3 = (rate[..., None] for rate in rates[:3])
    p0, p1, p2, p3 = (table[..., i, :] for i in range(4))
    first = p1 * q1
    reference = flat_state(
        position=p0[..., :3],
        velocity=first[..., :3],
        acceleration=(p2 * q1**2 + p1 * q2)[..., :3],
        jerk=(p3 * q1**3 + 3.0 * p2 * q1 * q2 + p1 * q3)[..., :3],
        yaw=p0[..., 3],
        yaw_rate=first[..., 3],
    )
    command = np.concatenate([np.asarray(reference.thrust)[..., None], reference.rates], axis=-1)
    angles = angles_of(np.asarray(reference.rotation), p0[..., 3])
    velocity = np.array(reference.velocity)
    if not path.periodic > 0.5:  # at the ends themselves, and not a hair inside
        for end in (0, -1):
            velocity[end, end], angles[end, end, :2] = 0.0, 0.0
            command[end, end, 0] = GRAVITY
    return Motion(
        width=np.full(nodes, 1.0 / nodes),
        slowness=1.0 / rates[0],
        command=command,
        rotors=_rotors(ideal, table, np.stack(rates)) if model == "rotor" else None,
        position=np.asarray(reference.position),
        velocity=velocity,
        angles=angles,
        phase=placed.phase,
    )


def _rotors(ideal: Ideal, table: np.ndarray, clock: np.ndarray) -> np.ndarray:
    """Rotor thrusts [..., 4] at [..., 5, 4] path derivatives and [4, ...] clock rates."""
    ca = casadi()
    one = ca.SX.sym("table", 4, 4), ca.SX.sym("heading"), ca.SX.sym("clock", 4)
    thrust, rates, accelerations, _ = flat_function()(*one)
    function = ca.Function("rotors", one, [rotor_thrusts(ideal, thrust, rates, accelerations)])
    shape = table.shape[:-2]
    flat = table.reshape(-1, 5, 4)
    columns = np.concatenate(flat[:, 1:].transpose(0, 2, 1), axis=1)
    result = function.map(len(flat))(columns, flat[:, 0, 3][None], clock.reshape(4, -1))
    return np.array(result).T.reshape(*shape, 4)
