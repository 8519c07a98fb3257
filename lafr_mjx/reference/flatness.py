"""Differential flatness: the attitude, rates and thrust that a path implies (no drag).

The attitude is built from the thrust axis and the yaw: z_B along a + g e₃, and
x_B = y_C × z_B, normalised, with y_C the horizontal axis to the left of the heading. It is
singular where the thrust axis is parallel to y_C.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lafr_mjx.arrays import namespace
from lafr_mjx.reference import clock as clocks
from lafr_mjx.reference.path import Path, derivatives, lap_s
from lafr_mjx.so3 import cross
from lafr_mjx.types import GRAVITY, Reference

if TYPE_CHECKING:
    from lafr_mjx.arrays import Array
    from lafr_mjx.reference.clock import Clock


def reference_at(path: Path, clock: Clock, offset_s: Array | float = 0.0) -> Reference:
    """Reference at the clock's time plus `offset_s`."""
    return reference_state(path, *clocks.shifted(clock, offset_s))


def reference_state(
    path: Path,
    phase: Array | float,
    rate: Array | float = 1.0,
    acceleration: Array | float = 0.0,
    jerk: Array | float = 0.0,
) -> Reference:
    """Reference at a phase whose derivatives in time are given.

    With P(s) the path: v = P' ṡ, a = P'' ṡ² + P' s̈, j = P''' ṡ³ + 3 P'' ṡ s̈ + P' s⃛.

    Args:
        path: one path.
        phase: [...] s.
        rate: [...] ṡ = 1/α.
        acceleration: [...] s̈ [1/s].
        jerk: [...] s⃛ [1/s²].
    """
    xp = namespace(*path, phase, rate, acceleration, jerk)
    order = derivatives(path, phase)
    if xp is not np:
        # XLA on CPU would work them out again for each number of the result; a division it does
        # once, and by exactly 1 it changes nothing.
        order = order / (lap_s(path) / lap_s(path))
    s1, s2, s3 = (xp.asarray(x)[..., None] for x in (rate, acceleration, jerk))
    p0, p1, p2, p3 = (order[..., i, :] for i in range(4))
    velocity = p1 * s1
    return flat_state(
        position=p0[..., :3],
        velocity=velocity[..., :3],
        acceleration=(p2 * s1**2 + p1 * s2)[..., :3],
        jerk=(p3 * s1**3 + 3.0 * p2 * s1 * s2 + p1 * s3)[..., :3],
        yaw=p0[..., 3],
        yaw_rate=velocity[..., 3],
    )


def flat_state(
    position: Array,
    velocity: Array,
    acceleration: Array,
    jerk: Array,
    yaw: Array,
    yaw_rate: Array,
) -> Reference:
    """Flatness map: [..., 3] derivatives of the position and [...] yaw to a reference."""
    xp = namespace(acceleration, jerk, yaw, yaw_rate)
    lift = _lift(acceleration)
    x_c, y_c = _heading_axes(yaw)
    thrust = _norm(lift)
    z_b = lift / thrust[..., None]
    side = cross(y_c, z_b)
    side_length = _norm(side)
    x_b = side / side_length[..., None]
    y_b = cross(z_b, x_b)
    roll_rate = -_dot(y_b, jerk) / thrust
    pitch_rate = _dot(x_b, jerk) / thrust
    # x_B stays perpendicular to y_C: the derivative of their product is zero.
    turn = (yaw_rate * _dot(x_c, x_b) + pitch_rate * _dot(y_c, z_b)) / side_length
    return Reference(
        position=position,
        velocity=velocity,
        acceleration=acceleration,
        jerk=jerk,
        rotation=xp.stack([x_b, y_b, z_b], axis=-1),
        rates=xp.stack([roll_rate, pitch_rate, turn], axis=-1),
        thrust=thrust,
    )


