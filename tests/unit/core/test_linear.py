"""Linear classifiers: same scores as the model, for every scaling and similarity."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sightunseen.core.class_table import ClassTable
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import DataError, ModelError, SettingsError, StorageError
from sightunseen.core.linear import ClassifierMap, Layer, Linear
from sightunseen.methods import ALE, CVC, DEM, DEVISE, ESZSL, LATEM, METHODS, SAE, SJE, Foresight, ZeroShotClassifier

QUICK: dict[str, Any] = {"n_steps": 20, "device": "cpu"}
LINEAR = {
    "CVC": CVC(hidden=16, **QUICK),
    "CVC, dot": CVC(hidden=16, similarity="dot", **QUICK),
    "CVC, linear output": CVC(hidden=16, output="linear", **QUICK),
    "CVC, relu output": CVC(hidden=16, output="relu", **QUICK),
    "CVC, penalty": CVC(hidden=16, seen_penalty=2.5, **QUICK),
    "CVC, vectors as they are": CVC(hidden=16, semantic_norm=None, **QUICK),
    "CVC, vectors of length 3": CVC(hidden=16, semantic_norm=3.0, **QUICK),
    "DEM": DEM(hidden=16, **QUICK),
    "DEM, distance": DEM(hidden=16, similarity="distance", seen_penalty=1.0, **QUICK),
    "DEM, distance of unit features": DEM(hidden=16, similarity="distance", feature_scaling="unit", **QUICK),
    "DEM, features as they are": DEM(hidden=16, feature_scaling="none", **QUICK),
    "ESZSL": ESZSL(seen_penalty=0.1),
    "ESZSL, unit": ESZSL(feature_scaling="unit", semantic_norm=None),
    "ESZSL, whitened": ESZSL(feature_scaling="whitened-0.3", seen_penalty=0.1),
    "DEM, distance of whitened features": DEM(hidden=16, similarity="distance", feature_scaling="whitened-0.1", **QUICK),
    "SJE, whitened": SJE(feature_scaling="whitened-0.9", **QUICK),
    "SAE": SAE(),
    "ALE": ALE(**QUICK),
    "ALE, standard": ALE(feature_scaling="standard", semantic_norm=2.0, **QUICK),
    "DEVISE": DEVISE(feature_scaling="none", **QUICK),
    "SJE": SJE(seen_penalty=-0.5, **QUICK),
    "Foresight": Foresight(),
    "Foresight, centred, penalty": Foresight(feature_scaling="centred", seen_penalty=3.0),
    "Foresight, linear": Foresight(generator="linear"),
    "Foresight, standard": Foresight(feature_scaling="standard", semantic_norm=None),
    "Foresight, linear generator": Foresight(generator="linear"),
    "Foresight, root": Foresight(feature_scaling="root"),
    "Foresight, equal lengths": Foresight(mean_length="equal", seen_penalty=0.5),
    "Foresight, root, equal lengths": Foresight(feature_scaling="root", mean_length="equal"),
}


def fitted(model: ZeroShotClassifier, data: ZeroShotDataset) -> ZeroShotClassifier:
    return model.fit(data.train.X, data.train.y, data.classes)


def assert_same_scores(found: np.ndarray, expected: np.ndarray) -> None:
    assert found.dtype == np.float32
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("name", LINEAR)
def test_scores_match_the_model(name: str, small_world: ZeroShotDataset) -> None:
    model = fitted(LINEAR[name], small_world)
    X = np.concatenate([small_world.test_unseen.X, 5 * small_world.test_seen.X])
    some = [*small_world.unseen[::-1].tolist(), *small_world.seen[:3].tolist()]
    for candidates in (None, "seen", "unseen", some, small_world.unseen[:1]):
        linear = model.to_linear(candidates)
        assert linear.labels.tolist() == model.candidates(candidates).tolist()
        assert linear.weights.shape == (len(linear.labels), X.shape[1])
        expected = model.decision_function(X, candidates)
        assert_same_scores(linear.scores(X), expected)
        clear = np.ptp(np.sort(expected, axis=1)[:, -2:], axis=1) > 1e-4 * np.abs(expected).max()  # no ties up to rounding
        assert (linear.predict(X) == model.predict(X, candidates))[clear | (expected.shape[1] == 1)].all()


def test_seen_penalty_is_part_of_the_bias(small_world: ZeroShotDataset) -> None:
    model = fitted(LINEAR["CVC"], small_world)
    before = model.to_linear()
    model.set_params(seen_penalty=7.0)
    after = model.to_linear()
    np.testing.assert_array_equal(after.weights, before.weights)
    assert (after.bias - before.bias).tolist() == [-7.0 if label in small_world.seen else 0.0 for label in after.labels]
    model.set_params(seen_penalty=0.0)


def test_adapted_model_uses_learned_classifiers_of_seen_classes(small_world: ZeroShotDataset) -> None:
    model = fitted(LINEAR["CVC"], small_world)
    adapted = model.adapt(small_world.test_unseen.X, rounds=2, steps_per_round=20)
    X = small_world.test_seen.X
    assert not np.allclose(adapted.to_linear("seen").scores(X), model.to_linear("seen").scores(X), rtol=1e-2)
    labels = [small_world.unseen[0], small_world.seen[2], small_world.unseen[1], small_world.seen[0]]
    assert_same_scores(adapted.to_linear(labels).scores(X), adapted.decision_function(X, labels))


def test_adapted_foresight_matches_its_linear_form(small_world: ZeroShotDataset) -> None:
    model = fitted(Foresight(), small_world)
    adapted = model.adapt(small_world.test_unseen.X).set_params(seen_penalty=2.0)
    adapted.add_classes({"novel": np.linspace(0, 1, small_world.classes.vectors.shape[1])})
    X = np.concatenate([small_world.test_seen.X, small_world.test_unseen.X])
    expected, found = adapted.decision_function(X), adapted.to_linear().scores(X)
    assert np.abs(found - expected).max() <= 1e-5 * np.ptp(expected)
    before = model.decision_function(X, "unseen")
    assert np.abs(adapted.to_linear(model.unseen_classes_).scores(X) - before).max() > 0.01 * np.ptp(before)


def test_added_classes_are_included(small_world: ZeroShotDataset) -> None:
    model = fitted(LINEAR["DEM"], small_world)
    model.add_classes({"novel": np.linspace(0, 1, small_world.classes.vectors.shape[1])})
    X = small_world.test_unseen.X
    assert_same_scores(model.to_linear(["novel"]).scores(X), model.decision_function(X, ["novel"]))


def test_two_classes_keep_two_columns() -> None:
    X, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
    model = ESZSL().fit(X, y)
    scores = model.to_linear().scores(X)
    assert_same_scores(scores, model.decision_function(X, [0, 1]))
    np.testing.assert_allclose(scores[:, 1] - scores[:, 0], model.decision_function(X), rtol=1e-3, atol=1e-5)


# -- Linear itself -------------------------------------------------------------------------------------------------------


def test_scores_and_predictions_match_plain_loops() -> None:
    rng = np.random.default_rng(1)
    shift, factor = rng.normal(size=(2, 4)).astype(np.float32)
    linear = Linear(np.array(["a", "b", "c"]), *rng.normal(size=(1, 3, 4)), rng.normal(size=3), True, shift, factor)
    X = rng.normal(size=(6, 4))
    best = []
    for x, found in zip(X, linear.scores(X), strict=True):
        scaled = [(x[i] - shift[i]) * factor[i] for i in range(4)]
        length = sum(value**2 for value in scaled) ** 0.5
        expected = [sum(w[i] * scaled[i] for i in range(4)) / length for w in linear.weights] + linear.bias
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
        best.append("abc"[expected.tolist().index(max(expected))])
    assert linear.predict(X).tolist() == best


def test_signed_square_root_is_taken_before_normalisation() -> None:
    weights, bias = np.array([[1, 2, 3], [0, -1, 1]], dtype=np.float32), np.array([1, -2], dtype=np.float32)
    linear = Linear(np.array(["a", "b"]), weights, bias, True, root=True)
    # Roots 2, -3, 6 have the length 7.
    np.testing.assert_allclose(linear.scores([[4, -9, 36], [0, 0, 0]]), [[14 / 7 + 1, 9 / 7 - 2], [1, -2]], rtol=1e-6)
    lone = Linear(linear.labels, weights, bias, False, root=True)
    np.testing.assert_allclose(lone.scores([[4, -9, 36]]), [[14 + 1, 9 - 2]], rtol=1e-6)


def test_plain_weights_apply_to_normalised_features_without_the_square_root() -> None:
    rng = np.random.default_rng(3)
    weights, plain = rng.normal(size=(2, 3, 4)).astype(np.float32)
    bias = rng.normal(size=3).astype(np.float32)
    linear = Linear(np.array(["a", "b", "c"]), weights, bias, True, root=True, plain=plain)
    X = rng.normal(size=(6, 4))
    for x, found in zip(X, linear.scores(X), strict=True):
        roots = [(1 if value > 0 else -1) * abs(value) ** 0.5 for value in x]
        length, own_length = (sum(value**2 for value in values) ** 0.5 for values in (roots, x))
        for k in range(3):
            by_root = sum(weights[k, i] * roots[i] for i in range(4)) / length
            expected = by_root + sum(plain[k, i] * x[i] for i in range(4)) / own_length + bias[k]
            assert found[k] == pytest.approx(expected, rel=1e-4, abs=1e-5)
    np.testing.assert_array_equal(linear.scores(np.zeros((1, 4))), bias[None])


def test_scores_of_a_zero_image_are_the_bias() -> None:
    linear = Linear(np.array([3, 4]), np.ones((2, 5), np.float32), np.array([0.5, -1], np.float32), True)
    assert linear.scores(np.zeros((1, 5))).tolist() == [[0.5, -1]]


@pytest.mark.parametrize("X", [np.zeros(5), np.zeros((2, 4)), np.zeros((1, 2, 5))])
def test_features_of_wrong_shape_raise_an_error(X: np.ndarray) -> None:
    linear = Linear(np.array([3, 4]), np.ones((2, 5), np.float32), np.zeros(2, np.float32), False)
    with pytest.raises(DataError, match=r"5 columns; got shape \("):
        linear.scores(X)


def test_classifier_map_matches_plain_loops() -> None:
    rng = np.random.default_rng(2)
    vectors, first, bias, second, learned = (rng.normal(size=size) for size in ((3, 4), (6, 4), 6, (5, 6), (2, 5)))
    seen_indices = np.array([-1, 1, -1])
    layers = (Layer(first, bias, rectify=True), Layer(second))
    w = np.array([[sum(second[k, h] * max(0.0, first[h] @ v + bias[h]) for h in range(6)) for k in range(5)] for v in vectors])
    made, no_bias = ClassifierMap(layers)(vectors, seen_indices)
    np.testing.assert_allclose(made, w, rtol=1e-5)
    assert no_bias.tolist() == [0, 0, 0]
    w[1] = learned[1]
    np.testing.assert_allclose(ClassifierMap(layers, learned=learned)(vectors, seen_indices)[0], w, rtol=1e-5)
    lengths = np.sqrt((w * w).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(
        ClassifierMap(layers, "cosine", 20.0, learned)(vectors, seen_indices)[0], 20 * w / lengths, rtol=1e-5
    )
    made, squares = ClassifierMap(layers, "distance", learned=learned)(vectors, seen_indices)
    x = rng.normal(size=5)
    np.testing.assert_allclose(made @ x + squares, [x @ x - ((x - row) ** 2).sum() for row in w], rtol=1e-5)
    # Images of nine features, projected to the space of w.
    projection, image = rng.normal(size=(5, 9)), rng.normal(size=9)
    x = np.array([sum(projection[k, i] * image[i] for i in range(9)) for k in range(5)])
    for similarity, expected in (
        ("dot", [row @ x for row in w]),
        ("cosine", [20 * row @ x / np.sqrt(row @ row) for row in w]),
        ("distance", [x @ x - ((x - row) ** 2).sum() for row in w]),
    ):
        made, squares = ClassifierMap(layers, similarity, 20.0, learned, projection)(vectors, seen_indices)
        assert made.shape == (3, 9)
        np.testing.assert_allclose(made @ image + squares, expected, rtol=1e-5)


@pytest.mark.parametrize("scaling", [{}, {"shift": np.arange(5, dtype=np.float32), "factor": np.ones(5, np.float32)}])
@pytest.mark.parametrize("labels", [["zebra", "Grünfink"], [10, 7], [0.5, 1.5]])
@pytest.mark.parametrize("root", [False, True])
def test_saved_file_restores_all_fields(tmp_path: Path, labels: list[Any], scaling: dict[str, Any], root: bool) -> None:
    rng = np.random.default_rng(0)
    weights, bias = rng.normal(size=(2, 5)).astype(np.float32), np.zeros(2, np.float32)
    linear = Linear(np.array(labels, dtype=object), weights, bias, True, **scaling, root=root)
    linear.save(tmp_path / "weights.npz")
    with np.load(tmp_path / "weights.npz", allow_pickle=False) as file:
        assert set(file) == {"labels", "weights", "bias", "normalise", "root", *scaling}
    X, read = rng.normal(size=(3, 5)), Linear.load(tmp_path / "weights.npz")
    assert read.root is root
    np.testing.assert_array_equal(read.scores(X), linear.scores(X))
    assert read.predict(X).tolist() == linear.predict(X).tolist()
    assert [path.name for path in tmp_path.iterdir()] == ["weights.npz"]


def test_older_file_without_root_is_read(tmp_path: Path) -> None:
    weights = np.eye(2, dtype=np.float32)
    np.savez(tmp_path / "weights.npz", labels=np.array([3, 4]), weights=weights, bias=weights[0], normalise=np.array(False))
    read = Linear.load(tmp_path / "weights.npz")
    assert read.root is False
    assert read.scores([[4.0, -9.0]]).tolist() == [[5.0, -9.0]]


def test_invalid_files_raise_an_error(tmp_path: Path) -> None:
    linear = Linear(np.array([3, 4]), np.ones((2, 5), np.float32), np.zeros(2, np.float32), False)
    with pytest.raises(SettingsError, match=r"must end in \.npz; got .*weights\.txt"):
        linear.save(tmp_path / "weights.txt")
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match="could not write"):
        linear.save(tmp_path / "file" / "weights.npz")
    np.savez(tmp_path / "other.npz", X=np.zeros(3))
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04 and then nothing")
    for name in ("missing.npz", "other.npz", "broken.npz", "file"):
        with pytest.raises(ModelError, match=f"{name} cannot be read as linear"):
            Linear.load(tmp_path / name)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"weights": np.ones(5)}, r"'weights' has shape \(5,\)"),
        ({"weights": np.ones((2, 5), complex)}, "'weights' has the type complex128"),
        ({"bias": np.array([np.nan, 0.0])}, "'bias' has values from nan"),
        ({"bias": np.zeros(3)}, r"'bias' has shape \(3,\); expected \(2,\)"),
        ({"normalise": np.ones(2, bool)}, "'normalise' has shape"),
        ({"shift": np.zeros(4)}, r"'shift' has shape \(4,\); expected \(5,\)"),
        ({"labels": np.array([3])}, "labels have shape"),
        ({"labels": np.array([{}, {}], dtype=object)}, "allow_pickle"),
    ],
)
def test_invalid_arrays_are_named(tmp_path: Path, changed: dict[str, Any], expected: str) -> None:
    arrays = {"labels": np.array([3, 4]), "weights": np.ones((2, 5)), "bias": np.zeros(2), "normalise": np.array(False)}
    np.savez(tmp_path / "weights.npz", **{**arrays, **changed})
    with pytest.raises(ModelError, match=f"weights.npz cannot be read as linear classifiers: .*{expected}"):
        Linear.load(tmp_path / "weights.npz")


@pytest.mark.parametrize("part", [0.0, 0.3, 0.9, 0.999])
def test_a_cut_file_is_refused(tmp_path: Path, part: float) -> None:
    Linear(np.array([3, 4]), np.ones((2, 50), np.float32), np.zeros(2, np.float32), False).save(tmp_path / "weights.npz")
    content = (tmp_path / "weights.npz").read_bytes()
    (tmp_path / "weights.npz").write_bytes(content[: int(part * len(content))])
    with pytest.raises(ModelError, match="cannot be read as linear classifiers"):
        Linear.load(tmp_path / "weights.npz")


def test_import_of_linear_does_not_import_torch() -> None:
    code = "import sys, sightunseen.core.linear; sys.exit('torch' in sys.modules or 'sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# -- models that are not linear ----------------------------------------------------------------------------------------------


def test_to_linear_of_a_nonlinear_model_raises_an_error(small_world: ZeroShotDataset) -> None:
    X = small_world.test_unseen.X
    propagating = fitted(ALE(**QUICK), small_world).adapt(X)
    several_maps = fitted(LATEM(n_steps=5, device="cpu"), small_world)
    for model in (propagating, several_maps, fitted(SAE(space="semantic"), small_world)):
        with pytest.raises(SettingsError, match=f"this {type(model).__name__} cannot be exported"):
            model.to_linear()
    with pytest.raises(SettingsError, match="'range' cuts features off"):
        fitted(ESZSL(feature_scaling="range"), small_world).to_linear()


@pytest.mark.parametrize("scaling", ["centred", "root"])
def test_cosine_with_centred_features_is_not_linear(scaling: str, small_world: ZeroShotDataset) -> None:
    """Features are normalised, centred and normalised again."""
    model = fitted(SAE(feature_scaling=scaling), small_world)
    with pytest.raises(SettingsError, match=f"cosine with centred features .*'{scaling}'.* is not linear"):
        model.to_linear()


def test_documentation_lists_every_linear_method() -> None:
    able = {name for name, method in METHODS.items() if method.classifier_map is not ZeroShotClassifier.classifier_map}
    elsewhere = {"LATEM", "CLIP"}  # LATEM: with a single map only; CLIP needs features of a dual encoder, see test_clip.py
    assert able - elsewhere == {name.partition(",")[0] for name in LINEAR}
    page = (Path(__file__).parents[3] / "docs" / "methods.md").read_text("utf-8")
    sentence = re.search(r"can be exported: ([^.]*)\.", page)
    assert sentence is not None
    assert able - {"LATEM"} == {name for name in METHODS if re.search(rf"\b{name}\b", sentence[1])}


def test_seen_indices_are_found_by_label() -> None:
    table = ClassTable(["d", "a", "c", "b"], np.eye(4))
    model = ESZSL().fit(np.eye(4)[:2], ["d", "b"], table)
    assert model.seen_indices(np.array(["a", "b", "c", "d"])).tolist() == [-1, 0, -1, 1]
