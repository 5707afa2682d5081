"""Predictions as DataFrames of pandas and polars."""

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from sightunseen import ZeroShotSearchCV, evaluate
from sightunseen.core.calibration import Calibration
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import DataError, MissingDependencyError, SettingsError
from sightunseen.methods import CVC, ESZSL, Foresight, ZeroShotClassifier

METHODS = {
    "Foresight": Foresight(),
    "ESZSL": ESZSL(),
    "CVC": CVC(hidden=16, n_steps=20, learning_rate=1e-2, device="cpu"),
}
NAMES = [f"feature {k}" for k in range(24)]


@pytest.fixture(scope="module", params=METHODS)
def model(request: pytest.FixtureRequest, small_world: ZeroShotDataset) -> Iterator[ZeroShotClassifier]:
    frame = pd.DataFrame(small_world.train.X, columns=NAMES)
    return METHODS[request.param].fit(frame, small_world.train.y, small_world.classes)


@pytest.fixture(scope="module")
def photos(small_world: ZeroShotDataset) -> pd.DataFrame:
    X = small_world.test_unseen.X
    return pd.DataFrame(X, columns=NAMES, index=pd.Index([f"{k}.jpg" for k in range(len(X))], name="photo"))


@pytest.mark.parametrize("candidates", [None, "unseen", "seen"])
def test_frame_agrees_with_predict_and_probabilities(
    candidates: str | None, model: ZeroShotClassifier, photos: pd.DataFrame
) -> None:
    frame = model.predict_frame(photos, candidates, top=3)
    probability = "uncalibrated_probability"
    assert list(frame) == [
        *("class", probability, "seen", "class_2", f"{probability}_2", "class_3", f"{probability}_3"),
    ]
    pd.testing.assert_index_equal(frame.index, photos.index)
    np.testing.assert_array_equal(frame["class"], model.predict(photos, candidates))
    np.testing.assert_array_equal(frame["seen"], np.isin(frame["class"], model.seen_classes_))
    labels, shares = model.candidates(candidates), model.predict_proba(photos, candidates)
    best = np.sort(shares, axis=1)[:, ::-1]
    for k, suffix in enumerate(("", "_2", "_3")):
        np.testing.assert_allclose(frame[f"{probability}{suffix}"], best[:, k], rtol=1e-4)
        found = shares[np.arange(len(frame)), np.searchsorted(labels, frame[f"class{suffix}"].to_numpy(dtype=str))]
        np.testing.assert_allclose(found, best[:, k], rtol=1e-4)


def test_more_classes_than_candidates(model: ZeroShotClassifier, photos: pd.DataFrame) -> None:
    assert "class_4" in model.predict_frame(photos, "unseen", top=9)
    assert "class_5" not in model.predict_frame(photos, "unseen", top=9)


def test_calibrated_model_names_probabilities_and_rejections(small_world: ZeroShotDataset, photos: pd.DataFrame) -> None:
    model = ESZSL().fit(small_world.train.X, small_world.train.y, small_world.classes)
    scores = model.decision_function(photos.to_numpy())
    middle = float(np.median(scores.max(axis=1)))
    model.calibration_ = Calibration(temperature=0.5, ECE=1.0, ECE_before=2.0, none_below=middle)
    frame = model.predict_frame(photos.to_numpy())
    assert list(frame) == ["class", "probability", "seen", "none_of_these"]
    np.testing.assert_array_equal(frame["none_of_these"], model.is_none(scores, model.classes_))
    assert 0 < frame["none_of_these"].sum() < len(frame)
    np.testing.assert_allclose(frame["probability"], model.predict_proba(photos.to_numpy()).max(axis=1), rtol=1e-4)
    model.calibration_ = Calibration(temperature=0.5, ECE=1.0, ECE_before=2.0)
    assert list(model.predict_frame(photos.to_numpy())) == ["class", "probability", "seen"]


# -- the library of the frame ------------------------------------------------------------------------------------------


def as_polars(photos: pd.DataFrame) -> pl.DataFrame:
    return pl.DataFrame(photos.to_numpy(), schema=NAMES)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize(
    ("convert", "library"),
    [(lambda frame: frame, pd), (as_polars, pl), (pd.DataFrame.to_numpy, pd), (lambda frame: as_polars(frame).to_arrow(), pd)],
    ids=["pandas", "polars", "array", "Arrow"],
)
def test_frame_is_of_the_library_of_the_input(
    convert: Any, library: Any, model: ZeroShotClassifier, photos: pd.DataFrame
) -> None:
    X = convert(photos)
    frame = model.predict_frame(X)
    assert isinstance(frame, library.DataFrame)
    np.testing.assert_array_equal(frame["class"].to_numpy(), model.predict(photos))


