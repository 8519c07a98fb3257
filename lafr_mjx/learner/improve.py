"""One iteration of learning after a flight: calibrate, improve, accelerate. Pure."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp

from lafr_mjx.learner import ats_verified as ats
from lafr_mjx.learner import rash_bptt, verify
from lafr_mjx.learner.ats_verified import AtsSettings, AtsState
from lafr_mjx.learner.rash_bptt import Anchors, TrainSettings
from lafr_mjx.model import data, fit
from lafr_mjx.model import state as states
from lafr_mjx.model.fit import FitSettings
from lafr_mjx.model.residual import COMMANDS, Residual, Switches
from lafr_mjx.types import COMMAND_HOVER

if TYPE_CHECKING:
    from lafr_mjx.control.policy import Policy
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
    fit: FitSettings = FitSettings()
    train: TrainSettings = TrainSettings()
    ats: AtsSettings = AtsSettings()


class LearnerState(NamedTuple):
    """What the learner knows between two flights."""

    policy: Policy  # flies next
    last_good: Policy  # flew last without trouble
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


@partial(jax.jit, static_argnames=("sizes",))
def improve(
    state: LearnerState,
    rollout: Rollout,
    path: Path,
    ramp_s: Any,
    settings: LearnerSettings,
    *,
    sizes: Sizes = Sizes(),
) -> tuple[LearnerState, Progress]:
    """Learn from one flight."""
    key = jax.random.fold_in(jax.random.wrap_key_data(state.key), state.iteration)
    fit_key, train_key, verify_key = jax.random.split(key, 3)
    flown_error = sensed_peak_error(rollout, ramp_s)

    # Calibrate.
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
        jax.random.split(fit_key, members),
    )  # fmt: skip

    # Improve, for where it will fly.
    memory, fastest = ats.propose(state.ats, flown_error, settings.ats)
    train = settings.train._replace(
        fastest=0.96 * fastest, slowest=1.03 * jnp.maximum(state.ats.time_scale, fastest)
    )
    policy, _ = rash_bptt.train(
        state.policy, ensemble, settings.switches, path, anchors_of(rollout, ramp_s), train,
        train_key, steps=sizes.train_steps, batch=sizes.train_batch, horizon=sizes.horizon,
    )  # fmt: skip

    # Accelerate as far as the model vouches for it.
    scales = ats.candidates(memory, fastest, settings.ats)
    both = partial(
        verify.predict, ensemble=ensemble, switches=settings.switches, path=path, ramp_s=ramp_s,
        scale=settings.train.stress, key=verify_key,
    )  # fmt: skip
    new = both(policy, time_scale=scales)
    present = jnp.stack([state.ats.time_scale, 1.15 * state.ats.time_scale])
    new_here = both(policy, time_scale=present)
    old_here = both(state.policy, time_scale=present)
    choice = ats.choose(memory, flown_error, fastest, new, new_here, old_here, settings.ats)

    def pick(a: Any, b: Any) -> Any:
        return jnp.where(choice.use_new_policy, a, b)

    fine = flown_error < settings.ats.error_threshold
    last_good = jax.tree.map(partial(jnp.where, fine), state.policy, state.last_good)
    learned = LearnerState(
        policy=jax.tree.map(pick, policy, state.policy),
        last_good=last_good,
        ensemble=ensemble,
        window=window,
        ats=choice.state,
        iteration=state.iteration + 1,
        key=state.key,
    )
    progress = Progress(
        flown_error=flown_error,
        residual_loss=jnp.mean(losses),
        predicted_error=choice.state.predicted,
        bound_by=choice.bound_by,
        inflation=memory.inflation,
        trust=memory.trust,
        new_policy=choice.use_new_policy,
        candidates=scales,
        nominal_errors=new.nominal_error,
        stressed_errors=new.stressed_error,
    )
    return learned, progress
