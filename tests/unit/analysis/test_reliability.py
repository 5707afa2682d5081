"""Expected calibration error against an explicit loop, and on samples with known calibration."""

import numpy as np
import pytest

from sightunseen.analysis.answers import Answers
from sightunseen.core.errors import DataError, SettingsError


def sampled(n_images: int, sharpened: float = 1.0, seed: int = 0) -> Answers:
    """Images whose true labels are drawn from the predicted probabilities, unless these are sharpened."""
    rng = np.random.default_rng(seed)
    chances = rng.dirichlet([0.5, 0.5, 0.5], n_images)
    truth = (rng.random(n_images)[:, None] > chances.cumsum(axis=1)[:, :2]).sum(axis=1)
    scores = sharpened * np.log(chances.clip(1e-9))
    return Answers(np.arange(3), scores.astype(np.float32), np.arange(n_images).astype(str), truth)


def confident(confidences: list[float], correct: list[bool]) -> Answers:
    """Two candidates, of which the first is predicted with these probabilities."""
    chances = np.array(confidences)[:, None] * [1, -1] + [0, 1]
    scores = np.log(chances.clip(1e-30)).astype(np.float32)
    return Answers(np.array(["a", "b"]), scores, np.arange(len(correct)).astype(str), np.where(correct, "a", "b"))


@pytest.mark.parametrize("n_bins", [1, 7, 10])
def test_calibration_error_equals_a_loop_over_bins(n_bins) -> None:
    answers = sampled(500, sharpened=2.0)
    error = 0.0
    for number in range(n_bins):
        inside = [row for row in range(500) if number / n_bins < answers.confidence[row] <= (number + 1) / n_bins]
        if inside:
            accuracy = sum(bool(answers.predicted[row] == answers.truth[row]) for row in inside) / len(inside)
            error += len(inside) / 500 * abs(accuracy - sum(float(answers.confidence[row]) for row in inside) / len(inside))
    found = answers.reliability(n_bins)
    assert found.error == pytest.approx(error, abs=1e-9)
    assert sum(part.images for part in found.bins) == 500
    assert all(part.lower < part.confidence <= part.upper for part in found.bins)


def test_calibrated_scores_have_a_small_error_and_overconfident_ones_a_large_error() -> None:
    assert sampled(20_000).reliability().error < 0.015
    overconfident = sampled(20_000, sharpened=4.0).reliability()
    assert overconfident.error > 0.08
    assert all(part.confidence > part.accuracy for part in overconfident.bins[-3:])


def test_empty_bins_are_left_out() -> None:
    found = confident([0.55, 0.59, 0.9, 0.95, 1.0], [True, False, True, True, False]).reliability()
    assert [(part.lower, part.upper, part.images) for part in found.bins] == [(0.5, 0.6, 2), (0.8, 0.9, 1), (0.9, 1.0, 2)]
    assert [part.accuracy for part in found.bins] == [0.5, 1.0, 0.5]
    assert [part.confidence for part in found.bins] == pytest.approx([0.57, 0.9, 0.975], abs=1e-6)
    assert found.error == pytest.approx((2 * 0.07 + 0.1 + 2 * 0.475) / 5, abs=1e-6)


def test_a_confidence_on_an_edge_belongs_to_the_lower_bin() -> None:
    (even,) = confident([0.5], [True]).reliability().bins  # two equal scores
    assert (even.lower, even.upper, even.confidence) == (0.4, 0.5, 0.5)


def test_a_single_candidate_has_confidence_one() -> None:
    answers = Answers(np.array([7]), np.zeros((4, 1), np.float32), np.array(list("abcd")), np.array([7, 7, 7, 2]))
    (only,) = answers.reliability().bins
    assert (only.confidence, only.accuracy, only.upper) == (1.0, 0.75, 1.0)


def test_reliability_rejects_no_images_no_labels_and_no_bins() -> None:
    answers = sampled(5)
    with pytest.raises(DataError, match="at least one image"):
        Answers(answers.labels, answers.scores[:0], answers.names[:0], answers.truth[:0]).reliability()
    with pytest.raises(DataError, match="true labels"):
        Answers(answers.labels, answers.scores, answers.names).reliability()
    with pytest.raises(SettingsError, match="n_bins"):
        answers.reliability(0)
