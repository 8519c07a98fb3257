"""Simulated flights of plants whose delay, drag and extra mass are known: what a fit must find."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lafr_mjx.control.geometric import geometric_controller
from lafr_mjx.fitting import state_models
from lafr_mjx.logs.readers.run_flights import of_rollout
from lafr_mjx.logs.resample import uniform
from lafr_mjx.plant import flight
from lafr_mjx.plant.engine import build_engine
from lafr_mjx.plant.params import stack
from lafr_mjx.plant.plant import ticks_of
from lafr_mjx.plant.scenario import load_scenario
from lafr_mjx.plant.scenario_params import conditions_for
from lafr_mjx.tasks import load_task

if TYPE_CHECKING:
    from lafr_mjx.model.identify import Estimate, Identified
    from lafr_mjx.plant.vehicle import Vehicle
    from lafr_mjx.types import Rollout

DELAY_WITHIN_MS, SHARE_WITHIN = 3.0, 0.1
_TIME_SCALE = 0.5


class Truth(NamedTuple):
    """What is different about a plant."""

    delay_ms: float
    drag_scale: float  # factor on the profile's drag
    extra_kg: float


class Comparison(NamedTuple):
    """An estimate beside the truth, in the truth's units."""

    truth: float
    estimate: Estimate
    near: bool  # within 10 %, the delay within 3 ms

    @property
    def covered(self) -> bool:
        """Whether the interval holds the truth."""
        return self.estimate.low <= self.truth <= self.estimate.high


def draw(count: int, seed: int) -> list[Truth]:
    """Random plants: 5 to 40 ms, half to twice the drag, 20 to 60 g on top of 192 g."""
    rng = np.random.default_rng(seed)
    drag = np.exp(rng.uniform(np.log(0.5), np.log(2.0), count))
    columns = (rng.uniform(5.0, 40.0, count), drag, rng.uniform(0.02, 0.06, count))
    return [Truth(*map(float, row)) for row in zip(*columns, strict=True)]


def fly(vehicle: Vehicle, truths: list[Truth], seed: int, seconds: float = 20.0) -> list[Rollout]:
    """A figure-8 on each plant by the classical controller, with the sensors' usual noise."""
    task, scenario = load_task("figure8", vehicle.limits), load_scenario("nominal")
    engine = build_engine(vehicle, "freebody")
    controller = jax.tree.map(jnp.asarray, geometric_controller(vehicle.limits))
    worlds = [
        scenario.with_settings(
            command_delay_ms=truth.delay_ms, drag_scale=truth.drag_scale, payload_kg=truth.extra_kg
        )
        for truth in truths
    ]
    keys = jax.random.split(jax.random.key(seed), len(truths))
    conditions = stack([conditions_for(vehicle, world, 0, ()) for world in worlds])
    flown = flight.fly_all(
        engine, conditions, keys, controller, task.path, task.start_clock(_TIME_SCALE), seconds,
        ticks=ticks_of(seconds)[0],
    )  # fmt: skip
    flown = jax.device_get(flown)
    return [jax.tree.map(lambda leaf, i=i: leaf[i], flown) for i in range(len(truths))]


def compare(vehicle: Vehicle, truth: Truth, rollout: Rollout) -> dict[str, Comparison]:
    """Estimate from what was sensed and sent, by the code of `lafr-mjx fit`."""
    log = uniform(of_rollout(rollout, Path("flight.npz")))
    found: Identified | None = state_models.identified([log], vehicle)
    assert found is not None and found.delay_s is not None
    delay = found.delay_s.scaled(1e3)
    pairs = {
        "delay_ms": (truth.delay_ms, delay, DELAY_WITHIN_MS),
        "drag_scale": (truth.drag_scale, found.drag_scale, SHARE_WITHIN * truth.drag_scale),
        "extra_kg": (truth.extra_kg, found.mass_offset_kg, SHARE_WITHIN * truth.extra_kg),
    }
    return {
        name: Comparison(true, estimate, abs(estimate.value - true) <= allowed)
        for name, (true, estimate, allowed) in pairs.items()
    }
