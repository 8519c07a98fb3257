"""`lafr-mjx check-claims`: fly everything that the paper claims, and say what holds."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console

from lafr_mjx.errors import InputError
from lafr_mjx.output import check_writable, counted, write_json
from lafr_mjx.report.paper_plan import PAPER_RUNS

if TYPE_CHECKING:
    from lafr_mjx.report.claims import Row

_ALL_SEEDS, _ALL_PLANTS = (0, 1, 2), 16
_QUICK_SEEDS, _QUICK_PLANTS = (0,), 4


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
        if not 1 <= self.processes <= 256:
            raise InputError(f"--processes {self.processes}: must be from 1 to 256")
        from lafr_mjx.ablation.batch_progress import fly_with_progress
        from lafr_mjx.adaptation.batch import finished
        from lafr_mjx.report import claims

        seeds, plants = (_QUICK_SEEDS, _QUICK_PLANTS) if self.quick else (_ALL_SEEDS, _ALL_PLANTS)
        plan = claims.Plan(seeds, plants, self.engine)
        specs = plan.specs()
        console = Console(highlight=False)
        done = sum(finished(spec, self.out) for spec in specs)
        console.print(
            f"{counted(len(specs), 'run')} in {self.out}, {done} of them finished already; a run "
            f"takes half a minute to a minute. Interrupted, the same command goes on."
        )
        base_s = None
        if done < len(specs) and not self.only_print:
            base_s = self._base_time(console)
            # The first alone, with all cores: its seconds per iteration are reported.
            fly_with_progress(specs, self.out, self.processes, console, first_alone=True)
        base_s = self._remembered(base_s)
        rows = claims.rows(claims.Evidence(self.out, plan), base_s)
        self._tell(console, rows)

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

    def _tell(self, console: Console, rows: list[Row]) -> None:
        from rich.table import Table

        table = Table(show_lines=True)
        for head in ("claim", "paper", "to reach, each seed", "measured", ""):
            table.add_column(head, overflow="fold")
        for row in rows:
            verdict = "[green]yes[/green]" if row.reached else "[red]NO[/red]"
            table.add_row(row.claim, row.paper, row.wanted, row.measured, verdict)
        console.print(table)
        met = sum(row.reached for row in rows)
        console.print(f"{met} of {len(rows)} reached. Table: {self.out / 'claims.md'}")
        lines = ["| claim | paper | to reach, each seed | measured | reached |",
                 "|---|---|---|---|---|"]  # fmt: skip
        for row in rows:
            cells = (*row[:4], "yes" if row.reached else "no")
            lines.append(f"| {' | '.join(cells)} |")
        (self.out / "claims.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
        figures: dict[str, Any] = {"reached": met, "claims": [r._asdict() for r in rows]}
        write_json(self.out / "claims.json", figures)
        write_json(self.json, figures)
