"""One iteration of learning after a flight: calibrate, improve, accelerate. Pure.

Each of the three is a program of its own, so that a user sees which one is at work.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp

from lafr_mjx.control.policy import Policy
from lafr_mjx.learner import ats_paper, believed, rash_bptt, verify
from lafr_mjx.learner import ats_verified as ats
from lafr_mjx.learner.ats_paper import PaperSettings
from lafr_mjx.learner.ats_verified import AtsSettings, AtsState
from lafr_mjx.learner.rash_bptt import Anchors, TrainSettings
from lafr_mjx.model import data, fit
from lafr_mjx.model import state as states
from lafr_mjx.model.fit import FitSettings
from lafr_mjx.model.residual import COMMANDS, Residual, Switches
from lafr_mjx.types import COMMAND_HOVER, CONTROL_DT

if TYPE_CHECKING:
    from collections.abc import Callable

    from lafr_mjx.learner.believed import StressScale
    from lafr_mjx.model.data import Transitions
    from lafr_mjx.reference.path import Path
    from lafr_mjx.types import Rollout

TimeScaling = Literal["verified", "paper", "hold"]
"""How the time scale is chosen: by verified flights in the model, as printed, or not at all."""

WINDOW = 3
"""Flights that the residual is fitted to."""


CHANGE_RATIO = 2.5
"""Flown over predicted error beyond which older flights are forgotten."""


_LOST = 1.0
"""Predicted error [m] at the present time scale beyond which a policy is not trained further."""


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
    fit: FitSettings = FitSettings()
    train: TrainSettings = TrainSettings()
    ats: AtsSettings = AtsSettings()
    paper: PaperSettings = PaperSettings()


class LearnerState(NamedTuple):
    """What the learner knows between two flights."""

    policy: Any  # Policy, or a classical controller; flies next
    in_training: Any  # as `policy`; training goes on from here, flown or not yet
    last_good: Any  # as `policy`; flew last without trouble
    ensemble: Residual
    window: Transitions  # [WINDOW, rows, ...]
    ats: AtsState
    iteration: Any
    key: Any  # uint32 [2]


class Progress(NamedTuple):
    """What one iteration did."""

    flown_error: Any  # m, sensed peak error of the flight
    residual_loss: Any
    predicted_error: Any  # m, for the next flight
    bound_by: Any
    inflation: Any
    trust: Any
    new_policy: Any  # bool
    candidates: Any  # [A]
    nominal_errors: Any  # [A]
    stressed_errors: Any  # [A]


def sensed_peak_error(rollout: Rollout, ramp_s: Any) -> jax.Array:
    """Peak of ‖p - p_ref‖ after the ramp, from what was sensed, at the samples' own stamps."""
    late = rollout.time - rollout.stamp
    reference = rollout.reference.position - rollout.reference.velocity * late[:, None]
    error = jnp.linalg.norm(rollout.sensed.position - reference, axis=-1)
    counted = rollout.valid & ~rollout.crashed & (rollout.time >= ramp_s)
    peak = jnp.max(jnp.where(counted, error, 0.0))
    return jnp.where(jnp.any(rollout.crashed & rollout.valid), 2.0, peak)


def anchors_of(rollout: Rollout, ramp_s: Any) -> Anchors:
    """Where the drone was in a flight, with the commands that were under way."""
    commands = jnp.asarray(rollout.command)
    before = jnp.concatenate([jnp.tile(COMMAND_HOVER, (COMMANDS + 1, 1)), commands[:-1]])
    ticks = commands.shape[0]
    columns = [before[COMMANDS - j : COMMANDS - j + ticks] for j in range(COMMANDS + 1)]
    late = rollout.time - rollout.stamp
    good = rollout.valid & ~rollout.crashed & (rollout.time >= 0.5 * ramp_s)
    return Anchors(
        state=states.of(rollout.sensed),
        commands=jnp.stack(columns, axis=1),
        phase=jnp.asarray(rollout.phase - rollout.phase_rate * late),
        usable=good,
    )


def noise_seen(loss: Any) -> jax.Array:
    """Sensor noise, times the expected one, that would explain a one-step loss.

    With a perfect model the loss is the variance of the difference of two samples over dt²;
    the velocity's noise is nearly all of it. An imperfect model counts as noise, too: what it
    cannot explain is as unpredictable for the policy.
    """
    perfect = 2.0 * 3.0 * sum(sigma**2 for sigma in believed.SENSOR_NOISE) / CONTROL_DT**2
    return jnp.clip(jnp.sqrt(loss / perfect), 0.5, 4.0)


