"""The base policy: standard BPTT on the nominal model alone, timid on purpose.

It is kept in the user's cache, by a hash of everything that it was trained with: numbers, and
the text of the program that turns them into a policy.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import sys
import tempfile
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lafr_mjx import compilation_cache, mlp, parts
from lafr_mjx.control import observation
from lafr_mjx.control import policy as control_policy
from lafr_mjx.control.policy import Policy, create_policy
from lafr_mjx.control.policy_file import load_policy, save_policy
from lafr_mjx.errors import InputError
from lafr_mjx.learner import backward, cost_tracking, model_rollout, rash_bptt
from lafr_mjx.learner.cost_tracking import BASE_COST
from lafr_mjx.learner.model_rollout import SensorNoise, StressScale
from lafr_mjx.learner.rash_bptt import TrainSettings
from lafr_mjx.model import hybrid, residual
from lafr_mjx.model.residual import Switches
from lafr_mjx.reference import clock, flatness

if TYPE_CHECKING:
    from lafr_mjx.reference.path import Path
    from lafr_mjx.types import CommandLimits

_PROGRAM = (
    sys.modules[__name__], rash_bptt, backward, model_rollout, cost_tracking, hybrid, residual,
    control_policy, observation, mlp, flatness, clock,
)  # fmt: skip
"""What turns settings into a policy: a change of one of them makes all cached policies void."""


class BaseSizes(NamedTuple):
    """Effort of the base training."""

    steps: int = 300
    batch: int = 64
    horizon: int = 45


class Priors(NamedTuple):
    """What is expected of a vehicle before its first flight; from then on it is measured."""

    noise: SensorNoise = SensorNoise()
    lag: Any = residual.LAG_PRIOR  # [3, COMMANDS]

    @staticmethod
    def scaled(noise: float, lag: float) -> Priors:
        """Times the usual ones."""
        sigmas = (noise * sigma for sigma in SensorNoise())
        return Priors(SensorNoise(*sigmas), residual.lag_prior(lag))


NOMINAL = Switches(acceleration=0.0, rates=0.0, learned_lag=(0.0, 0.0, 0.0))
"""The nominal model: no residual, the expected lag."""


def base_settings(time_scale: float, priors: Priors = Priors()) -> TrainSettings:
    """Settings of the base training around the first time scale."""
    return TrainSettings(
        cost=BASE_COST,
        stress=StressScale(noise=priors.noise),
        learning_rate=2e-3,
        discount=1.0,
        anchored_share=0.0,
        position_spread=0.15,
        velocity_spread=0.4,
        tilt_spread=0.15,
        fastest=0.8 * time_scale,
        slowest=1.2 * time_scale,
    )


def train_base(
    path: Path,
    limits: CommandLimits,
    time_scale: float,
    seed: int,
    sizes: BaseSizes,
    network: str = "mlp",
    priors: Priors = Priors(),
) -> Policy:
    """Train from scratch: seconds on two cores."""
    policy = _leaves(create_policy(np.random.default_rng([seed, 1]), limits, network))
    nothing = _leaves(residual.create(np.random.default_rng([seed, 2])))
    ensemble = jax.tree.map(lambda leaf: leaf[None], nothing)
    trained, _ = rash_bptt.train(
        policy,
        ensemble,
        _leaves(_expected(priors)),
        _leaves(path),
        rash_bptt.no_anchors(),
        _leaves(base_settings(time_scale, priors)),
        jax.random.key(seed),
        steps=sizes.steps,
        batch=sizes.batch,
        horizon=sizes.horizon,
    )
    return trained


def base_policy(
    path: Path,
    limits: CommandLimits,
    time_scale: float,
    seed: int,
    sizes: BaseSizes = BaseSizes(),
    network: str = "mlp",
    priors: Priors = Priors(),
) -> tuple[Policy, bool]:
    """The base policy, from the cache if it is there; also says whether it was."""
    key = _hash(path, limits, time_scale, seed, sizes, network, priors)
    file = compilation_cache.cache_folder() / "base-policies" / f"{key}.npz"
    if (stored := _stored(file)) is not None:
        return stored, True
    policy = train_base(path, limits, time_scale, seed, sizes, network, priors)
    # What another process has trained meanwhile stays, to the last bit: runs begin with the same.
    if (stored := _stored(file)) is not None:
        return stored, False
    _store(file, policy, network)
    return policy, False


def _stored(file: FilePath) -> Policy | None:
    try:
        return _leaves(load_policy(file)) if file.is_file() else None
    except InputError:
        return None  # cut short or of an older version: train again


def _expected(priors: Priors) -> Switches:
    """The nominal model of a vehicle as it is expected."""
    return NOMINAL._replace(fixed_lag=priors.lag)


def _store(file: FilePath, policy: Policy, network: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=file.parent, suffix=".npz")
        os.close(handle)
        save_policy(FilePath(name), policy, network)
        os.replace(name, file)
    except OSError:
        return  # a read-only home: train each time


def _hash(
    path: Path,
    limits: CommandLimits,
    time_scale: float,
    seed: int,
    sizes: BaseSizes,
    network: str,
    priors: Priors,
) -> str:
    digest = hashlib.sha256()
    everything = (path, limits, base_settings(time_scale, priors), _expected(priors))
    for leaf in jax.tree.leaves(everything):
        array = np.asarray(leaf, np.float32)
        digest.update(str(array.shape).encode() + array.tobytes())
    digest.update(repr((seed, tuple(sizes), network)).encode())
    digest.update(parts.digest(parts.class_of(parts.NETWORK, network)[0]).encode())
    for module in _PROGRAM:
        digest.update(inspect.getsource(module).encode())
    return digest.hexdigest()[:24]


def _leaves(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), tree)
