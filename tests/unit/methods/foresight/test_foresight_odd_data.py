"""Foresight on degenerate data: few images, many features, constant features, unbalanced classes.

Warnings are errors in the test suite, so a division by zero or an overflow fails the test.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from sightunseen.methods import Foresight

Array = np.ndarray


@dataclass
class Things:
    """Images of classes whose means are a linear function of their class vectors, with little noise."""

    n_seen: int = 12
    n_unseen: int = 4
    n_features: int = 24
    images: int = 8  # per class
    n_attributes: int = 10

    def __post_init__(self) -> None:
        rng = np.random.default_rng(0)
        self.vectors = rng.random((self.n_seen + self.n_unseen, self.n_attributes))
        self.y = np.repeat(np.arange(self.n_seen), self.images)
        self.y_unseen = np.repeat(np.arange(self.n_seen, self.n_seen + self.n_unseen), self.images)
        means = (self.vectors - self.vectors.mean(axis=0)) @ rng.normal(size=(self.n_attributes, self.n_features))
        self.X, self.X_unseen = (
            (means[y] + 0.2 * rng.normal(size=(len(y), self.n_features))).astype(np.float32) for y in (self.y, self.y_unseen)
        )

    def use(self, **settings: Any) -> tuple[float, float]:
        """Fit, score and adapt, checking that all results are finite; return the accuracies before and after ``adapt``."""
        model = Foresight(**settings).fit(self.X, self.y, dict(enumerate(self.vectors)))
        adapted = model.adapt(self.X_unseen)
        for each in (model, adapted):
            assert np.isfinite(each.decision_function(self.X_unseen, "all")).all()
            assert np.isfinite(each.predict_proba(self.X, "seen")).all()
            assert np.isfinite(each.to_linear("all").weights).all()
        return model.score(self.X_unseen, self.y_unseen, "unseen"), adapted.score(self.X_unseen, self.y_unseen, "unseen")


@pytest.fixture(params=["root", "centred"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_negative_features(kind: str) -> None:
    things = Things()
    assert (things.X < 0).mean() > 0.3
    before, after = things.use(feature_scaling=kind)
    assert before > 0.6  # chance is 0.25
    assert after > 0.8


@pytest.mark.parametrize("value", [0.0, 5.0])
def test_constant_feature(value: float, kind: str) -> None:
    things = Things()
    things.X[:, 3] = things.X_unseen[:, 3] = value
    for shrinkage in (0.0, 0.5):
        assert things.use(feature_scaling=kind, shrinkage=shrinkage)[0] > 0.5


def test_feature_that_is_zero_in_all_training_images(kind: str) -> None:
    things = Things()
    things.X[:, 3] = 0
    assert things.use(feature_scaling=kind)[0] > 0.5


def test_zero_images(kind: str) -> None:
    things = Things()
    things.X[::10] = things.X_unseen[::10] = 0
    assert things.use(feature_scaling=kind)[0] > 0.5


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_identical_images_give_chance_accuracy(value: float, kind: str) -> None:
    things = Things()
    things.X[:] = things.X_unseen[:] = value
    assert things.use(feature_scaling=kind) == (0.25, 0.25)


@pytest.mark.parametrize("shrinkage", [0.0, 0.1, 1.0])
def test_more_features_than_images(shrinkage: float, kind: str) -> None:
    assert min(Things(n_features=1000, images=5).use(feature_scaling=kind, shrinkage=shrinkage)) > 0.6


def test_4096_features_and_five_images_per_class() -> None:
    assert min(Things(n_features=4096, images=5).use()) > 0.8


def test_single_image_per_class(kind: str) -> None:
    things = Things(images=1)
    assert things.use(feature_scaling=kind)[0] >= 0.75


@pytest.mark.parametrize(("n_seen", "least"), [(2, 0.2), (12, 0.6), (650, 0.9)])
def test_few_and_many_seen_classes(n_seen: int, least: float, kind: str) -> None:
    """Two classes allow little accuracy, but must not raise."""
    assert min(Things(n_seen=n_seen, images=5).use(feature_scaling=kind)) > least


def test_single_seen_class(kind: str) -> None:
    Things(n_seen=1, images=5).use(feature_scaling=kind)


def test_unbalanced_classes(kind: str) -> None:
    things = Things(n_seen=40, images=400)
    rows = np.concatenate([np.flatnonzero(things.y == c)[: 400 if c < 3 else 1] for c in range(40)])
    things.X, things.y = things.X[rows], things.y[rows]
    assert things.use(feature_scaling=kind)[0] > 0.5


def test_two_classes_with_the_same_vector(kind: str) -> None:
    things = Things()
    things.vectors[1] = things.vectors[0]
    for noise in (1e-9, 0.1):
        things.use(feature_scaling=kind, noise=noise)


def test_class_vector_equal_to_the_mean_of_the_seen_classes(kind: str) -> None:
    things = Things()
    things.vectors[-1] = things.vectors[:12].mean(axis=0)
    for norm in (1.0, None):
        assert things.use(feature_scaling=kind, semantic_norm=norm)[0] > 0.5


def test_double_single_and_memory_mapped_features_give_the_same_model(kind: str, tmp_path: Any) -> None:
    things = Things()
    np.save(tmp_path / "X.npy", things.X)
    forms = (things.X, things.X.astype(np.float64), np.load(tmp_path / "X.npy", mmap_mode="r"))
    models = [Foresight(feature_scaling=kind).fit(X, things.y, dict(enumerate(things.vectors))) for X in forms]
    for model in models[1:]:
        for name, array in model._arrays().items():
            np.testing.assert_array_equal(array, models[0]._arrays()[name])