class Calibrated(NamedTuple):
    """What a flight taught about the vehicle."""

    flown_error: Any  # m, sensed peak error
    ensemble: Residual
    window: Transitions
    loss: Any  # of the fit
    noise: Any  # times the expected sensor noise


@partial(jax.jit, static_argnames=("sizes",))
def calibrate(
    state: LearnerState,
    rollout: Rollout,
    ramp_s: Any,
    settings: LearnerSettings,
    *,
    sizes: Sizes = Sizes(),
) -> Calibrated:
    """Fit the residuals to the last flights."""
    flown_error = sensed_peak_error(rollout, ramp_s)
    rows = data.transitions(rollout)
    window = jax.tree.map(
        lambda old, new: jnp.concatenate([new[None], old[:-1]]), state.window, rows
    )
    # Far more error than predicted: the world has changed, and what was recorded before it did
    # would only mislead.
    surprise = (flown_error + 0.02) / (state.ats.predicted + 0.02)
    changed = surprise > CHANGE_RATIO  # False for NaN, that is, before any prediction
    fresh = window.usable & (~changed | (jnp.arange(WINDOW) == 0)[:, None])
    window = window._replace(usable=fresh)
    all_rows = jax.tree.map(lambda leaf: leaf.reshape((-1, *leaf.shape[2:])), window)
    members = state.ensemble.lag.shape[0]
    fit_one = partial(fit.fit, steps=sizes.fit_steps, batch=sizes.fit_batch)
    ensemble, losses = jax.vmap(fit_one, in_axes=(0, None, None, None, 0))(
        state.ensemble, settings.switches, settings.fit, all_rows,
        jax.random.split(_key(state, 0), members),
    )  # fmt: skip
    loss = jnp.mean(losses)
    return Calibrated(flown_error, ensemble, window, loss, noise_seen(loss))


@partial(jax.jit, static_argnames=("sizes",))
def improve_policy(
    state: LearnerState,
    calibrated: Calibrated,
    rollout: Rollout,
    path: Path,
    ramp_s: Any,
    settings: LearnerSettings,
    fastest: Any,
    *,
    sizes: Sizes = Sizes(),
) -> Policy:
    """Train the policy for where it will fly: between now and the fastest candidate."""
    train = settings.train._replace(
        stress=_stress(calibrated, settings),
        fastest=0.96 * fastest,
        slowest=1.03 * jnp.maximum(state.ats.time_scale, fastest),
    )
    policy, _ = rash_bptt.train(
        state.in_training, calibrated.ensemble, settings.switches, path,
        anchors_of(rollout, ramp_s), train, _key(state, 1),
        steps=sizes.train_steps, batch=sizes.train_batch, horizon=sizes.horizon,
    )  # fmt: skip
    return policy


@jax.jit
def accelerate(
    state: LearnerState,
    calibrated: Calibrated,
    policy: Policy,
    path: Path,
    ramp_s: Any,
    settings: LearnerSettings,
    memory: AtsState,
    fastest: Any,
) -> tuple[LearnerState, Progress]:
    """Go as fast as the model vouches for, with the new policy or the present one."""
    scales = ats.candidates(memory, fastest, settings.ats)
    both = partial(
        verify.predict, ensemble=calibrated.ensemble, switches=settings.switches, path=path,
        ramp_s=ramp_s, scale=_stress(calibrated, settings).times(ats.doubt(memory)),
        key=_key(state, 2),
    )  # fmt: skip
    new = both(policy, time_scale=scales)
    present = ats.here(memory, calibrated.flown_error, settings.ats)
    new_here = both(policy, time_scale=present)
    old_here = both(state.policy, time_scale=present)
    choice = ats.choose(
        memory, calibrated.flown_error, fastest, new, new_here, old_here, settings.ats
    )
    # A policy that is not ready to fly is trained further next time, unless it lost its way.
    sane = new_here.nominal_error[0] < _LOST
    return _learned(state, calibrated, policy, sane, settings, memory, choice, new)


