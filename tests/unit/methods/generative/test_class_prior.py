"""Prior of unseen classes: clustering compared with scikit-learn, shares with counts."""

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans

from sightunseen.core.errors import SettingsError
from sightunseen.methods.generative.class_prior import check_prior, class_means, clustered, known_shares, shares_of


def blobs(counts: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Points around (0, 0), (10, 0), (20, 0), ..., and their classes."""
    rng = np.random.default_rng(0)
    classes = np.repeat(np.arange(len(counts)), counts)
    points = rng.standard_normal((len(classes), 2)) + 10.0 * np.stack([classes, 0 * classes], axis=1)
    return torch.from_numpy(points), torch.from_numpy(classes)


def test_clusters_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(1)
    points, centres = rng.standard_normal((200, 3)), rng.standard_normal((5, 3))
    expected = KMeans(5, init=centres, n_init=1, tol=0, max_iter=100).fit_predict(points)
    np.testing.assert_array_equal(clustered(torch.from_numpy(points), torch.from_numpy(centres)), expected)


def test_cluster_without_points_keeps_its_centre() -> None:
    points = torch.tensor([[0.0], [1.0], [9.0]])
    assert clustered(points, torch.tensor([[0.0], [100.0], [9.0]])).tolist() == [0, 0, 2]


def test_class_means() -> None:
    points, otherwise = torch.tensor([[1.0], [3.0], [5.0]]), torch.tensor([[0.0], [7.0], [8.0]])
    assert class_means(points, torch.tensor([0, 0, 2]), otherwise).tolist() == [[2.0], [7.0], [5.0]]


def test_clusters_are_separate_classes_although_predictions_are_wrong() -> None:
    points, classes = blobs([60, 30, 10])
    predicted = torch.where(torch.arange(100) % 3 == 0, (classes + 1) % 3, classes)
    clusters = clustered(points, class_means(points, predicted, torch.zeros(3, 2).double()))
    np.testing.assert_allclose(shares_of(clusters, 3), np.array([61, 31, 11]) / 103, rtol=1e-6)


def test_class_that_is_never_predicted_starts_at_its_synthesised_mean() -> None:
    points, _ = blobs([50, 50])
    synthesised = torch.tensor([[0.0, 0.0], [9.0, 1.0]]).double()
    start = class_means(points, torch.zeros(100, dtype=torch.long), synthesised)
    np.testing.assert_allclose(shares_of(clustered(points, start), 2), [0.5, 0.5])


def test_no_share_is_zero() -> None:
    np.testing.assert_allclose(shares_of(torch.zeros(8, dtype=torch.long), 2), [0.9, 0.1])


def test_known_shares_are_scaled_to_sum_to_one() -> None:
    assert known_shares({1: 2, 2: 0.0, 3: 2}, np.array([1, 2])) == [1.0, 0.0]
    assert known_shares(["a=b=3", "c=1"], np.array(["a=b", "c"])) == [0.75, 0.25]


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ({"a": 1.0}, "class_shares has 1 classes, but not 'b'"),
        ({"a": 1.0, "b": -1.0}, "class_shares\\['b'\\] must be a number from 0 up"),
        ({"a": 1.0, "b": "many"}, "class_shares\\['b'\\] must be a number"),
        ({"a": 0.0, "b": 0}, "all zero"),
    ],
)
def test_invalid_shares_are_errors(shares: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        known_shares(shares, np.array(["a", "b"]))


@pytest.mark.parametrize(
    ("prior", "shares", "message"),
    [
        ("known", None, "prior='known' without class_shares"),
        ("uniform", {"a": 1.0}, "prior='uniform' with class_shares"),
        ("known", [0.5, 0.5], "must be a mapping"),
        ("known", ["cat", "dog=1"], "must be a mapping"),
        ("known", 0.5, "must be a mapping"),
        ("guessed", None, "prior"),
    ],
)
def test_prior_and_shares_belong_together(prior: str, shares: Any, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        check_prior(prior, shares)
