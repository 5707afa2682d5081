"""Scores without some of the classes agree with a regression on the kept classes that is solved by dense algebra."""

from typing import Any

import numpy as np
import pytest

from sightunseen.core.class_table import ClassTable
from sightunseen.core.errors import SettingsError
from sightunseen.methods import Foresight
from sightunseen.methods.foresight.leave_out import coefficients
from sightunseen.methods.foresight.wide_generator import wide_kernel

Array = np.ndarray
CLASSES = 9


class Things:
    """Random images of nine classes of 2 to 14 images, whose means depend on their vectors; and images to score."""

    def __init__(self, n_features: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        counts = rng.permutation([2, 3, 4, 5, 6, 8, 10, 12, 14])
        vectors = rng.random((CLASSES, 5))
        self.table = ClassTable([f"c{k}" for k in range(CLASSES)], vectors)
        self.targets = rng.permutation(np.repeat(np.arange(CLASSES), counts))
        self.tested = np.repeat(np.arange(CLASSES), 4)
        means = np.maximum(vectors - 0.5, 0) @ rng.normal(size=(5, n_features)) * 2
        mixing = rng.normal(size=(n_features, n_features)) / np.sqrt(n_features)
        self.X, self.X_test = (
            (means[targets] + rng.normal(size=(len(targets), n_features)) @ mixing + 0.5).astype(np.float32)
            for targets in (self.targets, self.tested)
        )
        self.y = np.array([f"c{k}" for k in self.targets])

    def scores(self, left_out: list[Array], *parameters: dict[str, Any]) -> dict[tuple[int, int], Array]:
        model = Foresight()
        images = model.training_images(self.X, self.y, parameters, {})
        found = model.left_out_scores(images, self.table, self.X_test, left_out, parameters)
        return {(c, k): scores for c, k, scores in found}


def scaled(X: Array, of: Array, kind: str) -> Array:
    """Scale images (n, d) in double precision, with the statistics of the images in ``of``."""
    X, of = X.astype(float), of.astype(float)
    if kind == "none":
        return X
    if kind == "standard":
        return np.asarray((X - of.mean(axis=0)) / of.std(axis=0))
    if kind == "root":
        X, of = (np.sign(values) * np.abs(values) ** 0.5 for values in (X, of))
    X, of = (values / np.sqrt((values**2).sum(axis=1, keepdims=True)) for values in (X, of))
    return np.asarray(X if kind == "unit" else X - of.mean(axis=0))


def reference(things: Things, kept: Array, kind: str, **chosen: Any) -> Array:
    """Log densities (m, s): covariance of all classes, everything else from the kept ones; dense matrices of all views."""
    targets, inside = things.targets, np.isin(things.targets, kept)
    train, test, blocks = [], [], []
    for part in kind.split("+"):
        own, other = scaled(things.X, things.X, part), scaled(things.X_test, things.X, part)
        around = own - np.array([own[targets == c].mean(axis=0) for c in range(CLASSES)])[targets]
        covariance = around.T @ around / len(own)
        size = len(covariance)
        blocks.append((1 - chosen["shrinkage"]) * covariance + chosen["shrinkage"] * np.trace(covariance) / size * np.eye(size))
        origin = 0 if part in ("none", "unit") else own[inside].mean(axis=0)
        train.append(own - origin)
        test.append(other - origin)
    images, new = np.hstack(train), np.hstack(test)
    covariance = np.zeros((images.shape[1],) * 2)
    for k, block in enumerate(blocks):
        rows = slice(k * len(block), (k + 1) * len(block))
        covariance[rows, rows] = block
    precision = np.linalg.inv(2 * covariance)

    means = np.array([images[targets == c].mean(axis=0) for c in kept])
    vectors = things.table.vectors_of(things.table.labels).astype(float)
    vectors = vectors / np.sqrt((vectors**2).sum(axis=1, keepdims=True))
    vectors = vectors - vectors[kept].mean(axis=0)
    vectors = vectors / np.sqrt((vectors[kept] ** 2).sum(axis=1).mean())
    kernel = vectors @ vectors[kept].T if chosen["generator"] == "linear" else wide_kernel(vectors, vectors[kept])
    counts = np.array([(targets == c).sum() for c in kept])
    ridge = kernel[kept] + np.diag(chosen["noise"] * counts.mean() / counts)
    predicted = kernel @ np.linalg.inv(ridge) @ means
    if chosen["mean_length"] == "equal":
        length = np.sqrt(np.mean([m @ precision @ m for m in means]))
        predicted = np.array([length * p / np.sqrt(p @ precision @ p) for p in predicted])
    return np.array([[-(x - p) @ precision @ (x - p) for p in predicted] for x in new])


def assert_close(found: Array, expected: Array, part: float = 1e-4) -> None:
    """Compare scores up to a constant per image."""
    found, expected = (scores - scores.mean(axis=1, keepdims=True) for scores in (found.astype(float), expected.astype(float)))
    assert np.ptp(expected) > 0.5
    np.testing.assert_allclose(found, expected, rtol=0, atol=part * np.ptp(expected))


@pytest.mark.parametrize("n_features", [6, 200], ids=["more images than features", "fewer images than features"])
@pytest.mark.parametrize("kind", ["root", "centred", "root+centred", "standard", "none", "unit"])
@pytest.mark.parametrize("mean_length", ["predicted", "equal"])
def test_scores_agree_with_dense_algebra(n_features: int, kind: str, mean_length: str) -> None:
    things = Things(n_features)
    left_out = [np.array(["c1", "c4"]), np.array(["c0", "c2", "c8"]), np.array(["c3"])]
    parameters: list[dict[str, Any]] = [
        {"shrinkage": shrinkage, "noise": noise, "generator": generator, "mean_length": mean_length}
        for shrinkage in (0.1, 0.6, 1.0)
        for noise, generator in ((0.1, "wide"), (1.0, "linear"))
    ]
    found = things.scores(left_out, *({**chosen, "feature_scaling": kind} for chosen in parameters))
    assert sorted(found) == [(c, k) for c in range(len(parameters)) for k in range(3)]
    for (c, k), scores in found.items():
        assert scores.shape == (36, CLASSES)
        kept = np.setdiff1d(np.arange(CLASSES), [int(label[1]) for label in left_out[k]])
        assert_close(scores, reference(things, kept, kind, **parameters[c]), 1e-3 if kind == "standard" else 1e-4)


def test_combinations_may_differ_in_everything_at_once() -> None:
    things = Things(7)
    parameters: list[dict[str, Any]] = [
        {"feature_scaling": "root", "shrinkage": 0.2, "noise": 0.5, "generator": "linear", "mean_length": "equal"},
        {"feature_scaling": "root+centred", "shrinkage": 0.9, "noise": 0.1, "generator": "wide", "mean_length": "predicted"},
        {"feature_scaling": "centred", "shrinkage": 0.2, "noise": 0.1, "generator": "wide", "mean_length": "equal"},
    ]
    together = things.scores([np.array(["c5", "c6"])], *parameters)
    for c, chosen in enumerate(parameters):
        (alone,) = things.scores([np.array(["c5", "c6"])], chosen).values()
        np.testing.assert_array_equal(together[c, 0], alone)
        others = {name: value for name, value in chosen.items() if name != "feature_scaling"}
        kept = np.array([0, 1, 2, 3, 4, 7, 8])
        assert_close(alone, reference(things, kept, chosen["feature_scaling"], **others))


@pytest.mark.parametrize("n_features", [6, 200])
@pytest.mark.parametrize("kind", ["root", "centred", "root+centred", "standard", "range", "unit", "none"])
@pytest.mark.parametrize("mean_length", ["predicted", "equal"])
@pytest.mark.parametrize("semantic_norm", [1.0, None, "sqrt"])
def test_without_left_out_classes_scores_are_those_of_a_fitted_model(
    n_features: int, kind: str, mean_length: str, semantic_norm: Any
) -> None:
    things = Things(n_features, seed=1)
    chosen = {"feature_scaling": kind, "mean_length": mean_length, "semantic_norm": semantic_norm, "shrinkage": 0.3}
    (found,) = things.scores([np.array([], dtype="<U2")], chosen).values()
    model = Foresight(**chosen).fit(things.X, things.y, things.table)
    assert_close(found, model.decision_function(things.X_test), 1e-3)


def test_left_out_images_only_affect_the_covariance() -> None:
    """With shrinkage 1 only the mean variance is left of the covariance, so moving a left-out class changes nothing."""
    things, moved = Things(6), Things(6)
    own = moved.targets == 4
    moved.X[own] = moved.X[own] + 3.0
    chosen = {"feature_scaling": "none", "shrinkage": 1.0}
    for left_out, same in ((["c4"], True), (["c3"], False)):
        (one,), (other,) = (which.scores([np.array(left_out)], chosen).values() for which in (things, moved))
        differences = (one - one[:, :1]), (other - other[:, :1])
        assert np.allclose(*differences, atol=1e-3 * np.ptp(differences[0])) == same


def test_coefficients_reproduce_the_targets_of_kept_classes_without_noise() -> None:
    vectors, counts = np.random.default_rng(0).normal(size=(6, 3)), np.array([1.0, 5, 2, 9, 3, 4])
    kept = np.array([0, 2, 3, 5])
    little, much = coefficients(vectors, kept, counts, False, [1e-9, 1e9])
    assert little.shape == (6, 4)
    np.testing.assert_allclose(little[kept], np.eye(4), atol=1e-6)
    np.testing.assert_allclose(much, 0, atol=1e-6)


def test_invalid_hyperparameter_is_named() -> None:
    with pytest.raises(SettingsError, match="mean_length"):
        Things(6).scores([np.array(["c1"])], {"mean_length": "long"})
