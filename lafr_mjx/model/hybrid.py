"""The hybrid dynamics and their integration: equations (1) to (3) of the paper.

ṗ = v,  v̇ = c R e₃ - g e₃ + a_res(ζ),  Ṙ = R (ω + ω_res(ζ))^,

integrated by a fourth-order Runge-Kutta method on SO(3) (Munthe-Kaas): the stages advance the
rotation by the exponential map of θ, with θ̇ = dexp⁻¹(θ) ω, so R stays a rotation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp

from lafr_mjx import so3
from lafr_mjx.model.state import ModelState
from lafr_mjx.types import GRAVITY

if TYPE_CHECKING:
    from collections.abc import Callable

    import jax

    Residual = Callable[[ModelState], tuple[jax.Array, jax.Array]]
    """Acceleration [..., 3] in the world and body rates [..., 3] that the nominal model misses."""

_DOWN = (0.0, 0.0, GRAVITY)


def step(
    state: ModelState,
    command: jax.Array,
    residual: Residual,
    dt: float,
    *,
    hold: bool = False,
) -> ModelState:
    """F_Δt(x, u; θ): the state after `dt` under a constant command [..., 4].

    Args:
        state: x.
        command: u, collective thrust and body rates.
        residual: what is added to the nominal model, as a function of the state.
        dt: length of the step [s].
        hold: evaluate the residual once, at the start, instead of at every stage; cheaper,
            and of first order in the residual's change.
    """
    thrust, rates = command[..., :1], command[..., 1:]
    position, velocity, rotation = state
    first = residual(state)

    def derivative(position: Any, velocity: Any, turn: Any, known: Any) -> tuple[Any, Any]:
        """v̇ and θ̇ at a stage; its attitude is R exp(θ)."""
        attitude = rotation if turn is None else rotation @ so3.exp(turn)
        if known is None:
            known = residual(ModelState(position, velocity, attitude))
        acceleration = thrust * attitude[..., 2] - jnp.array(_DOWN) + known[0]
        spin = rates + known[1]
        if turn is not None:
            # dexp⁻¹ to second order in θ; further terms are beyond fourth order in dt.
            bracket = _cross(turn, spin)
            spin = spin + 0.5 * bracket + _cross(turn, bracket) / 12.0
        return acceleration, spin

    held = first if hold else None
    a1, w1 = derivative(position, velocity, None, first)
    v2 = velocity + 0.5 * dt * a1
    a2, w2 = derivative(position + 0.5 * dt * velocity, v2, 0.5 * dt * w1, held)
    v3 = velocity + 0.5 * dt * a2
    a3, w3 = derivative(position + 0.5 * dt * v2, v3, 0.5 * dt * w2, held)
    v4 = velocity + dt * a3
    a4, w4 = derivative(position + dt * v3, v4, dt * w3, held)
    sixth = dt / 6.0
    return ModelState(
        position + sixth * (velocity + 2.0 * v2 + 2.0 * v3 + v4),
        velocity + sixth * (a1 + 2.0 * a2 + 2.0 * a3 + a4),
        so3.straightened(rotation @ so3.exp(sixth * (w1 + 2.0 * w2 + 2.0 * w3 + w4))),
    )


def held_step(
    state: ModelState, command: jax.Array, residual: tuple[Any, Any], dt: float
) -> ModelState:
    """The same step for a residual that is constant over it, in fewer operations.

    The rates are then constant, the rotation is exact, and the Runge-Kutta sums become Simpson's
    rule for the velocity.
    """
    acceleration, extra_rates = residual
    thrust = command[..., :1]
    turn = dt * (command[..., 1:] + extra_rates)
    middle = so3.product(state.rotation, so3.exp(0.5 * turn))
    end = so3.straightened(so3.product(state.rotation, so3.exp(turn)))
    constant = acceleration - jnp.array(_DOWN)
    a0 = thrust * state.rotation[..., 2] + constant
    a1 = thrust * middle[..., 2] + constant
    a2 = thrust * end[..., 2] + constant
    return ModelState(
        state.position + dt * state.velocity + dt * dt / 6.0 * (a0 + 2.0 * a1),
        state.velocity + dt / 6.0 * (a0 + 4.0 * a1 + a2),
        end,
    )


class HeldSlope(NamedTuple):
    """The derivative of `held_step`, ready for slopes at its end; [...] steps.

    All that does not depend on a slope is worked out for many steps at once; what remains for
    each is a few products. It is used that the end is a rotation, which a step cannot stretch.
    """

    thrust: Any  # [..., 1]
    rotation: Any  # [..., 3, 3] at the start
    middle: Any  # [..., 3, 3]
    end: Any  # [..., 3, 3]
    whole: Any  # [..., 3, 3] turn from start to end
    half_axis: Any  # [..., 3] z axis after half of the turn
    into_half: Any  # [..., 3, 3] derivative of half of the turn
    into_whole: Any  # [..., 3, 3]

    @staticmethod
    def of(state: ModelState, command: jax.Array, extra_rates: Any, dt: float) -> HeldSlope:
        """Of `held_step`; where the residual's acceleration is constant, it does not matter."""
        turn = dt * (command[..., 1:] + extra_rates)
        half, whole = so3.exp(0.5 * turn), so3.exp(turn)
        return HeldSlope(
            thrust=command[..., :1],
            rotation=state.rotation,
            middle=so3.product(state.rotation, half),
            end=so3.product(state.rotation, whole),
            whole=whole,
            half_axis=half[..., 2],
            into_half=0.5 * so3.right_jacobian(0.5 * turn),
            into_whole=so3.right_jacobian(turn),
        )

    def pulled_back(self, end: ModelState, dt: float) -> tuple[ModelState, Any, Any]:
        """Of slopes in the end those in the start, the command, and the residual's acceleration.

        That in the residual's rates is that in the commanded ones.
        """
        # Slopes in the accelerations at start, middle and end.
        a0 = dt / 6.0 * (dt * end.position + end.velocity)
        a1 = dt / 3.0 * (dt * end.position + 2.0 * end.velocity)
        a2 = dt / 6.0 * end.velocity
        thrust = jnp.sum(
            a0 * self.rotation[..., 2] + a1 * self.middle[..., 2] + a2 * self.end[..., 2], axis=-1
        )
        rotation = jnp.concatenate(
            [end.rotation[..., :2], (end.rotation[..., 2] + self.thrust * a2)[..., None]], axis=-1
        )
        turned = 2.0 * so3.vee(so3.product(jnp.swapaxes(self.end, -1, -2), rotation))
        push = self.thrust * a1
        tilt = _times(jnp.swapaxes(self.middle, -1, -2), push)
        half = jnp.stack([-tilt[..., 1], tilt[..., 0], jnp.zeros_like(tilt[..., 0])], axis=-1)
        turn = _times(jnp.swapaxes(self.into_whole, -1, -2), turned)
        turn = turn + _times(jnp.swapaxes(self.into_half, -1, -2), half)
        before = 0.5 * so3.product(self.rotation, so3.hat(_times(self.whole, turned)))
        before = before + push[..., None] * self.half_axis[..., None, :]
        before = before.at[..., 2].add(self.thrust * a0)
        return (
            ModelState(end.position, end.velocity + dt * end.position, before),
            jnp.concatenate([thrust[..., None], dt * turn], axis=-1),
            dt * end.velocity + 0.5 * dt * dt * end.position,
        )


def _times(matrix: Any, vector: Any) -> jax.Array:
    """[..., 3, 3] times [..., 3]."""
    return jnp.sum(matrix * vector[..., None, :], axis=-1)


def _cross(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.cross(a, b)
