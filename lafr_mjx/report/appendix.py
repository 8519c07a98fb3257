"""The end of a report: every run with its command, the configurations, the versions."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import TYPE_CHECKING, Any

import lafr_mjx
from lafr_mjx.report import claim_figures as claims
from lafr_mjx.runs.toml_text import toml_text
from lafr_mjx.view.page import Items, Listing, Paragraph, Section, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lafr_mjx.report.flown_runs import FlownRun
    from lafr_mjx.view.page import Part

_PACKAGES = ("jax", "jaxlib", "mujoco", "mujoco-mjx", "flax", "optax", "numpy", "casadi")
_VARIED = ("run", "digests")  # parts of a configuration that the table of runs shows


def left_out(titles: Sequence[str], notes: Sequence[str]) -> Section | None:
    """What a reader might look for and does not find, and what looks wrong."""
    lines = [f"Without data: {', '.join(titles)}"] if titles else []
    lines += list(dict.fromkeys(notes))
    return Section("Left out, and to be known", [Items(lines)]) if lines else None


def appendix(runs: Sequence[FlownRun]) -> Section:
    """Runs, configurations and versions."""
    rows = []
    for run in sorted(runs, key=lambda run: run.spec.name):
        lap = run.records[-1].get("lap_time_s")
        what = f"`{run.spec.command}`" + (f" ({run.variant})" if run.variant else "")
        rows.append(
            (what, f"{len(run.records)}", "–" if lap is None else f"{lap:.2f}",
             f"{claims.last(run, 'peak_speed_mps'):.2f}", f"{claims.last(run, 'rmse_m'):.3f}",
             f"{claims.beyond_threshold(run)}", f"{claims.assisted_flights(run)}",
             f"{claims.crashes(run)}", run.written_by or "–")
        )  # fmt: skip
    heads = ("command", "flights", "last lap s", "peak m/s", "RMSE m",
             "> 0.35 m or assisted", "assisted", "crashes", "version")  # fmt: skip
    parts: list[Part] = [Table(heads, rows)]
    parts += _configurations(runs)
    parts.append(Table(("software", "version"), list(versions().items()),
                       caption="With which this report was made. Each run names the version that "
                       "flew it."))  # fmt: skip
    return Section("Runs, configuration, versions", parts)


def _configurations(runs: Sequence[FlownRun]) -> list[Part]:
    """Each distinct part of the configurations once, with the runs that have it."""
    seen: dict[tuple[str, str], list[FlownRun]] = {}
    for run in runs:
        for name, part in run.config.items():
            if name not in _VARIED and isinstance(part, dict):
                seen.setdefault((name, toml_text({name: part})), []).append(run)
    if not seen:
        return []
    parts: list[Part] = [Paragraph("The configuration, each distinct part once:")]
    for (name, text), group in sorted(seen.items(), key=lambda item: item[0]):
        parts.append(Listing(f"{name}: {_whose(group, runs)}", text))
    return parts


def _whose(group: Sequence[FlownRun], runs: Sequence[FlownRun]) -> str:
    if len(group) == len(runs):
        return "all runs"
    words = []
    for key in ("task", "scenario", "method"):
        values = sorted({getattr(run.spec, key) for run in group})
        if len(values) < len({getattr(run.spec, key) for run in runs}):
            words.append(", ".join(values))
    return f"{'; '.join(words) or 'some'} ({len(group)} of {len(runs)} runs)"


def versions() -> dict[str, Any]:
    """What computed and drew this."""
    found = {"lafr-mjx": lafr_mjx.__version__, "Python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found | {"platform": f"{platform.system()} {platform.machine()}"}
