"""The quick-start notebook runs from top to bottom and shows what it promises."""

from pathlib import Path

import nbformat
from nbclient import NotebookClient
from view_runs import require_rendering

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "quickstart.ipynb"


def test_it_runs_from_top_to_bottom():
    require_rendering()
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells), "it is kept without outputs"
    NotebookClient(
        notebook, timeout=600, resources={"metadata": {"path": NOTEBOOK.parent}}
    ).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    printed = "".join(output.get("text", "") for output in outputs)
    assert "peak 2.2 m/s" in printed
    assert "of 64 fly the lap" in printed
    pictures = [output for output in outputs if "image/png" in output.get("data", {})]
    assert len(pictures) == 2
