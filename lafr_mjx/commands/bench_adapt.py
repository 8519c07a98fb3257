"""`lafr-mjx bench adapt`: what an iteration costs, stage by stage, and how long a start takes."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from lafr_mjx.output import check_range, check_writable, print_table, write_json


@dataclass
class BenchAdapt:
    """Measure the stages of an adaptation, its matrix products alone, and its start.

    lafr-mjx bench adapt

    lafr-mjx bench adapt --train-steps 50 --train-batch 64 --no-first-row --json bench.json

    Everything is measured in new processes: twice with a cache of programs that is empty at
    first. Leave the machine alone meanwhile.
    """

    task: str = "figure8"
    """Task that is flown, in its own scenario."""
    engine: Literal["mjx", "freebody"] = "freebody"
    """Physics that is flown."""
    rounds: int = 9
    """Iterations that are measured, after the first two; the median counts."""
    fit_steps: int = 300
    """Steps of the residuals' fit."""
    fit_batch: int = 128
    """Rows of each of them."""
    train_steps: int = 100
    """Steps of the policy's training."""
    train_batch: int = 32
    """Flights of each of them; a multiple of 4."""
    horizon: int = 30
    """Control intervals of each flight."""
    first_row: bool = True
    """Also measure from the command to its first row, with an empty cache and a filled one."""
    json: Path | None = None
    """Write the figures there, too."""

    def run(self) -> None:
        """Measure and print."""
        check_writable(self.json)
        for name, most in (
            ("rounds", 100), ("fit_steps", 100_000), ("fit_batch", 65536),
            ("train_steps", 100_000), ("train_batch", 65536), ("horizon", 1000),
        ):  # fmt: skip
            check_range(name.replace("_", "-"), getattr(self, name), 1, most)
        from rich.console import Console

        from lafr_mjx.commands.adapt_speed import STAGES, first_row_s, measure

        names = ("fit_steps", "fit_batch", "train_steps", "train_batch", "horizon")
        sizes = {name: getattr(self, name) for name in names}
        asked = {"task": self.task, "engine": self.engine, "sizes": sizes}
        console = Console(highlight=False)
        figures: dict[str, Any] = dict(asked)
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            with console.status("measuring with an empty cache ..."):
                cold = measure(asked | {"rounds": 1}, place / "cache")
            with console.status("measuring with a filled cache ..."):
                warm = measure(asked | {"rounds": self.rounds}, place / "cache")
            for kind in ("cold", "warm") if self.first_row else ():
                with console.status(f"starting, {kind} ..."):
                    figures[f"{kind}_first_row_s"] = first_row_s(
                        self.task, self.engine, place / kind, place / "first"
                    )
        share = warm.matmul_s / warm.wall_s["improve"]
        figures |= warm._asdict() | {
            "compile_cold_s": cold.compile_s,
            "compile_warm_s": warm.compile_s,
            "base_policy_cold_s": cold.base_policy_s,
            "improve_share_of_matmul": share,
        }
        for key in ("compile_s", "base_policy_s"):
            del figures[key]
        rows = [
            (name, f"{1e3 * warm.wall_s[name]:.0f}", f"{1e3 * warm.cpu_s[name]:.0f}")
            for name in STAGES
        ]
        rows.append(
            ("all", f"{1e3 * warm.iteration_s:.0f}", f"{1e3 * sum(warm.cpu_s.values()):.0f}")
        )
        title = f"An iteration on {self.task}, engine {self.engine}, without compiling"
        print_table(title, ("stage", "wall ms", "CPU ms"), rows)
        print(
            f"improve: {warm.improve_gflop:.0f} GFLOP of matrix products, which alone take "
            f"{warm.matmul_s:.2f} s: {share:.0%} of it"
        )
        print(f"programs: {cold.compile_s:.0f} s to compile, {warm.compile_s:.1f} s from the cache")
        print(f"base policy, compiled and trained: {cold.base_policy_s:.0f} s")
        if self.first_row:
            print(
                f"command to first row: {figures['cold_first_row_s']:.0f} s with an empty cache, "
                f"{figures['warm_first_row_s']:.1f} s with a filled one"
            )
        print(f"peak memory: {warm.peak_memory_gb:.2f} GB")
        write_json(self.json, figures)
