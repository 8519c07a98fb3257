"""The kinds of drones, by `pilot.kind` of a profile.

`mavlink` is the class `MavlinkPilot` of `mavlink_pilot.py`.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lafr_mjx.hil.drones.drone_protocol import Pilot
    from lafr_mjx.toml_table import Table

_FILE = "_pilot.py"


def read_pilot(table: Table) -> Pilot:
    """The table `pilot` of a profile."""
    kind = table.string("kind")
    kinds = sorted(f.name.removesuffix(_FILE) for f in Path(__file__).parent.glob(f"*{_FILE}"))
    if kind not in kinds:
        raise table.fail("kind", f"one of {', '.join(kinds)}")
    module = importlib.import_module(f"lafr_mjx.hil.drones.{kind}_pilot")
    return getattr(module, f"{kind.capitalize()}Pilot").read(table)
