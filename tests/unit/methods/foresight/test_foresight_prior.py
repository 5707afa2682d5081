"""``Foresight.adapt`` with known and unknown class shares of the unlabelled images."""

from typing import Any

import numpy as np
import pytest
from scipy.special import softmax

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import DataError
from sightunseen.methods import Foresight
from sightunseen.methods.foresight.pseudo_labels import soft_labels


@pytest.fixture(scope="module")
def fitted(small_world: ZeroShotDataset) -> Foresight:
    return Foresight().fit(small_world.train.X, small_world.train.y, small_world.classes)


def unequal(small_world: ZeroShotDataset) -> tuple[np.ndarray, np.ndarray]:
    """Twenty images of one unseen class and two of each other class."""
    X, y = small_world.test_unseen.X, small_world.test_unseen.y
    rows = np.concatenate(
        [np.flatnonzero(y == label)[: 20 if label == small_world.unseen[1] else 2] for label in small_world.unseen]
    )
    return X[rows], y[rows]


@pytest.mark.parametrize("size", [1.0, 30.0, 1000.0])
@pytest.mark.parametrize("shares", [[0.25] * 4, [0.1, 0.7, 0.1, 0.1], [0.5, 0.5, 0.0, 0.0]])
def test_soft_labels_match_the_prior(shares: list[float], size: float) -> None:
    rng = np.random.default_rng(1)
    scores = size * rng.normal(size=(300, 4)) + size * np.array([2, 0, 0, -1])
    found = soft_labels(scores, np.array(shares))
    np.testing.assert_allclose(found.mean(axis=0), shares, atol=1e-3)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert np.abs(soft_labels(scores).mean(axis=0) - shares).max() > 0.1
    # The scores are shifted by one constant per class, the same for all images.
    sure = (found > 1e-9).all(axis=1)
    shift = np.log(found[sure]) - scores[sure]
    shift -= shift[:, :1]
    np.testing.assert_allclose(shift, np.broadcast_to(shift[:1], shift.shape), atol=1e-6 * size)


def test_soft_labels_without_prior_are_the_softmax() -> None:
    scores = np.random.default_rng(2).normal(size=(5, 3))
    np.testing.assert_allclose(soft_labels(scores), softmax(scores, axis=1))


def test_unbalanced_classes_are_recovered_without_a_prior(fitted: Foresight, small_world: ZeroShotDataset) -> None:
    X, y = unequal(small_world)
    true = np.array([np.mean(y == label) for label in small_world.unseen])

    def shares(**settings: Any) -> np.ndarray:
        answers = fitted.adapt(X, **settings).predict(X, "unseen")
        return np.array([np.mean(answers == label) for label in small_world.unseen])

    assert np.abs(shares() - true).max() < 0.15
    np.testing.assert_allclose(shares(prior=true), true, atol=0.15)
    assert np.abs(shares(prior="uniform") - true).max() > np.abs(shares() - true).max()


def test_uniform_equals_a_prior_of_equal_numbers(fitted: Foresight, small_world: ZeroShotDataset) -> None:
    X = small_world.test_unseen.X
    uniform = fitted.adapt(X, prior="uniform").decision_function(X)
    np.testing.assert_array_equal(fitted.adapt(X, prior=[3, 3, 3, 3]).decision_function(X), uniform)
    assert not np.array_equal(fitted.adapt(X).decision_function(X), uniform)


@pytest.mark.parametrize(
    "prior",
    [
        "balanced",
        [0.5, 0.5],
        [[0.25] * 4],
        [0.5, 0.6, -0.1, 0.0],
        [0, 0, 0, 0],
        [0.5, 0.5, np.nan, 0],
        [1, 1, 1, np.inf],
        ["a", "b", "c", "d"],
        [True, True, False, False],
    ],
)
def test_invalid_prior_raises(prior: Any, fitted: Foresight, small_world: ZeroShotDataset) -> None:
    with pytest.raises(DataError, match=r"prior must be .uniform. or 4 non-negative numbers, one share for each class"):
        fitted.adapt(small_world.test_unseen.X, prior=prior)
