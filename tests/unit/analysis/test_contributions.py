"""Contributions of attributes against the closed form of a linear method; properties that hold for every method."""

import copy

import numpy as np
import pytest

from sightunseen.analysis.answers import Answers, ask
from sightunseen.analysis.confusion import most_confused
from sightunseen.analysis.contributions import Contributions, attribute_names, contributions, explained_mistakes
from sightunseen.core.class_table import ClassTable
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import DataError
from sightunseen.methods import CVC, ESZSL

LINEAR = {"feature_scaling": "none", "semantic_norm": None}


def described(labels: list, seed: int = 0, size: int = 6) -> tuple[ClassTable, np.ndarray, np.ndarray]:
    """A class table, and images and labels of all classes but the last two."""
    rng = np.random.default_rng(seed)
    table = ClassTable(labels, rng.random((len(labels), size)))
    y = np.repeat(table.labels[:-2], 6)
    return table, table.vectors_of(y) @ rng.normal(size=(size, 9)) + 0.3 * rng.normal(size=(len(y), 9)), y


def linear(labels: list, **settings) -> tuple[ESZSL, np.ndarray]:
    table, X, y = described(labels)
    return ESZSL(**LINEAR, **settings).fit(X, y, table), X


@pytest.mark.parametrize(
    "labels", [["owl", "kea", "emu", "jay", "roc", "dodo"], [4, 8, 1, 0, 9, 2], [3.0, 1.0, 2.0, 0.0, 4.0, 5.0]]
)
@pytest.mark.parametrize("index", [0, 5])  # a seen and an unseen class
def test_linear_contributions_have_a_closed_form_and_sum_to_the_score_difference(labels, index) -> None:
    model, X = linear(labels, seen_penalty=7.0)
    label, other = labels[index], labels[4]
    p, t = model.table_.vectors_of([label, other])
    found = contributions(model, X, label, other)
    np.testing.assert_allclose(found.values, X @ model.map_ * (p - t), atol=1e-4)
    np.testing.assert_allclose(found.mean, (X @ model.map_).mean(axis=0) * (p - t), atol=1e-5)
    without_penalty = ESZSL(**LINEAR).fit(*described(labels)[1:], model.table_)
    scores = without_penalty.decision_function(X, [label, other])
    np.testing.assert_allclose(found.values.sum(axis=1), found.totals, atol=1e-9)
    np.testing.assert_allclose(found.totals, scores[:, 0] - scores[:, 1], atol=1e-4)
    np.testing.assert_array_equal([found.own, found.others], [p, t])
    assert (found.label, found.other) == (label, other)


def test_the_default_reference_is_the_mean_of_the_seen_classes() -> None:
    model, X = linear(list("abcdef"))
    seen = model.table_.vectors_of(list("abcd"))
    found = contributions(model, X, "f", names=list("uvwxyz"))
    np.testing.assert_allclose(found.others, seen.mean(axis=0))
    own = model.table_.vectors_of(["f"])[0]
    np.testing.assert_allclose(found.values, X @ model.map_ * (own - seen.mean(axis=0)), atol=1e-4)
    assert found.names.tolist() == list("uvwxyz")
    assert found.other is None


def test_contributions_do_not_depend_on_other_images() -> None:
    model, X = linear(list("abcdef"))
    whole = contributions(model, X, "e", "a")
    assert whole.values.shape == (len(X), 6)
    np.testing.assert_allclose(contributions(model, X[3:4], "e", "a").values, whole.values[3:4], atol=1e-6)


def test_only_attributes_that_differ_contribute() -> None:
    table = ClassTable(["cat", "dog", "fox"], [[1, 0, 1], [0, 1, 1], [1, 1, 1]])
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 4)), np.repeat(["cat", "dog"], 10)
    found = contributions(ESZSL().fit(X, y, table), X, "fox", "cat")
    assert (found.values != 0).tolist() == [[False, True, False]] * 20
    assert found.strongest(5).tolist() == [1]


def test_one_hot_classes() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 4)), np.repeat([0, 1, 2], 10)
    model = ESZSL().fit(X, y)  # one-hot
    found, scores = contributions(model, X, 0, 1), model.decision_function(X)
    np.testing.assert_allclose(found.values.sum(axis=1), scores[:, 0] - scores[:, 1], atol=1e-5)
    assert not found.values[:, 2].any()


def test_a_class_relative_to_itself_has_zero_contributions() -> None:
    model, X = linear(list("abcdef"))
    found = contributions(model, X, "e", "e")
    assert not found.values.any()
    assert not found.totals.any()


