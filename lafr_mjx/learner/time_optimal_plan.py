"""The fastest motion of a vehicle with limited thrust and rates near a path.

A motion is a spline through knots at equal times, and one number, its duration. Position,
velocity, acceleration and jerk at the samples are linear in the knots, so that the limits
(thrust, body rates, distance from the path, altitude, tilt) and their derivatives are a few matrix
products. The duration is minimised by an interior-point method: Newton steps on
κ log T - mean Σ log(-g), with κ growing; every iterate is feasible, so the method can stop
anywhere. Knots are moved by harmonics that are the smaller the higher they are, which keeps the
problem well conditioned in single precision.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lafr_mjx.reference.flatness import flat_state
from lafr_mjx.reference.path import DEGREE, Path, derivatives, lap_s
from lafr_mjx.reference.splines import cardinal_splines

if TYPE_CHECKING:
    from lafr_mjx.arrays import Array
    from lafr_mjx.types import Reference

SEGMENTS = 32
_PER_SEGMENT = 3
SAMPLES = SEGMENTS * _PER_SEGMENT

_STEPS = 60
_FIRST_KAPPA, _LAST_KAPPA = 3.0, 2000.0
"""Weight of the duration: the gap to the optimum is about the number of limits over κ."""

_SHARES = (1.0, 0.7, 0.5, 0.3, 0.15, 0.07, 0.03, 0.01)
"""Of a Newton step that are tried."""

_LEAST_THRUST = 1.5  # m/s², so that the attitude stays well defined
_LEAST_ALTITUDE = 0.3  # m
_LEAST_UPRIGHT = float(np.cos(np.radians(85.0)))
"""Cosine of the largest tilt: beyond 100 degrees a flight counts as crashed."""
_DISTANCE = 8
"""Index of the distance from the path among the limits."""


class Limits(NamedTuple):
    """What the motion must respect."""

    thrust: Any  # m/s², largest
    rates: Any  # [3] rad/s, largest in each direction
    radius: Any  # [K] m from the path, at K equal shares of its lap


class Plan(NamedTuple):
    """A motion that respects the limits."""

    path: Path  # of the task's lap
    seconds: Any  # that it takes
    feasible: Any  # bool: there is such a motion


class Basis(NamedTuple):
    """What makes a motion of the knots' values; one for closed paths, one from rest to rest."""

    coefficients: np.ndarray  # [SEGMENTS, SEGMENTS + 1, 8] of the path's polynomials
    orders: np.ndarray  # [4, SAMPLES, SEGMENTS + 1] derivatives at the samples, for a lap of 1
    harmonics: np.ndarray  # [SEGMENTS + 1, SEGMENTS] moves of the knots
    shares: np.ndarray  # [SAMPLES] of the lap at the samples


@lru_cache
def basis() -> tuple[Basis, Basis]:
    """Of closed paths and of those from rest to rest."""
    return _basis(periodic=True), _basis(periodic=False)


