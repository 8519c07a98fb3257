"""What a flight shows as it was sensed: errors, starts of training flights, noise and gusts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from lafr_mjx import so3
from lafr_mjx.control.departure import WINDOWS, departure, window
from lafr_mjx.learner.model_rollout import SensorNoise
from lafr_mjx.learner.rash_bptt import Anchors
from lafr_mjx.model import fit_residual
from lafr_mjx.model import state as states
from lafr_mjx.model.residual import COMMANDS
from lafr_mjx.model.state import ModelState
from lafr_mjx.reference.flatness import reference_state
from lafr_mjx.types import CONTROL_DT

if TYPE_CHECKING:
    from lafr_mjx.learner.corridor import Corridor
    from lafr_mjx.model.data import Transitions
    from lafr_mjx.model.residual import Residual, Switches
    from lafr_mjx.reference.path import Path
    from lafr_mjx.types import Rollout

LEAST_NOISE, MOST_NOISE = 0.1, 4.0
"""Sensor noise that is believed in, times the prior."""


MOST_VELOCITY_LAG_S = 0.06
LAG_PRIOR_WEIGHT = 1200.0
"""m²/s⁴, of what is known of the velocity's lag: as much as a flight with 1 m/s² tells."""

MOST_WANDER = 0.5
"""Unexplained acceleration [m/s²] that is expected at most."""


def sensed_peak_errors(rollout: Rollout, ramp_s: Any, corridor: Corridor) -> list[jax.Array]:
    """Peak errors of a flight: as they are judged, from the reference after the ramp, by windows.

    Of what was sensed, at the samples' own stamps. Those by windows are departures until then
    [WINDOWS], as they count for the guard.
    """
    late = rollout.time - rollout.stamp
    reference = rollout.reference.position - rollout.reference.velocity * late[:, None]
    beside = corridor.at(jnp.asarray(rollout.phase - rollout.phase_rate * late))
    position = jnp.asarray(rollout.sensed.position)
    judged = corridor.judged(position, reference, beside)
    tracked = jnp.linalg.norm(position - reference, axis=-1)
    flying = rollout.valid & ~rollout.crashed
    velocity = rollout.reference.velocity - rollout.reference.acceleration * late[:, None]
    gone = departure(position - reference, rollout.sensed.velocity - velocity)
    by_then = flying[:, None] & (window(rollout.time)[:, None] <= jnp.arange(WINDOWS))
    crashed = jnp.any(rollout.crashed & rollout.valid)
    peaks = (
        jnp.max(judged, where=flying, initial=0),
        jnp.max(tracked, where=flying & (rollout.time >= ramp_s), initial=0),
        jnp.max(gone[:, None], where=by_then, initial=0, axis=0),
    )
    return [jnp.where(crashed, 2.0, peak) for peak in peaks]


def anchors_of(rollout: Rollout, path: Path, ramp_s: Any) -> Anchors:
    """How far from its reference the drone was in a flight, and the commands under way.

    Not where the guard helped: the policy is not trained for another's states, or a slower clock's.
    """
    late = rollout.time - rollout.stamp
    rate = jnp.asarray(rollout.phase_rate)
    acceleration = jnp.diff(rate, prepend=rate[:1]) / CONTROL_DT  # looks back, not beyond the end
    phase = jnp.asarray(rollout.phase) - rate * late
    asked = reference_state(path, phase, rate - acceleration * late, acceleration)
    # Of the commands, too, only what differs from the reference's own.
    own = jnp.concatenate([rollout.reference.thrust[:, None], rollout.reference.rates], axis=-1)
    extra = jnp.asarray(rollout.command) - own
    before = jnp.concatenate([jnp.zeros((COMMANDS + 1, 4)), extra[:-1]])
    ticks = extra.shape[0]
    columns = [before[COMMANDS - j : COMMANDS - j + ticks] for j in range(COMMANDS + 1)]
    sensed, good = states.of(rollout.sensed), rollout.valid & ~rollout.crashed
    return Anchors(
        offset=ModelState(
            sensed.position - asked.position,
            sensed.velocity - asked.velocity,
            jnp.swapaxes(asked.rotation, -1, -2) @ sensed.rotation,
        ),
        commands=jnp.stack(columns, axis=1),
        phase=phase,
        usable=good & ~rollout.assisted & (rollout.time >= 0.5 * ramp_s),
    )


