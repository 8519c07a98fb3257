"""The runs behind the paper's claims and our own targets, listed once.

`ablate --preset paper`, `reproduce` and `check-claims` fly parts of this list; a run has the same
name in each of them, so that none is flown twice.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from lafr_mjx.run_spec import EngineName, MethodName, RunSpec

PAPER_RUNS = Path("runs/paper")
"""Where the commands that fly these runs keep them."""

SEEDS, QUICK_SEEDS = (0, 1, 2), (0,)
PLANTS, QUICK_PLANTS = 16, 4
METHODS: tuple[MethodName, ...] = ("ours", "baseline", "lotf", "anchor-only", "residual-only")
WORLDS = ("nominal", "wind5")
FAULTS = ("payload", "propeller", "combined")
MIDWAY = ("payload", "wind")  # what changes before flight 6
RANDOM_TASKS = ("figure8", "shuttle")
HORIZONS = (10, 15, 20, 45)  # besides the usual one
SHORT = 15  # 0.3 s; with 0.2 s neither kind learned, on seed 100
PLANNED = (
    *(("figure8", scenario) for scenario in (*WORLDS, *FAULTS)),
    ("shuttle", "nominal"), ("inspection", "fan"), ("race", "nominal"),
)  # fmt: skip
"""What is also flown along planned references."""
BOUND_TASKS = ("figure8", "shuttle", "dash", "inspection")


class PaperRuns(NamedTuple):
    """All runs by what they are for, those first that most claims need."""

    seeds: tuple[int, ...] = SEEDS
    engine: EngineName = "mjx"

    def _runs(self, task: str, scenario: str, **more: Any) -> list[RunSpec]:
        return [RunSpec(task, scenario, seed=seed, engine=self.engine, **more)
                for seed in self.seeds]  # fmt: skip

    def adaptations(self) -> list[RunSpec]:
        """Five methods on the figure-8 with and without wind; the whole method elsewhere."""
        runs = [run for world in WORLDS for method in METHODS
                for run in self._runs("figure8", world, method=method)]  # fmt: skip
        runs += [run for fault in FAULTS for run in self._runs("figure8", fault)]
        return runs + self._runs("shuttle", "nominal") + self._runs("inspection", "fan")

    def first_updates(self) -> list[RunSpec]:
        """What an update does is compared at the same time scale."""
        held: dict[str, Any] = {"ats": "hold", "iterations": 2}
        runs = [run for method in ("ours", "baseline")
                for run in self._runs("figure8", "wind5", method=method, **held)]  # fmt: skip
        held["iterations"] = 3
        return runs + [run for fault in FAULTS for run in self._runs("figure8", fault, **held)]

    def anchoring(self) -> list[RunSpec]:
        """When anchored training flights help: over their length, and with a large mismatch."""
        points = [("wind5", horizon) for horizon in HORIZONS]
        points += [("combined", horizon) for horizon in (SHORT, RunSpec.horizon)]
        return [
            run for method in ("ours", "residual-only") for scenario, horizon in points
            for run in self._runs("figure8", scenario, method=method, horizon=horizon)
        ]  # fmt: skip

    def midway(self) -> list[RunSpec]:
        """The world changes in the middle of a run."""
        return [run for what in MIDWAY for run in self._runs("figure8", f"{what}-midway")]

    def planned(self) -> list[RunSpec]:
        """References that are planned in space and time."""
        return [run for task, scenario in PLANNED
                for run in self._runs(task, scenario, reference="space-time")]  # fmt: skip

    def random_plants(self, plants: int) -> list[RunSpec]:
        """Plants that are drawn with the first seed."""
        first = PaperRuns(self.seeds[:1], self.engine)
        return [run for scenario in ("randomised", "randomised-noisy") for task in RANDOM_TASKS
                for plant in range(plants)
                for run in first._runs(task, scenario, plant=plant)]  # fmt: skip

    def reproduced(self, anchoring: bool = True) -> list[RunSpec]:
        """The paper's simulation section, seed by seed."""
        runs = self.adaptations() + self.first_updates()
        return self._by_seed(runs + (self.anchoring() if anchoring else []))

    def checked(self, plants: int) -> list[RunSpec]:
        """What the claims about flights and our own targets need, seed by seed."""
        runs = [
            run for run in self.adaptations() if run.task != "inspection"
            and (run.method == "ours" or (run.method, run.scenario) == ("baseline", "wind5"))
        ]  # fmt: skip
        runs = self._by_seed(runs + self.first_updates() + self.midway() + self.planned())
        return runs + self.random_plants(plants)

    def _by_seed(self, runs: list[RunSpec]) -> list[RunSpec]:
        """Without repetition: whole seeds are there if somebody loses patience."""
        return sorted(dict.fromkeys(runs), key=lambda run: self.seeds.index(run.seed))
