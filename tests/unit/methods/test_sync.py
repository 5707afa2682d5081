"""SYNC, compared with explicit loops, finite differences and scikit-learn's support vector machine."""

from typing import Any

import numpy as np
import pytest
from scipy import optimize
from sklearn.svm import LinearSVC

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import SettingsError
from sightunseen.data.synthetic_features import World, make_world
from sightunseen.methods.sync import SYNC, Loss, best_wrong_class, learned_classifiers, one_versus_other

RNG = np.random.default_rng(0)
TARGETS = np.array([0, 2, 1, 3, 2, 2])
SCORES = RNG.normal(size=(6, 4))
MARGINS = RNG.uniform(0.5, 2, (4, 4)) * (1 - np.eye(4))


@pytest.fixture(scope="module")
def world() -> ZeroShotDataset:
    return make_world(World(n_seen=12, n_unseen=4, n_attributes=6, n_features=10, images_per_class=10))


def test_one_versus_other_is_squared_hinge_of_each_class() -> None:
    total = 0.0
    for scores, target in zip(SCORES, TARGETS, strict=True):
        for c, score in enumerate(scores):
            total += max(0.0, 1 - (score if c == target else -score)) ** 2
    assert one_versus_other(TARGETS, 4)(SCORES)[0] == pytest.approx(total / len(SCORES), rel=1e-12)


def test_best_wrong_class_is_hinge_with_margin() -> None:
    total = 0.0
    for scores, target in zip(SCORES, TARGETS, strict=True):
        total += max(0.0, *(MARGINS[target, c] + scores[c] - scores[target] for c in range(4) if c != target))
    sharp = best_wrong_class(TARGETS, MARGINS, temperature=1e-9)(SCORES)[0]
    assert sharp == pytest.approx(total / len(SCORES), rel=1e-7)
    smooth = best_wrong_class(TARGETS, MARGINS, temperature=0.1)(SCORES)[0]
    assert sharp < smooth < sharp + 0.1 * np.log(4)


@pytest.mark.parametrize("loss", [one_versus_other(TARGETS, 4), best_wrong_class(TARGETS, MARGINS)])
def test_gradients_match_finite_differences(loss: Loss) -> None:
    found = optimize.approx_fprime(SCORES.ravel(), lambda flat: loss(flat.reshape(SCORES.shape))[0], 1e-7)
    np.testing.assert_allclose(loss(SCORES)[1].ravel(), found, atol=1e-6)


def test_one_versus_other_classifiers_match_linear_svc() -> None:
    X, targets = RNG.normal(size=(90, 5)), np.repeat(np.arange(3), 30)
    X[np.arange(90), targets] += 1.5
    penalty = 0.3
    # The objective of LinearSVC, 1/2 ||w||^2 + C sum hinge^2, is that of SYNC divided by lambda, with C = 1 / (lambda n).
    strength = penalty * np.square(X).sum() / X.size
    machine = LinearSVC(C=1 / (strength * len(X)), fit_intercept=False, tol=1e-10, max_iter=100_000, dual=True)
    found = learned_classifiers(X, one_versus_other(targets, 3), 3, penalty)
    np.testing.assert_allclose(found, machine.fit(X, targets).coef_, atol=2e-3)


@pytest.mark.parametrize("margins", [1 - np.eye(4), MARGINS])
def test_margin_classifiers_match_another_optimiser(margins: np.ndarray) -> None:
    X, targets, penalty = RNG.normal(size=(40, 3)), np.arange(40) % 4, 0.2
    loss, strength = best_wrong_class(targets, margins), penalty * np.square(X).sum() / X.size

    def objective(flat: np.ndarray) -> float:
        return loss(X @ flat.reshape(4, 3).T)[0] + strength / 2 * float(flat @ flat)

    best = optimize.minimize(objective, np.zeros(12), method="BFGS").fun
    assert objective(learned_classifiers(X, loss, 4, penalty).ravel()) == pytest.approx(best, rel=1e-4)


def test_narrow_softmax_gives_each_seen_class_its_own_phantom(world: ZeroShotDataset) -> None:
    model = SYNC(width=1e-3).fit(world.train.X, world.train.y, world.classes)
    X = model.scaling_(world.test_seen.X)
    np.testing.assert_allclose(model.decision_function(world.test_seen.X, "seen"), X @ model.phantom_classifiers_.T, atol=1e-5)


