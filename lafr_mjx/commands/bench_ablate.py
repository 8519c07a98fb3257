"""`lafr-mjx bench ablate`: what batches of adaptations cost, and how that grows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from lafr_mjx.errors import InputError
from lafr_mjx.output import check_range, check_writable, print_table, write_json


@dataclass
class BenchAblate:
    """Measure compile time, seconds per adaptation and memory for some batch sizes.

    lafr-mjx bench ablate

    lafr-mjx bench ablate --batches 1 4 --engine freebody --json bench.json

    Every size is measured in a process of its own, without a cache of programs, beside a
    single run as `lafr-mjx adapt` makes it.
    """

    batches: tuple[int, ...] = (1, 4, 16)
    """Numbers of adaptations."""
    engine: Literal["mjx", "freebody"] = "mjx"
    """Physics that is flown."""
    rounds: int = 3
    """Flights of every run that are measured, after the first; the median counts."""
    devices: int | None = None
    """Cores or accelerators to use; default all."""
    chunk: int | None = None
    """Runs in one program; default as ablate: one per core, or 64 per accelerator."""
    json: Path | None = None
    """Write the figures there, too."""

    def run(self) -> None:
        """Measure and print."""
        check_writable(self.json)
        if not self.batches or not all(1 <= b <= 65536 for b in self.batches):
            raise InputError(f"--batches {self.batches}: each must be from 1 to 65536")
        check_range("rounds", self.rounds, 1, 100)
        check_range("devices", self.devices, 1, 65536)
        check_range("chunk", self.chunk, 1, 65536)
        from rich.console import Console

        from lafr_mjx.ablation.speed import FLIGHTS, Measured, measure

        console = Console(highlight=False)
        measured: dict[int, Measured] = {}
        for batch in (0, *sorted(set(self.batches))):
            what = f"a batch of {batch}" if batch else "a single run"
            with console.status(f"measuring {what} ..."):
                measured[batch] = measure(batch, self.engine, self.devices, self.rounds, self.chunk)
        single = measured[0]
        rows, figures = [], dict[str, Any](engine=self.engine, flights_per_adaptation=FLIGHTS)
        for batch, cost in measured.items():
            ratio = cost.adaptation_s / single.adaptation_s
            memory = cost.peak_memory_gb / single.peak_memory_gb
            rows.append((
                f"batch of {batch}" if batch else "single run (adapt)", str(cost.devices),
                str(cost.size), f"{cost.compile_s:.0f}", f"{cost.adaptation_s:.1f}",
                f"{ratio:.2f}", f"{cost.peak_memory_gb:.2f}", f"{memory:.2f}",
            ))  # fmt: skip
            name = f"batch_{batch}" if batch else "single"
            figures |= {f"{name}_{key}": value for key, value in cost._asdict().items()}
            figures[f"{name}_adaptation_s_over_single"] = ratio
            figures[f"{name}_peak_memory_over_single"] = memory
        columns = ("what", "devices", "chunk", "compile s", "s per adaptation", "over single",
                   "peak GB", "over single")  # fmt: skip
        print_table(f"Adaptations of {FLIGHTS} flights, engine {self.engine}", columns, rows)
        write_json(self.json, figures)
