"""`lafr-mjx report`: many runs on one page, beside what the paper claims."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from lafr_mjx.errors import InputError, RunError
from lafr_mjx.output import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lafr_mjx.view.page import Page


@dataclass
class Report:
    """Make a report of runs: one HTML page with all pictures in it, and Markdown beside it.

    lafr-mjx report runs/paper

    lafr-mjx report runs/figure8-wind5-ours-0 runs/figure8-wind5-baseline-0 --out wind.html

    lafr-mjx report runs/paper --bounds figure8.json dash.json --out report.html

    Sections for which there is no data are left out, and the report says which. A report that
    is there already is replaced whole.
    """

    runs: Positional[Annotated[tuple[Path, ...], arg(metavar="RUN [RUN ...]")]]
    """Run folders, or folders that contain them."""
    out: Path = Path("report.html")
    """The page. Its Markdown twin is called NAME.md; the pictures of that lie in NAME_files."""
    bounds: tuple[Path, ...] = ()
    """Files that `lafr-mjx bounds --json` wrote."""

    def run(self) -> None:
        """Read everything, draw, write."""
        from rich.console import Console

        from lafr_mjx.report import report_file
        from lafr_mjx.report.flown_runs import collect

        report_file.check_target(self.out)
        bounds = [read_bounds(path) for path in self.bounds]
        collected = collect(self.runs)
        console, count = Console(highlight=False), counted(len(collected.runs), "run")
        with console.status(f"drawing a report of {count} ..."):
            page = build(collected, bounds)
        made = report_file.write(self.out, page)
        console.print(f"Report of {count}: {made[0]} (and {made[1]})", soft_wrap=True)


def build(collected: Any, bounds: Sequence[dict[str, Any]]) -> Page:
    """The whole report as data."""
    from lafr_mjx.report import appendix as appendix
    from lafr_mjx.report import sections as parts
    from lafr_mjx.report.claim_figures import Evidence, judged
    from lafr_mjx.report.claim_sections import claim_sections
    from lafr_mjx.report.material import Material
    from lafr_mjx.report.own_targets import TARGETS
    from lafr_mjx.report.paper_claims import PAPER
    from lafr_mjx.view.page import Page

    runs = collected.runs
    with tempfile.TemporaryDirectory(prefix="lafr-mjx-report-") as drawings:
        material = Material(collected, bounds, Path(drawings))
        evidence = Evidence(collected, bounds)
        sections = claim_sections(judged(PAPER, evidence), judged(TARGETS, evidence))
        title = "Adaptation in flight" + (": results beside the paper" if sections else "")
        without = [] if sections else ["The paper's claims"]
        try:
            for name, build_section in parts.SECTIONS.items():
                section = build_section(material)
                if section is None:
                    without.append(name)
                else:
                    sections.append(section)
        except OSError as error:
            raise RunError(f"{drawings}: cannot be drawn to: {error.strerror or error}") from error
    hints = appendix.left_out(without, [*collected.notes, *material.notes])
    sections += [hints] if hints else []
    sections.append(appendix.appendix(runs))
    tasks = ", ".join(sorted({run.task for run in runs}))
    seeds = sorted({run.spec.seed for run in runs})
    seed_words = f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
    engines = sorted({run.spec.engine for run in runs})
    engine_words = f"engine{'s' if len(engines) > 1 else ''} {' and '.join(engines)}"
    lead = (
        f"{counted(len(runs), 'adaptation run')} on {tasks}; {seed_words}; {engine_words}. A drone "
        f"flies, learns from each flight what its model gets wrong, improves its policy in that "
        f"model, and speeds up its reference as far as the model can vouch for."
    )
    return Page(title, lead, sections, contents=True, foot="Made by lafr-mjx report.")


def read_bounds(path: Path) -> dict[str, Any]:
    """Figures of `lafr-mjx bounds`, checked."""
    try:
        figures = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"--bounds {path}: there is no such file") from error
    except (OSError, ValueError) as error:
        raise InputError(f"--bounds {path}: cannot be read: {error}") from error
    if not isinstance(figures, dict) or not isinstance(figures.get("task"), str):
        raise InputError(f"--bounds {path}: is not what `lafr-mjx bounds --json` writes")
    for key, value in figures.items():
        if key.endswith("_s") and value is not None and not isinstance(value, int | float):
            raise InputError(f"--bounds {path}: '{key}' is {value!r}; it must be a number")
    return figures
