"""Memory of a million predictions by ``sightunseen predict``, of photos and of a table of features.

    python benchmarks/million.py [ROWS]

The photos are a list of ROWS lines (default: 1,000,000) that name 1,024 small files again and again; they are read, decoded,
looked up in the cache of features and answered as any others. The features are a Parquet file such as ``embed`` writes.
Printed: rows a second, and the program's own memory along the way.
"""

import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from extraction import own_memory
from onnx import helper, numpy_helper
from PIL import Image

from sightunseen import prediction
from sightunseen.cli import main as sightunseen
from sightunseen.core.records import RunRecord
from sightunseen.features.backbones import open_backbone
from sightunseen.features.extract import Batch
from sightunseen.features.feature_files import write_features
from sightunseen.methods import CVC

FEATURES, CLASSES, FILES = 256, 100, 1024
PLACES = (0.1, 0.5, 1.0)


def make_backbone(path: Path) -> str:
    """A network of one layer for photos of 8 by 8; the name to open it by."""
    weights = np.random.default_rng(0).normal(size=(3 * 8 * 8, FEATURES)).astype(np.float32)
    kind = onnx.TensorProto.FLOAT
    photos, out = (
        helper.make_tensor_value_info(name, kind, shape)
        for name, shape in (("photos", ["n", 3, 8, 8]), ("out", ["n", FEATURES]))
    )
    nodes = [
        helper.make_node("Flatten", ["photos"], ["flat"]),
        helper.make_node("MatMul", ["flat", "weights"], ["product"]),
        helper.make_node("Relu", ["product"], ["out"]),
    ]
    graph = helper.make_graph(nodes, "layer", [photos], [out], [numpy_helper.from_array(weights, "weights")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return f"onnx:{path}"


def make_model(folder: Path, backbone: Any) -> None:
    rng = np.random.default_rng(0)
    vectors = {f"class {k}": rng.random(30) for k in range(CLASSES)}
    labels = np.repeat(list(vectors)[: CLASSES // 2], 4)
    model = CVC(hidden=64, n_steps=20, device="cpu").fit(rng.random((len(labels), FEATURES)), labels, vectors)
    model.save(folder, RunRecord("train", "CVC", {}, 0, "honest", {"backbone": backbone.describe()}))


def list_files(folder: Path, rows: int) -> Path:
    rng = np.random.default_rng(1)
    for k in range(FILES):
        Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(folder / f"{k}.png")
    with open(folder / "photos.csv", "w") as file:
        file.write("path\n")
        file.writelines(f"{k % FILES}.png\n" for k in range(rows))
    return folder / "photos.csv"


def batches_of(rows: int) -> Iterator[Batch]:
    rng = np.random.default_rng(2)
    for start in range(0, rows, FILES):
        places = np.arange(start, min(start + FILES, rows))
        features = rng.random((len(places), FEATURES), dtype=np.float32)
        yield Batch(tuple(f"photo {k}.jpg" for k in places), places, features, (), 0)


def predict(what: str, model: Path, images: Path, rows: int) -> None:
    memory: dict[float, float] = {}

    def watched(answers: Iterable[prediction.Batch]) -> Iterator[prediction.Batch]:
        done = 0
        for batch in answers:
            yield batch
            done += len(batch["path"])
            for place in PLACES:
                if done >= place * rows:
                    memory.setdefault(place, own_memory())

    write = prediction.write_predictions
    prediction.write_predictions = lambda path, answers, *others: write(path, watched(answers), *others)
    started = time.perf_counter()
    code = sightunseen(["predict", str(model), str(images), "--out", str(images.with_name("answers.parquet"))])
    taken = time.perf_counter() - started
    prediction.write_predictions = write
    assert code == 0
    along = ", ".join(f"{value:,.0f} after {place:.0%}" for place, value in memory.items())
    print(f"{what}: {rows / taken:,.0f} rows/s; memory of its own, MiB: {along}")
    print(f"  at the end {memory[1.0] / memory[0.1]:.2f} times that after a tenth")


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["SIGHTUNSEEN_CACHE"] = str(folder / "cache")
        backbone = open_backbone(make_backbone(folder / "layer.onnx"), "cpu")
        make_model(folder / "model", backbone)
        write_features(folder / "features.parquet", batches_of(rows), backbone)
        predict(f"{rows:,} features from Parquet to Parquet", folder / "model", folder / "features.parquet", rows)
        predict(f"{rows:,} photos to Parquet", folder / "model", list_files(folder, rows), rows)


if __name__ == "__main__":
    main()