def _basis(*, periodic: bool) -> Basis:
    count = SEGMENTS
    splines = cardinal_splines(count, periodic=periodic)
    if periodic:  # the last knot is the first
        splines = np.concatenate([splines, np.zeros_like(splines[:, :1])], axis=1)
    share = np.arange(SAMPLES) / SAMPLES
    if not periodic:  # closer at the ends, where a vehicle at rest turns fast
        even = np.linspace(0.0, 1.0, SAMPLES)
        share = 0.5 * (even + 0.5 - 0.5 * np.cos(np.pi * even))
    segment = np.minimum((share * count).astype(int), count - 1)
    powers = (2.0 * (share * count - segment) - 1.0)[:, None] ** np.arange(DEGREE + 1)
    orders, terms = [], splines
    for _ in range(4):
        orders.append(np.einsum("mk,mnk->mn", powers, terms[segment]))
        risen = terms[..., 1:] * np.arange(1, DEGREE + 1) * (2.0 * count)
        terms = np.concatenate([risen, np.zeros_like(terms[..., :1])], axis=-1)
    knot = np.arange(count + 1) / count
    if periodic:
        half = np.arange(1, count // 2 + 1)
        frequency = np.concatenate([[0], half, half[:-1]])
        waves = [np.cos(2.0 * np.pi * k * knot) for k in (0, *half)]
        waves += [np.sin(2.0 * np.pi * k * knot) for k in half[:-1]]
    else:
        frequency = np.arange(1, count + 1) / 2.0
        waves = [np.sin(np.pi * k * knot) for k in range(1, count + 1)]
    harmonics = np.stack(waves, axis=1) / (1.0 + (frequency / 3.0) ** 3)
    harmonics[np.abs(harmonics) < 1e-12] = 0.0
    return Basis(splines, np.stack(orders), harmonics, share)


def sample_shares(periodic: Any) -> Array:
    """Where the samples are, as shares of the lap [SAMPLES]."""
    return _chosen(periodic).shares


def fastest(task: Path, limits: Limits, force: jax.Array) -> Plan:
    """The fastest motion within the limits near a path.

    Args:
        task: the path.
        limits: of the vehicle and of the room.
        force: [SAMPLES, 3] m/s², what acts beside thrust and gravity at the samples.
    """
    used, lap = _chosen(task.periodic), lap_s(task)
    knots = derivatives(task, lap * jnp.linspace(0.0, 1.0, SEGMENTS + 1) * (1.0 - 1e-7))[:, 0]
    at_knots = jnp.einsum("qmn,nd->qmd", used.orders, knots[:, :3])
    moves = jnp.einsum("qmn,nk->qmk", used.orders, used.harmonics)
    problem = _Problem(task, limits, force, at_knots, moves)
    nowhere = jnp.zeros((SEGMENTS, 3))
    phase = lap * used.shares
    # As slow as it must be to begin with.
    durations = lap * jnp.geomspace(0.08, 4.0, 64)
    worst = jax.vmap(lambda seconds: jnp.max(problem.limited(nowhere, seconds, phase)))(durations)
    possible = worst < -0.01
    seconds = 1.05 * durations[jnp.argmax(possible)]
    kappas = jnp.geomspace(_FIRST_KAPPA, _LAST_KAPPA, _STEPS - _STEPS // 8)
    kappas = jnp.concatenate([kappas, jnp.full(_STEPS // 8, _LAST_KAPPA)])
    first = (nowhere, jnp.log(seconds), phase)
    (move, log_seconds, phase), _ = jax.lax.scan(problem.step, first, kappas)
    # How the optimum moves with what limits it is asked of the optimum, not of the way to it.
    move, log_seconds, phase = jax.lax.stop_gradient((move, log_seconds, phase))
    hessian, gradient = problem.newton(move, jnp.exp(log_seconds), phase, _LAST_KAPPA)
    change = -_solved(jax.lax.stop_gradient(hessian), gradient)
    change = change - jax.lax.stop_gradient(change)
    move, log_seconds = move + change[:-1].reshape(move.shape), log_seconds + change[-1]
    values = knots.at[:, :3].add(used.harmonics @ move)
    ahead = problem.nearest(values[:, :3], lap * jnp.linspace(0.0, 1.0, SEGMENTS + 1))
    heading = derivatives(task, jnp.clip(ahead, 0.0, (1.0 - 1e-6) * lap))[:, 0, 3]
    values = values.at[:, 3].set(heading)
    path = Path(
        jnp.einsum("snk,nd->sdk", used.coefficients, values),
        lap * jnp.linspace(0.0, 1.0, SEGMENTS + 1),
        task.periodic,
    )
    return Plan(path, jnp.exp(log_seconds), jnp.any(possible))


class _Problem(NamedTuple):
    """The motion by its harmonics and its duration, and what limits it."""

    task: Path
    limits: Limits
    force: jax.Array
    at_knots: jax.Array  # [4, SAMPLES, 3] of the task's path itself
    moves: jax.Array  # [4, SAMPLES, SEGMENTS] of the harmonics

    def motion(self, move: Array, seconds: Any) -> jax.Array:
        """Position, velocity, acceleration and jerk [SAMPLES, 4, 3]."""
        orders = self.at_knots + jnp.einsum("qmk,kd->qmd", self.moves, move)
        return jnp.moveaxis(orders * self._powers(seconds)[:, None, None], 0, 1)

    def limited(self, move: Array, seconds: Any, phase: Array) -> jax.Array:
        """Limits g [SAMPLES, G]; all are below zero where the motion is allowed."""
        motion = self.motion(move, seconds)
        return jax.vmap(partial(_limits, self.limits))(motion, *self._around(motion, phase))

    def nearest(self, position: Array, phase: Array) -> Array:
        """Phases of the task's path nearest to positions, from phases that are not far off."""
        lap = lap_s(self.task)
        for _ in range(2):
            there = derivatives(self.task, phase)
            along = there[:, 1, :3]
            gap = jnp.sum((position - there[:, 0, :3]) * along, axis=-1)
            step = gap / (jnp.sum(along * along, axis=-1) + 1e-3)
            phase = phase + jnp.clip(step, -0.02 * lap, 0.02 * lap)
        return phase

    def newton(
        self, move: jax.Array, seconds: Any, phase: Array, kappa: Any
    ) -> tuple[jax.Array, jax.Array]:
        """Hessian and gradient in the harmonics and the logarithm of the duration."""
        motion = self.motion(move, seconds)
        around = self._around(motion, phase)
        limit = partial(_limits, self.limits)
        g = jnp.minimum(jax.vmap(limit)(motion, *around), -1e-6)
        slope = jax.vmap(jax.jacfwd(limit))(motion, *around)  # [SAMPLES, G, 4, 3]
        scaled = self.moves * self._powers(seconds)[:, None, None]
        by_move = jnp.einsum("mgqd,qmk->mgkd", slope, scaled).reshape((g.size, -1))
        by_time = -jnp.einsum("mgqd,mqd,q->mg", slope, motion, jnp.arange(4.0)).reshape((-1, 1))
        rows = jnp.concatenate([by_move, by_time], axis=1) / -g.reshape((-1, 1))
        hessian, gradient = rows.T @ rows / SAMPLES, jnp.sum(rows, axis=0) / SAMPLES
        gradient = gradient.at[-1].add(kappa)
        # The distance is quadratic: on the path itself its slope says nothing.
        weight = self.moves[0] / (-g[:, _DISTANCE] * around[1] ** 2 * SAMPLES)[:, None]
        bend = jnp.kron(weight.T @ self.moves[0], jnp.eye(3))
        hessian = hessian.at[:-1, :-1].add(bend)
        pin = jnp.append((self.moves[0, 0][:, None] * self._start[1]).reshape(-1), 0.0)
        hessian = hessian + 100.0 * kappa * jnp.outer(pin, pin)
        gradient = gradient + 100.0 * kappa * self._ahead(move) * pin
        return hessian, gradient

    def step(self, carry: tuple, kappa: jax.Array) -> tuple[tuple, None]:
        """One Newton step, as far along it as is best; none if it does not help."""
        move, log_seconds, phase = carry
        seconds = jnp.exp(log_seconds)
        phase = self.nearest(self.motion(move, seconds)[:, 0], phase)
        change = -_solved(*self.newton(move, seconds, phase, kappa))
        shares = jnp.array(_SHARES)
        moves = move + shares[:, None, None] * change[:-1].reshape(move.shape)
        times = log_seconds + shares * change[-1]
        merits = jax.vmap(lambda m, t: self._merit(m, t, phase, kappa))(moves, times)
        best = jnp.argmin(merits)
        better = merits[best] < self._merit(move, log_seconds, phase, kappa)
        move = jnp.where(better, moves[best], move)
        return (move, jnp.where(better, times[best], log_seconds), phase), None

    def _merit(self, move: jax.Array, log_seconds: Any, phase: Array, kappa: Any) -> jax.Array:
        motion = self.motion(move, jnp.exp(log_seconds))
        around = self._around(motion, self.nearest(motion[:, 0], phase))
        g = jax.vmap(partial(_limits, self.limits))(motion, *around)
        barrier = -jnp.mean(jnp.sum(jnp.log(jnp.maximum(-g, 1e-30)), axis=1))
        value = kappa * (log_seconds + 50.0 * self._ahead(move) ** 2) + barrier
        return jnp.where(jnp.all(g < 0.0), value, jnp.inf)

    def _around(self, motion: Array, phase: Array) -> tuple[Array, ...]:
        """What the limits of each sample refer to.

        Point of the path, radius there and how it grows with the position, force, heading and its
        rate.
        """
        there = derivatives(self.task, phase)
        along = there[:, 1, :3]
        per_metre = along / (jnp.sum(along * along, axis=-1, keepdims=True) + 1e-3)  # of the phase
        rate = jnp.sum(motion[:, 1] * per_metre, axis=-1)
        radius, growth = self._radius(phase)
        growth = growth[:, None] * per_metre
        return there[:, 0, :3], radius, growth, self.force, there[:, 0, 3], there[:, 1, 3] * rate

    def _radius(self, phase: Array) -> tuple[jax.Array, jax.Array]:
        """Radius of the room at phases, and its derivative."""
        points = self.limits.radius.shape[0]
        # Narrow before a narrow place: what lies between two points is within both.
        around = jnp.stack([jnp.roll(self.limits.radius, shift) for shift in (-1, 0, 1)])
        radius = jnp.min(around, axis=0)
        cell = phase * (points / lap_s(self.task)) - 0.5
        index = jnp.floor(cell).astype(int)
        left, right = (radius[(index + i) % points] for i in (0, 1))
        slope = right - left
        return left + slope * (cell - index), slope * (points / lap_s(self.task))

    def _ahead(self, move: jax.Array) -> jax.Array:
        """How far the start is before or behind the task's: laps are counted there [m]."""
        position, along = self._start
        return jnp.dot(self.at_knots[0, 0] + self.moves[0, 0] @ move - position, along)

    @property
    def _start(self) -> tuple[Array, Array]:
        there = derivatives(self.task, jnp.zeros(()))
        return there[0, :3], there[1, :3] / jnp.maximum(jnp.linalg.norm(there[1, :3]), 1e-3)

    def _powers(self, seconds: Any) -> jax.Array:
        return seconds ** -jnp.arange(4.0)


def _limits(
    limits: Limits,
    motion: Array,
    centre: Array,
    radius: Array,
    growth: Array,
    force: Array,
    heading: Array,
    turn: Array,
) -> jax.Array:
    """Limits [11] of one sample: thrust (2), body rates (6), distance, altitude, tilt."""
    position, velocity, acceleration, jerk = motion
    flown: Reference = flat_state(position, velocity, acceleration - force, jerk, heading, turn)
    gap = position - centre
    radius = jnp.maximum(radius + jnp.dot(growth, gap), 0.5 * radius)
    away = 0.5 * (jnp.sum(gap * gap) / radius**2 - 1.0)
    others = jnp.array([away, _LEAST_ALTITUDE - position[2], _LEAST_UPRIGHT - flown.rotation[2, 2]])
    thrust = jnp.array([flown.thrust - limits.thrust, _LEAST_THRUST - flown.thrust])
    rates = flown.rates / limits.rates
    return jnp.concatenate([thrust / limits.thrust, rates - 1.0, -rates - 1.0, others])


def _chosen(periodic: Any) -> Basis:
    """The basis that a path needs, by a leaf."""
    closed, opened = basis()
    kind = jnp.asarray(periodic) > 0.5
    return jax.tree.map(
        lambda a, b: jnp.where(kind, jnp.float32(a), jnp.float32(b)), closed, opened
    )


def _solved(matrix: jax.Array, right: jax.Array) -> jax.Array:
    """Solution of a symmetric positive system, by Gauss-Jordan steps: LAPACK does not batch."""
    scale = 1.0 / jnp.sqrt(jnp.diag(matrix) + 1e-8)
    size = right.shape[0]
    scaled = matrix * scale[:, None] * scale + 1e-5 * jnp.eye(size)
    table = jnp.concatenate([scaled, (scale * right)[:, None]], axis=1)

    def eliminate(k: jax.Array, table: jax.Array) -> jax.Array:
        row = table[k] / table[k, k]
        return (table - table[:, k][:, None] * row).at[k].set(row)

    return scale * jax.lax.fori_loop(0, size, eliminate, table)[:, -1]
