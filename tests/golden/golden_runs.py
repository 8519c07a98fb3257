"""Short seeded runs through the command line, whose figures must not change by moving code.

    python tests/golden/golden_runs.py > tests/golden/records.json

Only a change that is meant to change figures may write them anew, and says so. The vector
instructions are held to what every x86-64 machine of the last ten years has: what a compiler
fuses otherwise changes the last digits, and learning makes them grow.
"""

import contextlib
import json
import os
import sys
import tempfile
from pathlib import Path

os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_max_isa=AVX2".strip()

from lafr_mjx.ablation.table import read_results
from lafr_mjx.cli import main
from lafr_mjx.runs.run_folder import RunFolder

TASKS = ("figure8", "shuttle")
SCENARIOS = ("nominal", "wind5")
ENGINES = ("mjx", "freebody")
SEED, FLIGHTS = 41, 3
KEYS = ("time_scale", "lap_time_s", "peak_speed_mps", "rmse_m", "peak_error_m")


def figures(iterations):
    return [{key: record[key] for key in KEYS} for record in iterations]


def run(*words):
    """A command; what it prints goes to the standard error."""
    with contextlib.redirect_stdout(sys.stderr):
        try:
            main([str(word) for word in words])
        except SystemExit as end:
            if end.code:
                raise


def records(folder):
    """Figures of all flights by the name of the run."""
    found = {}
    for engine in ENGINES:
        for task in TASKS:
            common = ("--iterations", FLIGHTS, "--seed", SEED, "--engine", engine,
                      "--reference", "fixed")  # fmt: skip
            for scenario in SCENARIOS:
                out = folder / f"{task}-{scenario}-{engine}"
                run("adapt", task, "--scenario", scenario, *common, "--out", out)
                found[f"single {out.name}"] = figures(RunFolder.open(out).iterations())
            out = folder / f"{task}-{engine}"
            run("ablate", task, "--methods", "ours", "--scenarios", *SCENARIOS, *common,
                "--devices", 1, "--chunk", len(SCENARIOS), "--out", out)  # fmt: skip
            for result in read_results(out):
                name = f"batched {task}-{result.scenario}-{engine}"
                found[name] = figures(result.iterations)
    return found


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        json.dump(records(Path(temporary)), sys.stdout, indent=1)
        print()
