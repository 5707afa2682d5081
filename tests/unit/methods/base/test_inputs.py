"""Inputs of ``fit``, ``predict`` and ``add_classes``: arrays, tensors, series and DataFrames give the same model."""

import copy
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from sklearn.base import clone

from sightunseen import ClassTable, SeenClassesOnlyWarning, UncalibratedWarning, ZeroShotSearchCV, load_model
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import DataError
from sightunseen.methods import CVC, ESZSL, Foresight, ZeroShotClassifier

METHODS = {
    "Foresight": Foresight(),
    "ESZSL": ESZSL(),
    "CVC": CVC(hidden=16, n_steps=20, learning_rate=1e-2, device="cpu"),
}
NAMES = [f"feature {k}" for k in range(24)]

FEATURES = {
    "list": np.ndarray.tolist,
    "pandas": lambda X: pd.DataFrame(X, columns=NAMES),
    "pandas, numbered columns": pd.DataFrame,
    "pandas, index of text": lambda X: pd.DataFrame(X, columns=NAMES, index=[f"{k}.jpg" for k in range(len(X))]),
    "polars": lambda X: pl.DataFrame(X, schema=NAMES),
    "Arrow": lambda X: pa.table(dict(zip(NAMES, X.T, strict=True))),
    "tensor": torch.tensor,
    "tensor with gradient": lambda X: torch.tensor(X, requires_grad=True),
    "polars series of lists": lambda X: pl.Series(X.tolist()),
    "polars series of arrays": lambda X: pl.Series(X.tolist(), dtype=pl.Array(pl.Float32, 24)),
    "pandas series of lists": lambda X: pd.Series(X.tolist()),
}
LABELS = {
    "list": np.ndarray.tolist,
    "objects": lambda y: y.astype(object),
    "pandas": pd.Series,
    "pandas, other index": lambda y: pd.Series(y, index=range(7, 7 + len(y))),
    "pandas, categorical": lambda y: pd.Series(y, dtype="category"),
    "pandas index": pd.Index,
    "polars": pl.Series,
    "polars, categorical": lambda y: pl.Series(y).cast(pl.Categorical),
    "Arrow": lambda y: pa.chunked_array([y.tolist()]),
}


@pytest.fixture(scope="module", params=METHODS)
def method(request: pytest.FixtureRequest) -> ZeroShotClassifier:
    return METHODS[request.param]


@pytest.fixture(scope="module")
def plain(method: ZeroShotClassifier, small_world: ZeroShotDataset) -> ZeroShotClassifier:
    """Fitted to arrays and a class table."""
    return clone(method).fit(small_world.train.X, small_world.train.y, small_world.classes)


def class_forms(table: ClassTable) -> dict[str, Any]:
    labels, names = table.labels.tolist(), [f"attribute {k}" for k in range(table.vectors.shape[1])]
    frame = pd.DataFrame(table.vectors, index=labels, columns=names)
    return {
        "mapping": dict(zip(labels, table.vectors, strict=True)),
        "pandas": frame,
        "polars": pl.DataFrame({"class": labels, **{name: frame[name].to_numpy() for name in names}}),
        "pair": (labels, table.vectors),
        "attributes by name": frame.to_dict("index"),
    }


CLASS_FORMS = ("mapping", "pandas", "polars", "pair", "attributes by name")


@pytest.mark.parametrize("form", FEATURES)
def test_form_of_features_does_not_matter(
    form: str, method: ZeroShotClassifier, plain: ZeroShotClassifier, small_world: ZeroShotDataset
) -> None:
    given, (train, test) = FEATURES[form], (small_world.train, small_world.test_unseen)
    model = clone(method).fit(given(train.X), train.y, small_world.classes)
    np.testing.assert_array_equal(model.predict(given(test.X)), plain.predict(test.X))
    np.testing.assert_allclose(
        model.decision_function(given(test.X)), plain.decision_function(test.X), rtol=1e-4, atol=1e-4
    )  # another memory layout can change the order of summation
    assert model.score(given(test.X), test.y, "unseen") == plain.score(test.X, test.y, "unseen")


def test_half_precision_tensors(plain: ZeroShotClassifier, small_world: ZeroShotDataset) -> None:
    X = torch.tensor(small_world.test_unseen.X)
    for kind in (torch.bfloat16, torch.float16, torch.float64):
        rounded = X.to(kind)
        np.testing.assert_array_equal(plain.predict(rounded), plain.predict(rounded.to(torch.float32).numpy()))


@pytest.mark.parametrize("form", LABELS)
def test_form_of_labels_does_not_matter(
    form: str, method: ZeroShotClassifier, plain: ZeroShotClassifier, small_world: ZeroShotDataset
) -> None:
    train, test = small_world.train, small_world.test_seen
    model = clone(method).fit(train.X, LABELS[form](train.y), small_world.classes)
    np.testing.assert_array_equal(model.seen_classes_, plain.seen_classes_)
    assert model.seen_classes_.dtype.kind == model.predict(test.X).dtype.kind == "U"
    np.testing.assert_array_equal(model.decision_function(test.X), plain.decision_function(test.X))
    assert model.score(test.X, LABELS[form](test.y)) == plain.score(test.X, test.y)


