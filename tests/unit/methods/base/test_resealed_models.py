"""Model folders with valid checksums and wrong content: they are refused with an error, and nothing large is allocated."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sightunseen.core.class_table import ClassTable
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import ModelError
from sightunseen.core.model_files import ModelFiles, write_model
from sightunseen.methods import METHODS, AdaptableClassifier, Foresight, ZeroShotClassifier, load_model
from sightunseen.methods.base.serialisation import as_files

SMALL = {
    "n_steps": 4,
    "hidden": 8,
    "device": "cpu",
    "steps": 1,
    "components": 5,
    "classifier_steps": 3,
    "rounds": 1,
    "steps_per_round": 2,
    "n_synthesised": 2,
    "noise_size": 3,
}
Content = dict[str, Any]
Arrays = dict[str, NDArray[Any]]


def fitted(name: str, data: ZeroShotDataset, **settings: Any) -> ZeroShotClassifier:
    method = METHODS[name]
    known = method._get_param_names()
    model = method(**{key: value for key, value in SMALL.items() if key in known}, **settings)
    classes = data.classes
    if name == "CLIP":  # embeddings of images and texts have one size
        classes = ClassTable(classes.labels, np.resize(classes.vectors, (len(classes.labels), data.train.X.shape[1])))
    return model.fit(data.train.X, data.train.y, classes)


@pytest.fixture(scope="module", params=list(METHODS))
def files(request: pytest.FixtureRequest, small_world: ZeroShotDataset) -> ModelFiles:
    """Content of a model folder of each method."""
    return as_files(fitted(request.param, small_world), None)


@pytest.fixture(scope="module")
def foresight(small_world: ZeroShotDataset) -> ModelFiles:
    """Content of a model folder of one method, for entries that all methods share."""
    return as_files(fitted("Foresight", small_world), None)


def changed(files: ModelFiles, content: Mapping[str, Any] | None = None, arrays: Arrays | None = None) -> ModelFiles:
    return replace(files, content={**files.content, **(content or {})}, arrays={**files.arrays, **(arrays or {})})


def check_refused(files: ModelFiles, expected: str = "the model folder again") -> None:
    with pytest.raises(ModelError, match=expected) as caught:
        METHODS[files.method].from_files(files, "some/model")
    message = str(caught.value)
    assert message.startswith(f"some/model cannot be used as a {files.method} model: ")
    assert message.endswith("Copy the model folder again, or train again.")
    assert len(message) <= 500


def nan_of(array: NDArray[Any]) -> NDArray[Any]:
    return np.full_like(array, np.nan) if array.dtype.kind == "f" else array.astype(np.float32)


CHANGES: dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "another dimension": lambda array: array[None],
    "bytes": lambda array: np.ascontiguousarray(array).reshape(-1).view(np.uint8),
    "complex numbers": lambda array: np.zeros(array.shape, np.complex64),
    "NaN": nan_of,
    "twice as many": lambda array: np.concatenate([array, array]) if array.ndim else np.stack([array, array]),
}


def test_unchanged_files_are_loaded(files: ModelFiles) -> None:
    assert METHODS[files.method].from_files(files).classes_.tolist() == sorted(files.content["labels"])


@pytest.mark.parametrize("change", CHANGES)
def test_every_array_is_checked(files: ModelFiles, change: str) -> None:
    for name, array in files.arrays.items():
        if array.size:  # Foresight without examples and GFZSL without classes of its own have empty arrays
            check_refused(changed(files, arrays={name: CHANGES[change](array)}))


def test_a_missing_array_is_named(files: ModelFiles) -> None:
    later = ("generator.linear", "generator.length", "whitening.root", "n_images")  # folders of earlier releases lack these
    for missing in set(files.arrays) - {*later, *(name for name in files.arrays if name.startswith("attribute_scaling"))}:
        others = {name: array for name, array in files.arrays.items() if name != missing}
        check_refused(replace(files, arrays=others), f"the array '{missing}' is missing")


@pytest.mark.parametrize("size", [1, 23, 25, 10**7])
def test_features_of_another_number_are_refused(files: ModelFiles, size: int) -> None:
    """No array of this size is allocated: the error is that of the comparison of shapes."""
    check_refused(changed(files, {"n_features": size}), "has shape")


def test_networks_of_another_size_are_not_allocated(files: ModelFiles) -> None:
    settings = files.content["settings"]
    for name in {"hidden", "noise_size", "n_maps"} & set(settings):
        check_refused(changed(files, {"settings": {**settings, name: 10**9}}), "has shape|at most")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"settings": []}, "settings"),
        ({"settings": {"shrinkag": 0.5}}, "no hyperparameter 'shrinkag'"),
        ({"settings": {"shrinkage": "large"}}, "shrinkage must be a number"),
        ({"settings": {"shrinkage": {"a": 1}}}, "settings.shrinkage"),
        ({"settings": {"seen_penalty": 1e300}}, "settings.seen_penalty"),
        ({"labels": "all"}, "labels"),
        ({"labels": []}, "labels"),
        ({"labels": ["a", 1]}, "labels"),
        ({"labels": ["a"] * 16}, "unique"),
        ({"labels": ["a" * 1001] * 16}, "labels"),
        ({"labels": list(range(10**19, 10**19 + 16))}, "labels"),
        ({"seen": []}, "seen"),
        ({"seen": ["nobody"]}, "nobody"),
        ({"semantics": None}, "semantics"),
        ({"attribute_names": ["legs"]}, "attribute names"),
        ({"n_features": 0}, "n_features"),
        ({"n_features": 10**12}, "n_features"),
        ({"n_features": "24"}, "n_features"),
        ({"feature_names": ["one"]}, "feature names"),
        ({"calibration": {"temperature": 1.0}}, "calibration"),
        ({"calibration": {"temperature": 0.0, "ECE": 1.0, "ECE_before": 1.0}}, "calibration.temperature"),
        ({"adaptation": {"rounds": {}}}, "adaptation"),
    ],
)
def test_invalid_content_is_refused(foresight: ModelFiles, content: Content, expected: str) -> None:
    check_refused(changed(foresight, content), expected)


@pytest.mark.parametrize("entry", ["settings", "labels", "seen", "semantics", "attribute_names", "n_features"])
def test_a_missing_entry_is_named(foresight: ModelFiles, entry: str) -> None:
    content = {key: value for key, value in foresight.content.items() if key != entry}
    check_refused(replace(foresight, content=content), entry)


@pytest.mark.parametrize("scaling", [None, "root", "auto", "", 1])
def test_the_scaling_that_auto_chose_must_be_one_of_two(scaling: object, small_world: ZeroShotDataset) -> None:
    check_refused(changed(as_files(fitted("FCLSWGAN", small_world), None), {"scaling": scaling}), "scaling")


def test_models_of_version_0_2_0_have_features_from_0_to_1(small_world: ZeroShotDataset) -> None:
    model = fitted("FCLSWGAN", small_world, feature_scaling="range")
    files = as_files(model, None)
    settings = {name: value for name, value in files.content["settings"].items() if name != "feature_scaling"}
    content = {name: value for name, value in files.content.items() if name != "scaling"} | {"settings": settings}
    loaded = METHODS["FCLSWGAN"].from_files(replace(files, content=content))
    X = small_world.test_unseen.X - 1  # negative features do not matter to a fitted scaling
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))


def test_unsorted_seen_classes_are_refused(foresight: ModelFiles) -> None:
    check_refused(changed(foresight, {"seen": foresight.content["seen"][::-1]}), "not sorted")


@pytest.mark.parametrize(("value", "shown"), [(-1, "-1"), (16, "16"), (2**40, "1.09951e[+]12")])
def test_indices_out_of_range_are_refused(foresight: ModelFiles, value: int, shown: str) -> None:
    rows = np.full_like(foresight.arrays["class_means.rows"], value)
    check_refused(changed(foresight, arrays={"class_means.rows": rows}), f"values from {shown} .* expected 0 to 15")


@pytest.mark.parametrize("name", ["ALE", "CVC", "DSRL", "Foresight", "GFZSL", "QFSL"])
def test_arrays_of_adapted_models_are_checked(name: str, small_world: ZeroShotDataset) -> None:
    model = fitted(name, small_world)
    assert isinstance(model, AdaptableClassifier)
    settings = {key: value for key, value in SMALL.items() if key in model.adaptation_defaults()}
    files = as_files(model.adapt(small_world.test_unseen.X, **settings), None)
    METHODS[name].from_files(files)
    any_number = ("propagation.unlabelled", "propagation.vectors")  # of images and classes
    for array_name, array in files.arrays.items():
        for change, function in CHANGES.items():
            if array.size and not (array_name in any_number and change == "twice as many"):
                check_refused(changed(files, arrays={array_name: function(array)}))


@pytest.mark.parametrize(
    ("method", "array", "numbers"),
    [
        ("ALE", "propagation.settings", [1e9, 0.7, 10.0]),
        ("ALE", "propagation.settings", [5.0, 1.0, 10.0]),
        ("ALE", "propagation.settings", [0.0, 0.7, 10.0]),
        ("DSRL", "propagation.numbers", [1.0, 1e9, 0.5]),
        ("DSRL", "propagation.numbers", [1.0, 10.0, 1.5]),
    ],
)
def test_impossible_graphs_are_refused(method: str, array: str, numbers: list[float], small_world: ZeroShotDataset) -> None:
    model = fitted(method, small_world)
    assert isinstance(model, AdaptableClassifier)
    files = as_files(model.adapt(small_world.test_unseen.X), None)
    check_refused(changed(files, arrays={array: np.array(numbers)}), "neighbours|alpha")


def test_entries_that_this_version_does_not_know_are_ignored(foresight: ModelFiles) -> None:
    files = changed(foresight, {"further": 1}, {"further": np.zeros(3)})
    assert Foresight.from_files(files).classes_.tolist() == Foresight.from_files(foresight).classes_.tolist()


@pytest.mark.parametrize("method", ["Nothing", "", "x" * 10**5])
def test_an_unknown_method_is_refused(foresight: ModelFiles, tmp_path: Path, method: str) -> None:
    write_model(tmp_path / "model", replace(foresight, method=method))
    with pytest.raises(ModelError, match="unknown method"):
        load_model(tmp_path / "model")


def test_the_error_names_the_folder(foresight: ModelFiles, tmp_path: Path) -> None:
    write_model(tmp_path / "model", changed(foresight, {"n_features": 3}))
    for load in (load_model, Foresight.load):
        with pytest.raises(ModelError, match=f"^{tmp_path}/model cannot be used as a Foresight model"):
            load(tmp_path / "model")


def test_a_model_trained_on_a_gpu_is_loaded_without_one(small_world: ZeroShotDataset) -> None:
    files = as_files(fitted("DEM", small_world), None)
    restored = METHODS["DEM"].from_files(changed(files, {"settings": {**files.content["settings"], "device": "cuda"}}))
    assert restored.get_params()["device"] == "cuda"


@pytest.mark.parametrize("factor", [1e-12, 1e12])
@pytest.mark.parametrize("method", ["Foresight", "ESZSL", "SAE", "GFZSL", "DEM"])
def test_model_of_tiny_or_huge_features_is_loaded(
    small_world: ZeroShotDataset, tmp_path: Path, method: str, factor: float
) -> None:
    quick = {"n_steps": 5} if method == "DEM" else {}
    images, others = (split.X * np.float32(factor) for split in (small_world.train, small_world.test_unseen))
    model = METHODS[method](**quick).fit(images, small_world.train.y, small_world.classes)
    model.save(tmp_path / "model")
    assert load_model(tmp_path / "model").predict(others).tolist() == model.predict(others).tolist()
