"""`lafr-mjx bench fit`: estimates on plants with known truth, and how long a fit takes."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lafr_mjx.errors import RunError
from lafr_mjx.output import check_range, check_writable, print_table, write_json

if TYPE_CHECKING:
    from lafr_mjx.fitting.known_plants import Comparison

_MINUTE_S = 60.0
_LABELS = {
    "delay_ms": ("delay, ms", 1.0, ".1f"),
    "drag_scale": ("drag, times nominal", 1.0, ".3f"),
    "extra_kg": ("extra mass, g", 1e3, ".1f"),
}


@dataclass
class BenchFit:
    """Fly plants with known delay, drag and extra mass, fit the logs, compare; time a fit.

    lafr-mjx bench fit

    lafr-mjx bench fit --runs 20 --seed 300 --no-minute --json bench-fit.json
    """

    runs: int = 10
    """Plants, each with its own delay, drag and extra mass."""
    seed: int = 100
    """Seed of the plants and of their sensors' noise."""
    minute: bool = True
    """Also time the fit of a minute of simulated log; leave the machine alone meanwhile."""
    json: Path | None = None
    """Write the figures there, too."""

    def run(self) -> None:
        """Fly, estimate, print."""
        check_writable(self.json)
        check_range("runs", self.runs, 1, 1000)
        check_range("seed", self.seed, 0, 2**31 - 1)
        from lafr_mjx import compilation_cache
        from lafr_mjx.fitting import known_plants
        from lafr_mjx.plant.vehicle import load_vehicle

        compilation_cache.enable()
        vehicle = load_vehicle("lafr192")
        truths = known_plants.draw(self.runs, self.seed)
        flights = known_plants.fly(vehicle, truths, self.seed)
        crashed = [i for i, flown in enumerate(flights) if flown.crashed.any()]
        if crashed:
            raise RunError(f"plants {crashed} of seed {self.seed} crashed: nothing to estimate")
        found = [known_plants.compare(vehicle, *pair) for pair in zip(truths, flights, strict=True)]
        figures = self._estimates(found)
        if self.minute:
            figures |= self._minute()
        write_json(self.json, figures)

    def _estimates(self, found: list[dict[str, Comparison]]) -> dict[str, Any]:
        figures: dict[str, Any] = {"runs": self.runs, "seed": self.seed}
        rows, summary = [], []
        for name, (label, scale, form) in _LABELS.items():
            several = [comparison[name] for comparison in found]
            for i, c in enumerate(several):
                values = (c.truth, c.estimate.value, c.estimate.low, c.estimate.high)
                words = ("yes" if c.near else "NO", "yes" if c.covered else "no")
                rows.append((f"{i}", label, *(format(scale * v, form) for v in values), *words))
            near, covered = sum(c.near for c in several), sum(c.covered for c in several)
            figures[f"{name}_within"], figures[f"{name}_covered"] = near, covered
            figures[f"{name}_worst_error"] = max(abs(c.estimate.value - c.truth) for c in several)
            figures[name] = [
                {"truth": c.truth, "estimate": c.estimate.value,
                 "interval": [c.estimate.low, c.estimate.high]} for c in several
            ]  # fmt: skip
            worst = scale * figures[f"{name}_worst_error"]
            summary.append((label, f"{near} of {self.runs}", f"{covered} of {self.runs}",
                            format(worst, form)))  # fmt: skip
        heads = ("run", "what", "truth", "estimate", "from", "to", "near", "covered")
        print_table("Known plants, 20 s of flight each", heads, rows, text_columns=2)
        heads = ("what", "within 10 % (3 ms)", "95 % interval covers", "worst error")
        print_table("Together", heads, summary)
        return figures

    def _minute(self) -> dict[str, Any]:
        """A minute to train on and another flight to test on, by the command itself."""
        import json

        from lafr_mjx.commands.fit import Fit
        from lafr_mjx.fitting import known_plants
        from lafr_mjx.plant.vehicle import load_vehicle
        from lafr_mjx.runs.rollout_file import save_rollout

        vehicle = load_vehicle("lafr192")
        truths = known_plants.draw(1, self.seed) * 2
        flights = known_plants.fly(vehicle, truths, self.seed + 1, _MINUTE_S)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            paths = [folder / "minute.npz", folder / "other.npz"]
            for path, flown in zip(paths, flights, strict=True):
                save_rollout(path, flown)
            written = folder / "figures.json"
            Fit((paths[0],), test=(paths[1],), out=folder / "report", json=written).run()
            figures = json.loads(written.read_text())
        keys = ("train_s", "fit_s", "fit_compile_s", "work_s", "wall_s")
        return {f"minute_{key}": figures[key] for key in keys}
