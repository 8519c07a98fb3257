"""`lafr-mjx certify`: how often does it go wrong, on plants that nobody has seen?"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro
from tyro.conf import Positional

from lafr_mjx.commands.ablate import Ablate
from lafr_mjx.output import print_table, write_json
from lafr_mjx.run_spec import RunSpec, option_of

if TYPE_CHECKING:
    from lafr_mjx.ablation.table import RunResult


@dataclass
class Certify(Ablate):
    """Fly whole adaptations on many random plants, and say how often one goes wrong.

    lafr-mjx certify figure8 shuttle --plants 256

    lafr-mjx certify race --plants 64 --seed 7 --reference space-time --out runs/race-64

    lafr-mjx certify figure8 --plants 64 --policy mine.py:Network --engine freebody

    A preset of ablate, with its options; interrupted, the same command goes on. Beside the table
    it writes certificate.html, certificate.md and certificate.json into the folder.
    """

    tasks: Positional[tuple[str, ...]] = ("figure8", "shuttle")
    """Names of shipped tasks, or paths of task files."""
    plants: int = 256
    """Plants that are drawn for each seed."""
    preset: tyro.conf.Suppress[None] = None
    out: Path = Path("runs/certificate")
    """Folder of the results."""

    def _tell(self) -> list[RunResult]:
        import lafr_mjx
        from lafr_mjx.ablation import certificate
        from lafr_mjx.ablation.table import read_config, read_results
        from lafr_mjx.plant.vehicle import load_vehicle
        from lafr_mjx.report import report_file
        from lafr_mjx.tasks import load_task

        results = read_results(self.out)
        asked = read_config(self.out)["ablation"]
        limits = load_vehicle(asked["vehicle"]).limits
        thresholds = {run.task: load_task(run.task, limits).error_threshold_m for run in results}
        found = certificate.certificates(results, thresholds)
        columns, rows = certificate.table_rows(found)
        print_table("Random plants, 95 % intervals", columns, rows, 2)
        figures = {"certificates": [one.plain() for one in found]}
        figures["paired"] = self._tell_pairs(results)
        write_json(self.out / "certificate.json", figures)
        write_json(self.json, figures)
        page = certificate.page_of(found, _command(asked), lafr_mjx.__version__)
        made = report_file.write(self.out / "certificate.html", page)
        for one in found:
            if one.crashed.count or one.beyond.count:
                print(f"The worst on {one.task}: {one.worst[0].command}")
        print(f"Certificate: {made[0]} (and {made[1]})")
        return results


def _command(asked: dict[str, Any]) -> str:
    """The command that repeats it."""
    from lafr_mjx.ablation.plan import SHARED

    blocks, usual = asked["blocks"], RunSpec().table()
    words = ["lafr-mjx", "certify", *dict.fromkeys(block["task"] for block in blocks)]
    for key in ("scenarios", "methods"):
        words += [f"--{key}", *dict.fromkeys(name for block in blocks for name in block[key])]
    words += ["--seeds", *asked["seeds"], "--plants", asked["plants"]]
    for key in SHARED:
        if asked[key] != usual[key]:
            value = asked[key] if isinstance(asked[key], list) else [asked[key]]
            words += [f"--{option_of(key)}", *value]
    for swept in asked["sweep"]:
        words += ["--sweep", swept]
    return shlex.join(map(str, words))
