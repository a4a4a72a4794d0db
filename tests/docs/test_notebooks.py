"""Every notebook runs from top to bottom and shows what is stored in it."""

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]


def shown(notebook):
    """Return what each cell shows; how its standard output was cut into messages does not matter."""
    parts = []
    for cell in notebook.cells:
        said = ""
        for output in cell.get("outputs", ()):
            if output.output_type == "stream":
                said += output.text if output.name == "stdout" else ""
            else:
                parts.append(output["data"].get("image/svg+xml") or output["data"].get("text/plain"))
        parts += [said] if said else []
    return parts


@pytest.mark.filterwarnings("default::DeprecationWarning")
@pytest.mark.filterwarnings("default::RuntimeWarning")
@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda path: path.name)
def test_a_notebook_runs_and_shows_what_is_stored_in_it(path, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))))
    stored = nbformat.read(path, as_version=4)
    fresh = nbformat.read(path, as_version=4)

    NotebookClient(fresh, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()

    assert shown(fresh) == shown(stored)
    assert any("<svg" in text for text in shown(stored))
