"""What a run's configuration says is of the right kind; it may have been edited by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lafr_mjx.toml_table import Table

_LARGEST = 2**31 - 1  # of the random generator's seeds
_WHOLE = {
    "iterations": (1, 1000),
    "seed": (0, _LARGEST),
    "plant": (0, _LARGEST),
    "horizon": (5, 200),
}
_TEXT = ("task", "scenario", "vehicle", "method", "engine", "features")
_TIME_SCALING = ("verified", "paper", "hold")


def check_kinds(config: dict[str, Any]) -> None:
    """Refuse values that no command would have written; what is missing is not looked at."""
    whole = Table(config, Path("config.toml"))
    whole.table("files")
    whole.table("digests")
    run = whole.table("run")
    for key in _TEXT:
        run.string(key, "")
    run.string("ats", "", choices=_TIME_SCALING)
    for key, (low, high) in _WHOLE.items():
        run.integer(key, low, at_least=low, at_most=high)
