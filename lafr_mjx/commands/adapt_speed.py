"""What an iteration of an adaptation costs, stage by stage, and how long the first one takes."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from lafr_mjx.errors import RunError

STAGES = ("fly", "calibrate", "plan", "improve", "accelerate")


class Measured(NamedTuple):
    """Of one process."""

    compile_s: float  # programs made or loaded, up to the end of the first iteration
    base_policy_s: float
    wall_s: dict[str, float]  # of each stage, in the median
    cpu_s: dict[str, float]
    iteration_s: float
    improve_gflop: float  # of the policy's matrix products
    matmul_s: float  # the same products and nothing else
    peak_memory_gb: float


def measure(asked: dict[str, Any], cache: Path) -> Measured:
    """Fly some iterations in a new process, with programs kept in a folder.

    Args:
        asked: task, engine, rounds, and the sizes of the learning.
        cache: where programs and base policies are kept.
    """
    words = [sys.executable, "-m", "lafr_mjx.commands.adapt_speed", json.dumps(asked)]
    done = subprocess.run(
        words, env=_environment(cache), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RunError(f"measuring an adaptation failed: {done.stderr.strip()[-500:]}")
    return Measured(**json.loads(done.stdout.splitlines()[-1]))


def first_row_s(task: str, engine: str, folder: Path, cache: Path) -> float:
    """Seconds from the command to the first row of its table."""
    words = [sys.executable, "-u", "-m", "lafr_mjx", "adapt", task, "--engine", engine]
    words += ["--iterations", "1", "--out", str(folder)]
    started = time.monotonic()
    with subprocess.Popen(
        words, env=_environment(cache), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.split()[:1] == ["0"]:
                seconds = time.monotonic() - started
                process.stdout.read()
                return seconds
    raise RunError(f"'{' '.join(words[2:])}' ended before its first row")


def _environment(cache: Path) -> dict[str, str]:
    environment = os.environ | {"LAFR_MJX_CACHE": str(cache)}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    return environment


def _here(asked: dict[str, Any]) -> Measured:
    import jax

    from lafr_mjx import compilation_cache
    from lafr_mjx.adaptation.adaptation_job import AdaptationJob
    from lafr_mjx.adaptation.first_policy import first_policy
    from lafr_mjx.adaptation.plants import plants_of
    from lafr_mjx.compile_timer import CompileTimer
    from lafr_mjx.learner import loop
    from lafr_mjx.learner.improve import Sizes
    from lafr_mjx.run_spec import RunSpec

    compilation_cache.enable()
    sizes = Sizes(**asked["sizes"])
    job = AdaptationJob.build(RunSpec(task=asked["task"], engine=asked["engine"]))
    spec, settings = job.spec, job.settings()
    with CompileTimer() as compiling:
        started = time.monotonic()
        policy, _ = first_policy(spec, job.task, job.vehicle.limits)
        base_s = time.monotonic() - started
        state = loop.start(job.task, policy, spec.seed, settings)
        plants = plants_of(spec, job.vehicle, job.task, [job.scenario], [spec.seed])
        run = loop.Adaptation(job.task, plants, [state], [settings], sizes=sizes)
        run.step()
        run.step()  # from here on all leaves are on the device: nothing is compiled any more
    rounds = [_stages(run) for _ in range(asked["rounds"])]
    # The least of several: what else the machine does only ever adds to it.
    products = min(_products_s(policy.network, sizes) for _ in range(3))
    shapes = [leaf.shape for leaf in jax.tree.leaves(policy.network) if leaf.ndim == 2]
    flop = 6 * sum(a * b for a, b in shapes) * sizes.train_steps * sizes.train_batch * sizes.horizon
    wall, cpu = ({name: median(one[name][i] for one in rounds) for name in STAGES} for i in (0, 1))
    return Measured(
        compile_s=compiling.seconds,
        base_policy_s=base_s,
        wall_s=wall,
        cpu_s=cpu,
        iteration_s=median(sum(one[name][0] for name in STAGES) for one in rounds),
        improve_gflop=flop / 1e9,
        matmul_s=products,
        peak_memory_gb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
    )


def _stages(run: Any) -> dict[str, tuple[float, float]]:
    """Wall and CPU seconds of the stages of one iteration."""
    names: list[str] = []
    moments: list[tuple[float, float]] = []

    def tell(name: str) -> None:
        names.append(name)
        moments.append((time.monotonic(), time.process_time()))

    run.step(tell)
    tell("end")
    spent = zip(moments[1:], moments[:-1], strict=True)
    took = [(after[0] - before[0], after[1] - before[1]) for after, before in spent]
    return dict(zip(names, took, strict=False))


def _products_s(network: Any, sizes: Any) -> float:
    """Seconds of the policy's matrix products in training: forward, back, and for the weights."""
    import jax
    import jax.numpy as jnp

    ticks, seconds = sizes.train_steps * sizes.horizon, 0.0
    for weight in (leaf for leaf in jax.tree.leaves(network) if leaf.ndim == 2):

        def tick(carry: tuple, _: None) -> tuple[tuple, None]:
            values, weight = carry
            given = values @ weight
            # Small enough to change nothing, so that no product can be left out.
            return (values + 1e-9 * given @ weight.T, weight + 1e-9 * values.T @ given), None

        run = jax.jit(lambda carry, tick=tick: jax.lax.scan(tick, carry, None, length=ticks)[0])
        carry = (jnp.ones((sizes.train_batch, weight.shape[0])), weight)
        jax.block_until_ready(run(carry))
        started = time.monotonic()
        jax.block_until_ready(run(carry))
        seconds += time.monotonic() - started
    return seconds


if __name__ == "__main__":
    print(json.dumps(_here(json.loads(sys.argv[1]))._asdict()))