@pytest.mark.parametrize("form", CLASS_FORMS)
def test_form_of_classes_does_not_matter(
    form: str, method: ZeroShotClassifier, plain: ZeroShotClassifier, small_world: ZeroShotDataset
) -> None:
    train, test = small_world.train, small_world.test_unseen
    model = clone(method).fit(train.X, train.y, class_forms(small_world.classes)[form])
    np.testing.assert_array_equal(model.decision_function(test.X), plain.decision_function(test.X))


@pytest.mark.parametrize("form", CLASS_FORMS)
def test_form_of_added_classes_does_not_matter(form: str, method: ZeroShotClassifier, small_world: ZeroShotDataset) -> None:
    classes, test = small_world.classes, small_world.test_unseen
    known, added = classes.only(small_world.seen), classes.only(small_world.unseen)
    first = class_forms(known)["pandas" if form in ("pandas", "polars", "attributes by name") else form]
    model = clone(method).fit(small_world.train.X, small_world.train.y, first)
    expected = copy.deepcopy(model).add_classes(ClassTable(added.labels, added.vectors))
    model.add_classes(class_forms(added)[form])
    np.testing.assert_array_equal(model.unseen_classes_, small_world.unseen)
    np.testing.assert_array_equal(model.decision_function(test.X), expected.decision_function(test.X))


def test_array_of_classes_in_the_order_of_the_labels(small_world: ZeroShotDataset) -> None:
    train = small_world.train
    model = ESZSL().fit(train.X, train.y, small_world.classes.vectors_of(small_world.seen))
    assert model.classes_.tolist() == small_world.seen.tolist()
    with pytest.raises(DataError, match="16 rows, but y has 12 labels"):
        ESZSL().fit(train.X, train.y, small_world.classes.vectors)
    names, numbers = np.unique(small_world.labels, return_inverse=True)
    if 0 in numbers[small_world.train_rows]:
        model = ESZSL().fit(train.X, numbers[small_world.train_rows], small_world.classes.vectors_of(names))
        assert len(model.unseen_classes_) == 4


@pytest.mark.parametrize("form", CLASS_FORMS)
def test_partial_fit_takes_the_same_classes(form: str, small_world: ZeroShotDataset) -> None:
    train, X = small_world.train, small_world.test_unseen.X
    expected = (
        Foresight().partial_fit(train.X[:150], train.y[:150], small_world.classes).partial_fit(train.X[150:], train.y[150:])
    )
    model = Foresight().partial_fit(
        pd.DataFrame(train.X[:150]), pd.Series(train.y[:150]), class_forms(small_world.classes)[form]
    )
    model.partial_fit(pd.DataFrame(train.X[150:]), pd.Series(train.y[150:]))
    np.testing.assert_array_equal(model.table_.vectors, expected.table_.vectors)
    np.testing.assert_allclose(model.decision_function(X), expected.decision_function(X), rtol=1e-4, atol=1e-4)


def test_partial_fit_with_a_list_of_labels_uses_one_hot_vectors(small_world: ZeroShotDataset) -> None:
    train = small_world.train
    model = ESZSL().partial_fit(train.X, train.y, small_world.seen.tolist())
    assert model.table_.use == "one-hot"


def test_fit_to_blocks_of_frames(small_world: ZeroShotDataset) -> None:
    train, X = small_world.train, small_world.test_unseen.X
    blocks = ((pd.DataFrame(train.X[rows], columns=NAMES), train.y[rows]) for rows in (slice(0, 100), slice(100, None)))
    model = ESZSL().fit(blocks, classes=class_forms(small_world.classes)["pandas"])
    assert model.feature_names_in_.tolist() == NAMES
    expected = ESZSL().fit(train.X, train.y, small_world.classes)
    np.testing.assert_array_equal(model.predict(pd.DataFrame(X, columns=NAMES)), expected.predict(X))


# -- texts -------------------------------------------------------------------------------------------------------------


def test_classes_by_text_are_added_to_a_loaded_model(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    train = small_world.train
    texts = {label: f"an animal with {k} spots" for k, label in enumerate(small_world.classes.labels.tolist())}
    model = ESZSL().fit(train.X, train.y, texts)
    assert model.table_.use == "text:all-MiniLM-L6-v2"
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model").add_classes({"okapi": "a brown animal with striped legs"})
    assert "okapi" in loaded.unseen_classes_
    assert loaded.table_.texts == {**texts, "okapi": "a brown animal with striped legs"}
    np.testing.assert_allclose(np.linalg.norm(loaded.table_.vectors_of(["okapi"])), 1, rtol=1e-5)


def test_text_for_a_model_of_attributes_is_an_error(small_world: ZeroShotDataset) -> None:
    model = ESZSL().fit(small_world.train.X, small_world.train.y, class_forms(small_world.classes)["pandas"])
    with pytest.raises(DataError, match="give attributes, such as attribute 0"):
        model.add_classes({"okapi": "a brown animal"})


# -- names of features -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "library", [pd.DataFrame, lambda X, columns: pl.DataFrame(X, schema=columns)], ids=["pandas", "polars"]
)
def test_columns_of_a_frame_must_be_those_of_the_fit(
    library: Any, method: ZeroShotClassifier, small_world: ZeroShotDataset
) -> None:
    train, X = small_world.train, small_world.test_unseen.X
    model = clone(method).fit(library(train.X, columns=NAMES), train.y, small_world.classes)
    assert model.feature_names_in_.tolist() == NAMES
    model.predict(library(X, columns=NAMES))
    for columns in (NAMES[::-1], [f"other {k}" for k in range(24)]):
        with pytest.raises(DataError, match="feature names should match"):
            model.predict(library(X, columns=columns))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(X)


