"""Whether a policy of one's own can fly: in the control process, at 50 Hz, without JAX.

    python -m lafr_mjx.hil.control.flyable --policy TEXT --profile FILE

Asked in a process of its own before anything is started, for the operator's may have JAX; and in
the control process itself before it takes part.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lafr_mjx.control.observation import SIZE
from lafr_mjx.control.policy import Policy, act, create_policy
from lafr_mjx.control.policy_file import load_policy
from lafr_mjx.errors import InputError
from lafr_mjx.hil.timing.priority import ONE_THREAD
from lafr_mjx.types import CONTROL_DT

if TYPE_CHECKING:
    from lafr_mjx.hil.safety.drone_profile import Profile
    from lafr_mjx.types import CommandLimits

MOST_S = 0.005
"""For one evaluation: a quarter of a period. Senses, references and sending need the rest."""

_CALLS = 41  # whose median counts: a machine that is late once says nothing about the policy
_AT_ONCE = 3  # observations, as a policy is tried on the last flight
_PATIENCE_S = 120.0


def check_flyable(policy: str, limits: CommandLimits) -> None:
    """Refuse a policy that cannot fly, judged in this process.

    Args:
        policy: as for `--policy`: a network, which is made untrained, or a policy.npz.
        limits: of its commands.

    Raises:
        InputError: names the policy and what is wrong with it.
    """
    if policy.endswith(".npz"):
        made = load_policy(Path(policy))
    else:
        made = create_policy(np.random.default_rng(0), limits, policy)
    _evaluate(policy, made)
    seconds = _median_s(made)
    # Asked at last: it may be imported at the first call only.
    if found := [name for name in ("jax", "jaxlib") if name in sys.modules]:
        raise InputError(
            f"--policy {policy}: it imports {found[0]}, which the control process of a drone must "
            f"not have; write it with NumPy or lafr_mjx.arrays.namespace, and import JAX nowhere "
            f"in its file"
        )
    if not seconds <= MOST_S:
        raise InputError(
            f"--policy {policy}: one evaluation takes {1e3 * seconds:.1f} ms; at most "
            f"{1e3 * MOST_S:g} ms of the {1e3 * CONTROL_DT:g} ms of a control period are its share"
        )


def check_apart(policy: str, profile: Profile) -> None:
    """The same in a process like the control process.

    Raises:
        InputError: names the policy and what is wrong with it.
    """
    command = [
        "-m",
        "lafr_mjx.hil.control.flyable",
        "--policy",
        policy,
        "--profile",
        str(profile.path),
    ]
    try:
        done = subprocess.run(
            [sys.executable, *command], capture_output=True, text=True, env=os.environ | ONE_THREAD,
            stdin=subprocess.DEVNULL, timeout=_PATIENCE_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise InputError(
            f"--policy {policy}: it cannot be evaluated within {_PATIENCE_S:g} s"
        ) from error
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        last = lines[-1] if lines else f"its process ended with status {done.returncode}"
        raise InputError(last if last.startswith("--policy") else f"--policy {policy}: {last}")


def _evaluate(policy: str, made: Policy) -> None:
    """As it is done in flight: one observation, and several at once before a leg is taken."""
    for shape in ((SIZE,), (_AT_ONCE, SIZE)):
        try:
            command = np.asarray(act(made, np.zeros(shape)))
        except Exception as error:  # whatever the user's code does
            raise InputError(
                f"--policy {policy}: it cannot be evaluated for observations {shape}: {error}"
            ) from error
        if command.shape != (*shape[:-1], 4) or not np.isfinite(command).all():
            raise InputError(
                f"--policy {policy}: for observations {shape} it gives commands {command.shape}; "
                f"they must be {(*shape[:-1], 4)}, and finite"
            )


def _median_s(made: Policy) -> float:
    seen, took = np.zeros(SIZE), []
    for _ in range(_CALLS):
        began = time.perf_counter()
        act(made, seen)
        took.append(time.perf_counter() - began)
    return float(np.median(took))


def main() -> None:
    """Entry of the process."""
    from lafr_mjx.hil.safety.drone_profile import load_profile

    parser = argparse.ArgumentParser()
    for name in ("--policy", "--profile"):
        parser.add_argument(name, required=True)
    given = parser.parse_args()
    try:
        check_flyable(given.policy, load_profile(given.profile).command.limits)
    except InputError as error:
        print(str(error).replace("\n", " "), file=sys.stderr)
        raise SystemExit(1) from error


if __name__ == "__main__":
    main()
