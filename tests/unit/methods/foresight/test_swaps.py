"""Separation of pairs of classes after an adaptation, compared with loops over all pairs."""

import numpy as np

from sightunseen.methods.foresight.swaps import ambiguous_pairs, separations


def test_separations_agree_with_loops() -> None:
    rng = np.random.default_rng(0)
    predicted, found, residuals = rng.normal(size=(5, 7)), rng.normal(size=(5, 7)), rng.normal(size=(9, 7))
    separation = separations(predicted, found, residuals)
    for a in range(5):
        for b in range(5):
            if a == b:
                assert separation[a, b] == np.inf
                continue
            direction = (predicted[a] - predicted[b]) / np.linalg.norm(predicted[a] - predicted[b])
            spread = np.sqrt(2 * np.mean((residuals @ direction) ** 2))
            np.testing.assert_allclose(separation[a, b], (found[a] - found[b]) @ direction / spread)


def test_negative_separation_means_that_exchanged_labels_fit_better() -> None:
    rng = np.random.default_rng(1)
    predicted, residuals = rng.normal(size=(2, 4)), rng.normal(size=(6, 4))
    for _ in range(20):
        found = rng.normal(size=(2, 4))
        kept = np.square(found - predicted).sum()
        exchanged = np.square(found[::-1] - predicted).sum()
        assert (separations(predicted, found, residuals)[0, 1] < 0) == (exchanged < kept)


def test_share_of_exchanged_pairs_is_as_stated() -> None:
    """Means with normal errors of known spread: pairs with separations near 1.64 are exchanged in about 5 % of all draws."""
    rng = np.random.default_rng(2)
    residuals, n = rng.normal(size=(2000, 3)), 4000
    truth = np.array([[0.0, 0, 0], [1.64 * np.sqrt(2), 0, 0]])
    wrong = 0
    for _ in range(n):
        errors = rng.normal(size=2)  # along the first axis, the direction of the difference
        predicted = truth + np.outer(errors, [1.0, 0, 0])
        wrong += np.square(truth[::-1] - predicted).sum() < np.square(truth - predicted).sum()
    assert 0.035 < wrong / n < 0.065
    np.testing.assert_allclose(separations(truth, truth, residuals)[0, 1], 1.64, rtol=0.05)


def test_identical_predictions_are_ambiguous() -> None:
    rng = np.random.default_rng(3)
    predicted = np.repeat(rng.normal(size=(1, 4)), 2, axis=0)
    separation = separations(predicted, rng.normal(size=(2, 4)), rng.normal(size=(6, 4)))
    assert np.isfinite(separation[0, 1])
    assert ambiguous_pairs(np.array(["a", "b"]), separation) == [("a", "b")]
