"""How fast the plant is: measured in rounds, side by side with its yardsticks."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from functools import partial
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from rich.progress import Progress

from lafr_mjx import compilation_cache
from lafr_mjx.errors import RunError
from lafr_mjx.plant import simulation
from lafr_mjx.plant.engine import DEFAULT_TIMESTEP, EngineName, build_engine
from lafr_mjx.plant.scenario import Settings
from lafr_mjx.plant.scenario_params import params_for
from lafr_mjx.plant.vehicle import load_vehicle
from lafr_mjx.tasks import load_task
from lafr_mjx.types import CONTROL_DT

if TYPE_CHECKING:
    from collections.abc import Callable

    from lafr_mjx.plant.params import PlantParams
    from lafr_mjx.plant.simulation import PlantState

_CRAZYFLOW_BATCH = 1024

EVERYTHING = Settings(
    mass_scale=1.1,
    payload_kg=0.02,
    payload_position_m=(0.01, 0.005, -0.01),
    rotor_scale=(0.95, 1.0, 0.9, 1.0),
    gyro_noise_radps=0.02,
    gyro_delay_ms=1.0,
    drag_scale=1.0,
    command_delay_ms=23.0,
    command_jitter_ms=3.0,
    command_loss=0.01,
    sensing_delay_ms=10.0,
    sensing_jitter_ms=2.0,
    sensing_loss=0.01,
    position_noise_m=0.001,
    velocity_noise_mps=0.02,
    attitude_noise_rad=0.002,
    rates_noise_radps=0.01,
    wind_mps=(4.0, 3.0, 0.0),
    gust_mps=0.5,
    fan_scale=1.0,
    battery_strength=1.0,
    radio_steps=1600.0,
)
"""Settings under which no plugin is idle."""


class Speed:
    """Rates of each round, by name."""

    def __init__(self, rounds: list[dict[str, float]]) -> None:
        self.rounds = rounds
        self.crazyflow_batch = _CRAZYFLOW_BATCH
        self.peak_memory_gb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6

    def has(self, name: str) -> bool:
        """Whether it was measured."""
        return name in self.rounds[0]

    def median(self, name: str) -> float:
        """Median rate [1/s]."""
        return float(np.median([r[name] for r in self.rounds]))

    def ratio(self, name: str, yardstick: str) -> float | None:
        """Median of the ratios of each round; None if one of the two was not measured."""
        if not self.has(name) or not self.has(yardstick):
            return None
        return float(np.median([r[name] / r[yardstick] for r in self.rounds]))


def all_plugins_on() -> PlantParams:
    """Parameters of the 192 g vehicle with every plugin at work."""
    return params_for(load_vehicle("lafr192"), EVERYTHING, load_task("inspection").fans)


def build_step(
    engine_name: EngineName, batch: int, ticks: int
) -> tuple[Callable[[PlantParams, PlantState], PlantState], PlantParams, PlantState]:
    """A compiled flight of `ticks` control intervals without recording, and its arguments."""
    engine = build_engine(load_vehicle("lafr192"), engine_name)
    params = all_plugins_on()
    params = jax.tree.map(lambda leaf: jnp.repeat(leaf[None], batch, axis=0), params)
    keys = jax.random.split(jax.random.key(0), batch)
    states = jax.jit(jax.vmap(lambda p, k: simulation.reset(engine, p, k)))(params, keys)
    command = jnp.array([14.0, 0.0, 0.0, 0.3])

    @jax.jit
    def run(params: PlantParams, states: PlantState) -> PlantState:
        def one(params: PlantParams, state: PlantState) -> PlantState:
            def tick(state: PlantState, _: None) -> tuple[PlantState, None]:
                return simulation.step(engine, params, state, command)[0], None

            return jax.lax.scan(tick, state, None, length=ticks)[0]

        return jax.vmap(one)(params, states)

    return run, params, states


def measure_speed(batches: tuple[int, ...], rounds: int) -> Speed:
    """Measure everything `rounds` times, one after the other, with progress."""
    compilation_cache.enable()
    jobs: dict[str, Callable[[], float]] = {
        "c": partial(_c_rate, _c_model(bare=False)),
        "c_bare": partial(_c_rate, _c_model(bare=True)),
    }
    peer = _crazyflow_job()
    if peer is not None:
        jobs["crazyflow"] = peer
    with Progress(transient=True) as progress:
        engines: tuple[EngineName, ...] = ("freebody", "mjx")
        names: list[tuple[EngineName, int]] = [(e, b) for e in engines for b in batches]
        task = progress.add_task("compiling", total=len(names))
        for engine, batch in names:
            progress.update(task, description=f"compiling {engine}, batch {batch}")
            jobs[f"{engine}_{batch}"] = _plant_job(engine, batch)
            progress.advance(task)
        results: list[dict[str, float]] = []
        task = progress.add_task("measuring", total=rounds * len(jobs))
        for number in range(rounds):
            rates: dict[str, float] = {}
            for name, job in jobs.items():
                progress.update(task, description=f"round {number + 1} of {rounds}: {name}")
                rates[name] = job()
                progress.advance(task)
            results.append(rates)
    return Speed(results)


def _plant_job(engine: EngineName, batch: int) -> Callable[[], float]:
    ticks = int(np.clip(20_000 // batch, 3, 100))
    run, params, states = build_step(engine, batch, ticks)
    jax.block_until_ready(run(params, states))
    steps = batch * ticks * round(CONTROL_DT / DEFAULT_TIMESTEP)

    def job() -> float:
        start = time.perf_counter()
        final = jax.block_until_ready(run(params, states))
        seconds = time.perf_counter() - start
        if not bool(jnp.all(final.crash == simulation.FLYING)):
            raise RunError(f"a vehicle crashed in the measurement of {engine}, batch {batch}")
        return steps / seconds

    return job


def _c_model(bare: bool) -> mujoco.MjModel:
    """The MjModel that engine `mjx` steps; `bare`: without geoms and sites, C's best case."""
    vehicle = load_vehicle("lafr192")
    from lafr_mjx.plant.mjx_engine import flight_model

    model = flight_model(vehicle.mjcf_path, DEFAULT_TIMESTEP)
    if not bare:
        return model
    root = int(model.jnt_bodyid[0])
    position = " ".join(map(str, model.body_ipos[root]))
    inertia = " ".join(map(str, model.body_inertia[root]))
    lean = mujoco.MjModel.from_xml_string(
        f'<mujoco><worldbody><body><freejoint/><inertial pos="{position}" '
        f'mass="{model.body_mass[root]}" diaginertia="{inertia}"/></body></worldbody></mujoco>'
    )
    lean.opt.timestep = model.opt.timestep
    lean.opt.disableflags = model.opt.disableflags
    return lean