def test_seen_classifiers_do_not_depend_on_width_and_unseen_ones_are_mixtures(world: ZeroShotDataset) -> None:
    narrow, wide = (SYNC(width=width).fit(world.train.X, world.train.y, world.classes) for width in (1e-3, 0.8))
    X = world.test_unseen.X
    np.testing.assert_allclose(narrow.decision_function(X, "seen"), wide.decision_function(X, "seen"), atol=1e-4)

    labelled = zip(world.classes.labels, world.classes.vectors, strict=True)
    unit = {label: vector / np.linalg.norm(vector) for label, vector in labelled}
    gaps = [np.sum((unit[a] - unit[b]) ** 2) for a in world.seen for b in world.seen if a != b]
    sigma_squared = 0.8 * np.mean(gaps)
    a = unit[world.unseen[2]]
    nearness = np.array([np.exp(-np.sum((a - unit[seen]) ** 2) / sigma_squared) for seen in world.seen])
    classifier = sum(s * v for s, v in zip(nearness / nearness.sum(), wide.phantom_classifiers_, strict=True))
    scaled = X / np.linalg.norm(X, axis=1, keepdims=True)
    np.testing.assert_allclose(wide.decision_function(X, [world.unseen[2]])[:, 0], scaled @ classifier, atol=1e-4)


def test_structured_loss_separates_distant_classes_more(world: ZeroShotDataset) -> None:
    """Score differences correlate more with distances than they do with equal margins."""
    vectors = world.classes.vectors_of(world.seen)
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    pairs = np.triu_indices(len(vectors), 1)
    distances = np.square(vectors[:, None] - vectors).sum(axis=2)[pairs]
    related = {}
    for loss in ("crammer-singer", "structured"):
        model = SYNC(loss=loss, penalty=1e-3).fit(world.train.X, world.train.y, world.classes)
        scores = model.decision_function(world.train.X, "seen").astype(float)
        means = np.stack([scores[world.train.y == label].mean(axis=0) for label in world.seen])
        gaps = np.diag(means)[:, None] - means
        related[loss] = np.corrcoef(((gaps + gaps.T) / 2)[pairs], distances)[0, 1]
    assert related["structured"] > related["crammer-singer"]


@pytest.mark.parametrize(("name", "value"), [("loss", "hinge"), ("penalty", 0), ("width", -1.0)])
def test_invalid_hyperparameter_is_named(name: str, value: object, world: ZeroShotDataset) -> None:
    with pytest.raises(SettingsError, match=name):
        SYNC(**{name: value}).fit(world.train.X, world.train.y, world.classes)


@pytest.mark.parametrize("loss", [one_versus_other(TARGETS, 4), best_wrong_class(TARGETS, MARGINS)])
def test_classifiers_of_fewer_images_than_features_are_optimal(loss: Loss) -> None:
    """The gradient in all features is zero, w = -X' G / lambda, where G is the gradient of the loss in the scores."""
    X, penalty = np.random.default_rng(1).normal(size=(6, 30)), 0.5
    found = learned_classifiers(X, loss, 4, penalty)
    strength = penalty * np.square(X).sum() / X.size
    expected = -loss(X @ found.T)[1].T @ X / strength
    assert np.linalg.norm(found) > 0.1
    np.testing.assert_allclose(found, expected, atol=0.02 * abs(expected).max())


def test_fit_sharing_equals_fit(world: ZeroShotDataset) -> None:
    shared: dict[str, Any] = {}
    X, y, classes = world.train.X, world.train.y, world.classes
    for chosen in (
        {},
        {"width": 0.7},
        {"loss": "structured"},
        {"penalty": 0.3},
        {"feature_scaling": "none"},
        {"loss": "structured", "semantic_norm": None},
    ):
        together = SYNC(**chosen).fit_sharing(shared, X, y, classes)
        np.testing.assert_array_equal(together.phantom_classifiers_, SYNC(**chosen).fit(X, y, classes).phantom_classifiers_)
    assert len(shared) == 6
