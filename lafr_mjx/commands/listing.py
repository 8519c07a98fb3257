"""`lafr-mjx list`: what ships."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lafr_mjx import resources
from lafr_mjx.output import check_writable, print_table, write_json
from lafr_mjx.toml_table import read_toml

_FOLDERS = {"tasks": "tasks", "scenarios": "tasks/scenarios", "vehicles": "assets"}


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
        check_writable(self.json)
        names: dict[str, list[str]] = {}
        for kind, folder in _FOLDERS.items():
            names[kind] = resources.shipped_names(folder)
            rows = [(name, _description(folder, name)) for name in names[kind]]
            print_table(kind, ("name", "what it is"), rows, text_columns=2)
        write_json(self.json, names)


def _description(folder: str, name: str) -> str:
    """What a shipped file says of itself; to load it whole would take MuJoCo."""
    return read_toml(resources.data_folder(folder) / f"{name}.toml").data.get("description", "")
