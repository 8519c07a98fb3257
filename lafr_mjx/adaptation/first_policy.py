"""What flies first: a base policy, a policy of another run, or the classical controller."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from lafr_mjx.control.geometric import geometric_controller
from lafr_mjx.control.policy_file import load_policy, stored_network
from lafr_mjx.errors import InputError
from lafr_mjx.learner import pretrain

if TYPE_CHECKING:
    from lafr_mjx.control.policy import Policy
    from lafr_mjx.run_spec import RunSpec
    from lafr_mjx.tasks import Task
    from lafr_mjx.types import CommandLimits


def first_policy(spec: RunSpec, task: Task, limits: CommandLimits) -> tuple[Any, str]:
    """What flies first, and a sentence that says where it comes from."""
    if spec.method == "geometric":
        words = "The classical controller flies as it is; only the model is learned."
        return geometric_controller(limits), words
    if spec.policy.endswith(".npz"):
        return stored_policy(spec.policy, limits), f"Policy: from {spec.policy}."
    started = time.monotonic()
    policy, cached = pretrain.base_policy(
        task.path, limits, task.start_time_scale, spec.seed, network=spec.policy,
        priors=pretrain.Priors.scaled(spec.noise_prior, spec.lag_prior),
    )  # fmt: skip
    jax.block_until_ready(policy)
    seconds = time.monotonic() - started
    where = "from the cache" if cached else f"trained in {seconds:.0f} s"
    return policy, f"Base policy: {where}."


def stored_policy(file: str, limits: CommandLimits) -> Policy:
    """The policy of another run, for a vehicle with the same limits."""
    policy = load_policy(Path(file))
    for side, wanted in zip(policy.limits, limits, strict=True):
        if not np.allclose(side, wanted):
            raise InputError(
                f"--policy {file}: has the limits {np.asarray(side).tolist()}, the vehicle "
                f"{np.asarray(wanted).tolist()}: they must be the same"
            )
    return policy


def network_of(policy: str) -> str:
    """The network of what `--policy` names."""
    return stored_network(Path(policy)) if policy.endswith(".npz") else policy
