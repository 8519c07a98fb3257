"""An ablation that is interrupted, loses half a line, and goes on.

    python interrupted_ablation.py FOLDER

A program of its own, so that the tests can choose how JAX compiles.
"""

import sys
from pathlib import Path

from rich.console import Console

from lafr_mjx.ablation.plan import Plan
from lafr_mjx.ablation.table import AblationTable
from lafr_mjx.ablation.work import work
from lafr_mjx.commands.ablate import Ablate
from lafr_mjx.learner.improve import Sizes
from lafr_mjx.runner.display import Display
from lafr_mjx.runner.here import Here

SMALL = {
    "methods": ("ours", "lotf"), "scenarios": ("nominal",), "seeds": (100,), "iterations": 2,
    "engine": "freebody", "chunk": 1, "devices": 1,
    "sizes": Sizes(fit_steps=60, fit_batch=64, train_steps=15, train_batch=8, horizon=15),
}  # fmt: skip


class Impatient(Display):
    """A user who interrupts in the middle of the second run."""

    flights = 0

    def flown(self, flights):
        super().flown(flights)
        self.flights += flights
        if self.flights == 3:
            raise KeyboardInterrupt


def main(folder):
    command = Ablate(out=folder, keep_flights=(-1,), **SMALL)
    plan = Plan.of(command._asked())
    try:
        with (
            AblationTable.open(folder, plan.config(), {}) as table,
            Impatient(Console(), 2, 0, 4) as display,
        ):
            work(plan, table, display, Here(), size=1, devices=1, keep=(-1,))
        raise AssertionError("was not interrupted")
    except KeyboardInterrupt:
        pass
    file = folder / "results.jsonl"
    kept = file.read_bytes()
    assert len(kept.splitlines()) == 1
    file.write_bytes(kept + b'{"schema_version": 1, "n')
    command.run()
    assert file.read_bytes().startswith(kept)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