def _c_rate(model: mujoco.MjModel, steps: int = 20_000, repeats: int = 5) -> float:
    data = mujoco.MjData(model)
    seconds = 0.0
    for _ in range(repeats):
        mujoco.mj_resetData(model, data)
        data.qvel[:] = 0.1
        start = time.perf_counter()
        mujoco.mj_step(model, data, nstep=steps)
        seconds += time.perf_counter() - start
    return repeats * steps / seconds


def _crazyflow_job() -> Callable[[], float] | None:
    """Crazyflow's physics with its body-rate loop at 500 Hz; None if it is not installed."""
    try:
        from crazyflow.control import Control  # pyright: ignore[reportMissingImports]
        from crazyflow.dynamics import Dynamics  # pyright: ignore[reportMissingImports]
        from crazyflow.sim import Sim  # pyright: ignore[reportMissingImports]
    except ImportError:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sim = Sim(
            n_worlds=_CRAZYFLOW_BATCH,
            n_drones=1,
            dynamics=Dynamics.first_principles,
            control=Control.body_rate,
            freq=500,
        )
    sim.reset()
    command = jnp.tile(jnp.array([0.0, 0.0, 0.0, 0.3]), (_CRAZYFLOW_BATCH, 1, 1))
    sim.body_rate_control(command)
    steps = 200
    sim.step(steps)
    jax.block_until_ready(sim.data.states.pos)

    def job() -> float:
        start = time.perf_counter()
        sim.step(steps)
        jax.block_until_ready(sim.data.states.pos)
        return _CRAZYFLOW_BATCH * steps / (time.perf_counter() - start)

    return job


def measure_compile(engine: EngineName) -> tuple[float, float]:
    """CPU seconds of the first compilation and of a start with a filled cache.

    Each in a new process; counted from the first call of the step at batch 1024 to its end.
    """
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"LAFR_MJX_CACHE": folder}
        environment.pop("JAX_COMPILATION_CACHE_DIR", None)
        times = []
        for _ in range(2):
            done = subprocess.run(
                [sys.executable, "-m", "lafr_mjx.commands.plant_speed", engine],
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode != 0:
                raise RunError(f"measuring the compilation failed: {done.stderr.strip()[-500:]}")
            times.append(float(json.loads(done.stdout.splitlines()[-1])["cpu_s"]))
    return times[0], times[1]


def _compile_once(engine: EngineName) -> None:
    compilation_cache.enable()
    run, params, states = build_step(engine, batch=1024, ticks=3)
    jax.block_until_ready(states)
    start = time.process_time()
    jax.block_until_ready(run(params, states))
    print(json.dumps({"cpu_s": time.process_time() - start}))


if __name__ == "__main__":
    _compile_once(sys.argv[1])  # type: ignore[arg-type]
