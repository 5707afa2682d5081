"""DAP: logistic regressions compared with scikit-learn, posterior compared with explicit products of probabilities."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from sightunseen.core.class_table import ClassTable
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import SettingsError
from sightunseen.methods.dap import DAP
from sightunseen.methods.shared.logistic_regression import logistic_regressions


def test_joint_regressions_match_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    X, targets = 5 + rng.standard_normal((60, 6)) * np.arange(1, 7), (rng.random((60, 3)) < [0.5, 0.2, 0.9]).astype(float)
    penalty = 0.2
    weights, intercepts = logistic_regressions(X, targets, penalty, tolerance=1e-15)
    C = 1 / (penalty * X.var(axis=0).mean() * len(X))
    for m in range(3):
        expected = LogisticRegression(C=C, tol=1e-9, solver="newton-cg", max_iter=1000).fit(X, targets[:, m])
        np.testing.assert_allclose(weights[:, m], expected.coef_[0], atol=1e-6)
        assert intercepts[m] == pytest.approx(expected.intercept_[0], abs=1e-5)


def test_probabilities_are_products_over_attributes(small_world: ZeroShotDataset) -> None:
    rng = np.random.default_rng(0)
    continuous = small_world.classes.vectors + 3 * rng.random(small_world.classes.vectors.shape)
    continuous[:, 4] = 2.0  # a constant attribute is left out
    table = ClassTable(small_world.classes.labels, continuous)
    model = DAP(feature_scaling="none").fit(small_world.train.X, small_world.train.y, table)
    seen = table.vectors_of(small_world.seen)
    means = seen.sum(axis=0) / len(seen)
    priors = (seen > means).sum(axis=0) / len(seen)
    X, labels = small_world.test_unseen.X[:5], small_world.unseen
    varying = np.delete(np.arange(len(means)), 4)
    targets = (table.vectors_of(small_world.train.y) > means)[:, varying].astype(np.float32)
    weights, intercepts = logistic_regressions(small_world.train.X, targets, model.penalty)
    p_attributes = dict(zip(varying.tolist(), expit(X @ weights + intercepts).T, strict=True))
    found = model.predict_proba(X, labels)
    for i in range(len(X)):
        posterior = np.ones(len(labels))
        for k, label in enumerate(labels):
            for m, value in enumerate(table.vectors_of([label])[0]):
                if m == 4:
                    continue
                has = value > means[m]
                likely = p_attributes[m][i] if has else 1 - p_attributes[m][i]
                posterior[k] *= likely / (priors[m] if has else 1 - priors[m])
        np.testing.assert_allclose(found[i], posterior / posterior.sum(), rtol=1e-3, atol=1e-7)


def test_attribute_constant_over_seen_classes_is_ignored(small_world: ZeroShotDataset) -> None:
    plain = DAP().fit(small_world.train.X, small_world.train.y, small_world.classes)
    unseen = np.isin(small_world.classes.labels, small_world.unseen)
    for constant in (0.0, 1.0):  # constant over seen classes, alternating over unseen ones
        column = np.where(unseen, np.arange(len(unseen)) % 2, constant)
        table = ClassTable(small_world.classes.labels, np.column_stack([small_world.classes.vectors, column]))
        model = DAP().fit(small_world.train.X, small_world.train.y, table)
        X = small_world.test_unseen.X
        np.testing.assert_allclose(model.decision_function(X), plain.decision_function(X), rtol=1e-5, atol=1e-5)


def test_many_attributes_do_not_underflow() -> None:
    rng = np.random.default_rng(0)
    vectors, X = (rng.random((5, 2000)) < 0.5).astype(float), rng.standard_normal((50, 8)).astype(np.float32)
    y = np.arange(50) % 4
    X[:, :4] += 20 * np.eye(4, dtype=np.float32)[y]
    model = DAP(penalty=1e-4, feature_scaling="none").fit(X, y, ClassTable(np.arange(5), vectors))
    scores = model.decision_function(X)
    assert np.isfinite(scores).all()
    assert abs(scores).max() > 1000  # exp(-1000) is zero in double precision
    np.testing.assert_array_equal(model.predict(X), y)


def test_invalid_penalty_is_named(small_world: ZeroShotDataset) -> None:
    with pytest.raises(SettingsError, match="penalty"):
        DAP(penalty=-1).fit(small_world.train.X, small_world.train.y, small_world.classes)


def test_fewer_images_than_features_match_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    X, targets = 5 + rng.standard_normal((15, 50)), np.array([np.arange(15) % 2, np.arange(15) % 5 == 0], dtype=float).T
    penalty = 0.2
    weights, intercepts = logistic_regressions(X, targets, penalty, tolerance=1e-15)
    C = 1 / (penalty * X.var(axis=0).mean() * len(X))
    for m in range(2):
        expected = LogisticRegression(C=C, tol=1e-9, solver="newton-cg", max_iter=1000).fit(X, targets[:, m])
        np.testing.assert_allclose(weights[:, m], expected.coef_[0], atol=1e-6)
        assert intercepts[m] == pytest.approx(expected.intercept_[0], abs=1e-5)