def test_names_of_features_are_saved(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    train = small_world.train
    ESZSL().fit(pd.DataFrame(train.X, columns=NAMES), train.y, small_world.classes).save(tmp_path / "model")
    with pytest.raises(DataError, match="feature names should match"):
        load_model(tmp_path / "model").predict(pd.DataFrame(train.X, columns=NAMES[::-1]))


# -- refused -----------------------------------------------------------------------------------------------------------


def test_unusable_features_are_named(plain: ZeroShotClassifier, small_world: ZeroShotDataset) -> None:
    frame = pd.DataFrame(small_world.test_unseen.X, columns=NAMES)
    wrong = {
        "'path'": frame.assign(path="a.jpg"),
        "'day'": frame.assign(day=pd.Timestamp("2026-01-01")),
        r"\.collect\(\)": pl.from_pandas(frame).lazy(),
        "'embedding'": pl.DataFrame({"embedding": small_world.test_unseen.X.tolist()}),
        "cannot be converted": pd.Series([[1.0], [1.0, 2.0]]),
        "more than once": frame.set_axis([*NAMES[:-1], NAMES[0]], axis=1),
    }
    for message, X in wrong.items():
        for call in (plain.predict, plain.decision_function, plain.predict_frame, plain.scorer()):
            with pytest.raises(DataError, match=message):
                call(X)
        with pytest.raises(DataError, match=message):
            clone(plain).fit(X, small_world.test_unseen.y, small_world.classes)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_missing_label_is_named(missing: Any, small_world: ZeroShotDataset) -> None:
    y = small_world.train.y.astype(object)
    y[3] = missing
    for labels in (y, y.tolist(), pd.Series(y)):
        with pytest.raises(DataError, match="row 4 of y is missing"):
            ESZSL().fit(small_world.train.X, labels, small_world.classes)


def test_texts_and_numbers_as_labels_are_an_error(small_world: ZeroShotDataset) -> None:
    for labels in ([3, *small_world.train.y[1:].tolist()], pd.Series([3, *small_world.train.y[1:].tolist()])):
        with pytest.raises(DataError, match="all text or all numbers"):
            ESZSL().fit(small_world.train.X, labels, small_world.classes)


def test_labels_of_another_type_than_the_classes_are_an_error(method: ZeroShotClassifier, small_world: ZeroShotDataset) -> None:
    numbers = np.unique(small_world.train.y, return_inverse=True)[1]
    with pytest.raises(DataError, match="Use one type for both"):
        clone(method).fit(small_world.train.X, numbers, small_world.classes)


# -- warnings ----------------------------------------------------------------------------------------------------------


def test_fit_without_classes_warns_at_the_line_of_the_user(method: ZeroShotClassifier, small_world: ZeroShotDataset) -> None:
    with pytest.warns(
        SeenClassesOnlyWarning, match="only the 12 classes of y can be recognised.*fit\\(X, y, classes\\)"
    ) as found:
        model = clone(method).fit(small_world.train.X, small_world.train.y)
    assert len(model.unseen_classes_) == 0
    assert {Path(warning.filename).name for warning in found} == {Path(__file__).name}


def test_uncalibrated_probabilities_warn_once_and_can_be_silenced(
    plain: ZeroShotClassifier, small_world: ZeroShotDataset
) -> None:
    X, model = small_world.test_unseen.X, copy.deepcopy(plain)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for _ in range(3):
            model.predict_proba(X)
    assert [(warning.category, Path(warning.filename).name) for warning in found] == [
        (UncalibratedWarning, Path(__file__).name)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=UncalibratedWarning)
        copy.deepcopy(plain).predict_proba(X)


def test_other_calls_do_not_warn(plain: ZeroShotClassifier, small_world: ZeroShotDataset, tmp_path: Path) -> None:
    X, y = small_world.test_unseen.X, small_world.test_unseen.y
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain.predict(X)
        plain.decision_function(X)
        plain.top_classes(X)
        plain.predict_frame(X, top=3)
        plain.score(X, y)
        plain.save(tmp_path / "model")
        load_model(tmp_path / "model")


def test_calibrated_probabilities_do_not_warn(small_world: ZeroShotDataset) -> None:
    search = ZeroShotSearchCV(ESZSL(), {}).fit(small_world.train.X, small_world.train.y, small_world.classes)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search.predict_proba(small_world.test_unseen.X)
        search.best_estimator_.predict_proba(small_world.test_unseen.X)
