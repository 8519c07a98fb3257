"""`lafr-mjx bench plant`: speed of the simulated drone beside C MuJoCo and a peer."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from lafr_mjx.errors import InputError
from lafr_mjx.output import check_range, check_writable, print_table, write_json


@dataclass
class BenchPlant:
    """Measure physics steps per second with all plugins on, and what compiling costs.

    lafr-mjx bench plant

    lafr-mjx bench plant --json bench.json

    lafr-mjx bench plant --batches 1024 --rounds 5 --no-compile

    C MuJoCo's mj_step (one thread, the same vehicle) and, if it is installed
    (pip install 'lafr-mjx[bench]'), crazyflow's first_principles are measured in the same
    run. A ratio is the median over the rounds of what was measured side by side.
    """

    batches: tuple[int, ...] = (1, 64, 1024, 8192, 65536)
    """Numbers of vehicles that fly at once."""
    engine: Literal["freebody", "mjx"] = "freebody"
    """Whose figures stand under the plain names in the JSON file; both are measured."""
    rounds: int = 3
    """How often everything is measured; the median counts."""
    compile: bool = True
    """Measure the CPU time of a first compilation and of a warm start, in new processes."""
    json: Path | None = None
    """Write the figures there, too."""

    def run(self) -> None:
        """Measure and print."""
        check_writable(self.json)
        if not self.batches or not all(1 <= b <= 2**20 for b in self.batches):
            raise InputError(f"--batches {self.batches}: each must be from 1 to {2**20}")
        check_range("rounds", self.rounds, 1, 100)
        # crazyflow insists on this being set before anything imports SciPy, as JAX does.
        os.environ.setdefault("SCIPY_ARRAY_API", "1")
        from lafr_mjx.commands.plant_speed import measure_compile, measure_speed

        speed = measure_speed(self.batches, self.rounds)
        figures = self._figures(speed)
        self._print_speed(speed)
        if self.compile:
            for engine in ("freebody", "mjx"):
                cold, warm = measure_compile(engine)
                figures[f"{engine}_first_compile_cpu_s"] = cold
                figures[f"{engine}_warm_start_cpu_s"] = warm
                print(f"{engine}: first compile {cold:.1f} s of CPU time, warm start {warm:.1f} s")
            figures["first_compile_cpu_s"] = figures[f"{self.engine}_first_compile_cpu_s"]
            figures["warm_start_cpu_s"] = figures[f"{self.engine}_warm_start_cpu_s"]
        print(f"peak memory of this process: {speed.peak_memory_gb:.2f} GB")
        write_json(self.json, figures)

    def _figures(self, speed: Any) -> dict[str, Any]:
        figures: dict[str, Any] = {
            "engine": self.engine,
            "c_mj_step_steps_per_s": speed.median("c"),
            "c_mj_step_bare_body_steps_per_s": speed.median("c_bare"),
            "peak_memory_gb": speed.peak_memory_gb,
        }
        for batch in self.batches:
            for engine in ("freebody", "mjx"):
                name, bare = f"{engine}_{batch}", f"{engine}_ratio_to_c_bare_body_batch_{batch}"
                figures[f"{engine}_steps_per_s_batch_{batch}"] = speed.median(name)
                figures[f"{engine}_ratio_to_c_batch_{batch}"] = speed.ratio(name, "c")
                figures[bare] = speed.ratio(name, "c_bare")
            figures[f"plant_steps_per_s_batch_{batch}"] = speed.median(f"{self.engine}_{batch}")
            figures[f"ratio_to_c_batch_{batch}"] = speed.ratio(f"{self.engine}_{batch}", "c")
        if speed.has("crazyflow"):
            batch = speed.crazyflow_batch
            figures[f"crazyflow_steps_per_s_batch_{batch}"] = speed.median("crazyflow")
            for name, engine in (("", self.engine), ("freebody_", "freebody"), ("mjx_", "mjx")):
                figures[f"{name}ratio_to_crazyflow_batch_{batch}"] = speed.ratio(
                    f"{engine}_{batch}", "crazyflow"
                )
        return figures

    def _print_speed(self, speed: Any) -> None:
        if not speed.has("crazyflow"):
            print("crazyflow is not installed (pip install 'lafr-mjx[bench]'); left out")
        measured = [
            ("C mj_step, one thread", 1, "c"),
            ("C mj_step, body without visuals", 1, "c_bare"),
            ("crazyflow first_principles", speed.crazyflow_batch, "crazyflow"),
        ]
        for engine in ("mjx", "freebody"):
            what = f"plant, {engine}, all plugins"
            measured += [(what, batch, f"{engine}_{batch}") for batch in self.batches]
        rows = [
            (what, str(batch), f"{speed.median(name) / 1e3:.0f}", f"{speed.ratio(name, 'c'):.1f}")
            for what, batch, name in measured
            if speed.has(name)
        ]
        columns = ("what", "batch", "1000 steps/s", "ratio to C")
        print_table("Physics steps per second (500 Hz steps)", columns, rows)
