"""`lafr-mjx list`: what ships."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lafr_mjx import resources
from lafr_mjx.output import check_writable, print_table, write_json


@dataclass
class List:
    """Show the tasks, scenarios and vehicles that ship.

    lafr-mjx list

    lafr-mjx list --json shipped.json
    """

    json: Path | None = None
    """Write the names there, too."""

    def run(self) -> None:
        """Print three tables."""
        from lafr_mjx.plant.scenario import FOLDER, load_scenario
        from lafr_mjx.plant.vehicle import load_vehicle
        from lafr_mjx.tasks import load_task

        check_writable(self.json)
        kinds = (
            ("tasks", "tasks", lambda name: load_task(name).description),
            ("scenarios", FOLDER, lambda name: load_scenario(name).description),
            ("vehicles", "assets", lambda name: load_vehicle(name).description),
        )
        names: dict[str, list[str]] = {}
        for kind, folder, describe in kinds:
            names[kind] = resources.shipped_names(folder)
            rows = [(name, describe(name)) for name in names[kind]]
            print_table(kind, ("name", "what it is"), rows, text_columns=2)
        write_json(self.json, names)
