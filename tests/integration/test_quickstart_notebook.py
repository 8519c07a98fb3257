"""The quick-start notebook runs from top to bottom and shows what it promises."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "quickstart.ipynb"


@pytest.mark.long
def test_it_adapts_and_shows_it():
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells), "it is kept without outputs"
    small = 0
    for cell in notebook.cells:
        small += "iterations=4" in cell.source
        cell.source = cell.source.replace("iterations=4", "iterations=2")
    assert small == 1
    NotebookClient(
        notebook, timeout=3600, resources={"metadata": {"path": NOTEBOOK.parent}}
    ).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    shown = [output.get("data", {}) for output in outputs]
    printed = "".join(output.get("text", "") for output in outputs)
    printed += "".join(data.get("text/plain", "") for data in shown)  # by rich
    assert "peak 2.2 m/s" in printed, "the classical controller"
    assert "bound by" in printed and "s of flight; RMSE" in printed, "the table of the adaptation"
    assert "Warning" not in printed
    assert sum("image/png" in data for data in shown) == 1
