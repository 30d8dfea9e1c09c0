"""The notebook of the examples."""

import base64
import io
import os
import pathlib
import re

import pytest

NOTEBOOK = pathlib.Path(__file__).parents[1] / "examples" / "climate.ipynb"


def test_notebook_runs_and_shows_its_picture(tmp_path, monkeypatch):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    image = pytest.importorskip("matplotlib.image")
    for variable in ("JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR", "MPLCONFIGDIR"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    # The kernel finds the forwarder of the notebook only.
    monkeypatch.setenv("NDN_CLIENT_TRANSPORT", "unix:///nonexistent")
    committed = nbformat.read(NOTEBOOK, as_version=4)
    notebook = nbformat.from_dict(committed)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = []
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error"]
    printed = "".join(output.text for output in outputs if output.output_type == "stream" and output.name == "stdout")
    assert re.search(r"equal to the local data set: True", printed), printed
    pictures = [output.data["image/png"] for output in outputs if "image/png" in output.get("data", {})]
    (picture,) = pictures
    pixels = image.imread(io.BytesIO(base64.b64decode(picture)), format="png")
    height, width = pixels.shape[:2]
    # A map with many colours, and not an empty pair of axes.
    assert width > 500 and height > 200
    assert len({tuple(pixel) for pixel in pixels.reshape(-1, pixels.shape[2])[::7].tolist()}) > 500
    shown = [output for cell in committed.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any("image/png" in output.get("data", {}) for output in shown), "the committed notebook shows its picture"
    assert os.listdir(tmp_path)
