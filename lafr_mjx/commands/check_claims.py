"""`lafr-mjx check-claims`: fly everything that the paper claims, and say what holds."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rich.console import Console

from lafr_mjx.output import check_range, check_writable, write_json
from lafr_mjx.report.paper_runs import (
    PAPER_RUNS,
    PLANTS,
    QUICK_PLANTS,
    QUICK_SEEDS,
    SEEDS,
    PaperRuns,
)

if TYPE_CHECKING:
    from lafr_mjx.report.claim_figures import Claim


@dataclass
class CheckClaims:
    """Fly the paper's claims and print them beside what was measured.

    lafr-mjx check-claims --quick

    lafr-mjx check-claims --processes 2

    Each run is an ordinary run folder. Finished runs are kept: a second call goes on where the
    first ended. The table is also written to claims.md and claims.json in the folder.
    """

    out: Path = PAPER_RUNS
    """Folder of the runs; `lafr-mjx reproduce` shares it."""
    quick: bool = False
    """One seed and 4 random plants instead of 3 and 16."""
    seeds: tuple[int, ...] = ()
    """Other seeds than 0, 1 and 2; random plants are drawn with the first."""
    processes: int = 2
    """Runs at once; each then has one thread."""
    engine: Literal["mjx", "freebody"] = "mjx"
    """Physics that is flown."""
    only_print: bool = False
    """Fly nothing: print the table of what is there."""
    json: Path | None = None
    """Write the table there, too."""

    def run(self) -> None:
        """Fly what is missing, then print the table."""
        check_writable(self.json)
        check_range("processes", self.processes, 1, 256)
        from lafr_mjx.adaptation.folder_runs import announce, finished, fly_folders
        from lafr_mjx.report.claim_figures import Evidence, judged
        from lafr_mjx.report.flown_runs import Collected, collect
        from lafr_mjx.report.own_targets import TARGETS
        from lafr_mjx.report.paper_claims import FLIGHTS

        seeds, plants = (QUICK_SEEDS, QUICK_PLANTS) if self.quick else (SEEDS, PLANTS)
        seeds = self.seeds or seeds
        specs = PaperRuns(seeds, self.engine).checked(plants)
        console = Console(highlight=False)
        done = announce(specs, self.out, console)
        base_s = None
        if len(done) < len(specs) and not self.only_print:
            base_s = self._base_time(console)
            # The first alone, with all cores: its seconds per iteration are reported.
            fly_folders(specs, self.out, self.processes, console, first_alone=True)
        there = [self.out / spec.name for spec in specs if finished(spec, self.out)]
        evidence = Evidence(collect(there) if there else Collected([], []),
                            base_s=self._remembered(base_s))  # fmt: skip
        self._tell(console, judged(FLIGHTS, evidence), judged(TARGETS, evidence))

    def _base_time(self, console: Console) -> float:
        """Seconds of a base training whose program is compiled already."""
        import jax

        from lafr_mjx import compilation_cache
        from lafr_mjx.learner.pretrain import BaseSizes, train_base
        from lafr_mjx.plant.vehicle import load_vehicle
        from lafr_mjx.tasks import load_task

        compilation_cache.enable()
        vehicle = load_vehicle("lafr192")
        task = load_task("figure8", vehicle.limits)
        with console.status("timing the base policy ..."):
            started = 0.0
            for _ in range(2):
                started = time.monotonic()
                policy = train_base(
                    task.path, vehicle.limits, task.start_time_scale, 0, BaseSizes()
                )
                jax.block_until_ready(policy)
        return time.monotonic() - started

    def _remembered(self, base_s: float | None) -> float | None:
        """The timing is kept beside the runs, for a call that only prints."""
        file = self.out / "base_policy_s.txt"
        if base_s is not None:
            file.write_text(f"{base_s:.3f}\n", encoding="utf-8")
        return float(file.read_text(encoding="utf-8")) if file.is_file() else None

    def _tell(self, console: Console, claims: list[Claim], targets: list[Claim]) -> None:
        from rich.table import Table

        from lafr_mjx.report.claim_figures import GOOD
        from lafr_mjx.report.claim_sections import claim_sections
        from lafr_mjx.runs.run_files import write_whole
        from lafr_mjx.view.page import Page, to_markdown

        for title, wanted, found in (("The paper's claims", "paper", claims),
                                     ("Our own targets", "to reach", targets)):  # fmt: skip
            table = Table(title=title, title_justify="left", show_lines=True)
            for head in ("", "claim", wanted, "measured", "verdict"):
                table.add_column(head, overflow="fold")
            for claim in found:
                colour = "green" if claim.verdict in GOOD else "red"
                table.add_row(*claim[:4], f"[{colour}]{claim.verdict}[/{colour}]")
            console.print(table)
        met = sum(claim.verdict in GOOD for claim in (*claims, *targets))
        figures = {
            "reached": met,
            "claims": [claim._asdict() for claim in claims],
            "targets": [target._asdict() for target in targets],
        }
        write_json(self.json, figures)
        page = Page("Claims beside what was measured", "", claim_sections(claims, targets))
        if not self.out.is_dir():
            return  # nothing was flown there yet
        write_json(self.out / "claims.json", figures)
        file = self.out / "claims.md"
        write_whole(file, to_markdown(page, lambda picture: picture.name).encode("utf-8"))
        console.print(f"{met} of {len(claims) + len(targets)} reached. Table: {file}")