@partial(jax.jit, static_argnames=("rule",))
def accelerate_unverified(
    state: LearnerState,
    calibrated: Calibrated,
    policy: Policy,
    rollout: Rollout,
    path: Path,
    ramp_s: Any,
    settings: LearnerSettings,
    memory: AtsState,
    *,
    rule: str,
) -> tuple[LearnerState, Progress]:
    """Take the new policy as it is, and the time scale by the printed rule, or the same again.

    What the model predicts is written down, but asked for nothing.
    """
    present = state.ats.time_scale
    if rule == "paper":
        flown = ats_paper.windows(rollout, ramp_s=ramp_s)
        potential = jax.vmap(
            lambda member: ats_paper.potential_gradient(
                state.policy, member, settings.switches, path, flown, present, settings.paper
            )
        )(calibrated.ensemble)
        slope = jnp.mean(potential.gradient)
        following = ats_paper.update(present, slope, settings.paper)
        bound = jnp.where(slope > 0.0, ats.SPEED, ats.BARRIER)
    else:
        following, bound = present, jnp.int32(ats.HELD)
    share = jnp.linspace(-1.0, 1.0, ats.CANDIDATES)
    around = following * (1.0 + memory.trust) ** share
    both = partial(
        verify.predict, ensemble=calibrated.ensemble, switches=settings.switches, path=path,
        ramp_s=ramp_s, scale=_stress(calibrated, settings), key=_key(state, 2),
    )  # fmt: skip
    landscape = both(policy, time_scale=around)
    here = both(policy, time_scale=following[None])
    choice = ats.Choice(
        memory._replace(
            time_scale=following,
            predicted=here.nominal_error[0],
            expected=here.flight_error[0],
        ),
        jnp.bool_(True),
        bound,
    )
    sane = jnp.bool_(True)
    return _learned(state, calibrated, policy, sane, settings, memory, choice, landscape)


def _learned(
    state: LearnerState,
    calibrated: Calibrated,
    policy: Policy,
    sane: Any,
    settings: LearnerSettings,
    memory: AtsState,
    choice: ats.Choice,
    landscape: verify.Prediction,
) -> tuple[LearnerState, Progress]:
    """What the learner knows after a choice, and what is told of it."""

    def pick(a: Any, b: Any) -> Any:
        return jnp.where(choice.use_new_policy, a, b)

    fine = calibrated.flown_error < settings.ats.error_threshold
    last_good = jax.tree.map(partial(jnp.where, fine), state.policy, state.last_good)
    learned = LearnerState(
        policy=jax.tree.map(pick, policy, state.policy),
        in_training=jax.tree.map(partial(jnp.where, sane), policy, state.policy),
        last_good=last_good,
        ensemble=calibrated.ensemble,
        window=calibrated.window,
        ats=choice.state,
        iteration=state.iteration + 1,
        key=state.key,
    )
    progress = Progress(
        flown_error=calibrated.flown_error,
        residual_loss=calibrated.loss,
        predicted_error=choice.state.predicted,
        bound_by=choice.bound_by,
        inflation=memory.inflation,
        trust=memory.trust,
        new_policy=choice.use_new_policy,
        candidates=landscape.time_scale,
        nominal_errors=landscape.nominal_error,
        stressed_errors=landscape.stressed_error,
    )
    return learned, progress


def improve(
    state: LearnerState,
    rollout: Rollout,
    path: Path,
    ramp_s: Any,
    settings: LearnerSettings,
    *,
    rule: TimeScaling = "verified",
    sizes: Sizes = Sizes(),
    stage: Callable[[str], None] = lambda name: None,
) -> tuple[LearnerState, Progress]:
    """Learn from one flight; `stage` is told what begins."""
    stage("calibrate")
    calibrated = calibrate(state, rollout, ramp_s, settings, sizes=sizes)
    if rule not in get_args(TimeScaling):
        raise ValueError(f"rule {rule!r}: must be one of {', '.join(get_args(TimeScaling))}")
    memory, fastest = ats.propose(state.ats, calibrated.flown_error, settings.ats)
    if rule == "hold":
        fastest = state.ats.time_scale
    jax.block_until_ready(calibrated)  # so that the stage that is told is the one at work
    stage("improve")
    policy = state.policy
    if isinstance(policy, Policy):  # a classical controller has nothing to train
        policy = improve_policy(
            state, calibrated, rollout, path, ramp_s, settings, fastest, sizes=sizes
        )
    jax.block_until_ready(policy)
    stage("accelerate")
    if rule != "verified":
        return accelerate_unverified(
            state, calibrated, policy, rollout, path, ramp_s, settings, memory, rule=rule
        )
    return accelerate(state, calibrated, policy, path, ramp_s, settings, memory, fastest)


def _stress(calibrated: Calibrated, settings: LearnerSettings) -> StressScale:
    """Noise and gusts are expected as they were seen, in training and in verification."""
    scale = settings.train.stress
    return scale._replace(noise=scale.noise * calibrated.noise)


def _key(state: LearnerState, stage: int) -> jax.Array:
    """Random numbers of one stage of the present iteration."""
    key = jax.random.fold_in(jax.random.wrap_key_data(state.key), state.iteration)
    return jax.random.split(key, 3)[stage]
