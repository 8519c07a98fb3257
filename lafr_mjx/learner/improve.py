"""Learning after a flight, in four stages: calibrate, plan, improve, accelerate. Pure.

Each is a program of its own, so that a user sees which one is at work.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp

from lafr_mjx.learner import rash_bptt, references, verify
from lafr_mjx.learner.ats_verified import Verified
from lafr_mjx.learner.corridor import Corridor
from lafr_mjx.learner.observed import (
    anchors_of,
    noise_seen,
    on_time,
    sensed_peak_errors,
    unexplained,
    velocity_lag_seen,
)
from lafr_mjx.learner.rash_bptt import TrainSettings
from lafr_mjx.learner.reference_fixed import Fixed
from lafr_mjx.learner.references import Known
from lafr_mjx.learner.time_scaling import Evidence, LastFlight, Pace, chosen, proposed
from lafr_mjx.model import data, fit_residual
from lafr_mjx.model.fit_residual import FitSettings
from lafr_mjx.model.residual import Residual, Switches
from lafr_mjx.reference.path import peak_acceleration

if TYPE_CHECKING:
    from lafr_mjx.control.controller import Learnable
    from lafr_mjx.learner.model_rollout import SensorNoise, StressScale
    from lafr_mjx.learner.references import Planned
    from lafr_mjx.model.data import Transitions
    from lafr_mjx.reference.path import Path
    from lafr_mjx.types import Rollout

WINDOW = 3
"""Flights that the residual is fitted to."""


CHANGE_RATIO = 2.5
"""Flown over predicted error beyond which older flights are forgotten."""


class Sizes(NamedTuple):
    """Numbers that set the shape of the program; static."""

    fit_steps: int = 300
    fit_batch: int = 128
    train_steps: int = 100
    train_batch: int = 32
    horizon: int = 30


class LearnerSettings(NamedTuple):
    """Everything that can be varied without a new program."""

    switches: Switches = Switches()
    fit: FitSettings = FitSettings(bootstrap=1.0)
    train: TrainSettings = TrainSettings()
    time_scaling: Any = Verified()  # a `TimeScaling`
    reference: Any = Fixed()  # a `ReferencePlanner`


class TaskRoom(NamedTuple):
    """What a task asks for; the same for all runs of a batch."""

    path: Path
    room: Any  # [K] m, how far from it a vehicle may be, at K equal shares of its lap
    ramp_s: Any
    error_threshold: Any  # m, E_th
    slowest: Any  # α of the longest flight that the learner takes


class LearnerState(NamedTuple):
    """What the learner knows between two flights."""

    policy: Any  # a `Learnable`; flies next
    in_training: Any  # as `policy`; training goes on from here, flown or not yet
    last_good: Any  # as `policy`; flew last without trouble
    ensemble: Residual
    window: Transitions  # [WINDOW, rows, ...]
    path: Path  # reference of the next flight
    pace: Pace  # of the next flight
    scaling: Any  # memory of the rule of time scaling
    velocity_lag: Any  # s, of the sensed velocity
    iteration: Any
    key: Any  # uint32 [2]


class Progress(NamedTuple):
    """What one iteration did."""

    residual_loss: Any
    predicted_error: Any  # m, for the next flight
    bound_by: Any  # index into the rule's outcomes
    new_policy: Any  # bool
    candidates: Any  # [A]
    nominal_errors: Any  # [A]
    stressed_errors: Any  # [A]
    notes: dict[str, Any]  # the rule's own
    plan_refused: Any = 0  # index into `references.REFUSALS`
    velocity_lag: Any = 0.0  # s, of the sensed velocity
    steps_not_taken: Any = 0  # of training: cost or slope were not finite


class Calibrated(NamedTuple):
    """What a flight taught about the vehicle."""

    last: LastFlight
    ensemble: Residual
    window: Transitions
    loss: Any  # of the fit
    noise: SensorNoise  # as seen
    wander: Any  # m/s², acceleration that comes and goes
    scaling: Any  # memory of the rule of time scaling
    fastest: Any  # time scale that the policy is trained for


def calibrate(
    state: LearnerState,
    rollout: Rollout,
    task: TaskRoom,
    settings: LearnerSettings,
    *,
    sizes: Sizes = Sizes(),
) -> Calibrated:
    """Fit the residuals to the last flights, and say how fast the next one might be."""
    error, tracked, departed = sensed_peak_errors(rollout, task.ramp_s, _corridor(state.path, task))
    last = LastFlight(
        pace=state.pace,
        error=error,
        threshold=task.error_threshold,
        peak_acceleration=peak_acceleration(state.path),
        slowest=task.slowest,
        tracked=tracked,
        departed=departed,
        event=jnp.any(rollout.assisted),
    )
    lag = velocity_lag_seen(rollout, state.velocity_lag)
    rows = data.transitions(on_time(rollout, lag))
    window = jax.tree.map(
        lambda old, new: jnp.concatenate([new[None], old[:-1]]), state.window, rows
    )
    # Far more error than predicted: the world has changed, and what was recorded before it did
    # would only mislead.
    changed = last.surprise > CHANGE_RATIO  # False for NaN, that is, before any prediction
    fresh = window.usable & (~changed | (jnp.arange(WINDOW) == 0)[:, None])
    window = window._replace(usable=fresh)
    all_rows = jax.tree.map(lambda leaf: leaf.reshape((-1, *leaf.shape[2:])), window)
    members = state.ensemble.lag.shape[0]
    fit_one = partial(fit_residual.fit, steps=sizes.fit_steps, batch=sizes.fit_batch)
    ensemble, losses = jax.vmap(fit_one, in_axes=(0, None, None, None, 0))(
        state.ensemble, settings.switches, settings.fit, all_rows,
        jax.random.split(_key(state, 0), members),
    )  # fmt: skip
    loss = jnp.mean(losses)
    scaling, fastest = proposed(settings.time_scaling, state.scaling, last)
    # A model that was fitted to a flight explains its gusts, too, by what it happened to fly there.
    unfitted = jax.tree.map(partial(jnp.where, last.first), ensemble, state.ensemble)
    wander = unexplained(unfitted, settings.switches, rows)
    noise = noise_seen(ensemble, settings.switches, all_rows, settings.train.stress.noise)
    noise = noise._replace(velocity_lag=lag)
    return Calibrated(last, ensemble, window, loss, noise, wander, scaling, fastest)


def plan_reference(
    state: LearnerState, calibrated: Calibrated, task: TaskRoom, settings: LearnerSettings
) -> Planned:
    """What is flown next, on the model as it is now."""
    known = Known(
        task=task.path,
        room=task.room,
        flown=state.path,
        last=calibrated.last,
        ensemble=calibrated.ensemble,
        switches=settings.switches,
        limits=state.policy.limits,
    )
    return references.planned(settings.reference, known)


def improve_policy(
    state: LearnerState,
    calibrated: Calibrated,
    rollout: Rollout,
    path: Path,
    ramp_s: Any,
    settings: LearnerSettings,
    *,
    sizes: Sizes = Sizes(),
) -> tuple[Any, jax.Array]:
    """Train the policy for where it will fly: between now and the fastest candidate.

    Returns:
        The policy, and how many steps were not taken: cost or slope were not finite.
    """
    if not jax.tree.leaves(state.policy.trained()):
        return state.policy, jnp.int32(0)  # a classical controller
    fastest = calibrated.fastest
    train = settings.train._replace(
        stress=_stress(calibrated, settings),
        fastest=0.96 * fastest,
        slowest=1.03 * jnp.maximum(state.pace.time_scale, fastest),
        ramp_s=ramp_s,
    )
    policy, costs = rash_bptt.train(
        state.in_training, calibrated.ensemble, settings.switches, path,
        anchors_of(on_time(rollout, calibrated.noise.velocity_lag), state.path, ramp_s), train,
        _key(state, 1),
        steps=sizes.train_steps, batch=sizes.train_batch, horizon=sizes.horizon,
    )  # fmt: skip
    return policy, jnp.sum(~jnp.isfinite(costs))


def accelerate(
    state: LearnerState,
    calibrated: Calibrated,
    trained: tuple[Learnable, Any],
    rollout: Rollout,
    plan: Planned,
    task: TaskRoom,
    settings: LearnerSettings,
) -> tuple[LearnerState, Progress]:
    """Choose the next time scale, and which policy flies it."""
    path, (policy, not_taken) = plan.path, trained
    corridor = _corridor(path, task)

    def predict(
        policy: Learnable, time_scale: jax.Array, stress: Any, reserve: Any = verify.RESERVE
    ) -> verify.Prediction:
        return verify.predict(
            policy, calibrated.ensemble, settings.switches, path, time_scale, task.ramp_s,
            _stress(calibrated, settings).times(stress), _key(state, 2), corridor, reserve,
        )  # fmt: skip

    evidence = Evidence(
        last=calibrated.last,
        rollout=rollout,
        flown=state.policy,
        trained=policy,
        predict=predict,
        path=path,
        ramp_s=task.ramp_s,
        ensemble=calibrated.ensemble,
        switches=settings.switches,
    )
    choice = chosen(settings.time_scaling, calibrated.scaling, calibrated.fastest, evidence)
    fine = jnp.logical_not(calibrated.last.violation)
    take, keep = partial(jnp.where, choice.use_new_policy), partial(jnp.where, choice.keep_training)
    learned = LearnerState(
        policy=jax.tree.map(take, policy, state.policy),
        in_training=jax.tree.map(keep, policy, state.policy),
        last_good=jax.tree.map(partial(jnp.where, fine), state.policy, state.last_good),
        ensemble=calibrated.ensemble,
        window=calibrated.window,
        path=path,
        pace=choice.pace,
        scaling=choice.memory,
        velocity_lag=calibrated.noise.velocity_lag,
        iteration=state.iteration + 1,
        key=state.key,
    )
    progress = Progress(
        residual_loss=calibrated.loss,
        predicted_error=choice.pace.predicted,
        bound_by=choice.bound_by,
        new_policy=choice.use_new_policy,
        candidates=choice.landscape.time_scale,
        nominal_errors=choice.landscape.nominal_error,
        stressed_errors=choice.landscape.stressed_error,
        notes=choice.notes,
        plan_refused=plan.refused,
        velocity_lag=learned.velocity_lag,
        steps_not_taken=not_taken,
    )
    return learned, progress


def _corridor(path: Path, task: TaskRoom) -> Corridor:
    return Corridor.around(path, task.path, task.room, task.error_threshold)


def _stress(calibrated: Calibrated, settings: LearnerSettings) -> StressScale:
    """Noise and gusts are expected as they were seen, in training and in verification."""
    return settings.train.stress._replace(noise=calibrated.noise, wander=calibrated.wander)


def _key(state: LearnerState, stage: int) -> jax.Array:
    """Random numbers of one stage of the present iteration."""
    key = jax.random.fold_in(jax.random.wrap_key_data(state.key), state.iteration)
    return jax.random.split(key, 3)[stage]