def time_scale_derivative(
    path: Path,
    start_phase: Array | float,
    elapsed: Array | float,
    time_scale: Array | float,
) -> Reference:
    """Derivative of the reference with respect to a constant time scale α, in closed form.

    The reference is p(τ; α) = P(s₀ + τ/α). Each field holds the derivative of that field;
    `rotation` holds the 3×3 matrix dR/dα, a tangent of SO(3) at R.

    Args:
        path: one path.
        start_phase: [...] s₀ [s].
        elapsed: [...] τ [s] since the phase was s₀.
        time_scale: [...] α.
    """
    xp = namespace(*path, start_phase, elapsed, time_scale)
    rate = 1.0 / xp.asarray(time_scale)
    phase = xp.asarray(start_phase) + elapsed * rate
    order = derivatives(path, phase)
    s1 = (rate + xp.zeros_like(phase))[..., None]
    p1, p2, p3, p4 = (order[..., i, :] for i in range(1, 5))
    d_rate = -(s1**2)
    d_phase = xp.asarray(elapsed)[..., None] * d_rate
    first = p1 * d_phase
    second = p2 * s1 * d_phase + p1 * d_rate
    third = p3 * s1**2 * d_phase + 2.0 * p2 * s1 * d_rate
    fourth = p4 * s1**3 * d_phase + 3.0 * p3 * s1**2 * d_rate
    base = reference_state(path, phase, s1[..., 0])
    rotation, rates, thrust = _attitude_tangent(
        base,
        yaw=order[..., 0, 3],
        yaw_rate=(p1 * s1)[..., 3],
        d_acceleration=third[..., :3],
        d_jerk=fourth[..., :3],
        d_yaw=first[..., 3],
        d_yaw_rate=second[..., 3],
    )
    return Reference(
        position=first[..., :3],
        velocity=second[..., :3],
        acceleration=third[..., :3],
        jerk=fourth[..., :3],
        rotation=rotation,
        rates=rates,
        thrust=thrust,
    )


def _attitude_tangent(
    base: Reference,
    yaw: Array,
    yaw_rate: Array,
    d_acceleration: Array,
    d_jerk: Array,
    d_yaw: Array,
    d_yaw_rate: Array,
) -> tuple[Array, Array, Array]:
    """Differentials of rotation, rates and thrust in `flat_state`, line by line."""
    xp = namespace(base.rotation, d_acceleration)
    x_b, y_b, z_b = (base.rotation[..., i] for i in range(3))
    roll_rate, pitch_rate, turn = (base.rates[..., i] for i in range(3))
    jerk, thrust = base.jerk, base.thrust
    x_c, y_c = _heading_axes(yaw)
    d_x_c, d_y_c = d_yaw[..., None] * y_c, -d_yaw[..., None] * x_c

    d_thrust = _dot(z_b, d_acceleration)
    d_z_b = (d_acceleration - d_thrust[..., None] * z_b) / thrust[..., None]
    side_length = _norm(cross(y_c, z_b))
    d_side = cross(d_y_c, z_b) + cross(y_c, d_z_b)
    d_side_length = _dot(x_b, d_side)
    d_x_b = (d_side - d_side_length[..., None] * x_b) / side_length[..., None]
    d_y_b = cross(d_z_b, x_b) + cross(z_b, d_x_b)
    d_roll_rate = -(_dot(d_y_b, jerk) + _dot(y_b, d_jerk) + roll_rate * d_thrust) / thrust
    d_pitch_rate = (_dot(d_x_b, jerk) + _dot(x_b, d_jerk) - pitch_rate * d_thrust) / thrust
    d_turn = (
        d_yaw_rate * _dot(x_c, x_b)
        + yaw_rate * (_dot(d_x_c, x_b) + _dot(x_c, d_x_b))
        + d_pitch_rate * _dot(y_c, z_b)
        + pitch_rate * (_dot(d_y_c, z_b) + _dot(y_c, d_z_b))
        - turn * d_side_length
    ) / side_length
    rotation = xp.stack([d_x_b, d_y_b, d_z_b], axis=-1)
    return rotation, xp.stack([d_roll_rate, d_pitch_rate, d_turn], axis=-1), d_thrust


def yaw_axis_sine(reference: Reference, yaw: Array) -> Array:
    """Sine of the angle between the thrust axis and the yaw singularity, [...]."""
    return _norm(cross(_heading_axes(yaw)[1], reference.rotation[..., 2]))


def _lift(acceleration: Array) -> Array:
    """Specific force a + g e₃ that the rotors must give."""
    xp = namespace(acceleration)
    return acceleration + xp.asarray([0.0, 0.0, GRAVITY], dtype=acceleration.dtype)


def _heading_axes(yaw: Array) -> tuple[Array, Array]:
    """Horizontal axes ahead (x_C) and to the left (y_C) of the heading."""
    xp = namespace(yaw)
    cosine, sine, zero = xp.cos(yaw), xp.sin(yaw), xp.zeros_like(yaw)
    return xp.stack([cosine, sine, zero], axis=-1), xp.stack([-sine, cosine, zero], axis=-1)


def _dot(a: Array, b: Array) -> Array:
    return (a * b).sum(axis=-1)


def _norm(a: Array) -> Array:
    return namespace(a).sqrt(_dot(a, a))