def test_strongest_sorts_by_absolute_value() -> None:
    values = np.array([[0.2, -3, 0, 1, -2.0], [0, -3, 0, 3, -2.0]])
    found = Contributions("a", "b", np.array(list("vwxyz")), values, values.sum(axis=1), np.arange(5.0), -np.arange(5.0))
    assert found.strongest(3).tolist() == [1, 3, 4]
    assert found.strongest(9).tolist() == [1, 3, 4, 0]
    some = found.only(found.strongest(2))
    assert (some.names.tolist(), some.own.tolist(), some.others.tolist()) == (["w", "y"], [1, 3], [-1, -3])
    assert (some.values.tolist(), some.mean.tolist()) == ([[-3, 1], [-3, 3]], [-3, 2])
    assert some.totals.tolist() == found.totals.tolist()


def test_contributions_of_a_network_ignore_the_seen_class_bias_and_leave_the_model_unchanged(
    small_world: ZeroShotDataset,
) -> None:
    train, X = small_world.train, small_world.test_unseen.X[:30]
    model = CVC(hidden=32, n_steps=60, learning_rate=1e-2, seen_penalty=3.0, device="cpu").fit(
        train.X, train.y, small_world.classes
    )
    adapted = model.adapt(small_world.test_unseen.X, rounds=2, steps_per_round=5)
    adapted.seen_penalty = 2.0
    label, other = small_world.seen[0], small_world.unseen[0]
    for asked in (model, adapted):
        before, known = asked.decision_function(X), asked.classes_.tolist()
        found = contributions(asked, X, label, other)
        assert asked.classes_.tolist() == known
        np.testing.assert_array_equal(asked.decision_function(X), before)
        own, others = small_world.classes.vectors_of([label, other])
        by_hand = copy.deepcopy(asked).add_classes({"own": own, "others": others}).decision_function(X, ["own", "others"])
        np.testing.assert_allclose(found.values.sum(axis=1), by_hand[:, 0] - by_hand[:, 1], atol=1e-4)
        asked.seen_penalty = 50.0
        np.testing.assert_array_equal(contributions(asked, X, label, other).values, found.values)
        assert np.abs(found.values).max() > 0.01


def test_mistakes_are_explained_on_the_confused_images() -> None:
    model, X = linear(list("abcdef"))
    rng = np.random.default_rng(1)
    X = np.concatenate([X, rng.normal(size=(40, 9))])
    truth = rng.choice(list("abcdef"), len(X))
    answers = ask(model, X, "all", truth=truth)
    found = explained_mistakes(model, answers, X, top=3, strongest=2)
    assert [mistake.confusion for mistake in found] == most_confused(answers, 3)
    for mistake in found:
        right, wrong = mistake.confusion.truth, mistake.confusion.predicted
        images = X[(truth == right) & (answers.predicted == wrong)]
        assert len(images) == mistake.confusion.images
        p, t = model.table_.vectors_of([wrong, right])
        values = (images @ model.map_).mean(axis=0) * (p - t)
        order = np.argsort(-np.abs(values))[:2]
        parts = mistake.contributions
        np.testing.assert_allclose(parts.mean, values[order], atol=1e-5)
        assert parts.names.tolist() == [f"attribute {k + 1}" for k in order]
        assert (parts.label, parts.other) == (wrong, right)
        scores = model.decision_function(images, [wrong, right])
        np.testing.assert_allclose(parts.totals, scores[:, 0] - scores[:, 1], atol=1e-4)


def test_no_mistakes_missing_labels_and_unknown_classes() -> None:
    model, X = linear(list("abcdef"))
    answers = ask(model, X, "all")
    with pytest.raises(DataError, match="true labels"):
        explained_mistakes(model, answers, X)
    assert explained_mistakes(model, Answers(answers.labels, answers.scores, answers.names, answers.predicted), X) == []
    with pytest.raises(DataError, match="no images"):
        contributions(model, X[:0], "a", "b")
    with pytest.raises(DataError, match="'dodo' has no semantic vector"):
        contributions(model, X, "a", "dodo")
    with pytest.raises(DataError, match="'dodo' has no semantic vector"):
        contributions(model, X, "dodo")


def test_attribute_names_or_numbers() -> None:
    named = ClassTable(["a"], [[1, 2]], attribute_names=["stripes", "hooves"])
    assert attribute_names(named) == ("stripes", "hooves")
    nameless = ClassTable(["a"], [[1, 2]])
    assert attribute_names(nameless) == ("attribute 1", "attribute 2")
