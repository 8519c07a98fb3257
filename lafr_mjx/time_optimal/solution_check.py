"""An independent look at a solution: fly its inputs, and see where the vehicle comes.

The rigid body is integrated from its first state with nothing but the inputs, by another
scheme, attitude representation and equations than the solver's: quaternions and Newton-Euler
here, angles or flatness there. Limits are looked at between the solver's points, too, and
positions are compared with the project's own path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lafr_mjx.errors import RunError
from lafr_mjx.gates import Gate, crossings
from lafr_mjx.reference.path import derivatives, lap_s
from lafr_mjx.so3 import matrix_to_quaternion, multiply, quaternion_to_matrix
from lafr_mjx.time_optimal.geometry import Gates, Tube
from lafr_mjx.time_optimal.motion import rotation_of
from lafr_mjx.types import GRAVITY

if TYPE_CHECKING:
    from lafr_mjx.reference.path import Path
    from lafr_mjx.time_optimal.ideal_vehicle import Ideal
    from lafr_mjx.time_optimal.motion import Motion

MAX_POSITION_ERROR = 0.005  # m, of the integration against the solution
MAX_LIMIT_EXCESS = 0.02  # of a limit, between two points where the solver looked
MAX_GEOMETRY_EXCESS = 0.005  # m, beyond the tube or the radius of a gate
_STRETCH = 65  # points of the path in each interval
MAX_END_ERROR = 0.05  # m, m/s and rad, of the integrated end state


class Check(NamedTuple):
    """What the integration found."""

    duration_s: float  # by quadrature
    position_error_m: float  # largest distance of the integrated from the solver's motion
    end_error: float  # of position [m], velocity [m/s] and attitude [rad] at the end, the worst
    limit_excess: float  # largest share by which a limit is exceeded
    geometry_excess_m: float  # largest distance beyond the tube, a gate or the path
    peak_rate_radps: float  # largest body rate about one axis
    peak_speed_mps: float


def check(path: Path, geometry: Tube | Gates | None, ideal: Ideal, motion: Motion) -> Check:
    """Integrate a motion and measure it; `geometry` None means the exact path."""
    positions, velocity, quaternion = integrate(ideal, motion)
    apart = np.linalg.norm(positions - motion.position[:, ::2], axis=-1)
    closed = bool(path.periodic > 0.5)
    wanted = motion.position[0, 0] if closed else np.asarray(derivatives(path, lap_s(path)))[0, :3]
    speed = motion.velocity[0, 0] if closed else np.zeros(3)
    rotation = rotation_of(motion.angles)
    upright = rotation[0, 0] if closed else rotation[-1, -1]
    turned = upright.T @ quaternion_to_matrix(quaternion)
    ends = (
        np.linalg.norm(positions[-1, -1] - wanted),
        np.linalg.norm(velocity - speed),
        np.arccos(np.clip(0.5 * (np.trace(turned) - 1.0), -1.0, 1.0)),
    )
    return Check(
        duration_s=motion.duration,
        position_error_m=float(apart.max()),
        end_error=float(max(ends)),
        limit_excess=_limit_excess(ideal, motion),
        geometry_excess_m=_geometry_excess(path, geometry, motion),
        peak_rate_radps=float(np.abs(motion.command[..., 1:]).max()),
        peak_speed_mps=float(np.linalg.norm(motion.velocity, axis=-1).max()),
    )


def require_sound(found: Check, seconds: float, what: str) -> None:
    """Refuse a solution that its integration does not confirm.

    Raises:
        RunError: naming the figure that is off.
    """
    for name, value, most in (
        ("the duration by quadrature differs by [s]", abs(found.duration_s - seconds), 1e-3),
        ("the integrated motion leaves the solution by [m]", found.position_error_m,
         MAX_POSITION_ERROR),
        ("the end state is off by [m, m/s, rad]", found.end_error, MAX_END_ERROR),
        ("a limit is exceeded by the share", found.limit_excess, MAX_LIMIT_EXCESS),
        ("the path is left by [m]", found.geometry_excess_m, MAX_GEOMETRY_EXCESS),
    ):  # fmt: skip
        if not value <= most:
            raise RunError(
                f"{what}: the solution does not stand its check: {name} {value:.3g}, at most "
                f"{most:g} is allowed; use more --nodes"
            )


def integrate(ideal: Ideal, motion: Motion) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Runge-Kutta steps of two samples each from the first state on.

    Returns:
        Positions [N, (M + 1) / 2, 3] at every second sample, and at the end the velocity [3]
        and the quaternion [4].
    """
    inverse = np.linalg.inv(ideal.inertia)
    unmixing = ideal.unmixing
    rotors = motion.rotors
    first = matrix_to_quaternion(rotation_of(motion.angles[0, 0]))
    state = np.concatenate(
        [motion.position[0, 0], motion.velocity[0, 0], np.asarray(first), motion.command[0, 0, 1:]]
    )

    def slope(state: np.ndarray, interval: int, sample: int) -> np.ndarray:
        if rotors is None:
            thrust, rates = (
                motion.command[interval, sample, 0],
                motion.command[interval, sample, 1:],
            )
            growth = np.zeros(3)
        else:
            wrench = unmixing @ rotors[interval, sample]
            thrust, rates = wrench[0] / ideal.mass, state[10:]
            growth = inverse @ (wrench[1:] - np.cross(rates, ideal.inertia @ rates))
        quaternion = state[6:10]
        axis = np.asarray(quaternion_to_matrix(quaternion / np.linalg.norm(quaternion)))[:, 2]
        spin = 0.5 * np.asarray(multiply(quaternion, np.concatenate([[0.0], rates])))
        pull = thrust * axis - np.array([0.0, 0.0, GRAVITY])
        rate = np.concatenate([state[3:6], pull, spin, growth])
        return rate * motion.slowness[interval, sample]

    count, samples = motion.slowness.shape
    positions = np.empty((count, (samples + 1) // 2, 3))
    for k in range(count):
        h = 2.0 * motion.width[k] / (samples - 1)
        positions[k, 0] = state[:3]
        for i in range(0, samples - 1, 2):
            k1 = slope(state, k, i)
            k2 = slope(state + 0.5 * h * k1, k, i + 1)
            k3 = slope(state + 0.5 * h * k2, k, i + 1)
            k4 = slope(state + h * k3, k, i + 2)
            state = state + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
            state[6:10] /= np.linalg.norm(state[6:10])
            positions[k, i // 2 + 1] = state[:3]
    return positions, state[3:6], state[6:10]


def _limit_excess(ideal: Ideal, motion: Motion) -> float:
    thrust, rates = motion.command[..., 0], motion.command[..., 1:]
    beyond = [thrust / ideal.thrust_high - 1.0]
    if motion.rotors is None:
        beyond += [
            (ideal.thrust_low - thrust) / ideal.thrust_high,
            np.abs(rates) / ideal.rates_high - 1.0,
        ]
    else:
        share = motion.rotors / ideal.rotor_high
        beyond += [share - 1.0, -share]
    return max(0.0, *(float(x.max()) for x in beyond))


def _openings_excess(openings: list[Gate], points: np.ndarray, closed: bool) -> float:
    """How far beyond its edge an opening is passed in its direction; inf if it is not."""
    if closed:  # the lap begins in an opening
        points = np.vstack([points, points[1:3]])
    # The ends of a motion from rest to rest have no radius.
    nearest = [
        crossings(points, opening)[1].min(initial=np.inf) - opening.radius
        for opening in openings
        if opening.radius > 0.0
    ]
    return max(0.0, *map(float, nearest))


def _geometry_excess(path: Path, geometry: Tube | Gates | None, motion: Motion) -> float:
    points = motion.position.reshape(-1, 3)
    if isinstance(geometry, Gates) and geometry.normals is not None:
        openings = zip(geometry.points, geometry.normals, geometry.radii, strict=True)
        closed = bool(path.periodic > 0.5)
        return _openings_excess([Gate(*each) for each in openings], points, closed)
    if isinstance(geometry, Gates):
        nearest = [np.linalg.norm(points - gate, axis=1).min() for gate in geometry.points]
        return max(0.0, float(np.max(nearest - geometry.radii)))
    if geometry is None:
        there = np.asarray(derivatives(path, motion.phase))[..., 0, :3]
        return float(np.linalg.norm(motion.position - there, axis=-1).max())
    # Near the stretch of the path that belongs to its interval, not just anywhere on it.
    share = np.linspace(0.0, 1.0, _STRETCH)
    first, last = motion.phase[:, :1], motion.phase[:, -1:]
    stretch = np.asarray(derivatives(path, first + share * (last - first)))[..., 0, :3]
    apart = np.linalg.norm(motion.position[:, :, None] - stretch[:, None], axis=-1).min(axis=-1)
    return max(0.0, float(apart.max()) - geometry.radius)
