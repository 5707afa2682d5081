"""Answers against the model's own predictions and against hand-worked examples."""

import numpy as np
import pytest

from sightunseen.analysis.answers import Answers, ask
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import DataError
from sightunseen.methods import ESZSL


@pytest.fixture(scope="module")
def model(small_world: ZeroShotDataset) -> ESZSL:
    return ESZSL(seen_penalty=0.3).fit(small_world.train.X, small_world.train.y, small_world.classes)


def small_answers() -> Answers:
    scores = np.array([[0, 2, 1], [3, 3, 0], [0, 0, 9], [5, 1, 1]], dtype=np.float32)
    return Answers(
        np.array(["emu", "owl", "kea"]), scores, np.array(["a", "b", "c", "d"]), np.array(["owl", "owl", "kea", "kea"])
    )


@pytest.mark.parametrize("candidates", ["all", "unseen"])
def test_answers_equal_predict_and_predict_proba(model, small_world, candidates) -> None:
    test = small_world.test_unseen
    answers = ask(model, test.X, candidates, truth=test.y)
    np.testing.assert_array_equal(answers.labels, model.candidates(candidates))
    np.testing.assert_array_equal(answers.predicted, model.predict(test.X, candidates))
    np.testing.assert_allclose(answers.confidence, model.predict_proba(test.X, candidates).max(axis=1), rtol=1e-6)
    np.testing.assert_array_equal(answers.correct, model.predict(test.X, candidates) == test.y)
    assert answers.names[[0, -1]].tolist() == ["0", str(len(test) - 1)]
    assert answers.scores.dtype == np.float32


def test_scores_have_one_column_per_candidate(model, small_world) -> None:
    X, unseen = small_world.test_unseen.X[:5], small_world.unseen
    assert ask(model, X, unseen[:2]).scores.shape == (5, 2)
    alone = ask(model, X, unseen[:1])
    assert set(alone.predicted.tolist()) == {unseen[0]}
    np.testing.assert_array_equal(alone.confidence, 1.0)


def test_the_first_candidate_wins_a_tie() -> None:
    answers = small_answers()
    assert answers.predicted.tolist() == ["owl", "emu", "kea", "emu"]
    assert answers.correct.tolist() == [True, False, True, False]
    assert answers.confidence[1] == pytest.approx(np.exp(3) / (2 * np.exp(3) + 1))


def test_candidates_are_selected_by_label() -> None:
    answers = small_answers().among(["kea", "owl"])
    np.testing.assert_array_equal(answers.scores, [[1, 2], [0, 3], [9, 0], [1, 1]])
    assert answers.predicted.tolist() == ["owl", "owl", "kea", "kea"]


def test_invalid_answers_are_rejected() -> None:
    answers = small_answers()
    unlabelled = Answers(answers.labels, answers.scores, answers.names)
    with pytest.raises(DataError, match="true labels"):
        _ = unlabelled.correct
    with pytest.raises(DataError, match="'dodo' is not one of them"):
        answers.among(["owl", "dodo"])
    with pytest.raises(DataError, match="no label was given"):
        answers.among([])
    with pytest.raises(DataError, match="3 true labels"):
        Answers(answers.labels, answers.scores, answers.names, answers.truth[:3])
    with pytest.raises(DataError, match=r"shape \(4, 3\)"):
        Answers(answers.labels, answers.scores, answers.names[:2])
