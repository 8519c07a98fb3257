"""Flights of the classical controller: one vehicle several times, or many plants at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from lafr_mjx import compilation_cache
from lafr_mjx.control.geometric import geometric_controller
from lafr_mjx.metrics import FlightMetrics, flight_metrics
from lafr_mjx.plant import flight, simulation
from lafr_mjx.plant.engine import EngineName, build_engine
from lafr_mjx.plant.params import stack
from lafr_mjx.plant.plant import Plant, ticks_of
from lafr_mjx.plant.scenario_params import conditions_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lafr_mjx.plant.plugins import Plugin
    from lafr_mjx.plant.scenario import Scenario
    from lafr_mjx.plant.vehicle import Vehicle
    from lafr_mjx.tasks import Task
    from lafr_mjx.types import Rollout

Results = tuple[list[FlightMetrics], list[str]]
"""Figures of each flight, and how each ended."""

_CHUNK = 256
"""Plants flown at once: their recorded flights must fit the memory."""


def fly_in_a_row(
    vehicle: Vehicle,
    task: Task,
    scenario: Scenario,
    engine: EngineName,
    time_scale: float,
    flights: int,
    seed: int,
    plugins: Mapping[str, Plugin] = {},
) -> Results:
    """Several flights of one vehicle."""
    plant = Plant(vehicle, scenario.drawn(seed), fans=task.fans, engine=engine, plugins=plugins)
    controller = geometric_controller(vehicle.limits)
    run, metrics, ends = plant.start(seed), [], []
    for _ in range(flights):
        run, rollout = plant.fly(
            run, controller, task.path, task.start_clock(time_scale), task.flight_s(time_scale)
        )
        metrics.append(flight_metrics(rollout, task, vehicle.limits))
        ends.append(_end(rollout))
    return metrics, ends


def fly_plants(
    vehicle: Vehicle,
    task: Task,
    scenario: Scenario,
    engine: EngineName,
    time_scale: float,
    plants: int,
    seed: int,
    plugins: Mapping[str, Plugin] = {},
) -> Results:
    """One flight of each of many plants drawn from a randomised scenario, as batches."""
    compilation_cache.enable()
    built = build_engine(vehicle, engine)
    seconds = task.flight_s(time_scale)
    controller = jax.tree.map(jnp.asarray, geometric_controller(vehicle.limits))
    metrics, ends = [], []
    chunk = min(plants, _CHUNK)
    for start in range(0, plants, chunk):
        indices = [min(i, plants - 1) for i in range(start, start + chunk)]
        conditions = stack(
            [
                conditions_for(vehicle, scenario.drawn(seed, i), 0, task.fans, plugins)
                for i in indices
            ]
        )
        keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.key(seed), i))(jnp.array(indices))
        rollouts = flight.fly_all(
            built, conditions, keys, controller, task.path, task.start_clock(time_scale), seconds,
            ticks=ticks_of(seconds)[0],
        )  # fmt: skip
        rollouts = jax.device_get(rollouts)
        for j in range(min(chunk, plants - start)):
            one = jax.tree.map(lambda leaf, j=j: leaf[j], rollouts)
            metrics.append(flight_metrics(one, task, vehicle.limits))
            ends.append(_end(one))
    return metrics, ends


def _end(rollout: Rollout) -> str:
    """How a flight ended, e.g. "flying" or "tilt at 3.2 s"."""
    codes = np.asarray(rollout.diagnostics.crash)[np.asarray(rollout.valid)]
    lost = np.flatnonzero(codes)
    if len(lost) == 0:
        return simulation.CRASH_NAMES[0]
    when = float(np.asarray(rollout.time)[lost[0]])
    return f"{simulation.CRASH_NAMES[int(codes[lost[0]])]} at {when:.1f} s"
