"""Simulated drones side by side: each in its own conditions, all through one program."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from lafr_mjx import batching, compilation_cache
from lafr_mjx.plant import flight, simulation
from lafr_mjx.plant.engine import build_engine
from lafr_mjx.plant.plant import ticks_of, trimmed
from lafr_mjx.plant.scenario_params import conditions_for
from lafr_mjx.reference.path import derivatives

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lafr_mjx.plant.engine import Engine
    from lafr_mjx.plant.flight import Conditions
    from lafr_mjx.plant.params import PlantParams
    from lafr_mjx.plant.plugins import Plugin
    from lafr_mjx.plant.scenario import Scenario
    from lafr_mjx.plant.simulation import PlantState
    from lafr_mjx.plant.vehicle import Vehicle
    from lafr_mjx.reference.clock import Clock
    from lafr_mjx.reference.path import Path
    from lafr_mjx.tasks import Fan
    from lafr_mjx.types import Rollout


class FleetState(NamedTuple):
    """The vehicles between two flights."""

    plants: PlantState  # [runs, ...]
    flights: Any  # that they have made


class _Before(NamedTuple):
    """One vehicle before a flight."""

    conditions: Conditions
    plant: PlantState
    controller: Any
    path: Path
    clock: Clock
    seconds: Any
    ticks: Any  # by which the plant's own clock moves on


class Fleet:
    """Drones of one kind, each in its own scenario."""

    def __init__(
        self,
        vehicle: Vehicle,
        scenarios: Sequence[Scenario],
        seeds: Sequence[int],
        *,
        fans: Sequence[Fan] = (),
        engine: str = "mjx",
        plugins: Mapping[str, Plugin] | None = None,
        devices: int = 1,
        longest_s: float = 0.0,
    ) -> None:
        """Fresh vehicles.

        Args:
            vehicle: profile and rigid body of all.
            scenarios: conditions of each, drawn: without ranges.
            seeds: of the noise of each.
            fans: the task's fans.
            engine: physics of all.
            plugins: the user's own plugins by name.
            devices: of JAX, over which they are split evenly.
            longest_s: flights up to this long share one program; 0: a program for every 5 s.
        """
        compilation_cache.enable()
        self.vehicle, self.scenarios = vehicle, list(scenarios)
        self._engine = build_engine(vehicle, engine)  # type: ignore[arg-type]
        self._fans, self._plugins, self._devices = tuple(fans), dict(plugins or {}), devices
        self._constant: Any = None
        self._least = ticks_of(longest_s)[1]
        before = self._conditions(0).before
        self.state = FleetState(_fresh(self._engine, before, np.array(seeds)), np.int32(0))

    def fly(
        self, controllers: Any, paths: Path, clocks: Sequence[Clock], seconds: Sequence[float]
    ) -> list[Rollout]:
        """One flight of each vehicle, from rest in hover at its path's start."""
        lengths = [ticks_of(each) for each in seconds]
        before = _Before(
            conditions=self._conditions(int(self.state.flights)),
            plant=self.state.plants,
            controller=controllers,
            path=paths,
            clock=batching.stacked(clocks),
            seconds=np.asarray(seconds, np.float32),
            ticks=np.asarray([moves_on for _, moves_on in lengths], np.int32),
        )
        program = batching.program(
            _fly,
            self._devices,
            engine=self._engine,
            ticks=max(self._least, *(most for _, most in lengths)),
        )
        plants, rollouts = program((), batching.placed(before, self._devices))
        self.state = FleetState(plants, np.int32(int(self.state.flights) + 1))
        rollouts = jax.device_get(rollouts)
        return [trimmed(batching.row(rollouts, i), n) for i, (n, _) in enumerate(lengths)]

    def _conditions(self, number: int) -> Conditions:
        """Of a flight; computed anew only where a scenario changes."""
        if self._constant is not None:
            return self._constant
        made: dict[int, Any] = {}
        for scenario in self.scenarios:
            if id(scenario) not in made:
                made[id(scenario)] = conditions_for(
                    self.vehicle, scenario, number, self._fans, self._plugins
                )
        conditions = batching.stacked([made[id(scenario)] for scenario in self.scenarios])
        if not any(scenario.changes for scenario in self.scenarios):
            self._constant = conditions
        return conditions


def _fly(_: tuple, run: _Before, *, engine: Engine, ticks: int) -> tuple[PlantState, Rollout]:
    """One vehicle. It stands still from its own end on: flights of all lengths share a program."""
    start = derivatives(run.path, run.clock.phase)[0, :3]
    state = flight.ready_to_fly(engine, run.conditions.before, run.plant, start)
    state, rollout = flight.fly(
        engine, run.conditions, state, run.controller, run.path, run.clock, run.seconds, ticks=ticks
    )
    # Random numbers are addressed by the plant's clock.
    return state.replace(tick=run.plant.tick + run.ticks), rollout


@partial(jax.jit, static_argnames=("engine",))
def _fresh(engine: Engine, params: PlantParams, seeds: jax.Array) -> PlantState:
    def one(params: PlantParams, seed: jax.Array) -> PlantState:
        return simulation.reset(engine, params, jax.random.key(seed))

    return jax.vmap(one)(params, seeds)