def noise_seen(
    ensemble: Residual, switches: Switches, rows: Transitions, prior: SensorNoise
) -> SensorNoise:
    """Sensor noise that would explain the one-step errors of the fitted model, each kind alone.

    With a perfect model an error is the difference of two samples' noise; that of the position has
    dt times the velocity's in it. An imperfect model counts as noise, too: what it cannot explain
    is as unpredictable for the policy. The prior is for flights without usable rows, and bounds
    what is believed.
    """
    count = jnp.sum(rows.usable)

    def variance(errors: jax.Array) -> jax.Array:
        total = jnp.sum(jnp.where(rows.usable[:, None], errors**2, 0.0))
        return total / (2.0 * 3.0 * jnp.maximum(count, 1.0))

    def believed(variance: jax.Array, expected: Any) -> jax.Array:
        sigma = jnp.where(count > 0, jnp.sqrt(jnp.maximum(variance, 0.0)), expected)
        return jnp.clip(sigma, LEAST_NOISE * expected, MOST_NOISE * expected)

    position, velocity, attitude = map(variance, _one_step_errors(ensemble, switches, rows))
    position = position - 0.5 * CONTROL_DT**2 * velocity
    found = map(believed, (position, velocity, attitude), prior)
    return SensorNoise(*found, velocity_lag=prior.velocity_lag)


def velocity_lag_seen(rollout: Rollout, before: Any) -> jax.Array:
    """By how much the sensed velocity is late [s]: v_sensed = v - lag a, in least squares.

    v is the slope of the sensed positions. What was known before counts as a prior.
    """
    stamp, velocity = jnp.asarray(rollout.stamp), jnp.asarray(rollout.sensed.velocity)
    step = jnp.diff(stamp)
    regular = jnp.abs(step - CONTROL_DT) < 0.05 * CONTROL_DT
    good = jnp.asarray(rollout.valid & ~rollout.crashed)
    good = good[:-2] & good[1:-1] & good[2:] & regular[:-1] & regular[1:]

    def slope(of: Any) -> jax.Array:
        return (jnp.asarray(of)[2:] - jnp.asarray(of)[:-2]) / (2.0 * CONTROL_DT)

    ahead, acceleration = slope(rollout.sensed.position) - velocity[1:-1], slope(velocity)
    both, alone = (
        jnp.sum(jnp.where(good[:, None], x * acceleration, 0.0)) for x in (ahead, acceleration)
    )
    lag = (both + LAG_PRIOR_WEIGHT * before) / (alone + LAG_PRIOR_WEIGHT)
    return jnp.clip(jnp.where(jnp.isfinite(lag), lag, before), 0.0, MOST_VELOCITY_LAG_S)


def on_time(rollout: Rollout, lag: Any) -> Rollout:
    """The flight as if its velocity had not been late."""
    velocity = jnp.asarray(rollout.sensed.velocity)
    ticks = jnp.arange(velocity.shape[0])
    later = jax.vmap(lambda v: jnp.interp(ticks + lag / CONTROL_DT, ticks, v), 1, 1)(velocity)
    flying = jnp.asarray(rollout.valid & ~rollout.crashed)
    # Where the flight ends nothing is known of later.
    last = jnp.max(jnp.where(flying, ticks, 0))
    known = (ticks + jnp.ceil(lag / CONTROL_DT) <= last)[:, None]
    return rollout._replace(
        sensed=rollout.sensed._replace(velocity=jnp.where(known, later, velocity))
    )


def unexplained(ensemble: Residual, switches: Switches, rows: Transitions) -> jax.Array:
    """Acceleration [m/s², one axis] that comes and goes and that a model does not know.

    Gusts, for one. In means over half a second: sensor noise cancels within them, but for that
    of their ends. Root of the mean square over the stretches of one flight; a model that knows
    next to nothing is not told to expect more than vehicles are stressed by.
    """
    errors = _one_step_errors(ensemble, switches, rows)[1] / CONTROL_DT
    size = fit_residual.BLOCK
    count = rows.usable.shape[0] // size
    whole = jnp.all(rows.usable[: count * size].reshape((count, size)), axis=1)
    means = jnp.mean(errors[: count * size].reshape((count, size, 3)), axis=1)
    total = jnp.sum(jnp.where(whole[:, None], means**2, 0.0))
    return jnp.minimum(jnp.sqrt(total / jnp.maximum(3.0 * jnp.sum(whole), 1.0)), MOST_WANDER)


def _one_step_errors(
    ensemble: Residual, switches: Switches, rows: Transitions
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """[N, 3] of position, velocity and attitude; means over the ensemble."""

    def error(member: Residual) -> tuple[jax.Array, jax.Array, jax.Array]:
        model = fit_residual.one_step(member, switches, rows.now, rows.commands)
        relative = jnp.swapaxes(model.rotation, -1, -2) @ rows.after.rotation
        return (
            jnp.asarray(rows.after.position - model.position),
            jnp.asarray(rows.after.velocity - model.velocity),
            jnp.asarray(so3.log(relative)),
        )

    return jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0), jax.vmap(error)(ensemble))
