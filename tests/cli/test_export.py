"""The command ``export``: files, printed descriptions and invalid arguments."""

import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sightunseen.core.linear import Linear
from sightunseen.export.onnx_files import TOLERANCE
from sightunseen.methods import ESZSL, SYNC, Foresight, load_model

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

Run = Callable[[str], tuple[int, str, str]]


def succeed(run: Run, line: str) -> str:
    code, out, err = run(line)
    assert (code, err) == (0, "")
    return out


def error_of(run: Run, desk: Path, line: str) -> str:
    """Error message of a command that must not write a file."""
    before = sorted(desk.rglob("*"))
    code, out, err = run(line)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert sorted(desk.rglob("*")) == before
    return err


def test_onnx_is_written_and_described(run: Run, desk: Path) -> None:
    out = succeed(run, "export model --onnx out/model.onnx")
    model, path = load_model("model"), Path("out/model.onnx")
    assert re.search(r"wrote out/model\.onnx \(\d+\.\d MB\)", out)
    assert "features (images, 24), class_vectors (classes, 10)" in out
    assert "outputs: scores (images, classes), probabilities (images, classes)" in out
    difference = re.search(r"1,000 random images: scores differ by (\S+) of the largest score", out)
    assert difference is not None
    assert float(difference[1]) <= TOLERANCE
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    X, table = np.load("data/features.npz")["X"].astype(np.float32), model.table_
    seen = sorted(model.seen_classes_)
    given = {
        "features": X,
        "class_vectors": table.vectors.astype(np.float32),
        "seen_indices": np.array([seen.index(label) if label in seen else -1 for label in table.labels]),
    }
    named = [entry.name for entry in session.get_inputs()]
    assert ("seen_indices: index of each class" in out) == ("seen_indices" in named)
    (found,) = session.run(["probabilities"], {name: given[name] for name in named})
    np.testing.assert_allclose(found, model.predict_proba(X, table.labels), atol=1e-4)
    assert [file.name for file in Path("out").iterdir()] == ["model.onnx"]


def test_linear_classifiers_are_written_and_described(run: Run, desk: Path) -> None:
    out = succeed(run, "export model --linear weights.npz --candidates unseen")
    assert "labels (4), weights (4, 24), bias (4)" in out
    model, linear, X = load_model("model"), Linear.load("weights.npz"), np.load("data/features.npz")["X"]
    assert linear.labels.tolist() == model.unseen_classes_.tolist()
    np.testing.assert_allclose(linear.scores(X), model.decision_function(X, "unseen"), rtol=1e-4, atol=1e-4)


def test_scaled_features_are_described(run: Run, desk: Path) -> None:
    features = np.load("data/features.npz")
    ESZSL().fit(features["X"][:50], features["y"][:50]).save("scaled")
    out = succeed(run, "export scaled --linear weights.npz")
    assert "weights . (x - shift) * factor + bias" in out
    described = {"centred": "x", "root": "(sign(x) * sqrt(|x|))"}
    for kind, scaled in described.items():
        Foresight(feature_scaling=kind).fit(features["X"][:50], features["y"][:50]).save(kind)
        assert f"weights . {scaled} / its L2 norm + bias" in succeed(run, f"export {kind} --linear {kind}.npz")


def test_both_formats_with_candidates_of_a_file(run: Run, desk: Path) -> None:
    labels = load_model("model").classes_[[5, 2]].tolist()
    Path("labels.txt").write_text("\n".join(labels), "utf-8")
    out = succeed(run, "export model --onnx model.onnx --linear weights.npz --candidates labels.txt")
    assert out.count("wrote ") == 2
    assert Linear.load("weights.npz").labels.tolist() == labels


def test_existing_file_is_replaced(run: Run, desk: Path) -> None:
    Path("model.onnx").write_text("old")
    succeed(run, "export model --onnx model.onnx")
    first = Path("model.onnx").read_bytes()
    succeed(run, "export model --onnx model.onnx")
    assert Path("model.onnx").read_bytes() == first != b"old"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("export model", "there is nothing to write. Give --onnx model.onnx"),
        ("export model --onnx model", r"--onnx must end in \.onnx; got model"),
        ("export model --linear weights.csv", r"must end in \.npz; got weights\.csv"),
        ("export model --onnx model.onnx --candidates unseen", "--candidates needs --linear"),
        ("export model --linear weights.npz --candidates some", "there is no file some"),
        ("export missing --onnx model.onnx", "no model folder at missing"),
        ("export data --onnx model.onnx", "data is not a model folder"),
        ("export model --onnx data/classes.csv/model.onnx", "data/classes.csv/model.onnx cannot be created"),
        ("export model --linear data/classes.csv/weights.npz", "cannot be created"),
        ("export model --onnx /proc/model.onnx", "could not write /proc/model.onnx"),
    ],
)
def test_invalid_arguments_are_an_error(run: Run, desk: Path, line: str, message: str) -> None:
    assert re.search(message, error_of(run, desk, line))


def test_existing_folder_is_an_error(run: Run, desk: Path) -> None:
    Path("model.onnx").mkdir()
    assert "model.onnx is a folder" in error_of(run, desk, "export model --onnx model.onnx")


def test_method_without_export_is_an_error(run: Run, desk: Path) -> None:
    features = np.load("data/features.npz")
    SYNC().fit(features["X"][:80], features["y"][:80]).save("sync")
    for what in ("--onnx model.onnx", "--linear weights.npz", "--onnx model.onnx --linear weights.npz"):
        assert "this SYNC cannot be exported" in error_of(run, desk, f"export sync {what}")


def test_missing_packages(run: Run, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "onnx", None)
        assert "pip install 'sightunseen[onnx]'" in error_of(run, desk, "export model --onnx model.onnx")
    monkeypatch.setattr("sightunseen.export.onnx_files.find_spec", lambda name: None)
    assert "not compared with the model: onnxruntime is not installed" in succeed(run, "export model --onnx model.onnx")
