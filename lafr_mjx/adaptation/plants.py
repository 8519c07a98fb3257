"""What flies in an adaptation: our own simulated drones, or plants of the user's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lafr_mjx.adaptation.own_parts import OwnPlant
from lafr_mjx.learner import loop
from lafr_mjx.plant import user_plugins
from lafr_mjx.plant.fleet import Fleet
from lafr_mjx.run_spec import ENGINES
from lafr_mjx.types import CONTROL_DT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lafr_mjx.plant.scenario import Scenario
    from lafr_mjx.plant.vehicle import Vehicle
    from lafr_mjx.run_spec import RunSpec
    from lafr_mjx.tasks import Task


def plants_of(
    common: RunSpec,
    vehicle: Vehicle,
    task: Task,
    scenarios: Sequence[Scenario],
    seeds: Sequence[int],
    devices: int = 1,
) -> loop.Plants:
    """A plant for each run: in its scenario, with its seed.

    Args:
        common: what the runs share: engine and plugins.
        vehicle: of all.
        task: of all.
        scenarios: of each, drawn: without ranges.
        seeds: of each.
        devices: of JAX, over which they are split.
    """
    if common.engine not in ENGINES:
        return loop.OneByOne([OwnPlant(common.engine) for _ in seeds], seeds)
    # In a batch, flights of all lengths share one program.
    longest_s = loop.FLIGHT_TICKS * CONTROL_DT if len(seeds) > 1 else 0.0
    return Fleet(
        vehicle, scenarios, seeds, fans=task.fans, engine=common.engine,
        plugins=user_plugins.build(common.plugins), devices=devices, longest_s=longest_s,
    )  # fmt: skip
