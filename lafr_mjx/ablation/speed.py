"""What a batch of adaptations costs: each size in a process of its own, and single runs beside it.

A new process shows the whole compilation and the peak memory of this size alone.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from typing import Any, NamedTuple

from lafr_mjx.errors import RunError

FLIGHTS = 12
"""Flights of an adaptation, for the seconds per adaptation."""

_SEED = 100
_TASK, _SCENARIO, _METHOD = "figure8", "randomised", "ours"


class Measured(NamedTuple):
    """Cost of one size."""

    compile_s: float
    adaptation_s: float  # per run, 12 flights with their learning, without compiling
    peak_memory_gb: float
    devices: int
    size: int  # runs in the program: the batch, or one chunk of it


def measure(
    batch: int, engine: str, devices: int | None, rounds: int, chunk: int | None
) -> Measured:
    """Measure a batch in a new process; 0 is a single run as `lafr-mjx adapt` makes it."""
    words = [str(x) for x in (batch, engine, devices or 0, rounds, chunk or 0)]
    done = subprocess.run(
        [sys.executable, "-m", "lafr_mjx.ablation.speed", *words],
        env=os.environ | {"JAX_ENABLE_COMPILATION_CACHE": "false"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise RunError(f"measuring a batch of {batch} failed: {done.stderr.strip()[-500:]}")
    return Measured(**json.loads(done.stdout.splitlines()[-1]))


def _here(batch: int, engine: Any, devices: int, rounds: int, chunk: int) -> Measured:
    from lafr_mjx.runner.devices import use_all_cores, usual_size

    if batch:
        use_all_cores(devices or None)
    import jax

    from lafr_mjx.ablation.chunk import Member, batch_of
    from lafr_mjx.ablation.plan import Asked, Block, Plan
    from lafr_mjx.ablation.work import base_policies
    from lafr_mjx.compile_timer import CompileTimer
    from lafr_mjx.learner import methods
    from lafr_mjx.run_spec import RunSpec

    block = Block(_TASK, (_SCENARIO,), (_METHOD,))
    plan = Plan.of(
        Asked((block,), seeds=(_SEED,), plants=max(batch, 1), common=RunSpec(engine=engine))
    )
    policy = base_policies(plan, plan.runs)[_TASK][_SEED]
    task, settings = plan.tasks[_TASK], methods.settings_of(_METHOD)
    count = min(devices or len(jax.devices()), len(jax.devices()), max(batch, 1))
    size = min(chunk or usual_size(batch, count), batch) if batch else 1

    members = [Member(plan.scenario(r), settings, policy, r.spec.seed) for r in plan.runs]
    batches = [
        batch_of(
            plan.vehicle, task, plan.asked.common, members[i : i + size],
            sizes=plan.asked.sizes, size=size, devices=count if batch else 1,
        )
        for i in range(0, len(members), size)
    ]  # fmt: skip

    def step() -> None:
        for part in batches:
            part.step()

    with CompileTimer() as compiling:
        step()
    seconds = []
    for _ in range(rounds):
        started = time.monotonic()
        step()
        seconds.append(time.monotonic() - started)
    median = sorted(seconds)[len(seconds) // 2]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return Measured(compiling.seconds, FLIGHTS * median / max(batch, 1), peak, count, size)


if __name__ == "__main__":
    _batch, _engine, *_rest = sys.argv[1:]
    print(json.dumps(_here(int(_batch), _engine, *map(int, _rest))._asdict()))
