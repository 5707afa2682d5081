"""CONSE: softmax regression compared with scikit-learn, convex combination compared with explicit loops."""

from typing import Any

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import SettingsError
from sightunseen.methods.conse import CONSE
from sightunseen.methods.shared.logistic_regression import softmax_regression


def test_softmax_regression_matches_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    X, y = 5 + rng.standard_normal((60, 6)) * np.arange(1, 7), rng.integers(4, size=60)
    penalty = 0.2
    weights, intercepts = softmax_regression(X, np.eye(4)[y], penalty, tolerance=1e-15)
    C = 1 / (penalty * X.var(axis=0).mean() * len(X))
    expected = LogisticRegression(C=C, tol=1e-9, solver="newton-cg", max_iter=1000).fit(X, y)
    np.testing.assert_allclose(weights.T, expected.coef_, atol=1e-6)
    np.testing.assert_allclose(softmax(X @ weights + intercepts, axis=1), expected.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize("n_combined", [1, 3, 50])
def test_scores_are_cosines_with_the_combined_vectors(small_world: ZeroShotDataset, n_combined: int) -> None:
    model = CONSE(n_combined, feature_scaling="none", semantic_norm=None)
    model.fit(small_world.train.X, small_world.train.y, small_world.classes)
    X = small_world.test_unseen.X[:4]
    scores = model.decision_function(X)
    table = small_world.classes
    for x, found in zip(X, scores, strict=True):
        p = softmax(x @ model.map_ + model.intercepts_)
        best = sorted(range(len(p)), key=lambda k: -p[k])[:n_combined]
        described = sum(p[k] * table.vectors_of([model.seen_classes_[k]])[0] for k in best) / sum(p[k] for k in best)
        for label, score in zip(model.classes_, found, strict=True):
            vector = table.vectors_of([label])[0]
            cosine = described @ vector / np.sqrt((described @ described) * (vector @ vector))
            assert score == pytest.approx(cosine, abs=1e-5)


def test_seen_images_are_described_by_their_own_class(small_world: ZeroShotDataset) -> None:
    model = CONSE(n_combined=1).fit(small_world.train.X, small_world.train.y, small_world.classes)
    best = model.seen_classes_[model.decision_function(small_world.train.X, "seen").argmax(axis=1)]
    assert np.mean(best == small_world.train.y) > 0.95


@pytest.mark.parametrize(("name", "value"), [("n_combined", 0), ("penalty", 0.0)])
def test_invalid_hyperparameter_is_named(name: str, value: object, small_world: ZeroShotDataset) -> None:
    with pytest.raises(SettingsError, match=name):
        CONSE(**{name: value}).fit(small_world.train.X, small_world.train.y, small_world.classes)


def test_fewer_images_than_features_match_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    X, y, penalty = 5 + rng.standard_normal((16, 50)), np.arange(16) % 4, 0.2
    weights, intercepts = softmax_regression(X, np.eye(4)[y], penalty, tolerance=1e-15)
    C = 1 / (penalty * X.var(axis=0).mean() * len(X))
    expected = LogisticRegression(C=C, tol=1e-9, solver="newton-cg", max_iter=1000).fit(X, y)
    np.testing.assert_allclose(weights.T, expected.coef_, atol=1e-6)
    np.testing.assert_allclose(softmax(X @ weights + intercepts, axis=1), expected.predict_proba(X), atol=1e-6)


def test_fit_sharing_equals_fit(small_world: ZeroShotDataset) -> None:
    shared: dict[str, Any] = {}
    X, y, classes = small_world.train.X, small_world.train.y, small_world.classes
    for chosen in ({}, {"n_combined": 2}, {"penalty": 0.3}, {"feature_scaling": "unit"}, {"semantic_norm": None}):
        together, alone = CONSE(**chosen).fit_sharing(shared, X, y, classes), CONSE(**chosen).fit(X, y, classes)
        np.testing.assert_array_equal(together.decision_function(X), alone.decision_function(X))
    assert len(shared) == 4  # the scalings, and a regression for each scaling and penalty
