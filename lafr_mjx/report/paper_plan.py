"""The paper's simulation section as runs, with the names that `check-claims` uses, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from lafr_mjx.report.paper_claims import FAULTS
from lafr_mjx.report.simulation_claims import METHODS
from lafr_mjx.run_spec import EngineName, RunSpec

PAPER_RUNS = Path("runs/paper")
"""Where the commands that fly the paper's experiments keep their runs: none is flown twice."""

SEEDS, QUICK_SEEDS = (0, 1, 2), (0,)
HORIZONS = (10, 15, 20, 45)  # besides the usual one
SHORT = 15  # 0.3 s; with 0.2 s neither kind learned, on seed 100
BOUND_TASKS = ("figure8", "shuttle", "dash", "inspection")


class PaperPlan(NamedTuple):
    """Everything that the report shows."""

    seeds: tuple[int, ...]
    engine: EngineName = "mjx"
    anchoring: bool = True

    def specs(self) -> list[RunSpec]:
        """All runs without repetition, seed by seed, what most figures need first."""
        runs: list[RunSpec] = []
        for seed in self.seeds:
            runs += self._of_seed(seed)
        return list(dict.fromkeys(runs))

    def _of_seed(self, seed: int) -> list[RunSpec]:
        def run(task: str, scenario: str, **more: Any) -> RunSpec:
            return RunSpec(task, scenario, seed=seed, engine=self.engine, **more)

        runs = [run("figure8", "nominal"), run("figure8", "wind5")]
        runs += [run("shuttle", "nominal"), run("inspection", "fan")]
        runs += [run("figure8", fault) for fault in FAULTS]
        # What an update does is compared at the same time scale.
        runs += [run("figure8", "wind5", method=method, ats="hold", iterations=2)
                 for method in ("ours", "baseline")]  # fmt: skip
        runs += [run("figure8", fault, ats="hold", iterations=3) for fault in FAULTS]
        runs += [run("figure8", scenario, method=method) for method in METHODS
                 for scenario in ("nominal", "wind5")]  # fmt: skip
        return runs + (self._anchoring(run) if self.anchoring else [])

    def _anchoring(self, run: Any) -> list[RunSpec]:
        """When anchored training flights help: over their length, and with a large mismatch."""
        both = ("ours", "residual-only")
        runs = [run("figure8", "wind5", method=method, horizon=horizon) for method in both
                for horizon in HORIZONS]  # fmt: skip
        runs += [run("figure8", "combined", method=method, horizon=horizon) for method in both
                 for horizon in (SHORT, RunSpec().horizon)]  # fmt: skip
        return runs
