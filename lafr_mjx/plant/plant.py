"""The simulated drone as the rest of the software meets it: `fly` and nothing else."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from flax import struct

from lafr_mjx import compilation_cache
from lafr_mjx.plant import flight, simulation
from lafr_mjx.plant.engine import EngineName, build_engine
from lafr_mjx.plant.scenario_params import conditions_for
from lafr_mjx.reference.path import derivatives
from lafr_mjx.types import CONTROL_DT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lafr_mjx.control.controller import Controller
    from lafr_mjx.plant.plugins import Plugin
    from lafr_mjx.plant.scenario import Scenario
    from lafr_mjx.plant.simulation import PlantState
    from lafr_mjx.plant.vehicle import Vehicle
    from lafr_mjx.reference.clock import Clock
    from lafr_mjx.reference.path import Path
    from lafr_mjx.tasks import Fan
    from lafr_mjx.types import Rollout

_TICKS_QUANTUM = 250
"""Flights are padded to a multiple of 5 s, so that few programs are compiled."""


@struct.dataclass
class PlantRun:
    """A vehicle between two flights: what goes on, and how many flights it has made."""

    state: PlantState
    flights: int = struct.field(pytree_node=False)


class Plant:
    """One vehicle in one scenario. Stands for the real drone."""

    def __init__(
        self,
        vehicle: Vehicle,
        scenario: Scenario,
        *,
        fans: Sequence[Fan] = (),
        engine: EngineName = "mjx",
        plugins: Mapping[str, Plugin] | None = None,
    ) -> None:
        """Prepare the vehicle.

        Args:
            vehicle: profile and rigid body.
            scenario: conditions, with their changes over the flights of a run.
            fans: the task's fans; the scenario says whether they blow.
            engine: "mjx", or "freebody" for vehicles of one rigid body (much faster).
            plugins: the user's own plugins by name; a known name replaces that plugin.
        """
        compilation_cache.enable()
        self.vehicle = vehicle
        self.scenario = scenario
        self.engine = build_engine(vehicle, engine)
        self._fans = tuple(fans)
        self._plugins = dict(plugins or {})

    def conditions(self, flight_number: int) -> flight.Conditions:
        """Parameters during one flight of a run."""
        return conditions_for(self.vehicle, self.scenario, flight_number, self._fans, self._plugins)

    def start(self, seed: int | jax.Array) -> PlantRun:
        """A fresh vehicle: full battery, no flight made."""
        key = jax.random.key(seed) if isinstance(seed, int) else seed
        state = simulation.reset(self.engine, self.conditions(0).before, key)
        return PlantRun(state, 0)

    def fly(
        self, run: PlantRun, controller: Controller, path: Path, clock: Clock, seconds: float
    ) -> tuple[PlantRun, Rollout]:
        """Fly along a path, from rest in hover at its start; returns what was recorded."""
        conditions = self.conditions(run.flights)
        path = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), path)
        controller = jax.tree.map(jnp.asarray, controller)
        clock = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), clock)
        start = derivatives(path, clock.phase)[0, :3]
        state = flight.ready_to_fly(self.engine, conditions.before, run.state, start)
        needed, ticks = ticks_of(seconds)
        state, rollout = flight.fly(
            self.engine, conditions, state, controller, path, clock, seconds, ticks=ticks
        )
        return PlantRun(state, run.flights + 1), trimmed(rollout, needed)


def ticks_of(seconds: float) -> tuple[int, int]:
    """Control intervals of a flight, and those by which the plant's own clock moves on."""
    needed = math.ceil(seconds / CONTROL_DT - 1e-6)
    return needed, math.ceil(needed / _TICKS_QUANTUM) * _TICKS_QUANTUM


def trimmed(rollout: Rollout, ticks: int) -> Rollout:
    """The first `ticks` control intervals of a recorded flight."""

    def cut(leaf: Any) -> Any:
        return leaf[:ticks]

    def cut_samples(leaf: Any) -> Any:
        return leaf[: ticks * simulation.SAMPLES_PER_TICK]

    short = jax.tree.map(cut, rollout)
    return short._replace(
        sample_time=cut_samples(rollout.sample_time),
        sample=jax.tree.map(cut_samples, rollout.sample),
        sample_received=cut_samples(rollout.sample_received),
    )
