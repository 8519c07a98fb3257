"""The kinds of drones, by `pilot.kind` of a profile: another one is a line here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lafr_mjx.hil.drones.agilicious_pilot import AgiliciousPilot
from lafr_mjx.hil.drones.mavlink_pilot import MavlinkPilot

if TYPE_CHECKING:
    from lafr_mjx.hil.drones.drone_protocol import Pilot
    from lafr_mjx.toml_table import Table

KINDS = {"agilicious": AgiliciousPilot.read, "mavlink": MavlinkPilot.read}


def read_pilot(table: Table) -> Pilot:
    """The table `pilot` of a profile."""
    kind = table.string("kind")
    if kind not in KINDS:
        raise table.fail("kind", f"one of {', '.join(KINDS)}")
    return KINDS[kind](table)