def test_output_and_set_output_choose_the_library(model: ZeroShotClassifier, photos: pd.DataFrame) -> None:
    assert isinstance(model.predict_frame(photos, output="polars"), pl.DataFrame)
    with config_context(transform_output="polars"):
        assert isinstance(model.predict_frame(photos), pl.DataFrame)
        assert isinstance(model.predict_frame(photos, output="pandas"), pd.DataFrame)
    try:
        assert model.set_output(transform="polars") is model
        assert isinstance(model.predict_frame(photos), pl.DataFrame)
        assert isinstance(model.set_output().predict_frame(photos), pl.DataFrame)
        assert isinstance(model.predict_frame(photos, output="pandas"), pd.DataFrame)
        assert isinstance(model.predict(photos), np.ndarray)
        copied = clone(model)
        assert isinstance(copied.fit(photos, np.resize(["a", "b"], len(photos))).predict_frame(photos), pl.DataFrame)
    finally:
        model.set_output(transform="default")
    assert isinstance(model.predict_frame(photos), pd.DataFrame)


@pytest.mark.parametrize(("option", "value"), [("output", "spark"), ("output", 3), ("top", 0), ("top", 1.5), ("top", True)])
def test_invalid_option_is_an_error(option: str, value: Any, model: ZeroShotClassifier, photos: pd.DataFrame) -> None:
    with pytest.raises(SettingsError, match=option):
        model.predict_frame(photos, **{option: value})


def test_unknown_library_of_set_output_is_an_error(model: ZeroShotClassifier) -> None:
    with pytest.raises(SettingsError, match="default, pandas, polars"):
        model.set_output(transform="arrow")


def test_library_that_is_not_installed_is_named(
    model: ZeroShotClassifier, photos: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingDependencyError, match="pip install polars"):
        model.predict_frame(photos, output="polars")


# -- search ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "estimator",
    [ESZSL(), make_pipeline(StandardScaler(), ESZSL()), make_pipeline("passthrough", ESZSL()), make_pipeline(ESZSL())],
    ids=["method", "pipeline", "pipeline without transformer", "pipeline of one step"],
)
def test_search_takes_and_returns_frames(
    estimator: ZeroShotClassifier | Pipeline, small_world: ZeroShotDataset, photos: pd.DataFrame
) -> None:
    train, table = small_world.train, small_world.classes
    frame = pd.DataFrame(train.X, columns=NAMES)
    classes = pl.DataFrame({"class": table.labels, **{f"a{k}": column for k, column in enumerate(table.vectors.T)}})
    search = ZeroShotSearchCV(estimator, {}).fit(frame, pd.Series(train.y), classes)
    plain = ZeroShotSearchCV(estimator, {}).fit(train.X, train.y, table)
    assert search.feature_names_in_.tolist() == NAMES
    np.testing.assert_array_equal(search.predict(photos), plain.predict(photos.to_numpy()))
    np.testing.assert_allclose(search.predict_proba(photos), plain.predict_proba(photos.to_numpy()), rtol=1e-4, atol=1e-6)
    found = search.predict_frame(photos, "unseen", top=2)
    pd.testing.assert_index_equal(found.index, photos.index)
    np.testing.assert_array_equal(found["class"], search.predict(photos, "unseen"))
    assert "probability_2" in found
    np.testing.assert_array_equal(search.best_estimator_.predict(photos), search.predict(photos))
    truth = small_world.test_unseen.y
    found = evaluate(search, photos, truth)
    assert pytest.approx(100 * search.score(photos, truth, "unseen")) == found.T1
    assert isinstance(search.set_output(transform="polars").predict_frame(photos), pl.DataFrame)
    for call in (search.predict, search.predict_proba, search.decision_function, search.predict_frame):
        with pytest.raises(DataError, match="feature names should match"):
            call(photos[NAMES[::-1]])
        with pytest.raises(DataError, match="'path'"):
            call(photos.assign(path="a.jpg"))


def test_search_takes_columns_of_several_types(small_world: ZeroShotDataset) -> None:
    frame = pd.DataFrame(small_world.train.X, columns=NAMES).assign(day=True, count=1)
    plain = np.column_stack([small_world.train.X, np.ones((len(frame), 2))])
    found = ZeroShotSearchCV(ESZSL(), {}).fit(frame, small_world.train.y, small_world.classes)
    expected = ZeroShotSearchCV(ESZSL(), {}).fit(plain, small_world.train.y, small_world.classes)
    np.testing.assert_array_equal(found.predict(frame), expected.predict(plain))
    with pytest.raises(DataError, match="must be a table of numbers"):
        ZeroShotSearchCV(ESZSL(), {}).fit(
            frame.assign(day=[1, "x"] * (len(frame) // 2)), small_world.train.y, small_world.classes
        )


def test_search_without_classes_is_an_error(small_world: ZeroShotDataset) -> None:
    with pytest.raises(DataError, match="needs descriptions of the classes"):
        ZeroShotSearchCV(ESZSL()).fit(small_world.train.X, small_world.train.y)
